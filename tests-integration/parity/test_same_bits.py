"""A hundred runs of each precision: any thread count, clone and place in a batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import proa
import proa_lite
from proa.runtime import multiplies_bfloat16
from proa_inference import Config, Predictor, create_predictor

from .test_one_file import CASES, batch, built, quantized

ROWS = 5


def predictors_of(path: Path, bf16: bool) -> list[Predictor]:
    """On one thread, on two, on the pool of the process, and a clone."""
    results = []
    for threads in (1, 2, 0):
        config = Config(path)
        config.set_cpu_math_library_num_threads(threads)
        if bf16:
            config.enable_bf16()
        results.append(create_predictor(config))
    return [*results, results[1].clone()]


def check_same_bits(predictors: list[Predictor], x: np.ndarray) -> np.ndarray:
    (want,) = predictors[0].run([x])
    for i in range(100):
        place = i // 4 % ROWS
        (got,) = predictors[i % 4].run([np.roll(x, place, axis=0)])
        assert np.roll(got, -place, axis=0).tobytes() == want.tobytes(), i
    return want


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_hundred_runs_give_the_same_bits(name: str, precision: str, tmp_path: Path):
    if precision == "bfloat16" and not multiplies_bfloat16():
        pytest.skip("needs a CPU that multiplies bfloat16")
    network, shape, spec = built(name)
    path = tmp_path / f"{name}.proa"
    proa.jit.save(network, str(path), spec)
    predictors = predictors_of(path, precision == "bfloat16")
    check_same_bits(predictors, batch(ROWS, shape))


@pytest.mark.parametrize("name", CASES)
def test_a_hundred_int8_runs_give_the_bits_of_slim_and_lite(name: str, tmp_path: Path):
    network, shape, spec = built(name)
    model = quantized(network, shape, spec)
    path = tmp_path / f"{name}.int8.proa"
    model.save(path)
    x = batch(ROWS, shape)
    want = check_same_bits(predictors_of(path, bf16=False), x)
    if name == "encoder":
        return  # its float32 operators round otherwise where passes fuse them
    lite = proa_lite.create_predictor(proa_lite.Config(path))
    assert model(x).tobytes() == want.tobytes()
    assert lite.run([x])[0].tobytes() == want.tobytes()
    for i in range(ROWS):
        assert model(x[i : i + 1]).tobytes() == want[i : i + 1].tobytes()
        assert lite.run([x[i : i + 1]])[0].tobytes() == want[i : i + 1].tobytes()
