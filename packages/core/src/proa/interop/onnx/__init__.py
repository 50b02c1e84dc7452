"""ONNX models: `importer` reads them."""
