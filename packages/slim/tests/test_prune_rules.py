"""Which channels go together, in small networks: results against NumPy and hand counts.

A network whose removed channels are exactly zero must compute the same without them.
"""

import numpy as np
import pytest

import proa
from proa import nn
from proa.nn import functional as F
from proa.static import InputSpec
from proa.vision.ops import DeformConv2D
from proa_slim import Pruner
from proa_slim.analysis.recorded import RecordedNetwork
from proa_slim.prune import DependencyGraph, prune_channels
from proa_slim.prune.network import PrunableNetwork

RNG = np.random.default_rng(3)


def graph_of(net, *shapes, dtype="float32"):
    specs = [InputSpec(list(s), dtype, f"x{i}") for i, s in enumerate(shapes)]
    recorded = RecordedNetwork(net, specs)
    return DependencyGraph(recorded.program, recorded.tensors)


def zeroed_equals_removed(net, shape, ratio=0.5, dtype="float32", **kwargs):
    """Set channels to zero, compute, remove them, and compute again."""
    net.eval()
    rng = np.random.default_rng(0)
    for parameter in net.parameters():
        parameter.set_value(rng.normal(size=parameter.shape).astype("float32"))
    sizes = [2 if n is None else n for n in shape]
    if dtype == "int64":
        x = proa.to_tensor(rng.integers(0, 10, sizes))
    else:
        x = proa.to_tensor(rng.normal(size=sizes).astype("float32"))
    pruner = Pruner(net, [InputSpec(list(shape), dtype, "x")], **kwargs)
    groups = pruner.groups
    selector = pruner.selector()
    units = [u for g in groups for u in selector.units(g, ratio)]
    network = pruner.network
    network.zero(units)
    want = net(x)
    before = sum(p.size for p in net.parameters())
    network.remove(units)
    got = net(x)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-4)
    assert sum(p.size for p in net.parameters()) < before
    return pruner


class Residual(nn.Layer):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2D(3, 8, 3, padding=1)
        self.b = nn.Conv2D(8, 8, 3, padding=1)
        self.fc = nn.Linear(8 * 16, 5)

    def forward(self, x):
        x = F.relu(self.a(x))
        x = x + self.b(x)
        return self.fc(F.relu(x).flatten(1))


def test_convolutions_of_a_residual_are_one_group_and_linear_loses_blocks():
    graph = graph_of(Residual(), (None, 3, 4, 4))
    (group,) = graph.groups
    assert group.layers == ("a", "b") and len(group.units) == 8
    assert graph.skipped == {"fc": "its output is an output of the network"}
    zeroed_equals_removed(Residual(), (None, 3, 4, 4))


class Concatenated(nn.Layer):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2D(3, 6, 1), nn.Conv2D(3, 10, 1)
        self.norm, self.last = nn.BatchNorm2D(16), nn.Conv2D(16, 4, 1)

    def forward(self, x):
        return self.last(F.relu(self.norm(proa.concat([self.a(x), self.b(x)], 1))))


def test_concat_gives_each_branch_its_own_part_of_the_next_weight():
    net = Concatenated()
    graph = graph_of(net, (None, 3, 4, 4))
    assert [group.layers for group in graph.groups] == [("a",), ("b",)]
    weight = net.last.weight.numpy()
    pruner = Pruner(net, [1, 3, 4, 4])
    pruner.prune_vars({"b.weight": 0.5}, axis=0)
    remaining = [*range(6), *(6 + np.flatnonzero(pruner.plan.masks["b.weight"][0]))]
    assert len(remaining) == 11
    np.testing.assert_array_equal(net.last.weight.numpy(), weight[:, remaining])
    assert net.norm._mean.shape == [11] and net.norm._num_features == 11
    zeroed_equals_removed(Concatenated(), (None, 3, 4, 4))


def separable():
    return nn.Sequential(
        nn.Conv2D(3, 8, 1),
        nn.Conv2D(8, 8, 3, groups=8, bias_attr=False),
        nn.BatchNorm2D(8),
        nn.ReLU6(),
        nn.Conv2D(8, 6, 1),
    )


def test_depthwise_convolutions_follow_their_input():
    net = separable()
    pruner = zeroed_equals_removed(net, (None, 3, 6, 6))
    assert [group.layers for group in pruner.groups] == [("0", "1")]
    assert net[1].weight.shape == [4, 1, 3, 3]
    assert (net[1]._groups, net[1]._in_channels, net[1]._out_channels) == (4, 4, 4)


