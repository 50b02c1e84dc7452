"""Networks of an unknown batch size give the bits of dynamic mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
import proa.nn.functional as F
from proa import nn, optimizer, static

RNG = np.random.default_rng(0)


def array(*shape: int) -> Any:
    return RNG.random(shape, dtype="float32")


class Head(nn.Layer):
    """A linear layer, then a function of its result and another input."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.function = function

    def forward(self, x: Any, y: Any) -> Any:
        return self.function(self.linear(x), y)


def _layered(*layers: Callable[[], nn.Layer]) -> Callable[[], nn.Layer]:
    return lambda: nn.Sequential(*(make() for make in layers))


def conv() -> nn.Layer:
    return nn.Conv2D(1, 4, 1)


def linear() -> nn.Layer:
    return nn.Linear(4, 4)


#: A network, and what it is given.
NETWORKS: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "layer norm": (lambda: nn.LayerNorm(6), [array(4, 5, 6)]),
    "group norm": (lambda: nn.GroupNorm(2, 4), [array(3, 4, 5, 5)]),
    "instance norm": (lambda: nn.InstanceNorm2D(4), [array(3, 4, 5, 5)]),
    "batch norm": (lambda: nn.BatchNorm3D(2), [array(2, 2, 3, 3, 3)]),
    "conv1d": (lambda: nn.Conv1D(2, 3, 3), [array(2, 2, 8)]),
    "transposed": (lambda: nn.Conv2DTranspose(2, 3, 3, stride=2), [array(2, 2, 5, 5)]),
    "depthwise": (lambda: nn.Conv2D(4, 4, 3, groups=4), [array(2, 4, 6, 6)]),
    "pools": (
        _layered(conv, lambda: nn.AvgPool2D(2, padding=1),
                 lambda: nn.AdaptiveMaxPool2D(2)),
        [array(2, 1, 6, 6)],
    ),
    "lstm": (lambda: nn.LSTM(6, 4, 2, direction="bidirect"), [array(3, 5, 6)]),
    "gru": (lambda: nn.GRU(6, 4), [array(3, 5, 6)]),
    "rnn": (lambda: nn.SimpleRNN(6, 4), [array(3, 5, 6)]),
    "transformer": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.1), 2),
        [array(3, 5, 8)],
    ),
    "bilinear": (lambda: nn.Bilinear(3, 4, 2), [array(5, 3), array(5, 4)]),
    "resized": (
        _layered(conv, lambda: nn.Upsample(scale_factor=2, mode="bilinear"),
                 lambda: nn.Pad2D(1, mode="reflect"), lambda: nn.PixelShuffle(2)),
        [array(2, 1, 4, 4)],
    ),
    "spectral norm": (lambda: nn.utils.spectral_norm(linear()), [array(2, 4)]),
    "weight norm": (lambda: nn.utils.weight_norm(linear()), [array(2, 4)]),
    "drops": (
        _layered(conv, lambda: nn.Dropout2D(0.5), lambda: nn.AlphaDropout(0.3),
                 lambda: nn.Dropout(0.5, axis=1), nn.RReLU),
        [array(2, 1, 4, 4)],
    ),
    "activations": (
        _layered(linear, nn.GELU, nn.Hardswish, nn.Mish, nn.Softmax), [array(2, 4)],
    ),
    "noise": (
        lambda: Head(
            lambda x, y: x
            + proa.randn([x.shape[0], 4])
            + F.gumbel_softmax(x)
            + proa.randint(0, 9, [x.shape[0] * 2 - 1, 1])[0].astype("float32")
        ),
        [array(3, 4), array(3, 4)],
    ),
    "losses": (
        lambda: Head(
            lambda x, y: F.binary_cross_entropy_with_logits(x, y)
            + F.kl_div(F.log_softmax(x), y)
            + F.smooth_l1_loss(x, y)
            + F.cross_entropy(x, F.softmax(y), soft_label=True)
        ),
        [array(3, 4), array(3, 4)],
    ),
    "arrays": (
        lambda: Head(
            lambda x, y: proa.topk(x, 2)[0].sum()
            + proa.sort(x * y, axis=0).mean()
            + proa.std(x) + proa.var(x * y, axis=1).sum()
            + proa.cumsum(x, axis=0).mean() + proa.einsum("ij,kj->ik", x, y).sum()
            + proa.where(x > y, x, y).mean() + proa.logsumexp(x * y)
            + (F.one_hot(proa.argmax(x, -1), 4) * x).sum()
            + proa.roll(x, 1, 0)[0].mean() + proa.concat([x, y], axis=0)[1:].sum()
        ),
        [array(3, 4), array(3, 4)],
    ),
}  # fmt: skip


