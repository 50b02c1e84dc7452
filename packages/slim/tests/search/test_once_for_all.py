"""OFA: smaller networks are cut out of a trained one, share its weights, are found."""

import copy

import numpy as np
import pytest

import proa
import proa.nn.functional as F
from proa import nn
from proa.errors import InvalidArgumentError
from proa.static import InputSpec
from proa_slim import Pruner
from proa_slim.analysis import flops, model_size
from proa_slim.search import OFA

SHAPE = [None, 3, 8, 8]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((16, 3, 8, 8)).astype(np.float32)


class Block(nn.Layer):
    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2D(channels, channels, 5, padding=2, groups=channels)
        self.point = nn.Conv2D(channels, channels, 1)
        self.norm = nn.BatchNorm2D(channels)

    def forward(self, x):
        return x + F.relu(self.norm(self.point(self.depthwise(x))))


def network():
    proa.seed(3)
    net = nn.Sequential(
        nn.Conv2D(3, 16, 3, padding=1), nn.BatchNorm2D(16), nn.ReLU(),
        Block(16), Block(16), nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(16, 4),
    )  # fmt: skip
    net.train()
    net(proa.to_tensor(X))
    net.eval()
    return net


def elastic(net):
    kernels = {"3.depthwise": (1, 3), "4.depthwise": (3,)}
    return OFA(net, SHAPE, widths=(0.25, 0.5), kernels=kernels, depth=("3", "4"))


def run(net, x=X):
    with proa.no_grad():
        return net(proa.to_tensor(x)).numpy()


def test_a_narrow_network_is_the_pruned_one_and_its_gradients_find_their_places():
    net = network()
    whole, state = run(net), {k: v.numpy() for k, v in net.state_dict().items()}
    ofa = OFA(net, SHAPE, widths=(0.5,))
    (name,) = ofa.space.names()
    pruned, zeroed = copy.deepcopy(net), copy.deepcopy(net)
    Pruner(pruned, SHAPE).prune_groups({name.removeprefix("width "): 0.5})
    lazy = Pruner(zeroed, SHAPE)
    lazy.prune_groups({name.removeprefix("width "): 0.5}, apply="lazy")
    with ofa.subnet([1]) as small:
        y = small(proa.to_tensor(X))
        assert small[0].weight.shape == [8, 3, 3, 3]
        assert y.numpy().tobytes() == run(pruned).tobytes()
        y.square().sum().backward()
    assert run(net).tobytes() == whole.tobytes()
    for key, value in net.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), state[key])
    zeroed(proa.to_tensor(X)).square().sum().backward()
    remaining = np.abs(zeroed[0].weight.numpy()).sum((1, 2, 3)) > 0
    assert remaining.sum() == 8
    for path in ("0.weight", "4.point.weight", "7.weight"):
        got, want = (
            dict(n.named_parameters())[path].grad.numpy() for n in (net, zeroed)
        )
        mask = {"0.weight": remaining, "7.weight": remaining}.get(
            path, np.outer(remaining, remaining)
        )
        np.testing.assert_allclose(got[mask], want[mask], rtol=2e-4, atol=1e-4)
        assert not got[~mask].any()


def test_gradients_of_several_networks_add_up():
    net = network()
    ofa = elastic(net)
    choices = [ofa.largest, ofa.smallest, ofa.sample()]
    alone = []
    for tokens in choices:
        with ofa.subnet(tokens):
            net(proa.to_tensor(X)).square().sum().backward()
        alone.append([np.array(p.grad.numpy()) if p.grad is not None else 0
                      for p in net.parameters()])  # fmt: skip
        for parameter in net.parameters():
            parameter.clear_gradient(set_to_zero=False)
    for tokens in choices:
        with ofa.subnet(tokens):
            net(proa.to_tensor(X)).square().sum().backward()
    for parameter, *parts in zip(net.parameters(), *alone, strict=True):
        np.testing.assert_allclose(
            parameter.grad.numpy(), sum(parts), rtol=1e-4, atol=1e-4
        )


def test_a_smaller_kernel_is_the_middle_of_the_larger():
    net = network()
    ofa = OFA(net, SHAPE, kernels={"3.depthwise": (1, 3)})
    given = {"kernel 3.depthwise": 3}
    layer = net[3].depthwise
    middle = layer.weight[:, :, 1:4, 1:4]
    x = proa.to_tensor(RNG.standard_normal((2, 16, 8, 8)).astype(np.float32))
    want = F.conv2d(x, middle, layer.bias, padding=1, groups=16).numpy()
    with ofa.subnet(ofa.space.tokens(given)):
        np.testing.assert_array_equal(net[3].depthwise(x).numpy(), want)
        net[3].depthwise(x).sum().backward()
    gradient = layer.weight.grad.numpy()
    assert gradient[:, :, 1:4, 1:4].any()
    gradient[:, :, 1:4, 1:4] = 0
    assert not gradient.any()
    assert layer.weight.shape == [16, 1, 5, 5] and layer._kernel_size == [5, 5]


