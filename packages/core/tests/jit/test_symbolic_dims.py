"""Symbolic dimensions in shapes and sums."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, UnimplementedError
from proa.ir import operator_versions
from proa.jit import InputSpec, not_to_static, save, to_static

RNG = np.random.default_rng(0)


def heads(x: Any) -> Any:
    batch, length, width = x.shape
    return x.reshape([batch, length, 2, width // 2]).transpose([0, 2, 1, 3])


def merged(x: Any) -> Any:
    batch, length, width = proa.shape(x)[0], proa.shape(x)[1], x.shape[2]
    return proa.reshape(x, [batch * length * 2, -1]) + proa.ones([width // 2])


def rest(x: Any) -> Any:
    batch = x.shape[0]
    return proa.reshape(x[:, :, :2] * 2, [batch, 2, -1])


def windows(x: Any) -> Any:
    """A size that was converted to a tensor is part of a shape."""
    parts = x.reshape([-1, 2, 2]) + 1
    batch = proa.to_tensor(parts.shape[0] // 1, "int32")
    return parts.transpose([0, 2, 1]).reshape([batch, 4]) * 3


def positions(x: Any) -> Any:
    length = x.shape[1]
    return (
        x
        + proa.arange(length, dtype="float32").unsqueeze(-1)
        + proa.arange(1, 2 * length + 1, 2).astype("float32").unsqueeze(-1)
    )


def extended(x: Any) -> Any:
    batch, length, width = x.shape
    mask = proa.full([batch, length // 2 + 1, 1], 2.0)
    row = proa.expand(proa.arange(width).astype("float32"), [batch, 1, -1])
    return proa.concat([x, mask * row, proa.zeros([batch, length + batch, width])], 1)


def mixed(x: Any) -> Any:
    batch, length, _ = x.shape
    size = (length + 1) // 2 * 3 + batch
    return proa.ones([size - 1]) * x.mean()


def sliced(x: Any) -> Any:
    length = x.shape[1]
    table = proa.to_tensor(np.arange(40, dtype="float32").reshape(10, 4))
    x = x + table[:length] - table[None, 2 : length + 2] * x[..., -1:]
    last = x[:, length - 1] + proa.arange(length, -length, -1.0).sum()
    return x[:, length - 2 :, ::2] + last[:, :1].unsqueeze(1)


def numbers(x: Any) -> Any:
    """Sizes as numbers in arithmetic with tensors and numbers."""
    batch, length, _ = x.shape
    y = x * batch + x / (length / 2) - (batch * 0.5 + length % 4)
    y = y + x.sum() / (batch * length + 1) + (length + 1) ** 0.5 - 1 / (batch + 1)
    return y + proa.full([4], length, "float32") + proa.to_tensor([batch, 2, 3, 4])


def as_tensor(x: Any) -> Any:
    """The shape as the tensor that it is of arrays whose sizes are known."""
    sizes = proa.shape(x)
    flow = x / sizes[1:][::-1].reshape([1, 1, -1]).astype("float32").sum()
    flow = flow + (sizes * 2).max() + (sizes[:2] - 1).prod() + (sizes / 2).min()
    return flow + sizes[0].astype("float32") + proa.to_tensor(sizes[1], "float32")


def tiled(x: Any) -> Any:
    batch, length, _ = x.shape
    once = proa.tile(proa.arange(4).astype("float32"), [batch, length, 1])
    return (
        proa.tile(x + once, [2, batch, 1])
        + proa.tile(x[:1, :1], [length, 1, 2])[:1, :, :1]
    )


def spaced(x: Any) -> Any:
    return x * proa.linspace(-1.0, 3.0, x.shape[1] + 2)[1:-1].unsqueeze(-1)


def cut(x: Any) -> Any:
    length = x.shape[1]
    first, last = proa.split(x, [2, -1], axis=1)
    left, right = proa.split(x, [length - 1, 1], axis=1)
    parts = [*proa.chunk(x, 2, axis=1)[::-1], last, first * 2, right, left]
    return proa.concat(parts, axis=1)


def rolled(x: Any) -> Any:
    return proa.roll(x, [1, -7, 2], [0, 1, 2]) + proa.roll(x, 5)


def counted(x: Any) -> Any:
    return x * proa.numel(x).astype("float32")


def grids(x: Any) -> Any:
    rows, columns = proa.meshgrid(x[:, 0, 0], x[0, :, 1])
    return rows * 2 + columns


#: What rounds in another order than eagerly.
CLOSE = ("numbers", "as_tensor", "spaced")
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    f.__name__: f
    for f in (
        heads, merged, rest, positions, extended, mixed, sliced, numbers, as_tensor,
        tiled, rolled, spaced, cut, windows, counted, grids,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_a_recorded_function_does_what_it_does_eagerly(
    name: str, tmp_path: Path
) -> None:
    function = FUNCTIONS[name]
    spec = [InputSpec([None, None, 4], "float32")]
    save(to_static(function, input_spec=spec), str(tmp_path / "f"))
    loaded = proa.jit.load(str(tmp_path / "f"))
    for shape in [(1, 2, 4), (3, 6, 4), (2, 4, 4), (0, 2, 4)]:
        x = proa.to_tensor(RNG.standard_normal(shape).astype(np.float32))
        if name in ("merged", "mixed", "rest", "tiled") and 0 in shape:
            continue  # the mean of nothing, -1 where any number would fit, no first row
        if name == "grids" and 0 in shape:
            continue  # there is no x[0]
        got, want = loaded(x).numpy(), function(x).numpy()
        if name in CLOSE:
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
        else:
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda x: x.scale(x.shape[0]), UnimplementedError),
        (lambda x: x * float(x.shape[0]), UnimplementedError),
        (lambda x: x.reshape([x.shape[0] % x.shape[1], -1]), UnimplementedError),
        (lambda x: proa.roll(x, x.shape[0]), InvalidArgumentError),
        (lambda x: proa.arange(0, x.shape[0], 0.5), InvalidArgumentError),
        (lambda x: proa.nn.functional.gumbel_softmax(x), InvalidArgumentError),
        (lambda x: proa.nn.functional.gather_tree(x, x), UnimplementedError),
    ],
)
def test_what_symbolic_dims_cannot_do_is_refused(
    function: Callable[[Any], Any], error: type[Exception], tmp_path: Path
) -> None:
    spec = [InputSpec([None, None, 4], "float32")]
    with pytest.raises(error, match="symbolic dimension"):
        save(to_static(function, input_spec=spec), str(tmp_path / "f"))


def test_a_size_that_is_left_out_is_known_where_all_symbolic_dims_stay() -> None:
    shapes = []

    def function(x: Any) -> Any:
        batch, length, width = x.shape
        y = x.reshape([batch, length, 2, width // 2])
        batch, length = y.shape[:2]
        whole = y.reshape([batch, length, -1])
        merged = y.reshape([length, -1, batch])
        shapes.append([list(t.shape) for t in (whole, merged, y.reshape([batch, -1]))])
        return whole + 1

    f = to_static(function, input_spec=[InputSpec([None, None, 4], "float32")])
    x = proa.ones([2, 3, 4])
    np.testing.assert_array_equal(f(x).numpy(), np.full((2, 3, 4), 2.0))
    assert shapes[-1] == [[-1, -1, 4], [-1, 4, -1], [-1, -1]]


def test_lengths_and_counts_must_be_known() -> None:
    @not_to_static
    def length(x: Any) -> Any:
        return len(x)

    def count(x: Any) -> Any:
        return x * length(x)

    def groups(x: Any) -> Any:
        weight = proa.ones([4, 1, 1, 1])
        return proa.nn.functional.conv2d(x, weight, groups=x.shape[1])

    spec = InputSpec([None, None, 3, 3], "float32")
    for function, message in (
        (count, r"\[len\] the size must be known.*shape\[0\]"),
        (groups, r"\[conv2d\] expected a known number.*InputSpec"),
    ):
        with pytest.raises((UnimplementedError, InvalidArgumentError), match=message):
            to_static(function, input_spec=[spec])(proa.ones([2, 4, 3, 3]))


def test_a_symbolic_dim_is_more_than_one() -> None:
    seen = []

    def function(x: Any) -> Any:
        n = x.shape[0]
        seen.append([n > 1, n > 1, n >= 2, n <= 1, n < 2, n == 1])
        seen.append([n >= 0, n > 0, n < 0, n <= 512, n > 512, n < -1])
        return x

    to_static(function, input_spec=[InputSpec([None, 4])])(proa.ones([2, 4]))
    assert seen[-2] == [True, True, True, False, False, False]
    assert seen[-1] == [False, False, True, True, False, False]  # as -1


def test_a_symbolic_dim_is_minus_one_in_comparisons() -> None:
    seen = []

    def function(x: Any) -> Any:
        seen.append((x.shape[0] == -1, x.shape[1] == 4, list(x.shape) == [-1, 4]))
        return x

    to_static(function, input_spec=[InputSpec([None, 4])])(proa.ones([2, 4]))
    assert seen[-1] == (True, True, True)


class Divided(proa.nn.Layer):
    """A width cut into as many heads as y has entries, and the last of them."""

    def forward(self, x: Any, y: Any) -> Any:
        batch, length, width = x.shape
        count = y.shape[0]
        parts = x.reshape([batch, length, count, width // count])
        return parts.transpose([0, 2, 1, 3]), x[:, :, -count:]


def test_a_symbolic_dim_is_divided_by_another(tmp_path: Path) -> None:
    spec = [InputSpec([None] * 3, "float32", "x"), InputSpec([None], "float32", "y")]
    save(Divided(), tmp_path / "net", input_spec=spec)
    net = proa.jit.load(str(tmp_path / "net"))
    for shape, count in (((2, 3, 12), 4), ((1, 5, 6), 2), ((2, 1, 7), 7)):
        x, y = RNG.normal(size=shape).astype("float32"), np.zeros(count, "float32")
        parts, last = net(proa.to_tensor(x), proa.to_tensor(y))
        want = x.reshape(*shape[:2], count, -1).transpose(0, 2, 1, 3)
        np.testing.assert_array_equal(parts.numpy(), want)
        np.testing.assert_array_equal(last.numpy(), x[:, :, -count:])
    with pytest.raises(InvalidArgumentError, match="sized"):  # no multiple
        net(proa.zeros([1, 1, 7]), proa.zeros([2]))


Key = Callable[[int, int], Any]

#: Keys of x of two axes, computed from sizes n and m of another array.
KEYS: dict[str, Key] = {
    "to n": lambda n, m: (slice(None), slice(n)),
    "from n": lambda n, m: (slice(n, None),),
    "last n": lambda n, m: (slice(None), slice(-n, None)),
    "but the last n": lambda n, m: (slice(-n),),
    "n - 3 to n": lambda n, m: (slice(n - 3, n),),
    "less m": lambda n, m: (Ellipsis, slice(n - m, None)),
    "to n less m": lambda n, m: (slice(None, n - m), slice(1, -m)),
    "n to 2": lambda n, m: (slice(n, 2), slice(-2, m)),
    "n to m": lambda n, m: (slice(n, m), slice(m, 3 * n)),
    "in steps": lambda n, m: (slice(1, n, 2), slice(m, None, 3)),
    "back": lambda n, m: (slice(n, None, -1), slice(None, m, -2)),
    "back to n - m": lambda n, m: (slice(4, n - m, -1), slice(-m, n, -1)),
    "far": lambda n, m: (slice(n, 10**30), slice(-(10**30), m)),
    "a new axis": lambda n, m: (None, slice(n), slice(None, None, 2)),
    "with an index": lambda n, m: ([0, 0], slice(m)),
    "rounded down": lambda n, m: (slice(-n // 2, None), slice(-(m // 2), None)),
    "less a difference": lambda n, m: (slice(m - (2 - n)), slice(-(m // 2 - 2), None)),
    "half less n": lambda n, m: (slice(-(m // 2 - n), None), slice(n // 2 - m, None)),
}


class Sliced(proa.nn.Layer):
    """x at a key computed from the sizes of y, and zeros with twice that at the key."""

    def __init__(self, key: Key) -> None:
        super().__init__()
        self.key = key

    def forward(self, x: Any, y: Any) -> Any:
        key = self.key(*y.shape)
        copied = proa.zeros_like(x)
        copied[key] = x[key] * 2
        return x[key], copied


#: Sizes of x and y; the last has no n, from which x[-n:] starts.
SIZES = [((5, 6), (2, 3)), ((2, 3), (4, 5)), ((3, 4), (3, 1)), ((4, 1), (9, 8)),
         ((3, 5), (0, 2)), ((5, 6), (4, 4))]  # fmt: skip


@pytest.mark.parametrize("opened", ["both", "y"])
@pytest.mark.parametrize("name", list(KEYS))
def test_symbolic_bounds_of_slices_are_limited(
    name: str, opened: str, tmp_path: Path
) -> None:
    for at, (size, others) in enumerate(SIZES):
        x = RNG.normal(size=size).astype("float32")
        y = np.zeros(others, "float32")
        if at == 0 or opened == "y":
            whole = [None, None] if opened == "both" else list(size)
            spec = [InputSpec(whole, "float32", "x"), InputSpec([None] * 2, name="y")]
            save(Sliced(KEYS[name]), tmp_path / "net", input_spec=spec)
            net = proa.jit.load(str(tmp_path / "net"))
        got, copied = net(proa.to_tensor(x), proa.to_tensor(y))
        key = KEYS[name](*others)
        want = np.zeros_like(x)
        want[key] = x[key] * 2
        np.testing.assert_array_equal(got.numpy(), x[key])
        np.testing.assert_array_equal(copied.numpy(), want)


def before_limits(content: bytes) -> bytes:
    """The file as it was before `sized` got its last attribute, as FORMAT.md has it."""
    raw = bytearray(content)
    graph = 8 + int.from_bytes(raw[:8], "little")
    sized = list(operator_versions(content)).index("sized")
    nodes, count = struct.unpack_from("<II", raw, graph + 64)
    for node in range(graph + nodes, graph + nodes + 32 * count, 32):
        if struct.unpack_from("<I", raw, node) == (sized,):
            assert struct.unpack_from("<I", raw, node + 24) == (6 * 72,)
            struct.pack_into("<I", raw, node + 24, 5 * 72)
    struct.pack_into("<I", raw, graph + 32, 0)
    struct.pack_into("<I", raw, graph + 32, zlib.crc32(raw))
    return bytes(raw)


def test_files_from_before_limits_load(tmp_path: Path) -> None:
    spec = [InputSpec([None, None, 4], "float32")]
    save(to_static(extended, input_spec=spec), str(tmp_path / "new"))
    content = (tmp_path / "new.proa").read_bytes()
    older = before_limits(content)
    assert older != content
    (tmp_path / "old.proa").write_bytes(older)
    old = proa.jit.load(str(tmp_path / "old"))
    for shape in ((1, 2, 4), (3, 5, 4)):
        x = proa.to_tensor(RNG.normal(size=shape).astype("float32"))
        np.testing.assert_array_equal(old(x).numpy(), extended(x).numpy())


def test_gradients_flow_through_a_limited_slice() -> None:
    f = to_static(lambda x, y: x[:, : y.shape[0]], input_spec=[
        InputSpec([None, None], name="x"), InputSpec([None], name="y")])  # fmt: skip
    for n in (2, 7):
        x = proa.ones([3, 4])
        x.stop_gradient = False
        f(x, proa.zeros([n])).sum().backward()
        want = np.broadcast_to(np.arange(4) < n, (3, 4)).astype("float32")
        np.testing.assert_array_equal(x.grad.numpy(), want)


@pytest.mark.parametrize("step", [0, None])
def test_slices_with_symbolic_bounds_need_a_known_step(step: int | None) -> None:
    def function(x: Any) -> Any:
        n = x.shape[0]
        return x[: n // 2 : n if step is None else step]

    with pytest.raises(InvalidArgumentError, match="step"):
        to_static(function, input_spec=[InputSpec([None])])(proa.ones([4]))
