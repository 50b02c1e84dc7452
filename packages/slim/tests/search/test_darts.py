"""DARTS and PC-DARTS: operations, gradients of the architecture, derived cells."""

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError
from proa_slim import search
from proa_slim.search import (
    OPERATIONS,
    DARTSearch,
    DartsNetwork,
    DerivedNetwork,
    Genotype,
)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [8, 7])
def test_each_operation_keeps_channels_and_strides(name, stride, size):
    layer = OPERATIONS[name](4, stride, True)
    shape = layer(proa.randn([2, 4, size, size])).shape
    assert shape == [2, 4, -(-size // stride), -(-size // stride)]


def test_a_mixed_operation_is_the_weighted_sum():
    proa.seed(0)
    mixed = search.MixedOperation(["skip_connect", "none", "sep_conv_3x3"], 4, 1)
    x = proa.randn([2, 4, 6, 6])
    weights = proa.to_tensor([0.2, 0.5, 0.3])
    expected = 0.2 * x.numpy() + 0.3 * mixed.choices[2](x).numpy()
    np.testing.assert_allclose(mixed(x, weights).numpy(), expected, atol=1e-6)


def test_partial_channels_pass_and_are_shuffled():
    mixed = search.PartialMixedOperation(["skip_connect"], 8, 1)
    x = np.arange(8, dtype="float32").reshape(1, 8, 1, 1)
    result = mixed(proa.to_tensor(x), proa.to_tensor([10.0])).numpy().ravel()
    # Two of eight channels are mixed; a shuffle of four groups of two follows.
    assert result.tolist() == [0, 2, 4, 6, 10, 3, 5, 7]
    with pytest.raises(InvalidArgumentError, match="divisible by 4"):
        search.PartialMixedOperation(["none"], 6, 1)


class Bilevel(nn.Layer):
    """Losses (w x + a - y)^2 in closed form: one weight, one architecture parameter."""

    def __init__(self):
        super().__init__()
        self.w = self.create_parameter([1])
        self.a = self.create_parameter([1])
        self.w.set_value(np.array([0.7], "float32"))
        self.a.set_value(np.array([0.3], "float32"))

    def forward(self, x):
        return self.w * proa.tanh(self.a * x) + self.a

    def arch_parameters(self):
        return [self.a]

    def weight_parameters(self):
        return [self.w]

    def genotype(self):
        return Genotype((), (), ())


@pytest.mark.feature("L484")
def test_unrolled_gradients_are_those_after_a_step_of_the_weights():
    def square(result, y):
        return ((result - y) ** 2).mean()

    rng = np.random.default_rng(0)
    train, valid = rng.standard_normal((2, 2, 16))
    model = Bilevel()
    darts = DARTSearch(model, [], [], learning_rate=0.1, loss=square, weight_decay=0.01)
    tensors = [
        tuple(proa.to_tensor(v.astype("float32")) for v in batch)
        for batch in (train, valid)
    ]
    (found,) = darts.unrolled_gradients(*tensors)

    def outer(a):  # in float64, with the derivative of the inner loss by hand
        w, t = 0.7, np.tanh(a * train[0])
        slope = (2 * (w * t + a - train[1]) * t).mean()
        w = w - 0.1 * (slope + 0.01 * w)
        return ((w * np.tanh(a * valid[0]) + a - valid[1]) ** 2).mean()

    expected = (outer(0.3 + 1e-5) - outer(0.3 - 1e-5)) / 2e-5
    assert found[0] == pytest.approx(expected, rel=2e-3)
    assert model.w.numpy()[0] == np.float32(0.7)  # as before


def batches(count=6):
    """Labels by whether neighbouring pixels agree: pooling alone cannot tell."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(count):
        x = rng.standard_normal((32, 1, 8, 8)).astype("float32")
        y = ((x[..., 1:] * x[..., :-1]).sum((1, 2, 3)) > 0).astype("int64")
        found.append((proa.to_tensor(x), proa.to_tensor(y)))
    return found


def network(partial=False, **more):
    proa.seed(0)
    names = ("none", "avg_pool_3x3", "skip_connect", "sep_conv_3x3")
    return DartsNetwork(8, 2, 3, 2, 1, names, partial=partial, **more)


@pytest.mark.feature("L484")
@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("unrolled", [False, True])
def test_a_search_learns_and_derives_a_network(partial, unrolled):
    model, data = network(partial), batches(4)
    before = [p.numpy().copy() for p in model.arch_parameters()]
    darts = DARTSearch(
        model, data[:2], lambda: data[2:], learning_rate=0.05, num_epochs=4,
        arch_learning_rate=0.02, unrolled=unrolled,
    )  # fmt: skip
    losses = [darts.train_one_epoch(epoch)[0] for epoch in range(4)]
    assert losses[-1] < losses[0]
    after = [p.numpy() for p in model.arch_parameters()]
    assert len(after) == (4 if partial else 2)
    assert all((a != b).any() for a, b in zip(after, before, strict=True))
    found = model.genotype()
    assert len(found.normal) == len(found.reduce) == 4 and found.concat == (2, 3)
    assert all(name != "none" for name, _ in found.normal + found.reduce)
    derived = DerivedNetwork(found, 8, 2, 3, 1)
    result = derived(data[0][0])
    assert result.shape == [32, 2]
    result.sum().backward()
    assert 0 <= darts.valid_one_epoch() <= 1


def test_the_genotype_has_the_strongest_edges():
    model = network()
    alphas = np.zeros((5, 4), "float32")
    alphas[0, 3], alphas[1, 1] = 2, 1  # node 2 reads both
    alphas[2, 0] = 9  # "none" does not count
    alphas[3, 2], alphas[4, 3] = 1, 3
    model.alphas_normal.set_value(alphas)
    assert model.genotype().normal == (
        ("sep_conv_3x3", 0), ("avg_pool_3x3", 1),
        ("skip_connect", 1), ("sep_conv_3x3", 2),
    )  # fmt: skip


def test_the_architecture_rests_in_the_first_epochs():
    model, data = network(), batches(2)
    before = model.alphas_normal.numpy().copy()
    DARTSearch(model, data, data, num_epochs=1, epochs_no_archopt=1).train()
    assert (model.alphas_normal.numpy() == before).all()


def test_a_search_goes_on_from_its_checkpoint(tmp_path):
    data = batches(3)

    def begun(folder, **more):
        return DARTSearch(
            network(), data[:2], data[2:], num_epochs=4, save_dir=folder,
            arch_learning_rate=0.02, **more,
        )  # fmt: skip

    whole = begun(tmp_path / "whole")
    whole.train()
    part = begun(tmp_path / "part")
    part.num_epochs = 2  # as if it was killed after these
    part.train()
    again = begun(tmp_path / "part", resume=True)
    again.train()
    for a, b in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()
    assert (tmp_path / "part" / "genotype.json").is_file()


@pytest.mark.feature("L484")
def test_strategies_of_ones_own_override_edges_and_steps():
    class Noisy(search.MixedOperation):
        calls = 0

        def forward(self, x, weights):
            Noisy.calls += 1
            return super().forward(x, weights)

    class Fixed(DARTSearch):
        steps = 0

        def architecture_step(self, train, valid):
            self.steps += 1

    data = batches(2)
    darts = Fixed(network(mixed=Noisy), data, data, num_epochs=1)
    darts.train()
    assert darts.steps == 2 and Noisy.calls == 2 * 3 * 5


def test_arguments_are_checked():
    with pytest.raises(InvalidArgumentError, match="positive num_epochs"):
        DARTSearch(network(), [], [], num_epochs=0)
    with pytest.raises(InvalidArgumentError, match="operations must be among none"):
        DartsNetwork(operations=["conv_9x9"])
    with pytest.raises(InvalidArgumentError, match="positive sizes"):
        DartsNetwork(layers=0)
    late = Genotype((("none", 2), ("none", 0)), (("none", 0), ("none", 1)), (2,))
    with pytest.raises(InvalidArgumentError, match=r"\('none', 2\) as edge 0"):
        DerivedNetwork(late)
    with pytest.raises(InvalidArgumentError, match="batches of validation"):
        DARTSearch(network(), batches(1), [], num_epochs=1).train()
