"""Threads that record at the same time, and that compute while another one records."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import proa
from proa import jit, nn
from proa.jit import InputSpec, to_static

WAIT = 60


def together(*functions: Callable[[], Any]) -> list[Any]:
    """What the functions return, each in a thread of its own, begun at once."""
    barrier = threading.Barrier(len(functions))

    def begin(function: Callable[[], Any]) -> Any:
        barrier.wait(WAIT)
        return function()

    with ThreadPoolExecutor(len(functions)) as pool:
        return [f.result(WAIT) for f in [pool.submit(begin, f) for f in functions]]


class Net(nn.Layer):
    def __init__(self, seed: int) -> None:
        super().__init__()
        proa.seed(seed)
        self.features = nn.Sequential(nn.Linear(6, 5), nn.ReLU())
        self.head = nn.Linear(5, 3)

    def forward(self, x: Any) -> Any:
        y = self.features(x)
        if y.sum() > 0:
            y = y * 2
        return self.head(y)


def draw(*shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return proa.to_tensor(rng.standard_normal(shape).astype(np.float32))


def wanted(net: Net, x: Any) -> np.ndarray:
    """What the network gives, by NumPy."""
    linear = net.features[0]
    y = np.maximum(x.numpy() @ linear.weight.numpy() + linear.bias.numpy(), 0)
    y = y * 2 if y.sum() > 0 else y
    return y @ net.head.weight.numpy() + net.head.bias.numpy()


def test_two_threads_record_their_functions_at_once() -> None:
    nets = [Net(k) for k in range(4)]
    want = [wanted(net, draw(4, 6, seed=k)) for k, net in enumerate(nets)]

    def train_steps(net: Net, seed: int) -> Callable[[], Any]:
        static = to_static(lambda x: (net(x) ** 2).mean())

        def run() -> list[np.ndarray]:
            grads = []
            for rows in (3, 4, 5):
                net.clear_gradients()
                static(draw(rows, 6, seed=seed)).backward()
                grads.append(net.head.bias.grad.numpy().copy())
            return grads

        return run

    def eager(net: Net, seed: int) -> list[np.ndarray]:
        grads = []
        for rows in (3, 4, 5):
            net.clear_gradients()
            (net(draw(rows, 6, seed=seed)) ** 2).mean().backward()
            grads.append(net.head.bias.grad.numpy().copy())
        return grads

    expected = [eager(net, k) for k, net in enumerate(nets)]
    found = together(*[train_steps(net, k) for k, net in enumerate(nets)])
    for mine, theirs in zip(found, expected, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    for k, net in enumerate(nets):
        np.testing.assert_allclose(net(draw(4, 6, seed=k)).numpy(), want[k], rtol=1e-5)


def test_models_are_exported_by_several_threads(tmp_path: Any) -> None:
    nets = [Net(k) for k in range(4)]
    spec = [InputSpec([None, 6])]
    together(
        *[
            lambda k=k, net=net: jit.save(net, tmp_path / str(k), spec)
            for k, net in enumerate(nets)
        ]
    )
    for k, net in enumerate(nets):
        x = draw(7, 6, seed=k)
        with proa.no_grad():
            loaded = jit.load(tmp_path / str(k))(x)
        np.testing.assert_allclose(loaded.numpy(), wanted(net, x), rtol=1e-5, atol=1e-6)


class Pausing(nn.Layer):
    """Its recording lasts until `go_on` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Net(1)
        self.begun, self.go_on = threading.Event(), threading.Event()

    def forward(self, x: Any) -> Any:
        y = self.inner(x)
        self.begun.set()
        self.go_on.wait(WAIT)
        return y


def while_it_records(layer: Pausing, function: Callable[[], Any]) -> tuple[Any, Any]:
    """What `function` gives while another thread records `layer`, and what that gives
    for `draw(4, 6)`.
    """
    with ThreadPoolExecutor(1) as pool:
        static = to_static(lambda x: layer(x))
        recorded = pool.submit(lambda: static(draw(4, 6)))
        assert layer.begun.wait(WAIT)
        try:
            result = function()
        finally:
            layer.go_on.set()
        return result, recorded.result(WAIT)


def test_a_thread_computes_eagerly_while_another_records() -> None:
    layer, other = Pausing(), Net(2)
    x = draw(5, 6, seed=3)

    def train() -> Any:
        out = other(x)
        out.sum().backward()
        return out

    out, recorded = while_it_records(layer, train)
    assert not out._is_symbolic
    np.testing.assert_allclose(out.numpy(), wanted(other, x), rtol=1e-5)
    np.testing.assert_allclose(other.head.bias.grad.numpy(), np.full(3, 5.0))
    want = wanted(layer.inner, draw(4, 6))
    np.testing.assert_allclose(recorded.numpy(), want, rtol=1e-5)
    # Nothing of the other's was bound: the program reads the Layer's own parameters.
    assert not any(p._is_symbolic for p in other.parameters())


def test_random_numbers_of_a_thread_are_its_own_while_another_records() -> None:
    class Noisy(Pausing):
        def forward(self, x: Any) -> Any:
            return super().forward(proa.nn.functional.dropout(x, 0.0)) + proa.rand([3])

    proa.seed(11)
    want = [proa.rand([4]).numpy() for _ in range(2)]
    proa.seed(11)
    layer = Noisy()
    proa.seed(11)
    got, _ = while_it_records(layer, lambda: [proa.rand([4]).numpy() for _ in range(2)])
    np.testing.assert_array_equal(got, want)


def test_the_same_layer_computes_once_its_recording_has_ended() -> None:
    layer = Pausing()
    x = draw(5, 6, seed=3)
    want = wanted(layer.inner, x)
    with ThreadPoolExecutor(3) as pool:
        static = to_static(lambda x: layer(x))
        recorded = pool.submit(lambda: static(draw(4, 6)))
        assert layer.begun.wait(WAIT)
        waiting = [
            pool.submit(lambda: layer.inner(x).numpy()),
            pool.submit(lambda: layer.inner.head.weight.numpy().sum()),
        ]
        layer.go_on.set()
        np.testing.assert_allclose(waiting[0].result(WAIT), want, rtol=1e-5)
        total = waiting[1].result(WAIT)
        recorded.result(WAIT)
    np.testing.assert_allclose(total, layer.inner.head.weight.numpy().sum(), rtol=1e-6)


def test_one_static_function_is_called_by_several_threads() -> None:
    net = Net(5)
    static = to_static(net)

    def calls(seed: int) -> Callable[[], None]:
        def run() -> None:
            for k in range(12):
                x = draw(1 + (seed + k) % 5, 6, seed=100 * seed + k)
                out = static(x).numpy()
                np.testing.assert_allclose(out, wanted(net, x), rtol=1e-5, atol=1e-6)

        return run

    together(*[calls(seed) for seed in range(4)])
