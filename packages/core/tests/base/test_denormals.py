"""Subnormal numbers, in the thread that asks and in those that help it."""

import threading
import time

import numpy as np
import pytest

import proa
from proa import nn
from proa.ir import Builder, to_bytes
from proa.runtime import engine_from_bytes

TINY = np.float32(1e-39)
N = 1 << 20


@pytest.fixture
def flushing():
    before = proa.is_flush_denormal()
    proa.set_flush_denormal(True)
    yield
    proa.set_flush_denormal(before)


def halves_of_tiny():
    return (proa.full([N], 2 * float(TINY)) * 0.5).numpy()


def test_subnormal_numbers_are_kept_at_first():
    assert not proa.is_flush_denormal()
    assert (halves_of_tiny() == TINY).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_subnormal_numbers_count_as_zero_in_every_thread_of_an_operator(
    threads, flushing
):
    before = proa.get_num_threads()
    proa.set_num_threads(threads)
    try:
        assert (halves_of_tiny() == 0).all()
        proa.set_flush_denormal(False)
        assert (
            halves_of_tiny() == TINY
        ).all()  # the helpers compute as the caller does
    finally:
        proa.set_num_threads(before)


def test_other_threads_decide_for_themselves(flushing):
    found = []
    worker = threading.Thread(target=lambda: found.append(proa.is_flush_denormal()))
    worker.start()
    worker.join()
    assert proa.is_flush_denormal()
    proa.set_flush_denormal(False)
    assert not proa.is_flush_denormal()


def tiny_product():
    b = Builder()
    x = b.input("x", "float32", (N,))
    b.output(b.mul(x, b.constant(np.float32(0.5))))
    return engine_from_bytes(to_bytes(b.program), 2)


def test_a_saved_model_flushes_and_restores_what_the_caller_does():
    engine = tiny_product()
    assert (engine.run([np.full(N, 2 * TINY)])[0] == 0).all()
    assert not proa.is_flush_denormal()
    assert (halves_of_tiny() == TINY).all()


def test_a_run_that_fails_restores_it_too():
    engine = tiny_product()
    with pytest.raises(ValueError):
        engine.run([np.zeros(3, np.float64)])
    assert not proa.is_flush_denormal()


def seconds(call):
    best = float("inf")
    for _ in range(15):
        start = time.thread_time()
        call()
        best = min(best, time.thread_time() - start)
    return best


@pytest.mark.feature("L572")
def test_subnormal_values_do_not_slow_a_network_down(flushing, tmp_path):
    """A network of the dynamic graph, and the same saved, of tiny activations."""
    threads = proa.get_num_threads()
    proa.set_num_threads(1)
    proa.seed(0)
    net = nn.Sequential(
        nn.Conv2D(8, 16, 3, padding=1), nn.ReLU(), nn.Conv2D(16, 16, 3, padding=1),
        nn.Tanh(), nn.Flatten(), nn.Linear(16 * 32 * 32, 64),
    )  # fmt: skip
    for p in net.parameters():
        if len(p.shape) == 1:
            p.set_value(np.zeros(p.shape, np.float32))
    net.eval()
    path = str(tmp_path / "net.proa")
    proa.jit.save(net, path, [proa.static.InputSpec([1, 8, 32, 32], "float32", "x")])
    loaded = proa.jit.load(path)
    rng = np.random.default_rng(0)
    usual = rng.uniform(0.5, 1, (1, 8, 32, 32)).astype(np.float32)
    try:
        with proa.no_grad():
            for model in (net, loaded):
                plain, tiny = proa.to_tensor(usual), proa.to_tensor(usual * TINY)
                assert (model(tiny).numpy() == 0).all()
                times = [seconds(lambda m=model, v=v: m(v)) for v in (plain, tiny)]
                assert times[1] < 1.5 * times[0], times
    finally:
        proa.set_num_threads(threads)
