"""Whether calibration data look like the training data, by batch norm's statistics."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import proa
from proa.ir.program import Array
from proa.nn import BatchNorm1D, BatchNorm2D, BatchNorm3D, Layer
from proa.nn.layer.settings import statistics_of

#: Limits, in the median over channels: by how many standard deviations of the training
#: data the mean may differ, and by which factor the standard deviation.
_MEAN, _SPREAD = 3.0, 10.0


def warn_of_other_range(network: Layer, batch: Sequence[Array]) -> None:
    """Warn if the first batch norm reads values of another range than in training, as
    it does if images of 0 to 255 were normalised in training and not here.
    """
    norms = [
        (path, layer)
        for path, layer in network.named_sublayers()
        if isinstance(layer, (BatchNorm1D, BatchNorm2D, BatchNorm3D))
    ]
    if not norms:
        return
    seen: list[tuple[str, Any, Array]] = []
    hooks = [
        layer.register_forward_pre_hook(
            lambda layer, inputs, path=path: seen.append(
                (path, layer, inputs[0].numpy())
            )
        )
        for path, layer in norms
    ]
    was_training = network.training
    network.eval()
    try:
        with proa.no_grad():
            network(*[proa.to_tensor(array) for array in batch])
    finally:
        for hook in hooks:
            hook.remove()
        if was_training:
            network.train()
    if seen:
        _compare(*seen[0])


def _compare(path: str, norm: Any, values: Array) -> None:
    if values.ndim < 2 or not np.isfinite(values).all():
        return
    running = statistics_of(norm)
    mean, variance = running.mean.numpy(), running.variance.numpy()
    if not mean.any() and (variance == 1).all():  # untrained
        return
    channels = np.moveaxis(values, 1, 0).reshape(values.shape[1], -1)
    spread = np.sqrt(variance + 1e-5)
    shift = float(np.median(np.abs(channels.mean(axis=1) - mean) / spread))
    wide = float(np.median(channels.std(axis=1) / spread))
    if shift > _MEAN or not 1 / _SPREAD < wide < _SPREAD:
        warnings.warn(
            f"[quant_post_static] the batch norm of layer {path!r} reads values whose "
            f"mean is {shift:.3g} standard deviations from that of training and whose "
            f"spread is {wide:.3g} times as great: check the pre-processing of the "
            "calibration data",
            stacklevel=4,
        )
