"""PaddlePaddle's model files as Layers."""
