"""ONNX models of Layers and programs."""
