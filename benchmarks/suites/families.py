"""A call or two of each family of kernels, next to torch: `csrc/portable/kernels/`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from harness import Case, Work

import proa
import proa.nn.functional as F
from proa import nn
from proa.runtime import operators as ops

#: The contenders of each call, by its name. They return what can be compared.
Calls = dict[str, dict[str, Work]]


def _pair(torch: Any, *arrays: np.ndarray) -> tuple[list[Any], list[Any]]:
    """The arrays as our tensors, and as theirs."""
    theirs = [] if torch is None else [torch.from_numpy(a) for a in arrays]
    return [proa.to_tensor(a) for a in arrays], theirs


def _call(
    torch: Any, ours: Callable[..., Any], theirs: Callable[..., Any],
    *arrays: np.ndarray,
) -> dict[str, Work]:  # fmt: skip
    """One call of the arrays by both."""
    own, other = _pair(torch, *arrays)
    contenders: dict[str, Work] = {"proa": lambda: ours(*own)}
    if torch is not None:
        contenders["torch"] = lambda: theirs(*other)
    return contenders


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def attention(torch: Any) -> Calls:
    """8 heads of 64, over sequences of 256."""

    def theirs(q: Any, k: Any, v: Any) -> Any:
        # (batch, places, heads, 64) -> (batch, heads, places, 64)
        each = [x.transpose(1, 2) for x in (q, k, v)]
        done = torch.nn.functional.scaled_dot_product_attention(*each)
        return done.transpose(1, 2)

    q, k, v = _normal(3, 2, 256, 8, 64)
    ours = F.scaled_dot_product_attention
    return {"scaled_dot_product_attention": _call(torch, ours, theirs, q, k, v)}


def conv(torch: Any) -> Calls:
    """The suite `conv` has more."""
    x, w = _normal(4, 64, 28, 28), _normal(64, 64, 3, 3)
    return {
        "conv2d": _call(
            torch, lambda x, w: F.conv2d(x, w, padding=1),
            lambda x, w: torch.nn.functional.conv2d(x, w, padding=1), x, w,
        )
    }  # fmt: skip


def creation(torch: Any) -> Calls:
    """A million numbers."""
    n = 1_000_000
    return {
        "arange": _call(torch, lambda: proa.arange(n), lambda: torch.arange(n)),
        "full": _call(torch, lambda: proa.full([n], 0.5), lambda: torch.full([n], 0.5)),
    }


def elementwise(torch: Any) -> Calls:
    """A million numbers."""
    x, y = _normal(2, 1000, 1000)
    return {
        "add": _call(torch, lambda x, y: x + y, lambda x, y: x + y, x, y),
        "exp": _call(torch, lambda x: x.exp(), lambda x: x.exp(), x),
        "gelu": _call(torch, F.gelu, lambda x: torch.nn.functional.gelu(x), x),
    }


def fft(torch: Any) -> Calls:
    """256 rows of 1024."""
    x = _normal(256, 1024)
    return {"rfft": _call(torch, proa.fft.rfft, lambda x: torch.fft.rfft(x), x)}


def index(torch: Any) -> Calls:
    """Rows of a table."""
    x = _normal(10_000, 128)
    rows = np.random.default_rng(0).integers(0, 10_000, 20_000)
    ours, theirs = proa.index_select, lambda x, i: torch.index_select(x, 0, i)
    return {"index_select": _call(torch, ours, theirs, x, rows)}


def linalg(torch: Any) -> Calls:
    """A matrix of 256 x 256."""
    x = _normal(256, 256)
    definite = x @ x.T + 256 * np.eye(256, dtype=np.float32)
    return {
        "cholesky": _call(
            torch, proa.linalg.cholesky, lambda a: torch.linalg.cholesky(a), definite
        ),
        "solve": _call(
            torch, proa.linalg.solve, lambda a, b: torch.linalg.solve(a, b), definite, x
        ),
    }


def linear(torch: Any) -> Calls:
    """The suite `kernel` has more."""
    x, y = _normal(2, 512, 512)
    return {"matmul": _call(torch, proa.matmul, lambda x, y: x @ y, x, y)}


def loss(torch: Any) -> Calls:
    """A thousand classes."""
    x = _normal(512, 1000)
    labels = np.random.default_rng(0).integers(0, 1000, 512)
    return {
        "softmax": _call(torch, F.softmax, lambda x: torch.softmax(x, -1), x),
        "cross_entropy": _call(
            torch, F.cross_entropy,
            lambda x, y: torch.nn.functional.cross_entropy(x, y), x, labels,
        ),
    }  # fmt: skip


def movement(torch: Any) -> Calls:
    """A million numbers."""
    x, y = _normal(2, 1000, 1000)
    return {
        "transpose": _call(
            torch, lambda x: x.transpose([1, 0]).contiguous(),
            lambda x: x.T.contiguous(), x,
        ),
        "concat": _call(
            torch, lambda x, y: proa.concat([x, y], 1),
            lambda x, y: torch.cat([x, y], 1), x, y,
        ),
    }  # fmt: skip


def norm(torch: Any) -> Calls:
    """Rows of 768 features."""
    x, w, b = _normal(512, 768), _normal(768), _normal(768)
    return {
        "layer_norm": _call(
            torch, lambda x, w, b: F.layer_norm(x, [768], w, b),
            lambda x, w, b: torch.nn.functional.layer_norm(x, [768], w, b), x, w, b,
        )
    }  # fmt: skip


def optimizer(torch: Any) -> Calls:
    """A step on a million numbers."""
    start, slope = _normal(2, 1_000_000)
    own = proa.create_parameter([1_000_000], "float32")
    own.set_value(start)
    own.grad = proa.to_tensor(slope)
    ours = proa.optimizer.Adam(1e-3, parameters=[own])

    def step() -> Any:
        ours.step()
        return own

    contenders: dict[str, Work] = {"proa": step}
    if torch is not None:
        other = torch.nn.Parameter(torch.from_numpy(start.copy()))
        other.grad = torch.from_numpy(slope)
        theirs = torch.optim.Adam([other], 1e-3)

        def their_step() -> Any:
            theirs.step()
            return other.detach()

        contenders["torch"] = their_step
    return {"adam": contenders}


def pool(torch: Any) -> Calls:
    """Images of 112 x 112."""
    x = _normal(2, 64, 112, 112)
    return {
        "max_pool2d": _call(
            torch, lambda x: F.max_pool2d(x, 3, 2, 1),
            lambda x: torch.nn.functional.max_pool2d(x, 3, 2, 1), x,
        )
    }  # fmt: skip


def quant(torch: Any) -> Calls:
    """A million numbers to int8."""
    x, step = _normal(1000, 1000), proa.to_tensor(np.float32([0.03125]))

    def theirs(x: Any) -> Any:
        return (x / 0.03125).round().clamp(-127, 127).to(torch.int8)

    return {
        "quantize": _call(torch, lambda x: ops.quantize(x, step, axis=0), theirs, x)
    }


def rand(torch: Any) -> Calls:
    """A million numbers; of each library's own stream."""
    shape = [1000, 1000]
    return {
        "uniform": _call(torch, lambda: proa.rand(shape), lambda: torch.rand(shape)),
        "normal": _call(torch, lambda: proa.randn(shape), lambda: torch.randn(shape)),
    }


