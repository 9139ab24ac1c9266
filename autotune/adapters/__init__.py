"""Entry points for users of other frameworks: ONNX Runtime's session, PyTorch's compiler backend."""
