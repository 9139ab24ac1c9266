"""The ONNX front end: an ONNX file in stages to graphs and trees of graphs."""
