"""Names of the predictor before Paddle 2.0, which give what replaced them and warn."""

from __future__ import annotations

import warnings
from os import PathLike
from typing import Any

import numpy as np

from proa_inference.config import Config
from proa_inference.predictor import Predictor
from proa_inference.tensor import Tensor
from proa_inference.types import DataType

ZeroCopyTensor = Tensor
PaddleDType = DataType


def _warn(old: str, new: str) -> None:
    warnings.warn(f"[{old}] is deprecated: use {new}", DeprecationWarning, stacklevel=3)


class AnalysisConfig(Config):
    """`Config` by its former name; arguments as of it."""

    def __init__(
        self,
        model: str | PathLike[str] | Config | None = None,
        params: str | PathLike[str] | None = None,
    ) -> None:
        _warn("AnalysisConfig", "Config")
        super().__init__(model, params)


class PaddleTensor:
    """An array with a name and offsets of sequences, as `PaddlePredictor.run` takes it.

    Args:
        data: The array.
        name: Name of the input; without it inputs are in order.
        lod: As of `Tensor.set_lod`.
    """

    def __init__(self, data: Any = None, name: str = "", lod: Any = ()) -> None:
        self.name, self.lod = name, [list(level) for level in lod]
        self.data = np.asarray(0.0 if data is None else data)

    @property
    def shape(self) -> list[int]:
        """The shape of the array."""
        return list(self.data.shape)

    def as_ndarray(self) -> np.ndarray[Any, Any]:
        """The array."""
        return self.data


class PaddlePredictor(Predictor):
    """`Predictor` with the methods that it had before Paddle 2.0."""

    def get_input_tensor(self, name: str) -> Tensor:
        """`get_input_handle` by its former name."""
        return self.get_input_handle(name)

    def get_output_tensor(self, name: str) -> Tensor:
        """`get_output_handle` by its former name."""
        return self.get_output_handle(name)

    def zero_copy_run(self) -> bool:
        """Run on what the input handles hold."""
        self.run()
        return True

    def run(self, inputs: Any = None) -> Any:
        """Run on `PaddleTensor`s and return a list of them, else as `Predictor.run`."""
        if inputs is None or not any(isinstance(x, PaddleTensor) for x in inputs):
            return super().run(inputs)
        names = self.get_input_names()
        given = {x.name or names[i]: x.data for i, x in enumerate(inputs)}
        results = super().run([given[name] for name in names if name in given])
        outputs = zip(results, self.get_output_names(), strict=True)
        return [PaddleTensor(y, name) for y, name in outputs]


def create_paddle_predictor(config: Config) -> PaddlePredictor:
    """`create_predictor` by its former name; errors as of it."""
    _warn("create_paddle_predictor", "create_predictor")
    return PaddlePredictor(config)
