"""Programs with parts of their own: layers, gradients, samplers, collations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import proa as paddle
from proa import nn
from proa.nn import functional as F

RNG = np.random.default_rng(0)


class Standardised(nn.Layer):
    """Subtracts and divides by moving statistics that are buffers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", paddle.zeros([width]))
        self.register_buffer("seen", paddle.zeros([1], "int64"), persistable=False)
        self.scale = self.create_parameter(
            [width], default_initializer=nn.initializer.Constant(2.0)
        )

    def forward(self, x: Any) -> Any:
        if self.training:
            with paddle.no_grad():
                self.mean.set_value(0.9 * self.mean + 0.1 * x.mean(0))
                self.seen += 1
        return (x - self.mean) * self.scale


def test_a_layer_keeps_buffers_of_its_own() -> None:
    layer, want = Standardised(3), np.zeros(3)
    for _ in range(4):
        x = RNG.standard_normal((5, 3)).astype(np.float32)
        y = layer(paddle.to_tensor(x))
        want = 0.9 * want + 0.1 * x.mean(0)
        np.testing.assert_allclose(y.numpy(), (x - want) * 2, rtol=1e-4, atol=1e-5)
    assert sorted(layer.state_dict()) == ["mean", "scale"]
    assert [name for name, _ in layer.named_buffers()] == ["mean", "seen"]
    assert layer.seen.item() == 4
    layer.eval()
    other = Standardised(3)
    other.set_state_dict(layer.state_dict())
    other.eval()
    x = paddle.randn([2, 3])
    np.testing.assert_array_equal(other(x).numpy(), layer(x).numpy())


class Clipped(paddle.autograd.PyLayer):
    """x, whose gradient is clipped; the limit is no tensor."""

    @staticmethod
    def forward(ctx: Any, x: Any, limit: float) -> Any:
        ctx.save_for_backward(x)
        ctx.limit = limit
        return paddle.clip(x, -limit, limit)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensor()
        inside = (x.abs() <= ctx.limit).astype(grad.dtype)
        return grad * inside + 0.1 * grad * (1 - inside)


def test_a_custom_gradient_is_used() -> None:
    x = paddle.to_tensor([0.5, -3.0, 1.0, 2.0], stop_gradient=False)
    y = Clipped.apply(x * 2, 1.5)
    (y * paddle.to_tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    np.testing.assert_allclose(y.numpy(), [1.0, -1.5, 1.5, 1.5])
    np.testing.assert_allclose(x.grad.numpy(), [2.0, 0.4, 0.6, 0.8], rtol=1e-6)


def test_normalised_weights_train_by_length_and_direction() -> None:
    layer = nn.utils.weight_norm(nn.Linear(3, 2), name="weight", dim=1)
    assert {"weight_g", "weight_v"} <= {n for n, _ in layer.named_parameters()}
    v = RNG.standard_normal((3, 2)).astype(np.float32)
    g = np.array([2.0, 0.5], np.float32)
    layer.weight_v.set_value(v)
    layer.weight_g.set_value(g)
    x = RNG.standard_normal((4, 3)).astype(np.float32)
    y = layer(paddle.to_tensor(x))
    unit = v / np.linalg.norm(v, axis=0)
    np.testing.assert_allclose(
        y.numpy(), x @ (unit * g) + layer.bias.numpy(), rtol=1e-5, atol=1e-6
    )
    y.sum().backward()
    want = (x.sum(0)[:, None] * unit).sum(0)
    np.testing.assert_allclose(layer.weight_g.grad.numpy(), want, rtol=1e-4, atol=1e-5)
    nn.utils.remove_weight_norm(layer)
    np.testing.assert_allclose(layer.weight.numpy(), unit * g, rtol=1e-5, atol=1e-6)


class Words(paddle.io.Dataset):
    """Sequences of unlike lengths."""

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return np.arange(1, index + 2), index

    def __len__(self) -> int:
        return 10


class ByLength(paddle.io.Sampler):
    """The longest first."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source) - 1, -1, -1))

    def __len__(self) -> int:
        return len(self.data_source)


def padded(rows: list[tuple[Any, int]]) -> tuple[Any, Any]:
    width = max(len(words) for words, _ in rows)
    table = np.zeros((len(rows), width), np.int64)
    for i, (words, _) in enumerate(rows):
        table[i, : len(words)] = words
    return table, np.array([len(words) for words, _ in rows])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_with_its_own_sampler_and_collation(workers: int) -> None:
    data = Words()
    sampler = paddle.io.BatchSampler(
        sampler=ByLength(data), batch_size=4, drop_last=False
    )
    loader = paddle.io.DataLoader(
        data, batch_sampler=sampler, collate_fn=padded, num_workers=workers
    )
    assert len(loader) == 3
    shapes, lengths = [], []
    for table, sizes in loader:
        shapes.append(list(table.shape))
        lengths += sizes.tolist()
        assert (table.numpy() != 0).sum(1).tolist() == sizes.tolist()
    assert shapes == [[4, 10], [4, 6], [2, 2]]
    assert lengths == list(range(10, 0, -1))


def test_a_tagger_on_padded_rows_ignores_what_is_padded() -> None:
    paddle.seed(0)
    table, sizes = padded([Words()[i] for i in (2, 5, 1)])
    emb, rnn = nn.Embedding(12, 6, padding_idx=0), nn.GRU(6, 5, direction="bidirect")
    out = nn.Linear(10, 3)
    words, lengths = paddle.to_tensor(table), paddle.to_tensor(sizes)
    mask = F.sequence_mask(lengths, maxlen=table.shape[1], dtype="float32")
    labels = paddle.to_tensor(table % 3)

    def loss_of(words: Any, labels: Any, mask: Any, lengths: Any) -> Any:
        states, _ = rnn(emb(words), sequence_length=lengths)
        losses = F.cross_entropy(out(states), labels, reduction="none", axis=-1)
        return (losses.reshape(mask.shape) * mask).sum() / mask.sum()

    loss = loss_of(words, labels, mask, lengths)
    single = []
    for row, size in zip(table, sizes, strict=True):
        part = paddle.to_tensor(row[None, :size])
        ones = paddle.ones([1, int(size)])
        single.append(
            float(loss_of(part, part % 3, ones, paddle.to_tensor([int(size)])))
        )
    want = np.average(single, weights=sizes)
    np.testing.assert_allclose(loss.item(), want, rtol=1e-5)
    loss.backward()
    assert not emb.weight.grad.numpy()[0].any()


def test_hooks_see_and_change_what_passes() -> None:
    layer, seen = nn.Linear(2, 2), []
    before = layer.register_forward_pre_hook(lambda _, inputs: (inputs[0] * 2,))
    after = layer.register_forward_post_hook(lambda _, inputs, out: out + 1)
    x = paddle.to_tensor([[1.0, -1.0]], stop_gradient=False)
    x.register_hook(lambda grad: seen.append(grad.numpy()) or grad * 10)
    y = layer(x)
    w, b = layer.weight.numpy(), layer.bias.numpy()
    np.testing.assert_allclose(
        y.numpy(), np.array([[2.0, -2.0]]) @ w + b + 1, rtol=1e-5
    )
    y.sum().backward()
    np.testing.assert_allclose(seen[0], 2 * w.sum(1)[None], rtol=1e-5)
    np.testing.assert_allclose(x.grad.numpy(), 10 * seen[0], rtol=1e-6)
    before.remove()
    after.remove()
    np.testing.assert_allclose(
        layer(x).numpy(), np.array([[1.0, -1.0]]) @ w + b, rtol=1e-5, atol=1e-6
    )
