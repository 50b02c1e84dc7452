"""Recorded training gives what eager training gives, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
import proa.nn.functional as F
from proa import _core, nn
from proa.errors import PreconditionNotMetError, UnimplementedError
from proa.jit import not_to_static, to_static

Array = np.ndarray


def lenet() -> nn.Layer:
    return nn.Sequential(
        nn.Conv2D(1, 4, 5, padding=2), nn.ReLU(), nn.MaxPool2D(2, 2),
        nn.Conv2D(4, 8, 5), nn.ReLU(), nn.MaxPool2D(2, 2), nn.Flatten(),
        nn.Linear(72, 16), nn.ReLU(), nn.Linear(16, 10),
    )  # fmt: skip


def mlp() -> nn.Layer:
    return nn.Sequential(
        nn.Linear(20, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 10)
    )


class Residual(nn.Layer):
    """Convolutions with batch norm around a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2D(3, 8, 3, padding=1), nn.BatchNorm2D(8))
        self.second = nn.Sequential(nn.Conv2D(8, 8, 3, padding=1), nn.BatchNorm2D(8))
        self.out = nn.Linear(8, 10)

    def forward(self, x: Any) -> Any:
        h = F.relu(self.first(x))
        h = F.relu(self.second(h) + h)
        return self.out(F.adaptive_avg_pool2d(h, 1).flatten(1))


class Sequence(nn.Layer):
    """Words to words through a core that takes (batch, time, 16)."""

    def __init__(self, core: nn.Layer) -> None:
        super().__init__()
        self.table, self.core = nn.Embedding(30, 16), core
        self.out = nn.Linear(16, 30)

    def forward(self, x: Any) -> Any:
        h = self.core(self.table(x))
        return self.out(h[0] if isinstance(h, tuple) else h).reshape([-1, 30])


def lstm() -> nn.Layer:
    return Sequence(nn.LSTM(16, 16, num_layers=2, dropout=0.3))


def encoder() -> nn.Layer:
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1)
    return Sequence(nn.TransformerEncoder(layer, 2))


def _images(*shape: int) -> Callable[[Any], tuple[Array, Array]]:
    def draw(random: Any) -> tuple[Array, Array]:
        x = random.standard_normal(shape).astype(np.float32)
        return x, random.integers(0, 10, shape[0])

    return draw


def _words(random: Any) -> tuple[Array, Array]:
    return random.integers(0, 30, (4, 7)), random.integers(0, 30, 28)


#: Name -> (network, batch from a NumPy generator).
NETWORKS: dict[str, tuple[Callable[[], nn.Layer], Any]] = {
    "lenet": (lenet, _images(4, 1, 20, 20)),
    "mlp": (mlp, _images(4, 20)),
    "residual": (Residual, _images(4, 3, 8, 8)),
    "lstm": (lstm, _words),
    "encoder": (encoder, _words),
}

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: proa.optimizer.SGD(0.1, parameters=p),
    "momentum": lambda p: proa.optimizer.Momentum(
        0.1, parameters=p, weight_decay=0.01, grad_clip=nn.ClipGradByGlobalNorm(1.0)
    ),
    "adamw": lambda p: proa.optimizer.AdamW(
        proa.optimizer.lr.StepDecay(0.01, 2), parameters=p
    ),
    "rmsprop": lambda p: proa.optimizer.RMSProp(0.01, parameters=p),
}


def train(
    name: str, optimizer: str, how: str, *, steps: int = 4, bf16: bool = False
) -> tuple[list[float], dict[str, Array], tuple[int, int]]:
    """Losses, the final state, and the generator's, of training in one of three ways:
    "eager", with a recorded "layer", or by a recorded "step".
    """
    proa.seed(3)
    random = np.random.default_rng(0)
    make, draw = NETWORKS[name]
    net = make()
    opt = OPTIMIZERS[optimizer](net.parameters())
    model = proa.jit.to_static(net) if how == "layer" else net

    def step(x: Any, y: Any) -> Any:
        with proa.amp.auto_cast(enable=bf16, dtype="bfloat16"):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    run = proa.jit.to_static(step) if how == "step" else step
    losses = []
    for _ in range(steps):
        x, y = draw(random)
        losses.append(run(proa.to_tensor(x), proa.to_tensor(y)).item())
        if optimizer == "adamw":
            opt._learning_rate.step()
    state = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    return losses, state, proa.get_rng_state()


