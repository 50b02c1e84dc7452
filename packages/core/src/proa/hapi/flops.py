"""`flops`: how many operations a network takes for one forward pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from proa.base.no_tape import NoTape
from proa.errors import InvalidArgumentError
from proa.hapi.summary import inputs_of
from proa.jit.switch import as_functions
from proa.nn.layer import Layer

#: Counts a layer's operations by its input and output.
Count = Callable[[Any, Any, Any], int]


def _convolution(layer: Any, x: Any, y: Any) -> int:
    own = math.prod(layer.weight.shape[1:]) + (layer.bias is not None)
    return int(y.size) * int(own)


def _transposed_convolution(layer: Any, x: Any, y: Any) -> int:
    own = layer.weight.shape[0] // layer._groups * math.prod(layer.weight.shape[2:])
    return int(y.size) * int(own + (layer.bias is not None))


def _linear(layer: Any, x: Any, y: Any) -> int:
    return int(y.size) * int(layer.weight.shape[0])


def _each(layer: Any, x: Any, y: Any) -> int:
    return int(y.size)


def _twice(layer: Any, x: Any, y: Any) -> int:
    return 2 * int(x.size)


def _adaptive(layer: Any, x: Any, y: Any) -> int:
    window = [a // b for a, b in zip(x.shape[2:], y.shape[2:], strict=True)]
    return int(math.prod(window) + 1) * int(y.size)


def _counts() -> list[tuple[tuple[type, ...], Count]]:
    """Counts by layer type. A multiplication with its addition is one operation."""
    from proa import nn

    return [
        ((nn.Conv1DTranspose, nn.Conv2DTranspose, nn.Conv3DTranspose),
         _transposed_convolution),
        ((nn.Conv1D, nn.Conv2D, nn.Conv3D), _convolution),
        ((nn.Linear,), _linear),
        ((nn.BatchNorm, nn.BatchNorm1D, nn.BatchNorm2D, nn.BatchNorm3D), _twice),
        ((nn.AdaptiveAvgPool1D, nn.AdaptiveAvgPool2D, nn.AdaptiveAvgPool3D),
         _adaptive),
        ((nn.AvgPool1D, nn.AvgPool2D, nn.AvgPool3D, nn.LeakyReLU), _each),
    ]  # fmt: skip


def _own(layer: Layer, custom: Mapping[type, Any]) -> tuple[Any, bool] | None:
    """The function that counts for a layer, and whether the caller gave it."""
    for kind, function in custom.items():
        if type(layer) is kind:
            return function, True
    for kinds, function in _counts():
        if isinstance(layer, kinds):
            return function, False
    return None


def _first(given: Any) -> Any:
    return given[0] if isinstance(given, (list, tuple)) else given


class _Counter:
    """Hooks that add up each layer's operations."""

    def __init__(self, custom: Mapping[type, Any]) -> None:
        self._custom = custom
        self.rows: dict[int, list[Any]] = {}  # id -> [layer, in, out, operations]

    def note(self, layer: Layer, given: Any, result: Any) -> None:
        x, y = _first(given), _first(result)
        found = _own(layer, self._custom)
        count = 0
        if found is not None and found[1]:
            layer.__dict__["total_ops"] = 0
            found[0](layer, given, result)
            count = int(layer.__dict__.pop("total_ops"))
        elif found is not None:
            count = found[0](layer, x, y)
        row = self.rows.setdefault(id(layer), [layer, list(x.shape), list(y.shape), 0])
        row[3] += count


def _table(rows: list[list[Any]]) -> list[str]:
    head = ("Layer Name", "Input Shape", "Output Shape", "Params", "Flops")
    cells = [head]
    for layer, given, out, count in rows:
        params = sum(p.size for p in layer.parameters())
        name = layer.full_name()
        cells.append((name, str(given), str(out), str(params), str(count)))
    widths = [max(len(c[k]) for c in cells) for k in range(5)]
    rule = "+" + "+".join("-" * (w + 2) for w in widths) + "+"
    lines = [
        "|" + "|".join(f" {c[k].center(widths[k])} " for k in range(5)) + "|"
        for c in cells
    ]
    return [rule, lines[0], rule, *lines[1:], rule]


def flops(
    net: Layer,
    input_size: Any,
    custom_ops: Mapping[type, Any] | None = None,
    print_detail: bool = False,
) -> int:
    """Operations of one forward pass; a multiplication with its addition counts as one.

    Convolutions, linear layers, batch norms and average poolings count; layers of
    other kinds count 0.

    Args:
        net: The network.
        input_size: Shape of its input, or a list of shapes.
        custom_ops: Functions ``(layer, inputs, output)`` by layer type that add to
            ``layer.total_ops``, in place of the own counts.
        print_detail: Whether to print a table of the layers.
    """
    if not isinstance(net, Layer):
        raise InvalidArgumentError(
            f"[flops] net must be a Layer, got {type(net).__name__}"
        )
    counter = _Counter(custom_ops or {})
    leaves = [
        layer
        for layer in net.sublayers(include_self=True)
        if not list(layer.children()) or type(layer) in (custom_ops or {})
    ]
    handles = [layer.register_forward_post_hook(counter.note) for layer in leaves]
    modes = [(layer, layer.training) for layer in net.sublayers(include_self=True)]
    net.eval()
    try:
        with NoTape(), as_functions():
            net(*inputs_of(input_size, None))
    finally:
        for handle in handles:
            handle.remove()
        for layer, mode in modes:
            layer.training = mode
    rows = list(counter.rows.values())
    total = sum(row[3] for row in rows)
    params = sum(p.size for p in net.parameters())
    if print_detail:
        print("\n".join(_table(rows)))
    print(f"Total Flops: {total}     Total Params: {params}")
    return int(total)
