"""Memory: what is counted, and that the tape lets go of it early."""

from __future__ import annotations

import gc
import resource
from collections.abc import Iterator

import numpy as np
import pytest

import proa
from proa import device
from proa.errors import UnavailableError

MB = 1 << 20
SIDE = 1 << 18  # elements of 1 MB in float32


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    gc.collect()
    yield


def allocated() -> float:
    return device.memory_allocated() / MB


def vector(stop_gradient: bool = True) -> proa.Tensor:
    x = proa.full([SIDE - 64], 0.5)
    x.stop_gradient = stop_gradient
    return x


def test_tensors_are_counted_while_they_live():
    before = device.memory_allocated()
    x = proa.ones([SIDE - 64])
    grown = device.memory_allocated() - before
    assert MB - 512 <= grown <= 1.25 * MB
    assert device.memory_reserved() >= device.memory_allocated()
    del x
    assert device.memory_allocated() == before


def test_peaks_start_again_where_they_are_reset():
    x = [vector() for _ in range(4)]
    del x
    device.reset_max_memory_allocated()
    assert device.max_memory_allocated() == device.memory_allocated()
    y = vector()
    assert device.max_memory_allocated() == device.memory_allocated()
    del y
    assert device.max_memory_allocated() > device.memory_allocated()


def test_empty_cache_releases_memory():
    x = [vector() for _ in range(4)]
    del x
    assert device.memory_reserved() >= device.memory_allocated() + 3 * MB
    device.empty_cache()
    assert device.memory_reserved() < device.memory_allocated() + MB
    device.reset_max_memory_reserved()
    assert device.max_memory_reserved() == device.memory_reserved()


def test_other_devices_are_refused():
    assert device.cuda.device_count() == 0 and device.get_all_device_type() == ["cpu"]
    with pytest.raises(UnavailableError, match=r"\] expected a CUDA device"):
        device.cuda.memory_allocated()
    with pytest.raises(UnavailableError, match="got 'gpu:0'"):
        device.memory_allocated("gpu:0")


@pytest.mark.feature("L044", how="mechanism")
def test_the_tape_keeps_no_buffer_that_no_rule_reads():
    x = vector(stop_gradient=False)
    before = allocated()
    y = x
    for _ in range(8):
        y = y + 1.0  # the gradient of a sum needs neither array
    assert allocated() - before < 1.5
    z = proa.exp(y)  # keeps its result alone
    del y
    assert allocated() - before < 1.5
    z.sum().backward()


@pytest.mark.feature("L044", how="mechanism")
def test_backward_frees_each_buffer_when_its_rule_is_done():
    x = vector(stop_gradient=False)
    y = x
    for _ in range(16):
        y = proa.tanh(y)  # keeps 16 results
    loss = y.sum()
    del y
    before = allocated()
    device.reset_max_memory_allocated()
    loss.backward()
    assert x.grad is not None
    # Gradients come while results go: a handful of buffers, not 16 more.
    assert device.max_memory_allocated() / MB - before < 4
    del loss
    assert before - allocated() > 13


def test_retain_graph_retains_what_a_second_backward_needs():
    x = vector(stop_gradient=False)
    loss = proa.tanh(x).sum()
    before = allocated()
    loss.backward(retain_graph=True)
    first = x.grad.numpy().copy()
    assert allocated() - before > 0.9  # the gradient; nothing was let go
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * first, rtol=1e-6)
    with pytest.raises(RuntimeError, match=r"retain_graph=True.*sum was freed"):
        loss.backward()


@pytest.mark.feature("L047")
def test_memory_is_released_when_backward_is_never_called():
    w = vector(stop_gradient=False)
    before = device.memory_allocated()
    for _ in range(5):
        y = proa.tanh(w * 2.0)
        z = (y * y).sum()
        del y, z
        assert device.memory_allocated() == before


@pytest.mark.feature("L047")
def test_a_long_chain_is_let_go_without_deep_recursion():
    x = proa.ones([1])
    x.stop_gradient = False
    before = device.memory_allocated()
    y = x
    for _ in range(100_000):
        y = y + 1.0
    del y
    assert device.memory_allocated() == before