def _total(out: Any) -> Any:
    out = out[0] if isinstance(out, tuple) else out
    return (out * out).sum()


def _dynamic(make: Callable[[], Any], arrays: list[Any]) -> tuple[Any, dict[str, Any]]:
    proa.seed(3)
    with proa.utils.unique_name.guard():
        net = make()
    loss = _total(net(*map(proa.to_tensor, arrays)))
    loss.backward()
    grads = {p.name: p.grad for p in net.parameters()}
    return loss.numpy(), {k: g.numpy() for k, g in grads.items() if g is not None}


@pytest.mark.parametrize("name", NETWORKS)
def test_losses_and_gradients_have_the_same_bits(
    name: str, static_mode: tuple[static.Program, static.Program]
) -> None:
    make, arrays = NETWORKS[name]
    feed = {f"x{i}": a for i, a in enumerate(arrays)}
    proa.seed(3)
    net = make()
    loss = _total(net(*(static.data(k, [None, *a.shape[1:]]) for k, a in feed.items())))
    pairs = static.append_backward(loss)
    exe = static.Executor()
    exe.run(static_mode[1])
    found, *grads = exe.run(feed=feed, fetch_list=[loss, *(g for _, g in pairs)])
    tested = static_mode[0].clone(for_test=True)
    assert np.isfinite(exe.run(tested, feed, [loss])[0])
    proa.disable_static()
    want, wanted = _dynamic(make, arrays)
    np.testing.assert_array_equal(found, want)
    named = {p.name: g for (p, _), g in zip(pairs, grads, strict=True)}
    assert sorted(named) == sorted(wanted)
    for key, grad in named.items():
        np.testing.assert_array_equal(grad, wanted[key], err_msg=key)


def test_sizes_are_fetched_and_computed_with(
    static_mode: tuple[static.Program, static.Program],
) -> None:
    x = static.data("x", [None, 3])
    rows = proa.shape(x)[0]
    blank = proa.zeros([rows, 2]) + rows.astype("float32")
    exe = static.Executor()
    for n in (2, 5):
        found = exe.run(feed={"x": array(n, 3)}, fetch_list=[rows, blank, x.shape[0]])
        assert found[0] == found[2] == n
        np.testing.assert_array_equal(found[1], np.full((n, 2), n))
    assert len(exe._plans) == 2


def test_a_penalty_by_a_step_of_the_spectral_norm_trains(
    static_mode: tuple[static.Program, static.Program],
) -> None:
    """The vectors of the power iteration are state that every run moves on."""
    net = nn.utils.spectral_norm(nn.Linear(3, 2))
    optimizer.SGD(0.1).minimize(net(static.data("x", [None, 3])).sum())
    exe = static.Executor()
    exe.run(static_mode[1])
    weight = net.weight_orig.get_value().numpy()
    vectors = [net.weight_u.get_value().numpy(), net.weight_v.get_value().numpy()]
    u, _, v = np.linalg.svd(weight.T)
    np.testing.assert_allclose(np.abs(vectors[0]), np.abs(u[:, 0]), atol=1e-3)
    np.testing.assert_allclose(np.abs(vectors[1]), np.abs(v[0]), atol=1e-3)
    exe.run(feed={"x": array(4, 3)})
    assert not np.array_equal(net.weight_orig.get_value().numpy(), weight)


@pytest.mark.usefixtures("static_mode")
def test_whether_there_is_an_element_follows_from_what_is_fed() -> None:
    x = static.data("x", [None, 3])
    empty = proa.is_empty(x)
    run = static.Executor().run
    for rows in (0, 2):
        fed = {"x": np.zeros((rows, 3), "float32")}
        assert run(feed=fed, fetch_list=[empty])[0].item() == (rows == 0)
