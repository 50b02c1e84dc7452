"""Predictors on models with branches and loops."""

import threading

import numpy as np
import pytest
from inference_models import B1, W3, loop, write_loop

from proa.errors import InvalidArgumentError
from proa_inference import Config, PredictorPool, create_predictor
from proa_inference.bench import time_runs
from proa_inference.cli import main


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_loop(tmp_path_factory.mktemp("models") / "loop.proa")


@pytest.fixture(params=[True, False], ids=["passes", "plain"])
def predictor(path, request):
    config = Config(path)
    config.switch_ir_optim(request.param)
    return create_predictor(config)


def rows(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 8)).astype(np.float32)


def check(outputs, x, n):
    got, rounds = outputs
    assert rounds == n
    want = loop(x, n)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [0, 1, 9])
def test_rounds_and_shapes_follow_the_input(predictor, n):
    for count in (1, 3):
        x = rows(count, seed=n)
        check(predictor.run([x, np.array(n)]), x, n)


def test_branches_of_both_sorts_are_taken(predictor):
    big = np.full((1, 8), 3, np.float32)
    sums = [
        (loop(x, 1)[-1].sum(), np.maximum(x[-1] @ W3 + B1, 0).sum())
        for x in (big, -big)
    ]
    assert [a < b for a, b in sums] == [True, False]
    for x in (big, -big):
        check(predictor.run([x, np.array(3)]), x, 3)


def test_handles_have_shapes_after_the_run(predictor):
    x = rows(2)
    predictor.get_input_handle("x").copy_from_cpu(x)
    predictor.get_input_handle("n").copy_from_cpu(np.array(3))
    name, count = predictor.get_output_names()
    handle = predictor.get_output_handle(name)
    assert handle.shape() == [-1, 8]
    predictor.run()
    assert handle.shape() == [5, 8]
    check([predictor.get_output_handle(o).copy_to_cpu() for o in (name, count)], x, 3)


def test_a_pool_runs_in_threads_of_its_own(path):
    pool, failed = PredictorPool(Config(path), 3), []

    def work(i):
        try:
            for n in (0, 2, 5, 3):
                x = rows(1 + i, seed=i)
                check(pool.retrieve(i).run([x, np.array(n)]), x, n)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_wrong_inputs_are_named_and_runs_go_on(predictor):
    with pytest.raises(InvalidArgumentError, match="input 'x' must have shape"):
        predictor.run([rows(2)[:, :7], np.array(1)])
    check(predictor.run([rows(2), np.array(1)]), rows(2), 1)


def test_memory_and_times_are_reported(predictor, path, tmp_path, capsys):
    timing = time_runs(predictor, [rows(1), np.array(2)], runs=3, warmup=1)
    assert timing.p50_ms > 0
    assert predictor.memory()["model"] > 0
    assert predictor.memory()["arena"] > 0
    assert main(["inspect", str(path)]) == 0
    assert "loop" in capsys.readouterr().out
    out = tmp_path / "optimized.proa"
    assert main(["optimize", str(path), str(out)]) == 0
    check(create_predictor(Config(out)).run([rows(2), np.array(4)]), rows(2), 4)
