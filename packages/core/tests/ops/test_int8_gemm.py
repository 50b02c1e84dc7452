"""Int8 products are exact, whatever the layout of the weights."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import proa
from proa import _core

from ..threads import num_threads

RNG = np.random.default_rng(1)
LAYOUTS = {
    "outputs are neighbours": lambda w: proa.to_tensor(w),
    "steps are neighbours": lambda w: proa.to_tensor(w.T.copy()).transpose([1, 0]),
    "part of a matrix": lambda w: proa.to_tensor(np.hstack([w, w]))[:, : w.shape[1]],
    "flipped": lambda w: proa.to_tensor(w[::-1].copy()).flip(0),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("k", [1, 3, 4, 17, 64, 263])
@pytest.mark.parametrize("n", [1, 5, 48, 63, 64, 200])
def test_every_layout_of_weights_has_exact_sums(layout: str, k: int, n: int) -> None:
    x = RNG.integers(-127, 128, (5, k), dtype=np.int8)
    w = RNG.integers(-127, 128, (k, n), dtype=np.int8)
    y = _core.ops.linear_int8(
        proa.to_tensor(x), LAYOUTS[layout](w), proa.ones([n]), None, out_scale=1.0,
        dtype="float32",
    )  # fmt: skip
    np.testing.assert_array_equal(y.numpy(), x.astype("int64") @ w.astype("int64"))


@pytest.mark.parametrize("rows", [1, 150, 500])
def test_weights_larger_than_caches_have_exact_sums_for_any_thread_count(
    rows: int,
) -> None:
    x = RNG.integers(-127, 128, (rows, 1500), dtype=np.int8)
    w = RNG.integers(-127, 128, (1500, 900), dtype=np.int8)
    tensors = proa.to_tensor(x), proa.to_tensor(w), proa.ones([900])
    want = x.astype("float64") @ w.astype("float64")
    for threads in (1, 3):
        with num_threads(threads):
            y = _core.ops.linear_int8(*tensors, None, out_scale=1.0, dtype="float32")
        np.testing.assert_array_equal(y.numpy(), want)


@pytest.mark.skipif("PROA_AMX" in os.environ, reason="started by this test itself")
@pytest.mark.parametrize("amx", ["off", "emulate"])
def test_the_same_with_other_paths_of_products(amx: str) -> None:
    tests = [__file__, str(Path(__file__).with_name("test_int8_ends.py"))]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        env={**os.environ, "PROA_AMX": amx},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
