"""Machines of the user's: timed by a function that gets fusion groups as ONNX models."""
