"""einsum and tensordot against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, ShapeError

RNG = np.random.default_rng(7)
SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "i": 3, "j": 4, "k": 2, "l": 1}

EQUATIONS = [
    "i->i", "i->", "ij->ji", "ij->", "ij->j", "ii->i", "ii->", "iji->j", "aiib->ab",
    "i,i->", "i,i", "i,j->ij", "ij,j->i", "ij,jk->ik", "ij,jk", "ij,kj->ikj",
    "aij,ajk->aik", "aij,jk->aik", "abc,cd,db->a", "ij,ij->ij", "ij,ij->",
    "ab,cd->dbca", "abcd,cb->da", "ii,ij->j", "l,ij->ij", "ij,jk,kl->il", "a,b,c->abc",
    "abc,bad->dc", ",ij->ij", "i,->i", "aij,aji->a",
]  # fmt: skip


def shape_of(term: str) -> tuple[int, ...]:
    return tuple(SIZES[c] for c in term)


@pytest.mark.parametrize("equation", EQUATIONS)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_einsum_as_numpy(equation: str, dtype: str):
    arrays = [
        RNG.normal(size=shape_of(t)).astype(dtype)
        for t in equation.split("->")[0].split(",")
    ]
    tensors = [proa.to_tensor(a, stop_gradient=False) for a in arrays]
    got = proa.einsum(equation, *tensors)
    np.testing.assert_allclose(got.numpy(), np.einsum(equation, *arrays), rtol=1e-10)
    weight = RNG.normal(size=got.shape)
    proa.sum(got * proa.to_tensor(weight).astype(dtype)).backward()
    for i, (a, t) in enumerate(zip(arrays, tensors, strict=True)):
        step = RNG.normal(size=a.shape)
        ends = []
        for sign in (1, -1):  # of a term that is linear in each operand
            moved = [b + sign * step if i == n else b for n, b in enumerate(arrays)]
            ends.append((np.einsum(equation, *moved) * weight).sum())
        want = (ends[0] - ends[1]) / 2
        slope = (np.conj(t.grad.numpy()) * step).sum()
        np.testing.assert_allclose(slope, want, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]),
        ("...ij,...jk->...ik", [(6, 1, 3, 4), (2, 4, 5)]),
        ("i...,i...->...", [(3, 2), (3, 2)]),
        ("...->...", [(2, 3)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("b...,b...", [(2, 3), (2, 3)]),
        ("... , ...", [(3,), (2, 3)]),
        ("...i->...", [(2, 0, 3)]),
    ],
)
def test_ellipsis_broadcasts(equation: str, shapes: list[tuple[int, ...]]):
    arrays = [RNG.normal(size=s) for s in shapes]
    got = proa.einsum(equation, [proa.to_tensor(a) for a in arrays])
    np.testing.assert_allclose(got.numpy(), np.einsum(equation, *arrays), rtol=1e-12)


@pytest.mark.parametrize(
    ("equation", "error"),
    [("ij->k", InvalidArgumentError), ("i,j->ij", InvalidArgumentError),
     ("ijk->i", ShapeError), ("ii->i", ShapeError), ("i1->i", InvalidArgumentError),
     ("ij->ii", InvalidArgumentError), ("i.j->i", ShapeError)],
)  # fmt: skip
def test_einsum_names_the_invalid_part(equation: str, error: type[Exception]):
    with pytest.raises(error, match=r"\[einsum\]"):
        proa.einsum(equation, proa.ones([2, 3]))
    with pytest.raises(ShapeError, match=r"\[einsum\]"):
        proa.einsum("ij,jk->ik", proa.ones([2, 3]), proa.ones([4, 2]))


AXES: list[Any] = [0, 1, 2, [1], [[1, 2], [1, 0]], ([2, 0], [0, 2]), [[1]]]


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_tensordot(axes: Any):
    x = RNG.normal(size=(4, 3, 4))
    y = RNG.normal(size=(3, 4, 2)) if axes == 2 else RNG.normal(size=(4, 3, 4))
    how = axes
    if isinstance(axes, list) and isinstance(axes[0], int):
        how = (axes, axes)
    elif isinstance(axes, list) and len(axes) == 1:
        how = (axes[0], axes[0])
    got = proa.tensordot(proa.to_tensor(x), proa.to_tensor(y), axes)
    np.testing.assert_allclose(got.numpy(), np.tensordot(x, y, how), rtol=1e-12)


def test_einsum_records_with_an_unknown_batch(tmp_path: Any):
    class Attention(proa.nn.Layer):
        def forward(self, q: Any, k: Any) -> Any:
            return proa.einsum("bhqd,bhkd->bhqk", q, k)

    layer = Attention()
    spec = proa.jit.InputSpec([None, 2, 3, 4], "float32")
    proa.jit.save(layer, tmp_path / "m", [spec, spec])
    loaded = proa.jit.load(tmp_path / "m")
    for batch in (1, 5):
        q, k = (RNG.normal(size=(batch, 2, 3, 4)).astype("float32") for _ in "qk")
        got = loaded(proa.to_tensor(q), proa.to_tensor(k)).numpy()
        want = np.einsum("bhqd,bhkd->bhqk", q, k)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
