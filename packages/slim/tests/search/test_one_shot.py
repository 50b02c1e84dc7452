"""The supernet: shared weights, paths, statistics of norms, and the search."""

import itertools

import numpy as np
import pytest
from tabulated import space

import proa
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa_slim import search
from proa_slim.search import Block, ChoiceSpace, OneShot, SuperNet
from proa_slim.search.one_shot import paths


def small_space():
    """Two places of which one may be left out."""

    def build(arch):
        first = Block("conv", 2, 4, arch["kernel"])
        second = Block("conv", 4, 4) if arch["deep"] else None
        return [first, second, Block("head", 4, 2)]

    return ChoiceSpace({"kernel": [1, 3], "deep": [False, True]}, build)


@pytest.mark.feature("L482", how="mechanism")
def test_architectures_share_the_weights_of_equal_blocks():
    supernet = SuperNet(space())
    a, b = ([1, 2, 3, 0, 4], [1, 2, 0, 0, 4])
    first, second = supernet.layers_of(a), supernet.layers_of(b)
    same = [x is y for x, y in zip(first, second, strict=True)]
    assert same == [True, True, True, False, True, True, True]
    # Stem, 3 + 4 + 4 + 4 + 4 blocks, and two at the end.
    assert sum(len(list(place)) for place in supernet.places) == 22


def test_a_path_computes_what_the_network_of_its_own_does():
    proa.seed(0)
    supernet = SuperNet(space())
    x = proa.randn([4, 1, 14, 14])
    for tokens in ([0, 0, 0, 0, 0], [2, 4, 3, 1, 2]):
        network = supernet.network(tokens)
        supernet.set_path(tokens)
        network.eval(), supernet.eval()
        assert (network(x).numpy() == supernet(x).numpy()).all()
        weight = network.parameters()[0]
        weight.set_value(weight.numpy() + 1)  # a copy
        assert (network(x).numpy() != supernet(x).numpy()).any()


def test_only_the_path_gets_gradients():
    supernet = SuperNet(small_space())
    supernet.set_path([0, 0])
    supernet(proa.randn([2, 2, 4, 4])).sum().backward()
    got = [name for name, p in supernet.named_parameters() if p.grad is not None]
    assert {name.split(".")[1] + name.split(".")[2] for name in got} == {"00", "20"}


def test_widths_that_depend_on_two_choices_are_found():
    def build(arch):
        plan = [Block("conv", 1, arch["a"]), Block("conv", arch["a"], arch["b"])]
        return [*plan, Block("head", arch["b"], 2)]

    wide = ChoiceSpace({"a": [2, 4, 8], "b": [2, 4]}, build)
    supernet = SuperNet(wide)
    assert [len(list(place)) for place in supernet.places] == [3, 6, 2]
    for tokens in itertools.product(range(3), range(2)):
        supernet.set_path(tokens)
        assert supernet(proa.randn([1, 1, 4, 4])).shape == [1, 2]


def test_fair_paths_use_every_value_as_often():
    groups = paths([4, 2, 3], "fair", np.random.default_rng(0))
    for group in itertools.islice(groups, 20):
        columns = list(zip(*group, strict=True))
        assert sorted(columns[0]) == [0, 1, 2, 3]
        assert sorted(columns[1]) == [0, 0, 1, 1]
        assert set(columns[2]) == {0, 1, 2}
    uniform = paths([4, 2], "uniform", np.random.default_rng(0))
    drawn = [next(uniform)[0][0] for _ in range(2000)]
    assert np.bincount(drawn) == pytest.approx([500] * 4, abs=80)


def test_norms_get_the_mean_statistics_of_the_path():
    proa.seed(0)
    one_shot = OneShot(small_space())
    inputs = [proa.randn([8, 2, 5, 5]) * (i + 1) for i in range(3)]
    one_shot.evaluate([0, 1], lambda network: 0.0, inputs)
    conv, norm = one_shot.supernet.path[0].sublayers()[:2]
    means = [conv(x).numpy().mean((0, 2, 3)) for x in inputs]
    variances = [conv(x).numpy().var((0, 2, 3)) for x in inputs]
    np.testing.assert_allclose(norm._mean.numpy(), np.mean(means, 0), atol=1e-5)
    expected = np.mean(variances, 0)
    np.testing.assert_allclose(norm._variance.numpy(), expected, rtol=0.02)
    assert norm._momentum == 0.9
    with pytest.raises(PreconditionNotMetError, match="calibration, got none"):
        one_shot.evaluate([0, 1], lambda network: 0.0)