@pytest.mark.feature("L049", how="mechanism")
def test_gradients_add_up_in_the_memory_that_is_there():
    x = vector(stop_gradient=False)
    (x * 1.0).sum().backward()
    address, version = x.grad.data_ptr(), x.grad.inplace_version
    for n in range(2, 5):
        (x * float(n)).sum().backward()
    assert x.grad.data_ptr() == address and x.grad.inplace_version > version
    np.testing.assert_array_equal(x.grad.numpy(), np.full(x.shape, 10.0, "f4"))


@pytest.mark.feature("L049", how="mechanism")
def test_many_uses_of_one_tensor_need_no_further_buffers():
    x = vector(stop_gradient=False)
    y = x * 1.0
    total = y.sum()
    for _ in range(12):
        total = total + (y * 2.0).sum()
    before = allocated()
    device.reset_max_memory_allocated()
    total.backward()
    assert device.max_memory_allocated() / MB - before < 4
    np.testing.assert_array_equal(x.grad.numpy(), np.full(x.shape, 25.0, "f4"))


def test_adding_in_place_leaves_what_others_see():
    x = proa.to_tensor([1.0, 2.0], stop_gradient=False)
    (x * 3.0).sum().backward()
    seen = x.grad.numpy().copy()
    clone = x.grad.clone()
    proa.autograd.backward([x * 1.0], [proa.ones([2])])
    np.testing.assert_array_equal(clone.numpy(), seen)
    np.testing.assert_array_equal(x.grad.numpy(), seen + 1)


def test_the_initial_gradient_is_not_changed():
    x = proa.ones([3])
    x.stop_gradient = False
    seed = proa.full([3], 2.0)
    proa.autograd.backward([x + 0.0, x + 0.0], [seed, seed])
    np.testing.assert_array_equal(seed.numpy(), np.full(3, 2.0))
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 4.0))


@pytest.mark.feature("L053")
def test_hooks_run_in_the_order_of_backward_and_of_registration():
    x = proa.ones([1])
    x.stop_gradient = False
    y = x * 2.0
    z = y * 3.0
    order: list[str] = []

    def note(name: str):
        return lambda g: order.append(f"{name}={g.item():g}")

    x.register_hook(note("x"))
    y.register_hook(note("y1"))
    y.register_hook(lambda g: g * 10.0)
    y.register_hook(note("y2"))
    z.register_hook(note("z"))
    z.backward()
    assert order == ["z=1", "y1=3", "y2=30", "x=60"]


@pytest.mark.feature("L046")
def test_a_parameter_without_a_gradient_stays_as_it_is():
    used = proa.create_parameter([2], "float32")
    unused = proa.create_parameter([2], "float32")
    before = unused.numpy().copy()
    for kind in (proa.optimizer.SGD, proa.optimizer.Adam, proa.optimizer.Momentum):
        step = kind(learning_rate=0.1, parameters=[used, unused])
        (used * 2.0).sum().backward()
        step.step()
        step.clear_grad()
    assert unused.grad is None
    np.testing.assert_array_equal(unused.numpy(), before)


@pytest.mark.feature("L045")
def test_reshape_and_depthwise_conv_work_with_gradients():
    from proa.nn import functional as F

    x = proa.to_tensor(np.arange(32, dtype="f4").reshape(2, 16), stop_gradient=False)
    w = proa.ones([4, 1, 2, 2])
    w.stop_gradient = False
    y = F.conv2d(proa.reshape(x, [2, 4, 2, 2]), w, groups=4)
    want = x.numpy().reshape(2, 4, 4).sum(-1)
    np.testing.assert_allclose(y.numpy().reshape(2, 4), want)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.ones((2, 16)))
    np.testing.assert_allclose(
        w.grad.numpy().ravel(), x.numpy().reshape(2, 4, 4).sum(0).ravel()
    )


@pytest.mark.feature("L306")
def test_a_long_run_does_not_grow():
    layer = proa.nn.Linear(64, 64)
    step = proa.optimizer.SGD(learning_rate=0.0, parameters=layer.parameters())

    def run(times: int) -> None:
        for _ in range(times):
            loss = proa.nn.functional.relu(layer(proa.ones([32, 64]))).sum()
            loss.backward()
            step.step()
            step.clear_grad()

    run(300)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, allocated()
    run(2000)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, allocated()
    assert after[0] - before[0] < 2048  # KB
    assert after[1] - before[1] < 0.01
