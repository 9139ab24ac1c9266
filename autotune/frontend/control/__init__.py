"""Control flow of ONNX models: cut into straight graphs, folded where import can decide."""
