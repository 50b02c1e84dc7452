"""Two little models in NumPy, for tests of the server: a linear layer and a counter.

Run as a program it is ``proa-serve`` that knows them too.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from proa_serving.backends.base import BackendOptions
from proa_serving.backends.registry import register_backend
from proa_serving.protocol.errors import ModelLoadError
from proa_serving.protocol.messages import TensorSpec


class LinearModel:
    """y = x @ weight + bias and label = argmax(y); refuses a NaN in x."""

    platform = "numpy_linear"

    def __init__(self, held):
        self.weight = np.array(held["weight"], np.float32)
        self.bias = np.array(held["bias"], np.float32)
        self.sleep = held.get("sleep", 0.0)
        n, m = self.weight.shape
        batch = (-1,) if held.get("batch", True) else ()
        self.inputs = [TensorSpec("x", "FP32", (*batch, n))]
        self.outputs = [
            TensorSpec("y", "FP32", (*batch, m)),
            TensorSpec("label", "INT64", batch),
        ]

    def instance(self):
        def run(arrays):
            x = arrays["x"]
            if np.isnan(x).any():
                raise ValueError("x must be numbers, got a NaN")
            if self.sleep:
                time.sleep(self.sleep)
            y = x @ self.weight + self.bias
            return {"y": y, "label": np.asarray(y.argmax(-1), np.int64)}

        return run


class LengthModel:
    """The length of each string, and its bytes reversed."""

    platform = "numpy_length"
    inputs = (TensorSpec("text", "BYTES", (-1,)),)
    outputs = (TensorSpec("length", "INT32", (-1,)), TensorSpec("back", "BYTES", (-1,)))

    def instance(self):
        def run(arrays):
            text = arrays["text"]
            back = np.empty(text.shape, object)
            back[:] = [item[::-1] for item in text]
            return {
                "length": np.array([len(item) for item in text], np.int32),
                "back": back,
            }

        return run


class LinearBackend:
    def load(self, path: Path, options: BackendOptions):
        try:
            return LinearModel(json.loads(path.read_text()))
        except (ValueError, KeyError) as error:
            raise ModelLoadError(
                f"load {path.name}", f"must be a linear model: {error}"
            ) from error


class LengthBackend:
    def load(self, path: Path, options: BackendOptions):
        return LengthModel()


def register() -> None:
    register_backend("linear", LinearBackend)
    register_backend("length", LengthBackend)


WEIGHT = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
BIAS = np.array([0.5, -1.0, 2.0], np.float32)


def write_linear(path: Path, *, scale: float = 1.0, **options) -> Path:
    """A linear model file of WEIGHT and BIAS, times ``scale``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    held = {
        "weight": (WEIGHT * scale).tolist(),
        "bias": (BIAS * scale).tolist(),
        **options,
    }
    path.write_text(json.dumps(held))
    return path


def write_all(folder: Path) -> dict[str, Path]:
    """A linear model with and one without a batch, and the model of strings."""
    text = folder / "text.length"
    text.write_text("")
    return {
        "linear": write_linear(folder / "a.linear"),
        "fixed": write_linear(folder / "b.linear", batch=False),
        "text": text,
    }


def linear(x):
    """What the model of ``write_linear`` must answer."""
    return np.asarray(x, np.float32) @ WEIGHT + BIAS


if __name__ == "__main__":
    from proa_serving.cli import main

    register()
    sys.exit(main())
