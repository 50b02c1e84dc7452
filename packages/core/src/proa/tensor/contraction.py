"""Sums of products written with letters (`einsum`), and `tensordot`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from proa.tensor.arguments import as_ints, present_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["einsum", "tensordot"]


def _split(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The labels of each operand and of the result, "..." expanded to digits."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    if not re.fullmatch(r"[a-zA-Z.,]*(->[a-zA-Z.]*)?", text):
        raise InvalidArgumentError(
            f"[einsum] the equation must be letters, ',', '...' and '->', "
            f"got {equation!r}"
        )
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise InvalidArgumentError(
            f"[einsum] the equation must have {len(ranks)} terms, got {equation!r}"
        )
    max_groups = 0
    expanded = []
    for term, rank in zip(terms, ranks, strict=True):
        named = term.replace("...", "", 1)
        extra = rank - len(named)
        if "." in named or extra < 0 or (extra and "..." not in term):
            raise ShapeError("einsum", f"{term!r} must fit its operand", f"rank {rank}")
        max_groups = max(max_groups, extra)
        expanded.append(term.replace("...", _digits(extra)))
    if arrow:
        if "." in right.replace("...", "", 1):
            raise InvalidArgumentError(f"[einsum] '.' must be '...', got {equation!r}")
        result = right.replace("...", _digits(max_groups))
    else:
        letters = re.sub(r"\d", "", "".join(expanded))
        once = sorted(c for c in set(letters) if letters.count(c) == 1)
        result = _digits(max_groups) + "".join(once)
    unknown = set(result) - set("".join(expanded))
    if unknown or len(set(result)) < len(result):
        raise InvalidArgumentError(
            "[einsum] letters of the result must occur once there and in the terms, "
            f"got {equation!r}"
        )
    return expanded, result


def _digits(count: int) -> str:
    """Labels of the axes of an ellipsis, aligned at the last."""
    return "".join(str(i) for i in reversed(range(count)))


def _single(x: Tensor, labels: str, wanted: set[str]) -> tuple[Tensor, str]:
    """Repeated labels become diagonals; labels that nobody wants are summed."""
    i = 0
    while i < len(labels):
        c = labels[i]
        j = labels.find(c, i + 1)
        if j < 0:
            i += 1
            continue
        if x.shape[i] != x.shape[j]:
            raise ShapeError("einsum", f"axes {c!r} must have equal sizes", x.shape)
        x = ops.diagonal(x, axis1=i, axis2=j)
        labels = labels[:i] + labels[i + 1 : j] + labels[j + 1 :] + c
    gone = [i for i, c in enumerate(labels) if c not in wanted]
    if gone:
        x = ops.sum(x, axis=gone)
        labels = "".join(c for c in labels if c in wanted)
    return x, labels


def _arranged(x: Tensor, labels: str, order: str) -> Tensor:
    """The axes in ``order``; those x does not have get size 1."""
    here = [c for c in order if c in labels]
    perm = [labels.index(c) for c in here]
    x = ops.transpose(x, perm=perm) if perm != list(range(len(perm))) else x
    absent = [i for i, c in enumerate(order) if c not in labels]
    return ops.unsqueeze(x, axis=absent) if absent else x


def _merged(x: Tensor, start: int, count: int) -> Tensor:
    """The ``count`` axes from ``start`` as one."""
    if count == 0:
        return ops.unsqueeze(x, axis=[start])
    if count == 1:
        return x
    return ops.flatten(x, start_axis=start, stop_axis=start + count - 1)


def _pair(x: Tensor, a: str, y: Tensor, b: str, wanted: set[str]) -> tuple[Tensor, str]:
    """Two operands multiplied, and summed over the labels that nobody wants."""
    common = [c for c in a if c in b]
    size_a = dict(zip(a, x.shape, strict=True))
    size_b = dict(zip(b, y.shape, strict=True))
    for c in common:
        if size_a[c] != size_b[c] and 1 not in (size_a[c], size_b[c]):
            raise ShapeError(
                "einsum", f"axes {c!r} must have equal sizes", (x.shape, y.shape)
            )
    inner = [c for c in common if c not in wanted]
    if any(size_a[c] != size_b[c] for c in inner):  # a size of 1 broadcasts
        whole = "".join(dict.fromkeys(a + b))
        product = ops.mul(_arranged(x, a, whole), _arranged(y, b, whole))
        return _single(product, whole, wanted)
    batch = [c for c in common if c in wanted]
    rows = [c for c in a if c not in b]
    columns = [c for c in b if c not in a]
    n = len(batch)
    left = _arranged(x, a, "".join([*batch, *rows, *inner]))
    left = _merged(_merged(left, n + len(rows), len(inner)), n, len(rows))
    right = _arranged(y, b, "".join([*batch, *inner, *columns]))
    right = _merged(_merged(right, n + len(inner), len(columns)), n, len(inner))
    z = ops.matmul(left, right)
    if len(rows) == len(columns) == 1:
        return z, "".join([*batch, *rows, *columns])
    sizes = [size_a[c] for c in rows] + [size_b[c] for c in columns]
    shape = [z.shape[i] for i in range(n)] + sizes
    return ops.reshape(z, shape=shape), "".join([*batch, *rows, *columns])


def einsum(equation: str, *operands: Tensor | Sequence[Tensor]) -> Tensor:
    """Sum of products over the letters that the result does not name.

    ``einsum("ij,jk->ik", x, y)`` is a matrix product, ``"ii->i"`` a diagonal,
    ``"...ij->...ji"`` a transposition. Operands are contracted two at a time from the
    left, by matrix products.

    Args:
        equation: Letters of the axes of each operand, "," between operands, then "->"
            and the letters of the result; "..." means further axes, which
            broadcast. Without "->" the result has the letters that occur once, in
            alphabetical order.
        operands: Tensors, or one list of them.

    Raises:
        InvalidArgumentError: If the equation is malformed.
        ShapeError: If an operand does not fit it.
    """
    given: Any = operands
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        given = operands[0]
    tensors: Sequence[Tensor] = given
    if not tensors:
        raise InvalidArgumentError("[einsum] expected at least one operand, got none")
    for i, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise InvalidTypeError(
                f"[einsum] operands[{i}] must be a Tensor, got {type(x).__name__!r}"
            )
    terms, result = _split(equation, [t.ndim for t in tensors])
    x, labels = tensors[0], terms[0]
    for i in range(len(tensors)):
        later = set(result).union(*terms[i + 1 :])
        if i > 0:
            y, own = _single(tensors[i], terms[i], later | set(labels))
            x, labels = _pair(x, labels, y, own, later)
        x, labels = _single(x, labels, later)
    return _arranged(x, labels, result)


def _contracted(axes: Any, x_rank: int, y_rank: int) -> tuple[list[int], list[int]]:
    if isinstance(axes, int):
        if not 0 <= axes <= min(x_rank, y_rank):
            raise InvalidArgumentError(
                f"[tensordot] axes must be in [0, {min(x_rank, y_rank)}], got {axes}"
            )
        return list(range(x_rank - axes, x_rank)), list(range(axes))
    pair = axes.tolist() if isinstance(axes, Tensor) else list(axes)
    if len(pair) > 0 and all(isinstance(a, int) for a in pair):
        pair = [pair, pair]
    elif len(pair) == 1:
        pair = [pair[0], pair[0]]
    if len(pair) != 2:
        raise InvalidArgumentError(
            f"[tensordot] axes must be an int or two lists, got {axes!r}"
        )
    left, right = (as_ints("tensordot", a) for a in pair)
    # Paddle lets the shorter list go on with the axes of the longer one.
    short = min(len(left), len(right))
    left += right[short:] if len(left) == short else []
    right += left[short:] if len(right) == short else []
    return (
        [present_axis("tensordot", a, x_rank) for a in left],
        [present_axis("tensordot", a, y_rank) for a in right],
    )


def tensordot(
    x: Tensor,
    y: Tensor,
    axes: int | Tensor | Sequence[int | Sequence[int]] = 2,
    name: str | None = None,
) -> Tensor:
    """Sum of products over axes of x and y.

    Args:
        x, y: Any shapes.
        axes: n: the last n axes of x and the first n of y; or two lists of axes; or one
            list for both.

    Returns:
        The other axes of x, then those of y.
    """
    left, right = _contracted(axes, x.ndim, y.ndim)
    names = [chr(ord("a") + i) for i in range(26)]
    a, b = names[: x.ndim], names[x.ndim : x.ndim + y.ndim]
    for i, j in zip(left, right, strict=True):
        b[j] = a[i]
    rest = [c for i, c in enumerate(a) if i not in left]
    rest += [c for j, c in enumerate(b) if j not in right]
    return einsum(f"{''.join(a)},{''.join(b)}->{''.join(rest)}", x, y)
