"""Runs models by `paddle.inference`: ``predict.py [PREFIX GIVEN.npz MADE.npz]…``."""

from __future__ import annotations

import sys

import numpy as np
from paddle import inference


def predict(prefix: str, given: str, result: str) -> None:
    config = inference.Config(f"{prefix}.pdmodel", f"{prefix}.pdiparams")
    config.disable_gpu()
    config.disable_glog_info()
    config.disable_mkldnn()  # resizes to the nearest element by another rule
    predictor = inference.create_predictor(config)
    with np.load(given) as arrays:
        inputs = [arrays[name] for name in arrays.files]
    for name, array in zip(predictor.get_input_names(), inputs, strict=True):
        handle = predictor.get_input_handle(name)
        handle.reshape(array.shape)
        handle.copy_from_cpu(array)
    predictor.run()
    names = predictor.get_output_names()
    np.savez(result, *[predictor.get_output_handle(n).copy_to_cpu() for n in names])


if __name__ == "__main__":
    for at in range(1, len(sys.argv), 3):
        print(sys.argv[at], flush=True)
        predict(*sys.argv[at : at + 3])
