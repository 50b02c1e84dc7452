"""A library written for the standard computes with Tensors what it does with arrays."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy

import proa
from proa import array_api as xp

PROGRAM = """
import numpy as np
import proa
from scipy import cluster, fft, integrate, special, stats

a = np.random.default_rng(0).normal(size=(50, 4))
x = proa.array_api.asarray(a)
functions = {
    "logsumexp": lambda t: special.logsumexp(t, axis=1),
    "softmax": lambda t: special.softmax(t, axis=1),
    "fft": lambda t: fft.fft(t),
    "whiten": lambda t: cluster.vq.whiten(t),
    "trapezoid": lambda t: integrate.trapezoid(t),
    "skew": lambda t: stats.skew(t),
    "kurtosis": lambda t: stats.kurtosis(t),
    "zscore": lambda t: stats.zscore(t),
}
for name, function in functions.items():
    found = function(x)
    assert isinstance(found, proa.Tensor), name
    np.testing.assert_allclose(found.numpy(), function(a), rtol=1e-12, err_msg=name)
"""


@pytest.mark.skipif(
    tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 16),
    reason="older SciPy has fewer functions of the standard",
)
def test_functions_of_scipy_take_tensors() -> None:
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_recorded_function_uses_the_namespace() -> None:
    @proa.jit.to_static
    def softmax(x: proa.Tensor) -> proa.Tensor:
        names = x.__array_namespace__()
        e = names.exp(x - names.max(x, axis=-1, keepdims=True))
        total: proa.Tensor = e / names.sum(e, axis=-1, keepdims=True)
        return total

    a = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    e = np.exp(a - a.max(-1, keepdims=True))
    found = softmax(proa.to_tensor(a)).numpy()
    np.testing.assert_allclose(found, e / e.sum(-1, keepdims=True), rtol=1e-6)


def test_shapes_are_members_of_sets() -> None:
    shapes = {xp.ones((2, 3)).shape, (2, 3), xp.zeros((2, 3)).shape, (3, 2)}
    assert len(shapes) == 2 and {(2, 3): 1}[xp.ones((2, 3)).shape] == 1


def test_where_takes_numbers() -> None:
    condition, x = xp.asarray([True, False]), xp.asarray([1, 2], dtype="int8")
    assert xp.where(condition, x, 7).tolist() == [1, 7]
    assert xp.where(condition, x, 7).dtype == xp.int8
    assert xp.where(condition, 0.5, xp.asarray([1.0, 2.0])).tolist() == [0.5, 2.0]
