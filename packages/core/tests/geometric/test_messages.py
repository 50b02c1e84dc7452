"""Messages along edges against NumPy, with gradients, eagerly and recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import geometric
from proa.errors import Error, InvalidArgumentError, ShapeError
from proa.jit import InputSpec, to_static

MESSAGES = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
REDUCE = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}
RNG = np.random.default_rng(7)
#: Edges of five vertices, of which one has none, in no order.
SOURCE = np.array([0, 1, 2, 0, 4, 4, 3, 0])
TARGET = np.array([1, 2, 1, 0, 4, 1, 2, 2])


def received(sent: Any, how: str, count: int) -> Any:
    out = np.zeros((count, *sent.shape[1:]))
    for v in set(TARGET.tolist()):
        out[v] = REDUCE[how](sent[v == TARGET], axis=0)
    return out


def slope(f: Callable[[Any], Any], array: Any, weight: Any) -> Any:
    """Finite differences of sum(f(array) * weight)."""
    out = np.zeros_like(array)
    for at in np.ndindex(array.shape):
        sides = []
        for h in (1e-6, -1e-6):
            moved = array.copy()
            moved[at] += h
            sides.append((f(moved) * weight).sum())
        out[at] = (sides[0] - sides[1]) / 2e-6
    return out


def check(call: Any, want: Any, arrays: list[Any]) -> None:
    """The value and the gradients of a function of arrays."""
    tensors = [proa.to_tensor(a, stop_gradient=False) for a in arrays]
    y = call(*tensors)
    np.testing.assert_allclose(y.numpy(), want(*arrays), rtol=1e-12, atol=1e-14)
    weight = RNG.standard_normal(y.shape)
    (y * proa.to_tensor(weight)).sum().backward()
    for i, t in enumerate(tensors):

        def moved(array: Any, i: int = i) -> Any:
            return want(*(array if k == i else a for k, a in enumerate(arrays)))

        numeric = slope(moved, arrays[i], weight)
        np.testing.assert_allclose(t.grad.numpy(), numeric, atol=1e-6)


def edges(dtype: str = "int64") -> tuple[proa.Tensor, proa.Tensor]:
    return proa.to_tensor(SOURCE.astype(dtype)), proa.to_tensor(TARGET.astype(dtype))


@pytest.mark.parametrize("how", REDUCE)
@pytest.mark.parametrize("shape", [(5,), (5, 2), (5, 2, 3)])
def test_vertices_receive_what_others_send(how: str, shape: tuple[int, ...]) -> None:
    check(
        lambda x: geometric.send_u_recv(x, *edges(), how),
        lambda x: received(x[SOURCE], how, 5),
        [RNG.standard_normal(shape)],
    )


@pytest.mark.parametrize("how", REDUCE)
@pytest.mark.parametrize("op", MESSAGES)
def test_edges_have_a_part_in_messages(op: str, how: str) -> None:
    check(
        lambda x, y: geometric.send_ue_recv(x, y, *edges("int32"), op, how),
        lambda x, y: received(MESSAGES[op](x[SOURCE], y), how, 5),
        [RNG.standard_normal((5, 3)), RNG.standard_normal((8, 1)) + 4],
    )


@pytest.mark.parametrize("op", MESSAGES)
@pytest.mark.parametrize("other", [(5, 2, 3), (5, 1, 3), (5, 3), (5,)])
def test_both_ends_make_a_message(op: str, other: tuple[int, ...]) -> None:
    def want(x: Any, y: Any) -> Any:
        ends = y[TARGET]
        inner = (1,) * (3 - y.ndim) + ends.shape[1:]
        return MESSAGES[op](x[SOURCE], ends.reshape(8, *inner))

    check(
        lambda x, y: geometric.send_uv(x, y, *edges(), op),
        want,
        [RNG.standard_normal((5, 2, 3)), RNG.standard_normal(other) + 4],
    )


def test_the_example_of_the_documents() -> None:
    x = proa.to_tensor([[0.0, 2, 3], [1, 4, 5], [2, 6, 7]])
    source, target = proa.to_tensor([0, 1, 2, 0]), proa.to_tensor([1, 2, 1, 0])
    y = geometric.send_u_recv(x, source, target, reduce_op="sum")
    assert y.tolist() == [[0, 2, 3], [2, 8, 10], [1, 4, 5]]


@pytest.mark.parametrize("how", REDUCE)
def test_the_number_of_receivers_can_be_set(how: str) -> None:
    x = RNG.standard_normal((5, 2)).astype("float32")
    for size in (7, proa.to_tensor([7]), 0, None):
        y = geometric.send_u_recv(proa.to_tensor(x), *edges(), how, out_size=size)
        count = 7 if isinstance(size, proa.Tensor) else size or 5
        assert y.dtype == "float32"
        np.testing.assert_allclose(
            y.numpy(), received(x[SOURCE], how, count), rtol=1e-6
        )


@pytest.mark.parametrize("how", REDUCE)
def test_without_edges_nothing_is_received(how: str) -> None:
    none = proa.zeros([0], "int64")
    y = geometric.send_u_recv(proa.ones([3, 2]), none, none, how)
    assert y.tolist() == [[0, 0]] * 3


@pytest.mark.parametrize("how", REDUCE)
def test_many_messages_to_one_vertex_keep_their_digits(how: str) -> None:
    x = RNG.random((300_000, 1)).astype("float32")
    source = proa.arange(300_000)
    y = geometric.send_u_recv(proa.to_tensor(x), source, source * 0, how, out_size=1)
    want = REDUCE[how](x.astype("float64"))
    np.testing.assert_allclose(y.item(), want, rtol=1e-6)


@pytest.mark.parametrize("how", REDUCE)
def test_messages_are_recorded(how: str) -> None:
    # Sums and means take symbolic sizes; extremes take steps by their number.
    symbolic = how in ("sum", "mean")
    size = None if symbolic else 8
    spec = [
        InputSpec([None if symbolic else 5, 2], "float64"),
        InputSpec([size], "int64"),
        InputSpec([size], "int64"),
    ]
    run = to_static(lambda x, u, v: geometric.send_u_recv(x, u, v, how), spec)
    for _ in range(2):
        x = RNG.standard_normal((5, 2))
        y = run(proa.to_tensor(x), *edges())
        np.testing.assert_allclose(y.numpy(), received(x[SOURCE], how, 5), rtol=1e-12)
    if symbolic:
        x = RNG.standard_normal((9, 2))
        y = run(proa.to_tensor(x), *edges())
        np.testing.assert_allclose(y.numpy(), received(x[SOURCE], how, 9), rtol=1e-12)


def test_invalid_edges_are_rejected() -> None:
    x, (u, v) = proa.ones([5, 2]), edges()
    with pytest.raises(ShapeError, match=r"vectors of one length, got \(\(8,\), \(7,"):
        geometric.send_u_recv(x, u, v[:7])
    with pytest.raises(InvalidArgumentError, match="dst_index must be int32 or int64"):
        geometric.send_uv(x, x, u, v.astype("float32"))
    with pytest.raises(InvalidArgumentError, match="reduce_op must be one of sum, m"):
        geometric.send_u_recv(x, u, v, "product")
    with pytest.raises(InvalidArgumentError, match="message_op must be one of add,"):
        geometric.send_ue_recv(x, proa.ones([8, 2]), u, v, "pow")
    for how in REDUCE:
        with pytest.raises(Error, match="index"):
            geometric.send_u_recv(x, u, v + 1, how)
        with pytest.raises(Error, match="index"):
            geometric.send_u_recv(x, u, v - 1, how)
    with pytest.raises(Error, match="index"):
        geometric.send_u_recv(x, u + 1, v)
