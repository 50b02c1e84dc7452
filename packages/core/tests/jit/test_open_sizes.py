"""Sizes that are open while a graph is recorded, in shapes and sums."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, UnimplementedError
from proa.jit import InputSpec, save, to_static

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


def positions(x: Any) -> Any:
    length = x.shape[1]
    return (
        x
        + proa.arange(length, dtype="float32").unsqueeze(-1)
        + proa.arange(1, 2 * length + 1, 2).astype("float32").unsqueeze(-1)
    )


def made(x: Any) -> Any:
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


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    f.__name__: f for f in (heads, merged, rest, positions, made, mixed, sliced)
}


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_a_recorded_function_does_what_it_does_eagerly(
    name: str, tmp_path: Path
) -> None:
    function = FUNCTIONS[name]
    spec = [InputSpec([None, None, 4], "float32")]
    save(to_static(function, input_spec=spec), str(tmp_path / "open"))
    loaded = proa.jit.load(str(tmp_path / "open"))
    for shape in [(1, 2, 4), (3, 6, 4), (2, 4, 4), (0, 2, 4)]:
        x = proa.to_tensor(RNG.standard_normal(shape).astype(np.float32))
        if name in ("merged", "mixed", "rest") and 0 in shape:
            continue  # the mean of nothing, and -1 where any number would fit
        np.testing.assert_array_equal(loaded(x).numpy(), function(x).numpy())


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda x: x / (x.shape[0] / 2), UnimplementedError),
        (lambda x: x.reshape([x.shape[0] // x.shape[1], -1]), UnimplementedError),
        (lambda x: proa.tile(x, [x.shape[0], 1, 1]), InvalidArgumentError),
        (lambda x: proa.arange(0, x.shape[0], 0.5), InvalidArgumentError),
    ],
)
def test_what_open_sizes_cannot_do_is_refused(
    function: Callable[[Any], Any], error: type[Exception], tmp_path: Path
) -> None:
    spec = [InputSpec([None, None, 4], "float32")]
    with pytest.raises(error, match="open"):
        save(to_static(function, input_spec=spec), str(tmp_path / "open"))


def test_an_open_size_is_minus_one_in_comparisons() -> None:
    seen = []

    def function(x: Any) -> Any:
        seen.append((x.shape[0] == -1, x.shape[1] == 4, list(x.shape) == [-1, 4]))
        return x

    to_static(function, input_spec=[InputSpec([None, 4])])(proa.ones([2, 4]))
    assert seen[-1] == (True, True, True)