def close(got: dict[str, Array], want: dict[str, Array], bound: float = 0.0) -> None:
    assert got.keys() == want.keys()
    for name, array in want.items():
        np.testing.assert_allclose(
            got[name].astype(np.float64), array, rtol=bound, atol=bound, err_msg=name
        )


@pytest.mark.parametrize("how", ["layer", "step"])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adamw"])
@pytest.mark.parametrize("name", list(NETWORKS))
def test_recorded_training_is_eager_training(name: str, optimizer: str, how: str):
    """Weights, running statistics and the random stream, after several steps."""
    losses, state, key = train(name, optimizer, "eager")
    got_losses, got_state, got_key = train(name, optimizer, how)
    # The mean over labels is computed otherwise where labels are not known: 1 ULP.
    np.testing.assert_allclose(got_losses, losses, rtol=1e-6)
    close(got_state, state, 2e-6)
    assert got_key == key


@pytest.mark.parametrize("how", ["layer", "step"])
@pytest.mark.parametrize("name", ["lenet", "encoder"])
def test_recorded_training_takes_part_in_autocast(name: str, how: str) -> None:
    losses, state, _ = train(name, "sgd", "eager", bf16=True)
    got_losses, got_state, _ = train(name, "sgd", how, bf16=True)
    np.testing.assert_allclose(got_losses, losses, rtol=1e-6)
    close(got_state, state, 2e-6)


def test_sixteen_bit_weights_keep_their_float32_copies() -> None:
    def run(wrap: Callable[[Any], Any]) -> tuple[dict[str, Array], dict[str, Array]]:
        proa.seed(0)
        net = nn.Linear(6, 4).to(dtype="bfloat16")
        opt = proa.optimizer.Adam(
            0.01, parameters=net.parameters(), multi_precision=True
        )

        def step(x: Any) -> Any:
            loss = net(x).square().mean()
            loss.backward()
            opt.step()
            opt.clear_grad()
            return loss

        step = wrap(step)
        for i in range(4):
            step(proa.full([3, 6], 1.0 + i, "bfloat16"))
        copies = {k: v.numpy() for k, v in opt._masters.items()}
        # Names count up from network to network.
        weights = {k: v.numpy() for k, v in net.state_dict().items()}
        return weights, dict(enumerate(copies.values()))  # type: ignore[arg-type]

    for got, want in zip(run(to_static), run(lambda f: f), strict=True):
        close(got, want)


def counted(net: nn.Layer) -> tuple[nn.Layer, list[int]]:
    """The Layer recorded, and the batch sizes of its recordings."""
    calls: list[int] = []
    inner = net.forward

    def forward(x: Any) -> Any:
        calls.append(x.shape[0])
        return inner(x)

    net.forward = forward  # type: ignore[method-assign]
    net.forward = proa.jit.static_function.StaticFunction(forward, owner=net)
    return net, calls


def test_each_shape_is_recorded_once_and_the_oldest_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proa.jit.static_function._MAX_TRACES", 2)
    net, calls = counted(mlp())
    for n in (1, 2, 1, 3, 1, 2):
        net(proa.ones([n, 20]))
    assert calls == [1, 2, 3, 2]


def test_a_function_of_detached_results_is_recorded_once_for_each_form() -> None:
    calls = []

    @to_static
    def ranks(x: Any, y: Any) -> Any:
        calls.append(1)
        return x.argmax(axis=-1) + (x * y).detach().sum().astype("int64")

    x, y = proa.to_tensor([[1.0, 3.0, 2.0]]), proa.ones([1, 3])
    for stops in ((False, True), (False, False), (True, True), (False, True)):
        x.stop_gradient, y.stop_gradient = stops
        for _ in range(3):
            assert ranks(x, y).tolist() == [7]
    assert len(calls) == 2  # with one argument's gradient, with both


def test_modes_and_parameters_are_noticed() -> None:
    net, calls = counted(mlp())
    x = proa.ones([2, 20])
    net(x)
    net.eval()
    assert np.array_equal(net(x).numpy(), net(x).numpy())
    net.train()
    net(x)
    assert len(calls) == 2
    net[0].weight.stop_gradient = True
    net(x).sum().backward()
    assert net[0].weight.grad is None and net[3].weight.grad is not None
    net[3] = nn.Linear(32, 10)
    net(x).sum().backward()
    assert net[3].weight.grad is not None
    assert len(calls) == 4
    net[3].bias = None
    net(x)
    assert len(calls) == 5
    for _ in range(2):
        net._sub_layers.move_to_end("2")  # dropout, after the last product
        net(x)
    assert len(calls) == 6


