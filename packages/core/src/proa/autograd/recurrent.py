"""A recurrent cell along a sequence, as one operator that differentiates twice."""

from __future__ import annotations

from typing import Any, Literal

from proa import _core
from proa._core import Tensor, ops
from proa.autograd.backward_mode import grad
from proa.autograd.py_layer import PyLayer, PyLayerContext
from proa.base.dtype import as_dtype
from proa.errors import ShapeError
from proa.tensor.arguments import cast_if
from proa.tensor.creation import full

Cell = Literal["tanh", "relu", "lstm", "gru"]


def _parts(gates: Tensor, hidden: int) -> list[Tensor]:
    """(batch, n * hidden) as n of (batch, hidden)."""
    return [
        ops.slice(gates, axes=[1], starts=[i], ends=[i + hidden], steps=[1])
        for i in range(0, gates.shape[1], hidden)
    ]


def step(
    cell: Cell, x: Tensor, r: Tensor, h: Tensor, c: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """New states from the input's and the recurrent part of the gates."""
    if cell == "lstm":
        assert c is not None
        i, f, g, o = _parts(ops.add(x, r), h.shape[1])
        fresh = ops.mul(ops.sigmoid(i), ops.tanh(g))
        c = ops.add(ops.mul(ops.sigmoid(f), c), fresh)
        return ops.mul(ops.sigmoid(o), ops.tanh(c)), c
    if cell == "gru":
        (a, b, d), (p, q, s) = _parts(x, h.shape[1]), _parts(r, h.shape[1])
        z = ops.sigmoid(ops.add(b, q))
        fresh = ops.tanh(ops.add(d, ops.mul(ops.sigmoid(ops.add(a, p)), s)))
        return ops.add(ops.mul(ops.sub(h, fresh), z), fresh), c
    total = ops.add(x, r)
    return ops.tanh(total) if cell == "tanh" else ops.relu(total), c


def _composed(
    xg: Tensor,
    w: Tensor,
    h: Tensor,
    c: Tensor | None,
    bias: Tensor | None,
    length: Tensor | None,
    cell: Cell,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """What the operator computes, by smaller ones: (y, h, c)."""
    steps = range(xg.shape[0])
    out: list[Any] = [None] * len(steps)
    for t in reversed(steps) if reverse else steps:
        r = ops.linear(h, ops.swap_last(w), bias)
        new, new_c = step(cell, ops.select(xg, axis=0, index=t), r, h, c)
        out[t] = new
        if length is not None:
            inside = ops.unsqueeze(ops.greater_than(length, t), axis=[1])
            out[t] = ops.where(inside, new, ops.full_like(new, value=0, dtype=h.dtype))
            new = ops.where(inside, new, h)
            if c is not None and new_c is not None:
                new_c = ops.where(inside, new_c, c)
        h, c = new, new_c
    return ops.stack(*out, axis=0), h, c


class _Steps(PyLayer):
    """The operator with its own first gradient, and a composed second one."""

    _optional_gradients = True

    @staticmethod
    def forward(
        ctx: PyLayerContext,
        xg: Tensor,
        w: Tensor,
        h0: Tensor,
        c0: Tensor | None,
        bias: Tensor | None,
        length: Tensor | None,
        cell: Cell,
        reverse: bool,
    ) -> tuple[Tensor, ...]:
        y, h, c, reserve = ops.recurrent(
            xg, w, h0, c0, bias, length, cell=cell, reverse=reverse
        )
        # A detached y: the node of the tape must not keep itself alive.
        ctx.save_for_backward(xg, w, h0, c0, bias, length, y.detach(), reserve)
        ctx.cell, ctx.reverse = cell, reverse  # type: ignore[attr-defined]
        return (y, h, c) if cell == "lstm" else (y, h)

    @staticmethod
    def backward(ctx: PyLayerContext, *grads: Tensor) -> tuple[Any, ...]:
        cell: Cell = ctx.cell  # type: ignore[attr-defined]
        reverse: bool = ctx.reverse  # type: ignore[attr-defined]
        xg, w, h0, c0, bias, length, y, reserve = ctx.saved_tensor()
        if _core.is_grad_enabled():
            found = _second(grads, xg, w, h0, c0, bias, length, cell, reverse)
        else:
            dy, dh = grads[:2]
            empty = full([h0.shape[0], 0], 0, h0.dtype)
            dc = grads[2] if cell == "lstm" else empty
            d = ops.recurrent_grad(
                dy, dh, dc, y, reserve, w, h0, c0, length, cell=cell, reverse=reverse
            )
            found = [d[0], d[1], d[3], d[4], d[2]]
        given = (xg, w, h0, c0, bias)
        of_given = [f for f, t in zip(found, given, strict=True) if t is not None]
        return (*of_given, None) if length is not None else tuple(of_given)


def _second(
    grads: tuple[Tensor, ...],
    xg: Tensor,
    w: Tensor,
    h0: Tensor,
    c0: Tensor | None,
    bias: Tensor | None,
    length: Tensor | None,
    cell: Cell,
    reverse: bool,
) -> list[Tensor | None]:
    """Gradients that differentiate again: those of the composed computation."""
    # Copies, because one input may depend on another (a state on the weight): requested
    # by its copy, each gradient is that of this operator alone.
    own = [None if t is None else ops.assign(t) for t in (xg, w, h0, c0, bias)]
    x, weight, h, c, b = own
    assert x is not None and weight is not None and h is not None
    outputs = _composed(x, weight, h, c, b, length, cell, reverse)
    wanted = [t for t in own if t is not None and not t.stop_gradient]
    found = iter(
        grad(
            [t for t in outputs if t is not None], wanted, list(grads),
            create_graph=True, allow_unused=True,
        )
    )  # fmt: skip
    return [None if t is None or t.stop_gradient else next(found) for t in own]


def recurrent(
    xg: Tensor,
    w: Tensor,
    h0: Tensor,
    c0: Tensor | None = None,
    bias: Tensor | None = None,
    length: Tensor | None = None,
    *,
    cell: Cell,
    reverse: bool = False,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Outputs and final states of a cell along a sequence.

    Args:
        xg: The input's part of the gates (time, batch, gates * hidden).
        w: The recurrent weight (gates * hidden, hidden).
        h0: The first state (batch, hidden).
        c0: The same of lstm's c.
        bias: Added to the recurrent product (gates * hidden,).
        length: Steps of each sample (batch,), integers.
        cell: Which cell; lstm's gates are i f g o, gru's r z n.
        reverse: Whether to run from the end.
    """
    if h0.ndim != 2 or h0.shape[1] not in (-1, w.shape[1]):
        raise ShapeError("RNN", f"states must be (batch, {w.shape[1]})", h0.shape)
    xg, h0 = cast_if(xg, w.dtype), cast_if(h0, w.dtype)
    c0 = None if c0 is None else cast_if(c0, w.dtype)
    if length is not None and length.dtype not in ("int32", "int64"):
        length = ops.cast(length, dtype=as_dtype("int64"))
    arrays = (xg, w, h0, c0, bias, length)
    if not _core.is_grad_enabled():
        y, h, c, _ = ops.recurrent(*arrays, cell=cell, reverse=reverse)
    else:
        y, h, *rest = _Steps.apply(*arrays, cell, reverse)
        c = rest[0] if rest else h
    return y, h, c if cell == "lstm" else None
