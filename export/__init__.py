"""From torch models to ONNX model directories. Needs the ``train`` extra."""
