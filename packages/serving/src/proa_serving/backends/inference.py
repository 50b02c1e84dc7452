"""Runs models by the engine of ``proa_inference``: its own files, ONNX and Paddle's.

A Paddle model is ``NAME.pdmodel`` with ``NAME.pdiparams`` next to it.

This is the one file of the package that imports another of Proa's packages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from proa_serving.backends.base import BackendOptions, Instance
from proa_serving.protocol.datatypes import name_of_dtype
from proa_serving.protocol.errors import ModelLoadError
from proa_serving.protocol.messages import Array, TensorSpec


def _specs(held: Sequence[Any]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(
            spec.name,
            name_of_dtype(np.dtype(spec.dtype)),
            tuple(-1 if size is None else int(size) for size in spec.shape),
        )
        for spec in held
    )


class _Instance:
    """A clone of the predictor, whose run another thread may stop."""

    def __init__(self, predictor: Any, takes: list[str], gives: list[str]) -> None:
        self._predictor, self._takes, self._gives = predictor, takes, gives
        self.stop = predictor.stop

    def __call__(self, arrays: dict[str, Array]) -> Mapping[str, Array]:
        results = self._predictor.run([arrays[name] for name in self._takes])
        # strict: an engine that gives too few outputs must not go unnoticed.
        return dict(zip(self._gives, results, strict=True))


class InferenceModel:
    """A predictor, and the clones of it that share its weights.

    Models with branches or loops run each request apart, as a condition may follow from
    the whole batch.
    """

    platform = "proa_inference"

    def __init__(self, predictor: Any) -> None:
        self._predictor = predictor
        self.inputs = _specs(predictor.get_input_specs())
        self.outputs = _specs(predictor.get_output_specs())
        self.runs_apart: bool = predictor.has_control_flow()

    def instance(self) -> Instance:
        takes = [spec.name for spec in self.inputs]
        gives = [spec.name for spec in self.outputs]
        return _Instance(self._predictor.clone(), takes, gives)


class InferenceBackend:
    """Loads what ``proa.jit.save`` and ``proa_slim`` write, and what is imported."""

    def load(self, path: Path, options: BackendOptions) -> InferenceModel:
        try:
            import proa_inference
        except ImportError as error:
            raise ModelLoadError(
                "backend",
                f"serving {path.suffix} files needs proa-inference (in a checkout of "
                f"Proa: nox -s build, then install it): {error}",
            ) from error
        try:
            config = proa_inference.Config(str(path))
            config.set_cpu_math_library_num_threads(options.threads)
            return InferenceModel(proa_inference.create_predictor(config))
        except Exception as error:  # typed by the engine; the message says which
            raise ModelLoadError(
                f"load {path.name}", f"the model file cannot be used: {error}"
            ) from error