@pytest.mark.parametrize("groups", [2, 4])
def test_grouped_convolutions_lose_groups_or_the_same_of_each(groups):
    net = nn.Sequential(
        nn.Conv2D(3, 16, 1),
        nn.Conv2D(16, 16, 3, groups=groups),
        nn.ReLU(),
        nn.Conv2D(16, 4, 1),
    )
    zeroed_equals_removed(net, (None, 3, 5, 5))
    # 4 groups of 4: two groups go; 2 groups of 8: half of each goes.
    assert net[1]._groups == 2 and net[1].weight.shape == [8, 4, 3, 3]


@pytest.mark.parametrize("groups", [2, 8])
def test_group_norm_after_a_convolution(groups):
    net = nn.Sequential(
        nn.Conv2D(3, 16, 1), nn.GroupNorm(groups, 16), nn.ReLU(), nn.Conv2D(16, 4, 1)
    )
    pruner = Pruner(net, [1, 3, 5, 5])
    pruner.prune_vars({"0.weight": 0.5})
    assert net[1]._num_channels == 8
    assert net[1]._num_groups == (2 if groups == 2 else 4)
    assert net(proa.randn([2, 3, 5, 5])).shape == [2, 4, 5, 5]


def test_transposed_convolutions_and_instance_norm():
    net = nn.Sequential(
        nn.Conv2D(3, 8, 1),
        nn.Conv2DTranspose(8, 6, 3, stride=2),
        nn.ReLU(),
        nn.Upsample(scale_factor=2, mode="nearest"),
        nn.AvgPool2D(2),
        nn.Conv2D(6, 2, 1),
    )
    pruner = zeroed_equals_removed(net, (None, 3, 5, 5))
    assert [group.layers for group in pruner.groups] == [("0",), ("1",)]
    assert net[1].weight.shape == [4, 3, 3, 3]
    other = nn.Sequential(nn.Conv2D(3, 8, 1), nn.InstanceNorm2D(8), nn.Conv2D(8, 2, 1))
    prune_channels(other, [1, 3, 5, 5], 0.5)
    assert other[1]._num_features == 4 and other(proa.randn([1, 3, 5, 5])).shape[1] == 2


class Deformable(nn.Layer):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2D(3, 8, 3, padding=1)
        self.offset = nn.Conv2D(8, 27, 3, padding=1)
        self.conv = DeformConv2D(8, 12, 3, padding=1, bias_attr=False)
        self.norm, self.last = nn.BatchNorm2D(12), nn.Conv2D(12, 4, 1)

    def forward(self, x):
        x = F.relu(self.stem(x))
        moved = self.offset(x)
        y = self.conv(x, moved[:, :18], F.sigmoid(moved[:, 18:]))
        return self.last(F.relu(self.norm(y)))


def test_deformable_convolutions_lose_channels_of_input_and_output():
    net = Deformable()
    pruner = zeroed_equals_removed(net, (None, 3, 6, 6))
    assert [group.layers for group in pruner.groups] == [("stem",), ("conv",)]
    assert net.conv.weight.shape == [6, 4, 3, 3]
    assert net.offset.weight.shape == [27, 4, 3, 3]


class Detector(nn.Layer):
    """YOLOv3's two heads: the coarse map is enlarged and meets the fine one."""

    def __init__(self):
        super().__init__()
        self.fine = nn.Conv2D(3, 8, 3, stride=2, padding=1)
        self.coarse = nn.Conv2D(8, 12, 3, stride=2, padding=1)
        self.lateral = nn.Conv2D(12, 6, 1)
        self.neck = nn.Conv2D(14, 10, 3, padding=1)
        self.heads = nn.LayerList([nn.Conv2D(12, 7, 1), nn.Conv2D(10, 7, 1)])

    def forward(self, x):
        fine = F.relu(self.fine(x))
        coarse = F.relu(self.coarse(fine))
        larger = F.interpolate(self.lateral(coarse), scale_factor=2, mode="nearest")
        both = F.relu(self.neck(proa.concat([larger, fine], 1)))
        return self.heads[0](coarse), self.heads[1](both)


