"""Normalisation in static graphs, with parameters and statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.base.no_tape import NoTape
from proa.errors import InvalidArgumentError
from proa.nn import functional as F
from proa.nn.attr import ParamAttr
from proa.nn.functional.spectral import iterated, spectral_scaled
from proa.nn.schemes import Constant, Normal
from proa.static.building import (
    activated,
    check_activation,
    known,
    layer_name,
)
from proa.static.state import parameter_of
from proa.tensor.arguments import check_rank

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike

__all__ = [
    "batch_norm", "data_norm", "group_norm", "instance_norm", "layer_norm",
    "spectral_norm",
]  # fmt: skip


def _channels(where: str, x: Tensor, layout: str) -> int:
    check_rank(f"static.nn.{where}", "input", x, 2)
    if layout not in ("NCHW", "NHWC", "NCDHW", "NDHWC", "NCL", "NLC", "NC"):
        raise InvalidArgumentError(
            f"[static.nn.{where}] data_layout must be 'NCHW' or 'NHWC', got {layout!r}"
        )
    return known(where, "channels", x.shape[1 if layout.startswith("NC") else -1])


def _statistic(
    layer: str, shape: list[int], dtype: Any, name: str | None, value: float
) -> Any:
    """A parameter that is not trained: runs update it, and files hold it."""
    attr = ParamAttr(name, Constant(value), trainable=False)
    return parameter_of(layer, shape, dtype, attr)


def batch_norm(
    input: Tensor,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
) -> Tensor:
    """`nn.functional.batch_norm` with parameters and statistics, and an activation.

    Of ``batch_norm_0``, ``w_0`` is the scale, ``b_0`` the shift, ``w_1`` the running
    mean and ``w_2`` the running variance. `Program.clone` for tests takes these.

    Args:
        input: (N, C, ..), or (N, .., C) by data_layout.
        act: Name of the activation that follows.
        is_test: Whether to take the running statistics.
        momentum: Share of the old running statistics at each step.
        epsilon: Added to the variance.
        param_attr: How the scale is made; False fixes it at 1.
        bias_attr: How the shift is made; False fixes it at 0.
        data_layout: NCHW, or NHWC for channels on the last axis.
        in_place: Kept for callers; has no meaning here.
        name: What parameters' names begin with, in place of ``batch_norm_0``.
        moving_mean_name: Name of the running mean. Likewise moving_variance_name.
        moving_variance_name: See there.
        do_model_average_for_mean_and_var: Kept for callers; has no meaning here.
        use_global_stats: Whether to take the running statistics in training, too.

    Raises:
        PreconditionNotMetError: In dynamic mode.
    """
    layer = layer_name("batch_norm", "batch_norm", name)
    check_activation("batch_norm", act)
    shape, dtype = [_channels("batch_norm", input, data_layout)], input.dtype
    scale = parameter_of(
        layer, shape, dtype, param_attr, default_initializer=Constant(1.0)
    )
    shift = parameter_of(layer, shape, dtype, bias_attr, is_bias=True)
    mean = _statistic(layer, shape, dtype, moving_mean_name, 0.0)
    variance = _statistic(layer, shape, dtype, moving_variance_name, 1.0)
    out = F.batch_norm(
        input, mean, variance, scale, shift, not is_test, momentum, epsilon,
        data_layout, True if use_global_stats else None,
    )  # fmt: skip
    return activated(out, act)


def layer_norm(
    input: Tensor,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-05,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    act: str | None = None,
    name: str | None = None,
) -> Tensor:
    """`nn.functional.layer_norm` of the axes from one on, with parameters of its own.

    Args:
        input: The input, whose axes from begin_norm_axis on have known sizes.
        scale: Whether there is a scale, ``layer_norm_0.w_0``, a line as long as these
            axes together.
        shift: Whether there is a shift, ``layer_norm_0.b_0``.
        begin_norm_axis: The first axis that is normalised.
        epsilon: Added to the variance.
        param_attr: How the scale is made.
        bias_attr: How the shift is made.
        act: Name of the activation that follows.
        name: What parameters' names begin with.

    Raises:
        PreconditionNotMetError: In dynamic mode.
        InvalidArgumentError: If there is no such axis, or a size is symbolic.
    """
    layer = layer_name("layer_norm", "layer_norm", name)
    check_activation("layer_norm", act)
    if not 0 < begin_norm_axis < input.ndim:
        raise InvalidArgumentError(
            f"[static.nn.layer_norm] begin_norm_axis must be in [1, {input.ndim}), got "
            f"{begin_norm_axis}"
        )
    sizes = [known("layer_norm", "axes", n) for n in input.shape[begin_norm_axis:]]
    shape, dtype = [math.prod(sizes)], input.dtype
    weight = bias = None
    if scale:
        weight = parameter_of(
            layer, shape, dtype, param_attr, default_initializer=Constant(1.0)
        )
    if shift:
        bias = parameter_of(layer, shape, dtype, bias_attr, is_bias=True)
    return activated(F.layer_norm(input, sizes, weight, bias, epsilon), act)


def group_norm(
    input: Tensor,
    groups: int,
    epsilon: float = 1e-05,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    act: str | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """`nn.functional.group_norm` with parameters of its own, and an activation.

    Args:
        input: (N, C, ..), or (N, .., C) by data_layout.
        groups: Into how many groups the channels are cut.
        epsilon: Added to each group's variance.
        param_attr: How the scale ``group_norm_0.w_0`` is made; False fixes it at 1.
        bias_attr: How the shift is made; False fixes it at 0.
        act: Name of the activation that follows.
        data_layout: NCHW or NHWC.
        name: What parameters' names begin with.

    Raises:
        PreconditionNotMetError: In dynamic mode.
        ShapeError: If groups does not divide the channels.
    """
    layer = layer_name("group_norm", "group_norm", name)
    check_activation("group_norm", act)
    shape = [_channels("group_norm", input, data_layout)]
    weight = parameter_of(
        layer, shape, input.dtype, param_attr, default_initializer=Constant(1.0)
    )
    bias = parameter_of(layer, shape, input.dtype, bias_attr, is_bias=True)
    out = F.group_norm(input, groups, epsilon, weight, bias, data_layout)
    return activated(out, act)


def instance_norm(
    input: Tensor,
    epsilon: float = 1e-05,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    name: str | None = None,
) -> Tensor:
    """`nn.functional.instance_norm` with parameters of its own.

    Args:
        input: (N, C, ..).
        epsilon: Added to the variance.
        param_attr: How the scale ``instance_norm_0.w_0`` is made; False for neither
            scale nor shift.
        bias_attr: How the shift is made; False likewise.
        name: What parameters' names begin with.

    Raises:
        PreconditionNotMetError: In dynamic mode.
        InvalidArgumentError: If one of the attributes is False and the other is not.
    """
    layer = layer_name("instance_norm", "instance_norm", name)
    if (param_attr is False) is not (bias_attr is False):
        raise InvalidArgumentError(
            "[static.nn.instance_norm] param_attr and bias_attr must be False together "
            f"or not at all, got {param_attr!r} and {bias_attr!r}"
        )
    shape = [_channels("instance_norm", input, "NCHW")]
    weight = parameter_of(
        layer, shape, input.dtype, param_attr, default_initializer=Constant(1.0)
    )
    bias = parameter_of(layer, shape, input.dtype, bias_attr, is_bias=True)
    return F.instance_norm(input, weight=weight, bias=bias, eps=epsilon)


#: The first values of `data_norm`'s statistics.
_SUMMARY = {"batch_size": 1e4, "batch_sum": 0.0, "batch_square": 1e4}


def data_norm(
    input: Tensor,
    act: str | None = None,
    epsilon: float = 1e-05,
    param_attr: Mapping[str, float] | None = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    slot_dim: int = -1,
    sync_stats: bool = False,
    summary_decay_rate: float = 0.9999999,
    enable_scale_and_shift: bool = False,
) -> Tensor:
    """(x - sum / size) * sqrt(size / square_sum), by statistics of all data so far.

    The statistics of ``dn`` are ``dn.batch_size``, ``dn.batch_sum`` and
    ``dn.batch_square_sum``. A run of the program adds its batch to them after it has
    used them, as PaddlePaddle's GPU kernel does; `Program.clone` for tests leaves that
    out:

        size = decay * size + N,  sum = decay * sum + sum of x,
        square_sum = decay * square_sum + sum of (x - mean)^2 + N * epsilon

    Args:
        input: (N, C).
        act: Name of the activation that follows.
        epsilon: See the formula.
        param_attr: First values by name, "batch_size" (10000), "batch_sum" (0) and
            "batch_square" (10000); "scale_w" (1) and "bias" (0) of scale and shift.
        data_layout: NCHW.
        in_place: Kept for callers, as the next ones are.
        name: What names begin with, in place of ``dn``.
        moving_mean_name: See in_place.
        moving_variance_name: See in_place.
        do_model_average_for_mean_and_var: See in_place.
        slot_dim: Where positive, columns make slots of so many; a slot whose first
            number is 0 gives zeros and is not counted.
        sync_stats: See in_place; there is one process.
        summary_decay_rate: decay in the formula.
        enable_scale_and_shift: Whether ``dn.scale_w`` and ``dn.bias`` are trained.

    Raises:
        PreconditionNotMetError: In dynamic mode.
        InvalidArgumentError: If data_layout or slot_dim does not fit.
    """
    layer_name("data_norm", "data_norm")
    check_activation("data_norm", act)
    check_rank("static.nn.data_norm", "input", input, 2, 2)
    width = _channels("data_norm", input, data_layout)
    if slot_dim > 0 and width % slot_dim:
        raise InvalidArgumentError(
            f"[static.nn.data_norm] slot_dim must divide {width}, got {slot_dim}"
        )
    first = {**_SUMMARY, "scale_w": 1.0, "bias": 0.0, **(param_attr or {})}
    own, shape, dtype = name or "dn", [width], input.dtype
    size, total, square = (
        _statistic("", shape, dtype, f"{own}.{part}", first[key])
        for part, key in (
            ("batch_size", "batch_size"), ("batch_sum", "batch_sum"),
            ("batch_square_sum", "batch_square"),
        )
    )  # fmt: skip
    counted = None
    if slot_dim > 0:
        counted = _slots_present(input, slot_dim)
    mean = ops.div(total, size)
    centred = ops.sub(input, mean)
    out = ops.mul(centred, ops.sqrt(ops.div(size, square)))
    if enable_scale_and_shift:
        scale, shift = (
            parameter_of("", shape, dtype, ParamAttr(f"{own}.{n}", Constant(first[n])))
            for n in ("scale_w", "bias")
        )
        out = ops.add(ops.mul(out, scale), shift)
    if counted is not None:
        out = ops.mul(out, counted)
    added = ops.full_like(centred, value=1.0, dtype=dtype)
    added = added if counted is None else counted
    _sum_up(summary_decay_rate, epsilon, (size, total, square), (added, input, centred))
    return activated(out, act)


def _slots_present(x: Tensor, slot_dim: int) -> Tensor:
    """1 in the columns of slots whose first number is not 0, else 0; x's shape."""
    slots = ops.reshape(x, shape=[-1, x.shape[1] // slot_dim, slot_dim])
    shown = ops.slice(slots, axes=[2], starts=[0], ends=[1], steps=[1])
    present = ops.cast(ops.greater_than(ops.abs(shown), 1e-7), dtype=x.dtype)
    wide = ops.mul(ops.full_like(slots, value=1.0, dtype=x.dtype), present)
    return ops.reshape(wide, shape=[-1, x.shape[1]])


def _sum_up(
    decay: float, epsilon: float, statistics: tuple[Any, ...], batch: tuple[Any, ...]
) -> None:
    """Record what adds a batch to the statistics, which copies for tests lack."""
    (size, total, square), (counted, x, centred) = statistics, batch
    with NoTape(), size.program.role("backward"):
        count = ops.sum(counted, axis=[0])
        squares = ops.sum(ops.mul(ops.square(centred), counted), axis=[0])
        for statistic, new in (
            (size, count),
            (total, ops.sum(ops.mul(x, counted), axis=[0])),
            (square, ops.add(squares, ops.mul(count, epsilon))),
        ):
            statistic[...] = ops.add(ops.mul(statistic, decay), new)


def spectral_norm(
    weight: Tensor,
    dim: int = 0,
    power_iters: int = 1,
    eps: float = 1e-12,
    name: str | None = None,
) -> Tensor:
    """weight / (u^T W v): the weight by its largest singular value.

    u and v, ``spectral_norm_0.w_0`` and ``w_1``, go through power_iters rounds of power
    iteration from their first values in every run (Miyato et al., 2018). As in
    PaddlePaddle's static mode they stay as they are; `nn.SpectralNorm` keeps them.

    Args:
        weight: The weight, of known shape.
        dim: The axis that makes the rows of the matrix W.
        power_iters: Rounds in each run.
        eps: Smallest length that vectors are divided by.
        name: What names begin with.

    Raises:
        PreconditionNotMetError: In dynamic mode.
        InvalidArgumentError: If dim is no axis, or a size is symbolic.
    """
    layer = layer_name("spectral_norm", "spectral_norm", name)
    if not -weight.ndim <= dim < weight.ndim:
        raise InvalidArgumentError(
            f"[static.nn.spectral_norm] dim must be an axis of {weight.shape}, got "
            f"{dim}"
        )
    shape = [known("spectral_norm", "axes", n) for n in weight.shape]
    rows = shape[dim]
    u, v = (
        parameter_of(
            layer,
            [n],
            weight.dtype,
            ParamAttr(trainable=False),
            default_initializer=Normal(0.0, 1.0),
        )
        for n in (rows, math.prod(shape) // rows)
    )
    u, v = iterated(weight, u, v, dim, int(power_iters), eps)
    return spectral_scaled(weight, u, v, dim)
