"""Whether calibration data look like the training data, by batch norm's statistics,
and whether they and weights are finite.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import proa
from proa.errors import InvalidArgumentError
from proa.ir.flow import has_flow
from proa.ir.program import Array, Value
from proa.jit import TranslatedLayer
from proa.nn import BatchNorm1D, BatchNorm2D, BatchNorm3D, Layer
from proa.nn.layer.settings import statistics_of
from proa_slim.quant.interpret import interpret
from proa_slim.quant.layer_paths import layer_path

#: Limits, in the median over channels: by how many standard deviations of the training
#: data the mean may differ, and by which factor the standard deviation.
_MEAN, _SPREAD = 3.0, 10.0


def require_finite(
    value: Value, array: Array, batch: int, where: str = "quant_post_static"
) -> None:
    """Raise if the array of an input, or an operator's result, has NaN or infinities.

    Args:
        value: The input or result.
        array: What it is for a batch.
        batch: The batch's number.
        where: What the error begins with.

    Raises:
        InvalidArgumentError: If so; names the input, or the operator and its layer.
    """
    if array.dtype.kind not in "fc" or np.isfinite(array).all():
        return
    node = value.producer
    if node is None:
        place = f"the input {value.name!r}"
    else:
        layer = layer_path(node) if len(node.inputs) > 1 else ""
        place = f"the result of {node.op} {value.name!r}"
        place += f" (layer {layer!r})" if layer else ""
    count = int((~np.isfinite(array)).sum())
    raise InvalidArgumentError(
        f"[{where}] expected finite values in calibration, got "
        f"{count} NaN or infinities in {place} of batch {batch}"
    )


def require_finite_weight(name: str, array: Array, where: str) -> None:
    """Raise if a weight has NaN or infinities, of which there are no integers.

    Args:
        name: Its structured name.
        array: The weight.
        where: What the error begins with.

    Raises:
        InvalidArgumentError: If so; names the weight.
    """
    if not np.isfinite(array).all():
        count = int((~np.isfinite(array)).sum())
        raise InvalidArgumentError(
            f"[{where}] expected finite weights, got {count} NaN or infinities in "
            f"{name!r}"
        )


def warn_of_other_range(
    network: Layer, batch: Sequence[Array], where: str = "quant_post_static"
) -> None:
    """Warn if the first batch norm reads values of another range than in training, as
    it does if images of 0 to 255 were normalised in training and not here.

    Args:
        network: Of Layers, or loaded from a file.
        batch: The first one of calibration.
        where: What the warning begins with.
    """
    is_loaded = isinstance(network, TranslatedLayer)
    found = (_of_program if is_loaded else _of_layers)(network, batch)
    if found is not None:
        _compare(found, where)


class _Norm(NamedTuple):
    """A batch norm, and what it reads."""

    path: str
    mean: Array
    variance: Array
    values: Array


def _of_layers(network: Layer, batch: Sequence[Array]) -> _Norm | None:
    seen: list[_Norm] = []

    def hook(path: str, layer: Layer, inputs: Sequence[Any]) -> None:
        running = statistics_of(layer)
        mean, variance = running.mean.numpy(), running.variance.numpy()
        seen.append(_Norm(path, mean, variance, inputs[0].numpy()))

    hooks = [
        layer.register_forward_pre_hook(functools.partial(hook, path))
        for path, layer in network.named_sublayers()
        if isinstance(layer, (BatchNorm1D, BatchNorm2D, BatchNorm3D))
    ]
    if not hooks:
        return None
    was_training = network.training
    network.eval()
    try:
        with proa.no_grad():
            network(*[proa.to_tensor(array) for array in batch])
    finally:
        for each in hooks:
            each.remove()
        if was_training:
            network.train()
    return seen[0] if seen else None


def _of_program(network: Any, batch: Sequence[Array]) -> _Norm | None:
    program = network.program()
    norms = (n for n in program.main.nodes if n.op == "batch_norm_infer")
    node = next(norms, None)
    if node is None or has_flow(program):
        return None
    x, mean, variance = node.inputs[:3]
    if x is None or mean is None or variance is None:
        return None
    seen: list[Array] = []

    def watch(value: Any, array: Array) -> None:
        if value is x:
            seen.append(array)

    interpret(program, batch, watch)
    if not seen:
        return None
    path = mean.name.rpartition(".")[0] or node.outputs[0].name
    return _Norm(path, np.asarray(mean.data), np.asarray(variance.data), seen[0])


def _compare(norm: _Norm, where: str) -> None:
    path, mean, variance, values = norm
    if values.ndim < 2 or not np.isfinite(values).all():
        return
    if not mean.any() and (variance == 1).all():  # untrained
        return
    channels = np.moveaxis(values, 1, 0).reshape(values.shape[1], -1)
    spread = np.sqrt(variance + 1e-5)
    shift = float(np.median(np.abs(channels.mean(axis=1) - mean) / spread))
    wide = float(np.median(channels.std(axis=1) / spread))
    if shift > _MEAN or not 1 / _SPREAD < wide < _SPREAD:
        warnings.warn(
            f"[{where}] the batch norm of layer {path!r} reads values whose "
            f"mean is {shift:.3g} standard deviations from that of training and whose "
            f"spread is {wide:.3g} times as great: check the pre-processing of the "
            "calibration data",
            stacklevel=4,
        )