def test_detection_heads_stay_whole_and_what_they_read_shrinks():
    net = Detector()
    pruner = Pruner(net, [None, 3, 8, 8])
    layers = [group.layers for group in pruner.groups]
    assert layers == [("fine",), ("coarse",), ("lateral",), ("neck",)]
    assert set(pruner.skipped) == {"heads.0", "heads.1"}
    pruner.prune_groups({group.name: 0.5 for group in pruner.groups})
    assert net.neck.weight.shape == [5, 3 + 4, 3, 3]
    assert [head.weight.shape for head in net.heads] == [[7, 6, 1, 1], [7, 5, 1, 1]]
    outputs = net(proa.randn([2, 3, 8, 8]))
    assert [y.shape for y in outputs] == [[2, 7, 2, 2], [2, 7, 4, 4]]


class AtrousPyramid(nn.Layer):
    """DeepLab's: dilated convolutions, and the mean of the image enlarged again."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2D(3, 8, 3, padding=1)
        self.atrous = nn.Conv2D(8, 6, 3, padding=2, dilation=2)
        self.pool, self.image = nn.AdaptiveAvgPool2D(1), nn.Conv2D(8, 4, 1)
        self.project, self.last = nn.Conv2D(10, 8, 1), nn.Conv2D(8, 2, 1)

    def forward(self, x):
        y = F.relu(self.stem(x))
        whole = F.interpolate(
            self.image(self.pool(y)), size=y.shape[2:], mode="bilinear"
        )
        y = F.relu(self.project(proa.concat([self.atrous(y), whole], 1)))
        return F.interpolate(self.last(y), scale_factor=2, mode="bilinear")


def test_atrous_pyramids_lose_channels_of_each_branch():
    pruner = zeroed_equals_removed(AtrousPyramid(), (None, 3, 6, 6))
    layers = [group.layers for group in pruner.groups]
    assert sorted(layers) == [("atrous",), ("image",), ("project",), ("stem",)]


class SqueezeExcite(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2D(3, 16, 1)
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.down, self.up = nn.Conv2D(16, 4, 1), nn.Conv2D(4, 16, 1)
        self.last = nn.Conv2D(16, 2, 1)

    def forward(self, x):
        x = F.relu(self.conv(x))
        gate = F.hardsigmoid(self.up(F.relu(self.down(self.pool(x)))))
        return self.last(x * gate)


def test_gates_of_squeeze_and_excite_lose_what_they_multiply():
    pruner = Pruner(SqueezeExcite(), [1, 3, 4, 4])
    assert [group.layers for group in pruner.groups] == [("conv", "up"), ("down",)]
    zeroed_equals_removed(SqueezeExcite(), (None, 3, 4, 4))


class Attention(nn.Layer):
    """With code of its own, and one product for q, k and v."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.inner = heads, width
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        qkv = self.qkv(self.norm(x)).reshape([0, 0, 3, self.heads, -1])
        q, k, v = (qkv[:, :, i].transpose([0, 2, 1, 3]) for i in range(3))
        weights = F.softmax(q @ k.transpose([0, 1, 3, 2]) * 8**-0.5)
        y = (weights @ v).transpose([0, 2, 1, 3]).reshape([0, 0, self.inner])
        return x + self.out(y)


def test_heads_of_multi_head_attention_go_whole():
    net = nn.MultiHeadAttention(32, 4)
    pruner = Pruner(net, [InputSpec([None, None, 32], "float32", "x")])
    (group,) = pruner.groups
    assert group.layers == ("q_proj", "k_proj", "v_proj") and len(group.units) == 4
    weight = net.q_proj.weight.numpy()
    pruner.prune_vars({"q_proj.weight": 0.5})
    remaining = pruner.plan.masks["q_proj.weight"][1].reshape(4, 8)
    assert sorted(remaining.sum(1)) == [0, 0, 8, 8]
    np.testing.assert_array_equal(
        net.q_proj.weight.numpy(), weight[:, remaining.reshape(-1)]
    )
    assert (net.num_heads, net.embed_dim, net.head_dim) == (2, 16, 8)
    assert net.out_proj.weight.shape == [16, 32]
    zeroed_equals_removed(nn.MultiHeadAttention(32, 4), (None, None, 32))


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.SimpleRNN])
def test_hidden_units_of_recurrent_layers_go_from_every_gate(cell):
    class Tagger(nn.Layer):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(10, 12)
            self.rnn = cell(12, 16, 2, direction="bidirect")
            self.out = nn.Linear(32, 3)

        def forward(self, ids):
            return self.out(self.rnn(self.table(ids))[0])

    net = Tagger()
    zeroed_equals_removed(net, (None, 7), dtype="int64")
    assert net.rnn.hidden_size == 8 and net.rnn.input_size == 6
    assert net.rnn.weight_ih_l1.shape[1] == 16 and net.out.weight.shape == [16, 3]
    assert net.table.weight.shape == [10, 6] and net.table._dim == 6