def test_layers_are_left_out_and_networks_exported(tmp_path):
    net = network()
    ofa = elastic(net)
    small = ofa.export(ofa.smallest, [proa.to_tensor(X)])
    assert model_size(small) < 0.25 * model_size(net)
    assert flops(small, SHAPE) < 0.2 * flops(net, SHAPE)
    path = str(tmp_path / "small.proa")
    proa.jit.save(small, path, [InputSpec(SHAPE, "float32", "x")])
    loaded = proa.jit.load(path)
    np.testing.assert_allclose(run(loaded), run(small), rtol=1e-4, atol=1e-5)
    whole = ofa.export(ofa.largest)
    assert run(whole).tobytes() == run(net).tobytes()
    # Statistics of the smaller network are its own, those of the whole untouched.
    given = {**ofa.space.describe(ofa.largest), "depth 3": False}
    cut = ofa.export(ofa.space.tokens(given))
    expected = nn.Sequential(*(net[i] for i in (0, 1, 2, 4, 5, 6, 7)))
    expected.eval()
    assert run(cut).tobytes() == run(expected).tobytes()


def test_narrow_networks_are_part_of_wider_ones():
    ofa = OFA(network(), SHAPE, widths=(0.25, 0.5))
    masks_by_width = []
    for tokens in ([1], [2]):
        masks = ofa._masks(ofa.space.describe(tokens))
        masks_by_width.append(masks[id(ofa.network[0].weight)][0])
    assert masks_by_width[0].sum() == 8 and masks_by_width[1].sum() == 4
    assert not (masks_by_width[1] & ~masks_by_width[0]).any()


def test_tasks_choose_what_is_sampled():
    ofa = elastic(network())
    ofa.set_task("kernel")
    found = np.array([ofa.sample() for _ in range(50)])
    varies = found.max(0) > 0
    assert varies.tolist() == [n.startswith("kernel ") for n in ofa.space.names()]
    with pytest.raises(InvalidArgumentError, match="kernel, depth, width, got 'size'"):
        ofa.set_task("size")


def test_networks_that_were_trained_together_beat_those_that_were_cut():
    """Orientation of a wave in noise: the smallest network after joint training."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 4, 512)
    grid = np.arange(8) / 8 * 2 * np.pi
    angle = y * np.pi / 4
    phase = np.cos(angle)[:, None, None] * grid[None, :, None]
    phase = phase + np.sin(angle)[:, None, None] * grid[None, None, :]
    x = np.sin(2 * phase)[:, None] + rng.standard_normal((512, 3, 8, 8)) * 0.5
    x = x.astype(np.float32)

    def accuracy(net):
        return float((run(net, x).argmax(1) == y).mean())

    net = network()
    ofa = elastic(net)
    adam = proa.optimizer.Adam(5e-3, parameters=net.parameters())
    entropy = nn.CrossEntropyLoss()

    def train(epochs, choose):
        for _ in range(epochs):
            net.train()
            for rows in rng.permutation(512).reshape(-1, 64):
                for tokens in choose():
                    images = proa.to_tensor(x[rows])
                    with ofa.subnet(tokens):
                        entropy(net(images), proa.to_tensor(y[rows])).backward()
                adam.step()
                adam.clear_grad()
            net.eval()

    train(6, lambda: [ofa.largest])
    inputs = [proa.to_tensor(x[:256])]
    cut = accuracy(ofa.export(ofa.smallest, inputs))
    train(8, lambda: [ofa.largest, ofa.sample(), ofa.smallest])
    assert accuracy(net) > 0.9
    together = accuracy(ofa.export(ofa.smallest, inputs))
    assert together > cut + 0.1
    sizes = []

    def small(tokens):
        return flops(ofa.export(tokens), SHAPE) < 0.5 * flops(net, SHAPE)

    def measure(result):
        sizes.append(flops(result, SHAPE))
        return accuracy(result)

    best = ofa.search(measure, 12, small, inputs)
    assert best.reward >= together - 0.02 and max(sizes) < 0.5 * flops(net, SHAPE)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "widths, kernels or depth, got none"),
        ({"widths": (0.5, 1.0)}, r"widths in \(0, 1\)"),
        ({"kernels": {"3.depthwise": (2,)}}, "odd kernels below 5"),
        ({"kernels": {"3.point": (1,)}}, "odd kernels below 1"),
        ({"kernels": {"7": (1,)}}, "a Conv2D with an odd square kernel .* '7'"),
        ({"kernels": {"9": (1,)}}, "the path of a layer, got '9'"),
        ({"depth": ("5.x",)}, "the path of a layer, got '5.x'"),
        ({"depth": ("6",)}, "runs without '6', got"),
    ],
)
def test_wrong_arguments_name_the_layer(arguments, text):
    with pytest.raises(InvalidArgumentError, match=text):
        OFA(network(), SHAPE, **arguments)


def test_a_layer_between_groups_of_channels_cannot_be_left_out():
    net = nn.Sequential(
        nn.Conv2D(3, 8, 1), nn.Conv2D(8, 8, 1), nn.Conv2D(8, 8, 1), nn.Conv2D(8, 4, 1)
    )
    ofa = OFA(net, SHAPE, depth=("1",))
    assert run(ofa.export(ofa.smallest)).shape == (16, 4, 8, 8)
    with pytest.raises(InvalidArgumentError, match="runs without '1', got"):
        OFA(net, SHAPE, widths=(0.5,), depth=("1",))
