"""Calls of two tasks on two threads and on one, for each task size of the kernels.

A size is right where two threads take clearly less than one and half of it would no
longer gain: `packages/core/csrc/portable/base/task_size.h` holds the sizes and what was
measured. Run it with ``--threads 2``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from harness import Case, Work

import proa
import proa.nn.functional as F
from proa.runtime import call_operator

RNG = np.random.default_rng(0)
#: Seconds that a contender's calls take.
SLICE = 0.02


def _normal(*shape: int) -> Any:
    return proa.to_tensor(RNG.standard_normal(shape, np.float32))


def _int8(*shape: int) -> Any:
    return proa.to_tensor(RNG.integers(-99, 99, shape, np.int8))


def _seconds(call: Callable[[], object], threads: int) -> float:
    """Seconds of one call; the pool has so many threads, which are awake."""
    proa.set_num_threads(threads)
    begin = time.perf_counter()
    count = 0
    while time.perf_counter() - begin < SLICE / 4:
        call()
        count += 1
    repeats = max(4 * count, 1)
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begin) / repeats


def _depthwise(size: int) -> Callable[[], object]:
    x, w = _normal(1, 32, size, size), _normal(32, 1, 3, 3)
    return lambda: F.conv2d(x, w, padding=1, groups=32)


def _depthwise_int8(size: int) -> Callable[[], object]:
    x, w, scale = _int8(1, 64, size, size), _int8(64, 1, 3, 3), _normal(64)
    how = {"padding": [1, 1, 1, 1], "groups": 64, "out_scale": 1.0, "dtype": "int8"}
    return lambda: call_operator("conv2d_int8", x, w, scale, None, **how)


def _recurrence(rows: int) -> Callable[[], object]:
    a, x = (proa.to_tensor(RNG.uniform(0.1, 0.9, (rows, 512))) for _ in range(2))
    return lambda: call_operator("linear_recurrence", a, x, axis=1)


def _prod_grad(rows: int) -> Callable[[], object]:
    x = _normal(rows, 64)
    y, dy = proa.prod(x, axis=1), _normal(rows)
    return lambda: call_operator("prod_grad", dy, y, x, axis=[1])


def _norm(*shape: int) -> Callable[[], object]:
    x, each = _normal(*shape), [_normal(shape[1]) for _ in range(3)]
    variance = proa.abs(each[0]) + 0.1
    return lambda: call_operator("batch_norm_infer", x, *each, variance)


def _calls() -> Iterator[tuple[str, Callable[[], object]]]:
    for size in (14, 28, 56, 112):
        yield f"depthwise 3x3, 32 channels, {size}x{size}", _depthwise(size)
    for size in (14, 28, 56):
        yield f"int8 depthwise 3x3, 64 channels, {size}x{size}", _depthwise_int8(size)
    for rows in (32, 64, 128):
        a, b = (proa.ones([n, 64], "int64") for n in (rows, 64))
        yield f"integer product {rows}x64x64", lambda a=a, b=b: proa.matmul(a, b)
    for rows in (16, 32, 64, 128):
        x = _normal(rows, 256)
        yield f"logsumexp {rows}x256", lambda x=x: proa.logsumexp(x, axis=1)
        down = _normal(256, rows)
        yield f"logsumexp 256x{rows} down", lambda x=down: proa.logsumexp(x, axis=0)
        x = _normal(rows, 256)
        yield f"softmax {rows}x256", lambda x=x: F.softmax(x)
        yield f"layer norm {rows}x256", lambda x=x: F.layer_norm(x, 256)
    for rows in (8, 16, 32):
        yield f"linear recurrence {rows}x512", _recurrence(rows)
    for rows in (32, 64, 128, 256):
        yield f"prod backward {rows}x64", _prod_grad(rows)
    for count in (16384, 32768, 65536):
        yield f"uniform {count}", lambda n=count: proa.rand([n])
    for size in (16, 32, 64):
        yield f"batch norm 4x32x{size}x{size}", _norm(4, 32, size, size)
    for k in (256, 1024, 4096):
        x, w = _normal(1, k), _normal(k, k)
        yield f"product 1x{k}x{k}", lambda x=x, w=w: proa.matmul(x, w)


def cases(torch: Any) -> Iterator[Case]:
    """On all threads, and on one."""
    threads = proa.get_num_threads()
    for name, call in _calls():
        contenders: dict[str, Work] = {
            "proa": lambda call=call: _seconds(call, threads),
            "one thread": lambda call=call: _seconds(call, 1),
        }
        yield Case(name, contenders, rounds=5, returns_seconds=True)
