"""ONNX models as Layers."""
