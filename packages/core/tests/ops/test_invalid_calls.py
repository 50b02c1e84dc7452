"""Whatever an op is called with, it answers or raises: it never ends the process."""

from __future__ import annotations

import math
import random
import resource
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import proa
from proa import _core
from proa.schema import ROWS, Attribute

CALLS = 120
GROUPS = 6
DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float64",
    "complex64", "complex128", *["float32"] * 8,
]  # fmt: skip


def an_array(r: random.Random, like: tuple[int, ...] | None) -> proa.Tensor:
    shape = like
    if like is None or r.random() < 0.5:
        shape = tuple(r.choice([0, 1, 1, 2, 3, 4, 5]) for _ in range(r.randint(0, 5)))
    dtype = r.choice(DTYPES)
    a = np.random.default_rng(r.randint(0, 1 << 30)).integers(-3, 6, shape)
    x = proa.to_tensor(np.asarray(a).astype(dtype))
    if r.random() < 0.2 and len(shape) > 1:
        x = proa.transpose(x, list(range(len(shape)))[::-1])
    if r.random() < 0.3 and "float" in dtype:
        x.stop_gradient = False
    return x


def an_attribute(r: random.Random, a: Attribute, rank: int) -> Any:
    numbers = [0, 1, 1, 2, 3, -1, -2, 5, 100, 1 << 33, 1 << 62, -(1 << 62)]
    if a.type == "ints":
        count = r.choice([rank, 1, 2, 3, 4, 2 * rank])
        return [r.choice(numbers[: r.choice([6, 9, 12])]) for _ in range(count)][:8]
    choices: dict[str, list[Any]] = {
        "int": numbers,
        "float": [0.0, 1.0, -1.0, 0.5, math.inf, math.nan, 1e30],
        "bool": [True, False],
        "scalar": [0, 1, -1, 2.5, math.nan, 1 << 62],
        "dtype": [*DTYPES, "bfloat16"],
        "choice": list(a.choices),
    }
    return r.choice(choices[a.type])


def call(name: str, r: random.Random) -> None:
    """One call with random arguments, and a backward pass if it has one."""
    row, args, like = ROWS[name], [], None
    for array in row.arrays:
        count = r.randint(0, 4) if array.variadic else 1
        for _ in range(count):
            if array.optional and r.random() < 0.4:
                args.append(None)
                continue
            x = an_array(r, like)
            like = like or tuple(x.shape)
            args.append(x)
    keywords = {
        a.name: an_attribute(r, a, len(like or ()))
        for a in row.attributes
        if a.required or r.random() < 0.5
    }
    if name in ("full", "arange", "eye"):  # would fill all the memory there is
        keywords = {k: v for k, v in keywords.items() if k in ("dtype", "value")}
    try:
        result = getattr(_core.ops, name)(*args, **keywords)
        for out in result if isinstance(result, tuple) else (result,):
            if not out.stop_gradient:
                out.backward(proa.ones(out.shape, out.dtype))
                break
    except (ValueError, TypeError, IndexError, RuntimeError, MemoryError):
        pass  # NotImplementedError is a RuntimeError


def main(group: int) -> None:
    """Calls of every op of the group; the last line names the op being called."""
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    for name in list(ROWS)[group::GROUPS]:
        print(name, flush=True)
        for i in range(CALLS):
            call(name, random.Random(f"{name} {i}"))


@pytest.mark.full
@pytest.mark.fuzz
@pytest.mark.parametrize("group", range(GROUPS))
def test_no_call_ends_the_process(group):
    done = subprocess.run(
        [sys.executable, __file__, str(group)],
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stdout.splitlines()[-1] if done.stdout else "the import"
    assert done.returncode == 0, f"{last}: {done.stderr[-2000:]}"


if __name__ == "__main__":
    main(int(sys.argv[1]))
