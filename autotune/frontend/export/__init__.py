"""The way back to ONNX: a graph of operators as a model that other systems run."""
