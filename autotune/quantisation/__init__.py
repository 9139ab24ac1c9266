"""Quantises networks: the user's inputs give scales, ONNX's QDQ form holds them, a loss decides."""