def recurrent(torch: Any) -> Calls:
    """An LSTM of 128 over 32 steps of 16 samples."""
    layer, x = nn.LSTM(128, 128), _normal(16, 32, 128)
    own = proa.to_tensor(x)
    contenders: dict[str, Work] = {"proa": lambda: layer(own)[0].detach()}
    if torch is not None:
        peer = torch.nn.LSTM(128, 128, batch_first=True)
        for theirs, ours in zip(peer.parameters(), layer.parameters(), strict=True):
            theirs.data = torch.from_numpy(ours.numpy())
        other = torch.from_numpy(x)
        contenders["torch"] = lambda: peer(other)[0].detach()
    return {"lstm": contenders}


def reduce(torch: Any) -> Calls:
    """A million numbers."""
    x = _normal(1000, 1000)
    return {
        "sum of rows": _call(torch, lambda x: x.sum(1), lambda x: x.sum(1), x),
        "sum of columns": _call(torch, lambda x: x.sum(0), lambda x: x.sum(0), x),
        "argmax": _call(torch, lambda x: x.argmax(1), lambda x: x.argmax(1), x),
    }


def sampling(torch: Any) -> Calls:
    """Images of twice the size."""
    x = _normal(2, 32, 56, 56)
    return {
        "interpolate": _call(
            torch, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
            lambda x: torch.nn.functional.interpolate(
                x, scale_factor=2.0, mode="bilinear"
            ), x,
        )
    }  # fmt: skip


def sort(torch: Any) -> Calls:
    """Rows of 1000."""
    x = _normal(1000, 1000)
    return {"sort": _call(torch, proa.sort, lambda x: x.sort().values, x)}


#: By the name of the folder that has the kernels.
FAMILIES: dict[str, Callable[[Any], Calls]] = {
    call.__name__: call
    for call in (
        attention, conv, creation, elementwise, fft, index, linalg, linear, loss,
        movement, norm, optimizer, pool, quant, rand, recurrent, reduce, sampling, sort,
    )
}  # fmt: skip


def cases(torch: Any) -> Iterator[Case]:
    """Every family, in the order of their names."""
    for name, family in FAMILIES.items():
        for call, contenders in family(torch).items():
            yield Case(f"{name}: {call}", contenders)
