"""`summary`: a table of a network's layers, output shapes and parameters."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from proa._core import Tensor
from proa.base.no_tape import NoTape
from proa.errors import InvalidArgumentError, InvalidTypeError
from proa.jit.pytree import flatten, is_tensor
from proa.jit.switch import as_functions
from proa.nn.layer import Layer
from proa.tensor.creation import zeros


def _shapes(value: Any) -> Any:
    if isinstance(value, Tensor):
        return list(value.shape)
    if isinstance(value, (list, tuple)):
        return [_shapes(v) for v in value]
    if isinstance(value, dict):
        return {k: _shapes(v) for k, v in value.items()}
    return "-"


def inputs_of(input_size: Any, dtypes: Any) -> list[Tensor]:
    """Zeros for one shape, or for a list of them; an unknown batch size becomes 1."""
    if hasattr(input_size, "shape"):
        input_size = tuple(input_size.shape)
    elif isinstance(input_size, int):
        input_size = (input_size,)
    if not isinstance(input_size, (tuple, list)):
        raise InvalidTypeError(
            "[summary] expected input_size to be a shape or a list of shapes, got "
            f"{type(input_size).__name__!r}"
        )
    sizes: Any = input_size
    if not any(isinstance(n, (tuple, list)) or hasattr(n, "shape") for n in input_size):
        sizes = [input_size]
    if dtypes is None or isinstance(dtypes, str):
        dtypes = [dtypes] * len(sizes)
    return [
        zeros(_known_shape(getattr(s, "shape", s)), d)
        for s, d in zip(sizes, dtypes, strict=True)
    ]


def _known_shape(shape: Any) -> list[int]:
    """A shape whose unknown size (None or -1), which one axis may have, is 1."""
    for n in shape:
        if n is not None and (isinstance(n, bool) or not isinstance(n, int)):
            raise InvalidTypeError(
                f"[summary] expected the sizes of input_size to be ints, got {n!r}"
            )
    if sum(n in (None, -1) for n in shape) > 1 or any(
        n is not None and n < 1 and n != -1 for n in shape
    ):
        raise InvalidArgumentError(
            "[summary] expected positive sizes in input_size, of which one may be "
            f"unknown (None or -1), got {tuple(shape)}"
        )
    return [1 if n in (None, -1) else n for n in shape]


def _run(net: Layer, arguments: list[Any]) -> list[tuple[str, Any, Any, int]]:
    """(name, input shapes, output shapes, own parameters) of each layer as it is
    called.
    """
    rows: list[tuple[str, Any, Any, int]] = []
    counts: Counter[str] = Counter()  # of the layers of a kind

    def note(layer: Layer, given: Any, out: Any) -> None:
        own = sum(p.size for p in layer.parameters(include_sublayers=False))
        counts[type(layer).__name__] += 1
        name = f"{type(layer).__name__}-{counts[type(layer).__name__]}"
        rows.append((name, _shapes(given), _shapes(out), own))

    leaves = [
        layer
        for layer in net.sublayers(include_self=True)
        if not list(layer.children()) or layer.parameters(include_sublayers=False)
    ]
    handles = [layer.register_forward_post_hook(note) for layer in leaves]
    modes = [(layer, layer.training) for layer in net.sublayers(include_self=True)]
    net.eval()
    try:
        with NoTape(), as_functions():
            net(*arguments)
    finally:
        for handle in handles:
            handle.remove()
        for layer, mode in modes:
            layer.training = mode
    return rows


def _table(rows: list[tuple[str, Any, Any, int]]) -> list[str]:
    head = ("Layer (type)", "Input Shape", "Output Shape", "Param #")
    cells = [head, *((n, str(i), str(o), f"{p:,}") for n, i, o, p in rows)]
    widths = [max(len(c[k]) for c in cells) + 2 for k in range(4)]
    line = "-" * sum(widths)
    body = ["".join(c[k].center(widths[k]) for k in range(4)) for c in cells]
    return [line, body[0], "=" * len(line), *body[1:], "=" * len(line)]


def _count(shapes: Any) -> int:
    if shapes and isinstance(shapes, list) and all(isinstance(n, int) for n in shapes):
        return math.prod(shapes)
    if isinstance(shapes, dict):
        shapes = list(shapes.values())
    return sum(map(_count, shapes)) if isinstance(shapes, list) else 0


def summary(
    net: Layer, input_size: Any = None, dtypes: Any = None, input: Any = None
) -> dict[str, int]:
    """Print a table of the layers; returns total_params and trainable_params.

    Args:
        net: The network.
        input_size: The input's shape with its batch axis, or a list of shapes. One
            size, that of the batch, may be None or -1; it counts as 1.
        dtypes: The inputs' element types.
        input: The input itself, in place of input_size: what the network is called
            with, a Tensor or a list or dict of them.
    """
    if input is not None:
        inputs, _ = flatten(input, is_tensor)
        arguments: list[Any] = [input]
    elif input_size is not None:
        arguments = inputs = inputs_of(input_size, dtypes)
    else:
        raise InvalidArgumentError(
            "[summary] expected input_size or input, got neither"
        )
    rows = _run(net, arguments)
    total = sum(p.size for p in net.parameters())
    trainable = sum(p.size for p in net.parameters() if not p.stop_gradient)
    megabyte = float(2**20)
    params_size = sum(p.size * p.element_size() for p in net.parameters()) / megabyte
    size_in = sum(t.size * t.element_size() for t in inputs) / megabyte
    passed = 2 * np.dtype("float32").itemsize * sum(_count(r[2]) for r in rows)
    lines = _table(rows)
    lines += [
        f"Total params: {total:,}",
        f"Trainable params: {trainable:,}",
        f"Non-trainable params: {total - trainable:,}",
        "-" * len(lines[0]),
        f"Input size (MB): {size_in:.2f}",
        f"Forward/backward pass size (MB): {passed / megabyte:.2f}",
        f"Params size (MB): {params_size:.2f}",
        f"Estimated Total Size (MB): {size_in + passed / megabyte + params_size:.2f}",
        "-" * len(lines[0]),
    ]
    print("\n".join(lines) + "\n")
    return {"total_params": int(total), "trainable_params": int(trainable)}
