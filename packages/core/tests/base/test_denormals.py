"""Subnormal numbers, in the calling thread and in those that help it."""

import threading

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


def test_subnormal_numbers_are_not_flushed_at_first():
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


def test_an_engine_flushes_on_request_and_restores_what_the_caller_does():
    engine = tiny_product()
    given = [np.full(N, 2 * TINY)]
    assert (engine.run(given)[0] == TINY).all()  # the bits of the dynamic graph
    engine.set_flush_denormals(True)
    assert (engine.run(given)[0] == 0).all()
    assert (engine.clone().run(given)[0] == 0).all()
    assert not proa.is_flush_denormal()
    assert (halves_of_tiny() == TINY).all()


def test_a_run_that_fails_restores_it_too():
    engine = tiny_product()
    engine.set_flush_denormals(True)
    with pytest.raises(ValueError):
        engine.run([np.zeros(3, np.float64)])
    assert not proa.is_flush_denormal()


@pytest.mark.feature("L572", how="mechanism")
def test_no_layer_computes_with_subnormal_values(tmp_path):
    """A network of the dynamic graph, and the same saved, of tiny activations."""
    proa.seed(0)
    net = nn.Sequential(
        nn.Conv2D(8, 16, 3, padding=1, bias_attr=False), nn.ReLU(),
        nn.Conv2D(16, 16, 3, padding=1, bias_attr=False), nn.Tanh(),
    )  # fmt: skip
    net.eval()
    path = str(tmp_path / "net.proa")
    proa.jit.save(net, path, [proa.static.InputSpec([1, 8, 32, 32], "float32", "x")])
    image = np.random.default_rng(0).uniform(0.5, 1, (1, 8, 32, 32))
    tiny = proa.to_tensor(image.astype(np.float32) * TINY)
    with proa.no_grad():
        for model in (net, proa.jit.load(path)):
            found = model(tiny).numpy()
            assert ((found != 0) & (np.abs(found) < np.finfo("f4").tiny)).any()
            proa.set_flush_denormal(True)
            try:
                assert (model(tiny).numpy() == 0).all()
            finally:
                proa.set_flush_denormal(False)
