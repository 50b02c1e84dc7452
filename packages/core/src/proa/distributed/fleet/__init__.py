"""PaddlePaddle's toolbox for large training jobs."""