def test_the_tape_sees_one_node_between_eager_ones() -> None:
    net = proa.jit.to_static(nn.Linear(4, 3))
    x = proa.to_tensor(np.arange(8.0).reshape(2, 4).astype("float32") / 8)
    x.stop_gradient = False
    y = net(x * 2.0)
    assert y.grad_fn == "to_static"
    (y * 3.0).sum().backward()
    w = net.weight.numpy()
    np.testing.assert_allclose(x.grad.numpy(), 6 * np.tile(w.sum(1), (2, 1)), rtol=1e-6)
    want = 3 * np.repeat(2 * x.numpy().sum(0)[:, None], 3, axis=1)
    np.testing.assert_allclose(net.weight.grad.numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("order", ["row-major", "channels last", "broadcast"])
def test_gradients_may_have_any_layout(order: str) -> None:
    net, x = nn.Conv2D(2, 4, 3), proa.ones([2, 2, 5, 5])
    x.stop_gradient = False
    shape = {"broadcast": [1, 4, 1, 1], "channels last": [2, 3, 3, 4]}
    random = np.random.default_rng(0)
    drawn = random.standard_normal(shape.get(order, [2, 4, 3, 3])).astype(np.float32)
    g = proa.to_tensor(drawn)
    if order == "channels last":
        g = g.transpose([0, 3, 1, 2])
    if order == "broadcast":
        g = g.expand([2, 4, 3, 3])
    net(x).backward(g)
    want = [x.grad.numpy(), net.weight.grad.numpy()]
    x.clear_grad()
    net.weight.clear_grad()
    y = proa.jit.to_static(net)(x)
    for _ in range(2):
        x.clear_grad()
        net.weight.clear_grad()
        y.backward(g, retain_graph=True)
        for a, b in zip([x.grad.numpy(), net.weight.grad.numpy()], want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_calls_may_overlap_before_their_backwards() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    a, b = proa.ones([2, 3]), proa.full([2, 3], 2.0)
    (net(a).square() + net(b)).sum().backward()
    want = [p.grad.numpy().copy() for p in net.parameters()]
    net.clear_gradients()
    proa.jit.to_static(net)
    (net(a).square() + net(b)).sum().backward()
    for p, array in zip(net.parameters(), want, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), array, rtol=1e-6)


def test_a_backward_may_be_repeated_if_the_graph_is_retained() -> None:
    net = proa.jit.to_static(nn.Linear(4, 3))
    loss = net(proa.ones([2, 4])).square().sum()
    loss.backward(retain_graph=True)
    once = net.weight.grad.numpy().copy()
    loss.backward()
    np.testing.assert_allclose(net.weight.grad.numpy(), 2 * once, rtol=1e-6)
    again = net(proa.ones([2, 4]))
    again.backward(proa.ones([2, 3]))
    with pytest.raises(PreconditionNotMetError, match="one whose to_static was freed"):
        again.backward(proa.ones([2, 3]))


def test_a_weight_that_changed_before_the_backward_is_found_out() -> None:
    net = proa.jit.to_static(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)))
    loss = net(proa.ones([2, 4])).sum()
    with proa.no_grad():
        net[1].weight.scale_(2.0)
    with pytest.raises(PreconditionNotMetError, match="was modified in place"):
        loss.backward()


def test_gradients_of_gradients_are_refused() -> None:
    net = proa.jit.to_static(nn.Linear(4, 3))
    x = proa.ones([2, 4])
    x.stop_gradient = False
    with pytest.raises(UnimplementedError, match="gradients of gradients"):
        proa.grad(net(x).square().sum(), x, create_graph=True)


def test_a_learning_rate_is_read_anew_for_every_step() -> None:
    w = proa.to_tensor([8.0])
    w.stop_gradient = False
    opt = proa.optimizer.SGD(1.0, parameters=[w])

    @to_static
    def step(x: Any) -> None:
        (w * x).sum().backward()
        opt.step()
        opt.clear_grad()

    seen = []
    for rate in (1.0, 0.5, 0.0, 0.25):
        opt.set_lr(rate)
        step(proa.to_tensor([2.0]))
        seen.append(w.item())
    assert seen == [6.0, 5.0, 5.0, 4.5]


def test_gradients_add_up_over_steps_that_do_not_clear_them() -> None:
    w = proa.to_tensor([1.0])
    w.stop_gradient = False

    @to_static
    def collect(x: Any) -> Any:
        loss = (w * x).sum()
        loss.backward()
        return loss

    for i, want in enumerate((1.0, 3.0, 6.0), start=1):
        collect(proa.to_tensor([float(i)]))
        assert w.grad.item() == want
    w.clear_grad()
    collect(proa.to_tensor([5.0]))
    assert w.grad.item() == 5.0