@pytest.mark.feature("L482", how="mechanism")
def test_the_search_finds_the_kernel_that_the_task_needs():
    # Which of two rows is brighter: a 1 x 1 kernel and a mean cannot tell.
    rng = np.random.default_rng(0)
    x = rng.standard_normal((512, 2, 4, 4)).astype("float32")
    y = ((x[:, :, 1:] * x[:, :, :-1]).sum((1, 2, 3)) > 0).astype("int64")
    proa.seed(0)
    one_shot = OneShot(small_space(), "fair")
    adam = proa.optimizer.Adam(0.01, parameters=one_shot.supernet.parameters())

    def batches():
        for rows in np.split(rng.permutation(512), 8):
            yield proa.to_tensor(x[rows]), proa.to_tensor(y[rows])

    one_shot.train(batches, adam, proa.nn.CrossEntropyLoss(), epochs=25)
    inputs = [proa.to_tensor(part) for part in np.split(x, 4)]

    def accuracy(network):
        return (network(proa.to_tensor(x)).numpy().argmax(1) == y).mean()

    best = one_shot.search(accuracy, inputs, steps=4, population=4)
    assert best.arch["kernel"] == 3
    first = one_shot.evaluate([0, 0], accuracy, inputs)
    assert best.reward > first + 0.1


@pytest.mark.parametrize("sampling", ["uniform", "fair"])
def test_a_training_that_was_stopped_goes_on_after_its_last_epoch(sampling, tmp_path):
    rng = np.random.default_rng(0)
    x = proa.to_tensor(rng.standard_normal((32, 2, 4, 4)).astype("float32"))
    y = proa.to_tensor(rng.integers(0, 2, 32))

    def trained(path, stop_at=None):
        proa.seed(0)
        one_shot, calls = OneShot(small_space(), sampling), []
        rate = proa.optimizer.lr.CosineAnnealingDecay(0.01, 8)
        adam = proa.optimizer.Adam(rate, parameters=one_shot.supernet.parameters())

        def batches():
            calls.append(1)
            yield x[:16], y[:16]
            if len(calls) == stop_at:
                raise KeyboardInterrupt
            yield x[16:], y[16:]

        loss = proa.nn.CrossEntropyLoss()
        one_shot.train(batches, adam, loss, 4, rate, checkpoint=path)
        return one_shot, len(calls)

    whole, _ = trained(None)
    path = tmp_path / "supernet.pdparams"
    with pytest.raises(KeyboardInterrupt):
        trained(path, stop_at=3)
    found, epochs = trained(path)
    assert epochs == 2
    for a, b in zip(
        whole.supernet.parameters(), found.supernet.parameters(), strict=True
    ):
        assert a.numpy().tobytes() == b.numpy().tobytes()
    other = OneShot(space())
    adam = proa.optimizer.Adam(0.01, parameters=other.supernet.parameters())
    with pytest.raises(PreconditionNotMetError, match=r"got one of \[2, 2\]"):
        other.train(list, adam, proa.nn.CrossEntropyLoss(), 4, checkpoint=path)


def test_errors_name_choices():
    with pytest.raises(InvalidArgumentError, match="sampling must be uniform or fair"):
        next(paths([2], "greedy", np.random.default_rng(0)))
    ragged = ChoiceSpace(
        {"a": [1], "n": [1, 2]}, lambda arch: [Block("conv", 1, 1)] * arch["n"]
    )
    with pytest.raises(InvalidArgumentError, match="got 1 and 2, by the choice 'n'"):
        SuperNet(ragged)
    many = ChoiceSpace({"w": range(1, 100)}, lambda arch: [Block("conv", 1, arch["w"])])
    with pytest.raises(InvalidArgumentError, match=r"at most 64 blocks .* choices w"):
        SuperNet(many)
    with pytest.raises(InvalidArgumentError, match="'deep' in"):
        SuperNet(small_space()).set_path([0, 2])


def test_a_big_built_in_space_has_a_supernet():
    mobile = search.MobileNetV1Space(32, 4, 3, scale=0.25, num_classes=4)
    supernet = SuperNet(mobile)
    rng = np.random.default_rng(1)
    for _ in range(4):
        supernet.set_path([int(rng.integers(n)) for n in mobile.range_table()])
        assert supernet(proa.randn([1, 3, 32, 32])).shape == [1, 4]
