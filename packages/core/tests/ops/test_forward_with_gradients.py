"""A forward value is the same bits whether a gradient is requested or not.

Rows that are differentiated through their composite run it then, so they are left out:
gradients of fused ops, which so differ by rounding between first and higher orders.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import proa
import proa.nn.functional as F
from proa.schema import ROWS
from proa.schema.row import COMPOSITE

from . import samples
from .sample import SAMPLES, Case, Sample
from .sample_runner import draw, run, runs_of, tensor_of

samples.load()

DTYPES = ("bfloat16", "float16", "float32", "float64")


def mark(dtype: str) -> tuple[pytest.MarkDecorator, ...]:
    """By default the dtype that rounds most and the commonest one run."""
    return () if dtype in ("bfloat16", "float32") else (pytest.mark.full,)


def flat(result: Any) -> Iterator[proa.Tensor]:
    if isinstance(result, proa.Tensor):
        yield result
    elif isinstance(result, (list, tuple)):
        for part in result:
            yield from flat(part)


def bits(result: Any) -> list[tuple[str, list[int], bytes]]:
    return [
        (str(t.dtype), list(t.shape), t.detach().contiguous().numpy().tobytes())
        for t in flat(result)
    ]


def with_gradient(x: Any) -> Any:
    if isinstance(x, proa.Tensor) and (x.dtype.is_floating or x.dtype.is_complex):
        x = x.detach()
        x.stop_gradient = False
    return x


def plain_and_taped(call: Callable[..., Any], arrays: list[Any]) -> tuple[Any, Any]:
    """Bits without a gradient requested, and with one."""
    found = []
    for change in (lambda x: x, with_gradient):
        proa.seed(5)
        found.append(bits(call(*map(change, arrays))))
    return found[0], found[1]


@pytest.mark.parametrize(
    ("sample", "dtype", "case"),
    [
        pytest.param(s, d, c, id=f"{s.name}-{d}-{i}", marks=mark(d))
        for s in SAMPLES.values()
        if ROWS[s.name].grad not in (None, COMPOSITE) and not ROWS[s.name].mutates
        for i, (d, c) in enumerate(runs_of(s, s.cases))
        if d in (*DTYPES, "complex64")
    ],
)
def test_an_op_has_the_same_bits(sample: Sample, dtype: str, case: Case) -> None:
    arrays = [tensor_of(a, dtype) for a in draw(sample, case, dtype)]
    plain, taped = plain_and_taped(
        lambda *t: run(ROWS[sample.name], list(t), case.attrs), arrays
    )
    assert plain == taped


#: Functions that write: files, settings, their own argument.
WRITING = {"save", "load", "set_printoptions", "summary", "flops", "increment"}


def public_functions() -> Iterator[Any]:
    modules = {"proa": proa, "F": F, "linalg": proa.linalg, "fft": proa.fft}
    for prefix, module in modules.items():
        for name in sorted(getattr(module, "__all__", dir(module))):
            function = getattr(module, name)
            is_function = callable(function) and not inspect.isclass(function)
            if name[0] == "_" or name[-1] == "_" or name in WRITING or not is_function:
                continue
            yield pytest.param(function, id=f"{prefix}.{name}")


SHAPES = ((4, 6), (3, 3), (6,), (2, 3, 8), (2, 3, 6, 6), (2, 3, 4, 4, 4))


@pytest.mark.parametrize(
    "dtype", [pytest.param(d, marks=mark(d), id=d) for d in DTYPES]
)
@pytest.mark.parametrize("function", list(public_functions()))
def test_a_function_of_tensors_has_the_same_bits(function: Any, dtype: str) -> None:
    rng = np.random.default_rng(3)
    for shape in SHAPES:
        given = [
            proa.to_tensor(rng.uniform(0.1, 0.9, shape)).astype(dtype) for _ in range(3)
        ]
        for arrays in (given[:1], given[:2], given):
            try:
                function(*arrays)
            except Exception:  # not what it takes
                continue
            plain, taped = plain_and_taped(function, arrays)
            assert plain == taped, (shape, len(arrays))


def image(dtype: str, *shape: int) -> proa.Tensor:
    a = np.random.default_rng(len(shape)).normal(size=shape)
    return proa.to_tensor(a).astype(dtype)


CALLS: dict[str, Callable[[str], tuple[Callable[..., Any], list[Any]]]] = {
    "cumprod": lambda d: (lambda x: proa.cumprod(x, 1), [image(d, 5, 64)]),
    "cumprod flat": lambda d: (proa.cumprod, [image(d, 5, 64)]),
    "cumsum": lambda d: (lambda x: proa.cumsum(x, 1), [image(d, 5, 64)]),
    "logcumsumexp": lambda d: (lambda x: proa.logcumsumexp(x, 1), [image(d, 5, 64)]),
    "prod": lambda d: (lambda x: proa.prod(x, 1), [image(d, 5, 64)]),
    "conv2d": lambda d: (
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        [image(d, 2, 16, 9, 9), image(d, 24, 16, 3, 3), image(d, 24)],
    ),
    "depthwise": lambda d: (
        lambda x, w: F.conv2d(x, w, padding=1, groups=16),
        [image(d, 2, 16, 9, 9), image(d, 16, 1, 3, 3)],
    ),
    "conv2d_transpose": lambda d: (
        lambda x, w: F.conv2d_transpose(x, w, stride=2),
        [image(d, 2, 6, 5, 5), image(d, 6, 4, 3, 3)],
    ),
    "linear": lambda d: (F.linear, [image(d, 7, 40), image(d, 40, 24), image(d, 24)]),
    "matmul": lambda d: (proa.matmul, [image(d, 3, 17, 40), image(d, 3, 40, 24)]),
    "batch_norm": lambda d: (
        lambda x, w, b: F.batch_norm(
            x, proa.zeros([6]), proa.ones([6]), w, b, training=True
        ),
        [image(d, 4, 6, 5, 5), image(d, 6), image(d, 6)],
    ),
    "layer_norm": lambda d: (
        lambda x, w, b: F.layer_norm(x, [40], w, b),
        [image(d, 7, 40), image(d, 40), image(d, 40)],
    ),
    "group_norm": lambda d: (
        lambda x: F.group_norm(x, 3), [image(d, 2, 6, 5, 5)]
    ),
    "attention": lambda d: (
        F.scaled_dot_product_attention, [image(d, 2, 9, 3, 16)] * 3
    ),
    "dropout": lambda d: (lambda x: F.dropout(x, 0.4), [image(d, 7, 40)]),
    "cross_entropy": lambda d: (
        lambda x: F.cross_entropy(x, proa.arange(7)), [image(d, 7, 40)]
    ),
    "interpolate": lambda d: (
        lambda x: F.interpolate(x, [7, 9], mode="bilinear"), [image(d, 2, 3, 5, 5)]
    ),
    "embedding": lambda d: (
        lambda w: F.embedding(proa.to_tensor([[1, 0, 3]]), w), [image(d, 5, 40)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_has_the_same_bits(name: str, dtype: str) -> None:
    call, arrays = CALLS[name](dtype)
    plain, taped = plain_and_taped(call, arrays)
    assert plain == taped
