"""`AutoCompression`: `compress` of model files, with the arguments of PaddleSlim."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from proa import onnx, static
from proa.errors import (
    InvalidArgumentError,
    PreconditionNotMetError,
    UnimplementedError,
)
from proa.ir import file
from proa.ir.program import Program
from proa_slim.compression.goal import Goal
from proa_slim.compression.progress import Progress, fingerprint
from proa_slim.compression.recipe import Recipe, read_fields
from proa_slim.compression.samples import LABEL, Samples, samples_of
from proa_slim.compression.trials import Compressed, compress_program
from proa_slim.loading import LoadedNetwork, load
from proa_slim.quant.model import QuantizedModel

__all__ = ["AutoCompression"]

_WHERE = "AutoCompression"
#: PaddleSlim's sections of a configuration, and the fields of `Recipe` for them.
_SECTIONS = {
    "ASPPrune": "none: train with UnstructuredPruner(mode='2:4')",
    "ChannelPrune": "prune and criterion",
    "Distillation": "epochs",
    "Global": "the arguments of AutoCompression",
    "HyperParameterOptimization": "quantize",
    "Prune": "prune and criterion",
    "QuantAware": "target, qat_epochs and qat_learning_rate",
    "QuantPost": "target and quantize",
    "Quantization": "target, qat_epochs and qat_learning_rate",
    "TrainConfig": "epochs and learning_rate",
    "TransformerPrune": "prune and criterion",
    "UnstructurePrune": "none: train with UnstructuredPruner",
}

#: Takes an executor, a program, the names of inputs, and outputs.
EvalCallback = Callable[[static.Executor, Any, Sequence[str], Sequence[Any]], float]


class AutoCompression:
    """Makes a model file smaller and faster, with PaddleSlim's arguments.

        made = AutoCompression("net.pdmodel", loader, save_dir="small").compress()

    It is `proa_slim.compress` with data from loaders and a metric of your own.

    Args:
        model_dir: ``NAME.proa``, ``NAME.onnx``, ``NAME.pdmodel``, or a folder.
        train_dataloader: Batches to train and calibrate on, read once to the end: dicts
            by the names of inputs, with ``label`` if there are labels; or sequences of
            the inputs, with one integer label for each sample after them if there are.
        model_filename: The model's file, if model_dir is a folder.
        params_filename: The file of all parameters in the folder of a Paddle model.
        save_dir: Folder of ``model.proa``, ``report.html`` and ``report.json``.
        config: A `Recipe`, its fields, or the path of a YAML or JSON file of them.
            Sections of PaddleSlim are refused; the error names the fields for them.
        input_shapes: By the names of inputs, shapes that the data must have; of one
            input a shape alone. Negative sizes fit any.
        target_speedup: How many times as fast a run of one sample shall be, more than
            1; sets the recipe's max_milliseconds by ``proa-infer bench``.
        eval_callback: Is given an executor, a program, the names of its inputs and its
            outputs, as `static.load_inference_model` gives them; returns a share in
            [0, 1], the greater the better. Hundredths are the points of max_drop. If
            not given, accuracy, or agreement with the whole model without labels.
        eval_dataloader: Batches that this accuracy is measured on; the second half of
            the data for training if not given.
        deploy_hardware: ``cpu``.

    Attributes:
        result: What `compress` returned last.

    Raises:
        NotFoundError: If there is no such model or file.
        InvalidArgumentError: If an argument is none of the above; it names it.
        UnimplementedError: If deploy_hardware is another.
    """

    def __init__(
        self,
        model_dir: str | PathLike[str],
        train_dataloader: Iterable[Any],
        model_filename: str | None = None,
        params_filename: str | None = None,
        save_dir: str | PathLike[str] = "./output",
        config: Recipe | Mapping[str, Any] | str | PathLike[str] | None = None,
        input_shapes: Mapping[str, Sequence[int]] | Sequence[int] | None = None,
        target_speedup: float | None = None,
        eval_callback: EvalCallback | None = None,
        eval_dataloader: Iterable[Any] | None = None,
        deploy_hardware: str = "cpu",
    ) -> None:
        if deploy_hardware != "cpu":
            raise UnimplementedError(
                f"[{_WHERE}] expected deploy_hardware cpu, where models are measured, "
                f"got {deploy_hardware!r}"
            )
        if target_speedup is not None and not 1 < target_speedup < math.inf:
            raise InvalidArgumentError(
                f"[{_WHERE}] target_speedup must be greater than 1, got "
                f"{target_speedup}"
            )
        self.recipe = _recipe(config)
        self.program = _program(model_dir, model_filename, params_filename)
        self.save_dir = Path(save_dir)
        self._hardware, self._speedup = deploy_hardware, target_speedup
        self._callback = eval_callback
        self._names = [value.name for value in self.program.main.inputs]
        self._shapes = _shapes(input_shapes, self._names)
        self._train, self._eval = train_dataloader, eval_dataloader
        self.result: Compressed | None = None

    @property
    def deploy_hardware(self) -> str:
        """Where the model is measured."""
        return self._hardware

    def compress(self) -> Compressed:
        """Try what the recipe says; write the first model that loses little enough.

        Raises:
            InvalidArgumentError: If data or the callback's result are not as described.
            PreconditionNotMetError: If the target cannot be met; it names the step or
                the layer in the way.
            UnavailableError: If a time is wanted, and proa-inference is not installed.
        """
        samples = self._samples("train_dataloader", self._train)
        test = None
        if self._eval is not None:
            test = self._samples("eval_dataloader", self._eval)
        metric = None if self._callback is None else self._metric
        mark = fingerprint(self.program, samples, self.recipe)
        checkpoints = Progress(self.save_dir, mark, False)
        goal = Goal(test, metric, self._speedup)
        self.result = compress_program(
            self.program, samples, self.recipe, checkpoints, self.save_dir, False, goal
        )
        return self.result

    def export_onnx(
        self, model_name: str = "quant_model.onnx", deploy_backend: str = "onnxruntime"
    ) -> Path:
        """Write the model that `compress` made as ONNX, opset 17, into the folder ONNX
        in save_dir; integer products have QuantizeLinear and DequantizeLinear.

        Args:
            model_name: The file's name.
            deploy_backend: ``onnxruntime``, which the file's form is for.

        Returns:
            The file's path.

        Raises:
            PreconditionNotMetError: If `compress` did not make a model before.
            UnimplementedError: If deploy_backend is another.
            UnavailableError: If onnx is not installed.
        """
        if deploy_backend != "onnxruntime":
            raise UnimplementedError(
                f"[{_WHERE}] expected deploy_backend onnxruntime, got "
                f"{deploy_backend!r}"
            )
        if self.result is None:
            raise PreconditionNotMetError(
                f"[{_WHERE}] expected a model that compress() made, got none"
            )
        folder = self.save_dir / "ONNX"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / model_name
        network = LoadedNetwork(file.read(self.result.path))
        onnx.export(network, path, network.specs(), opset_version=17)
        return path

    def _metric(self, model: QuantizedModel) -> float:
        assert self._callback is not None
        main = model.program.main
        names, targets = [v.name for v in main.inputs], list(main.outputs)
        share = float(self._callback(static.Executor(), model.program, names, targets))
        if not 0 <= share <= 1:
            raise InvalidArgumentError(
                f"[{_WHERE}] expected eval_callback to return a share in [0, 1], got "
                f"{share}"
            )
        return 100 * share

    def _samples(self, name: str, batches: Iterable[Any]) -> Samples:
        rows = _Rows(name, self._names)
        for batch in batches:
            rows.add(batch)
        found = rows.samples()
        for given, array in zip(self._names, found.inputs, strict=True):
            shape = self._shapes.get(given)
            if shape is not None and not _fits(shape, array.shape):
                raise InvalidArgumentError(
                    f"[{_WHERE}] expected {given!r} of {name} to have the shape "
                    f"{shape} of input_shapes, got {list(array.shape)}"
                )
        return found


@dataclass
class _Rows:
    """The arrays of batches, put together."""

    name: str
    inputs: Sequence[str]
    columns: list[list[np.ndarray[Any, Any]]] = field(default_factory=list)

    def add(self, batch: Any) -> None:
        if isinstance(batch, Mapping):
            missing = [name for name in self.inputs if name not in batch]
            if missing:
                raise InvalidArgumentError(
                    f"[{_WHERE}] expected each batch of {self.name} to have "
                    f"{', '.join(self.inputs)}, got {', '.join(map(str, batch))}"
                )
            items = [batch[name] for name in self.inputs]
            items += [batch[LABEL]] if LABEL in batch else []
        else:
            items = list(batch) if isinstance(batch, (list, tuple)) else [batch]
        self.columns.append([np.asarray(item) for item in items])

    def samples(self) -> Samples:
        counts = {len(arrays) for arrays in self.columns}
        count = len(self.inputs)
        if len(counts) != 1 or not counts <= {count, count + 1}:
            raise InvalidArgumentError(
                f"[{_WHERE}] expected batches of {self.name} with {count} inputs, all "
                f"or none with a label after them, got arrays {sorted(counts)}"
            )
        joined = [np.concatenate(c) for c in zip(*self.columns, strict=True)]
        labels = joined[count].reshape(-1) if len(joined) > count else None
        return samples_of(joined[:count], labels)


def _recipe(config: Recipe | Mapping[str, Any] | str | PathLike[str] | None) -> Recipe:
    if config is None or isinstance(config, Recipe):
        return config or Recipe()
    fields = config if isinstance(config, Mapping) else read_fields(config)
    for name in fields:
        if name in _SECTIONS:
            raise InvalidArgumentError(
                f"[{_WHERE}] expected fields of Recipe in config, got PaddleSlim's "
                f"section {name!r}; fields for it: {_SECTIONS[name]}"
            )
    return Recipe.of(fields)


def _program(
    model_dir: str | PathLike[str],
    model_filename: str | None,
    params_filename: str | None,
) -> Program:
    name = model_filename or ""
    if params_filename or (name and not name.endswith((".proa", ".onnx", ".pdmodel"))):
        files = {"model_filename": model_filename, "params_filename": params_filename}
        return static.load_inference_model(os.fspath(model_dir), **files)[0]
    return load(Path(model_dir) / name if name else model_dir, _WHERE)


def _shapes(
    given: Mapping[str, Sequence[int]] | Sequence[int] | None, names: Sequence[str]
) -> dict[str, list[int]]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if len(names) != 1:
            raise InvalidArgumentError(
                f"[{_WHERE}] expected input_shapes by {', '.join(names)}, got "
                f"{list(given)}"
            )
        given = {names[0]: given}
    unknown = [name for name in given if name not in names]
    if unknown:
        raise InvalidArgumentError(
            f"[{_WHERE}] expected input_shapes of {', '.join(names)}, got "
            f"{unknown[0]!r}"
        )
    return {name: list(shape) for name, shape in given.items()}


def _fits(shape: Sequence[int], found: Sequence[int]) -> bool:
    """Whether sizes of samples are as given; the first is that of the batch."""
    return len(shape) == len(found) and all(
        size < 0 or size == actual
        for size, actual in zip(shape[1:], found[1:], strict=True)
    )