def test_what_a_function_changes_in_place_is_changed() -> None:
    total = proa.zeros([3])

    @to_static
    def add(x: Any) -> Any:
        total.add_(x)
        return total * 2.0

    for i in (1, 2, 3):
        np.testing.assert_array_equal(
            add(proa.ones([3])).numpy(), np.full(3, 2.0 * i, np.float32)
        )
    np.testing.assert_array_equal(total.numpy(), np.full(3, 3.0, np.float32))


def test_noise_is_drawn_anew_and_as_eager_draws_it() -> None:
    def noisy(x: Any) -> Any:
        return x + proa.randn([4]) * F.dropout(proa.ones([4]), 0.5)

    recorded = to_static(noisy)
    for f in (noisy, recorded):
        proa.seed(7)
        f.drawn = [f(proa.zeros([4])).numpy() for _ in range(3)]
    assert not np.array_equal(recorded.drawn[0], recorded.drawn[1])
    np.testing.assert_array_equal(recorded.drawn, noisy.drawn)


@pytest.mark.feature("L200")
def test_control_flow_on_values_names_the_line_and_leaves_no_trace() -> None:
    net = nn.Linear(4, 3)
    opt = proa.optimizer.Adam(0.1, parameters=net.parameters())

    @not_to_static
    def clear(loss: Any) -> None:
        if loss > 0:  # the line to be named
            opt.clear_grad()

    @to_static
    def step(x: Any) -> Any:
        loss = net(x).sum()
        loss.backward()
        opt.step()
        clear(loss)
        return loss

    before = net.weight.numpy().copy()
    with pytest.raises(UnimplementedError, match="the line to be named"):
        step(proa.ones([2, 4]))
    np.testing.assert_array_equal(net.weight.numpy(), before)
    assert net.weight.grad is None and not net.weight.stop_gradient
    net(proa.ones([2, 4])).sum().backward()  # and the tensors are tensors again
    opt.step()
    assert opt._state[net.weight.name]["step"] == 1


def test_an_optimizer_that_computes_with_the_rate_is_refused() -> None:
    class Plain(proa.optimizer.Optimizer):
        def _update(self, step: Any) -> None:
            step.weights.set_value(step.weights - step.grad * step.lr)

    w = proa.to_tensor([1.0])
    w.stop_gradient = False
    opt = Plain(0.1, parameters=[w])

    @to_static
    def step(x: Any) -> None:
        (w * x).sum().backward()
        opt.step()

    with pytest.raises(UnimplementedError, match="Plain must step each parameter by"):
        step(proa.to_tensor([1.0]))


def test_steps_take_no_further_memory() -> None:
    net = proa.jit.to_static(Residual())
    opt = proa.optimizer.Adam(0.01, parameters=net.parameters())
    x, y = proa.ones([4, 3, 8, 8]), proa.zeros([4], "int64")

    @to_static
    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    def by_layer() -> None:
        F.cross_entropy(net(x), y).backward()
        opt.step()
        opt.clear_grad()

    for run in (by_layer, lambda: step(x, y)):
        run()
        run()
        before = _core.memory_stats()["allocated"]
        for _ in range(10):
            run()
        assert _core.memory_stats()["allocated"] == before


@pytest.mark.parametrize("name", ["lenet", "residual", "encoder", "lstm"])
def test_a_recorded_step_needs_no_more_memory_than_an_eager_one(name: str) -> None:
    peaks = {}
    for how in ("eager", "step"):
        make, draw = NETWORKS[name]
        net = make()
        opt = proa.optimizer.Adam(0.01, parameters=net.parameters())

        def step(x: Any, y: Any, net: Any = net, opt: Any = opt) -> Any:
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            opt.clear_grad()
            return loss

        run = to_static(step) if how == "step" else step
        x, y = map(proa.to_tensor, draw(np.random.default_rng(0)))
        for _ in range(2):
            run(x, y)
        _core.reset_peak()
        start = _core.memory_stats()["allocated"]
        run(x, y)
        peaks[how] = _core.memory_stats()["peak"] - start
    # The plan is one block, and blocks come in sizes a quarter of a power of two apart:
    # the encoder's, by scalar kernels, is rounded up by a tenth.
    assert peaks["step"] <= 1.15 * peaks["eager"]
