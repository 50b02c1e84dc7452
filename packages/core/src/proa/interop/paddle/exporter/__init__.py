"""Programs as PaddlePaddle's model files."""
