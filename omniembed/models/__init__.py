"""Model directories and the ONNX Runtime sessions that run them."""