class Shuffled(nn.Layer):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2D(3, 16, 1), nn.Conv2D(16, 4, 1)
        self.shuffle = nn.ChannelShuffle(2)

    def forward(self, x):
        return self.b(self.shuffle(F.relu(self.a(x))))


def test_channel_shuffles_lose_the_same_of_each_part():
    net = Shuffled()
    pruner = zeroed_equals_removed(net, (None, 3, 4, 4))
    assert len(pruner.groups[0].units) == 8 and net.a.weight.shape[0] == 8


class Halves(nn.Layer):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 16), nn.Linear(8, 3)

    def forward(self, x):
        left, right = proa.split(self.a(x), 2, axis=-1)
        return self.b(left * F.sigmoid(right))


def test_equal_parts_of_a_split_stay_equal():
    net = Halves()
    zeroed_equals_removed(net, (None, 6))
    assert net.a.weight.shape == [6, 8] and net.b.weight.shape == [4, 3]


class Unknown(nn.Layer):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 8)
        self.c = nn.Linear(8, 3)

    def forward(self, x):
        return self.c(F.relu(self.b(proa.sort(self.a(x), axis=-1))))


@pytest.mark.feature("L480")
def test_what_an_unknown_operator_reads_stays_whole_and_is_named():
    net = Unknown()
    pruner = Pruner(net, [1, 6])
    assert [group.layers for group in pruner.groups] == [("b",)]
    reason = pruner.skipped["a"]
    assert "sort" in reason and "has no rule" in reason and "proa.sort(self.a" in reason
    prune_channels(net, [1, 6], 0.5)
    assert net.a.weight.shape == [6, 8] and net.b.weight.shape == [8, 4]
    assert net(proa.randn([2, 6])).shape == [2, 3]


class FixedSize(nn.Layer):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 8)
        self.c = nn.Linear(8, 3)

    def forward(self, x):
        y = self.a(x).reshape([-1, 4, 2]).sum(-1)
        y = proa.concat([y, y], -1).reshape([-1, 8])
        return self.c(F.relu(self.b(y)))


def test_sizes_written_into_the_code_are_found_and_their_layers_stay_whole():
    net = FixedSize()
    pruner = Pruner(net, [2, 6])
    assert [group.layers for group in pruner.groups] == [("b",)]
    assert "code of the network" in pruner.skipped["a"]
    before = net.a.weight.numpy()
    prune_channels(net, [2, 6], 0.5)
    np.testing.assert_array_equal(net.a.weight.numpy(), before)
    assert net(proa.randn([2, 6])).shape == [2, 3]


def test_numbers_of_an_own_layer_follow_its_weights():
    net = nn.Sequential(Attention(), nn.Linear(32, 3))
    pruner = zeroed_equals_removed(net, (None, 5, 32))
    assert net[0].heads == 2 and net[0].inner == 16
    assert net[0].qkv.weight.shape == [32, 48]
    assert pruner.groups


def test_shared_and_transposed_weights_shrink_once():
    class Tied(nn.Layer):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(10, 8)
            self.a = nn.Linear(8, 8)

        def forward(self, ids):
            return F.relu(self.a(self.table(ids))) @ self.table.weight.t()

    net = Tied()
    zeroed_equals_removed(net, (None, 4), dtype="int64")
    assert net.table.weight.shape == [10, 4] and net.a.weight.shape == [4, 4]


def test_a_network_with_nothing_to_remove_is_refused():
    from proa.errors import PreconditionNotMetError

    with pytest.raises(PreconditionNotMetError, match="output of the network"):
        PrunableNetwork(nn.Linear(4, 4), [InputSpec([None, 4], "float32", "x")])
