"""Search spaces: what their tokens mean, and networks of them."""

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, InvalidTypeError, NotFoundError
from proa_slim import flops, search
from proa_slim.search import Block, ChoiceSpace

WHOLE = {
    "MobileNetV1Space": {"input_size": 32, "output_size": 4, "block_num": 3},
    "MobileNetV2Space": {"input_size": 32, "output_size": 4, "block_num": 3},
    "ResNetSpace": {"input_size": 32, "output_size": 4, "block_num": 3},
    "BlazeFaceSpace": {"input_size": 32, "output_size": 4, "block_num": 3},
}


def image(space):
    return proa.randn([2, *space.input_shape[1:]])


@pytest.mark.feature("L481")
@pytest.mark.parametrize("name", WHOLE)
def test_random_architectures_of_each_space_train(name):
    space = search.SEARCHSPACE.get(name)(**WHOLE[name], scale=0.25, num_classes=7)
    rng = np.random.default_rng(0)
    for _ in range(3):
        tokens = [int(rng.integers(n)) for n in space.range_table()]
        network = space.token2arch(tokens)
        result = network(image(space))
        assert result.shape == [2, 7]
        result.sum().backward()
        assert all(p.grad is not None for p in network.parameters())


@pytest.mark.parametrize("name", WHOLE)
def test_without_classes_a_space_gives_maps_of_the_output_size(name):
    space = search.SEARCHSPACE.get(name)(**WHOLE[name], scale=0.25, num_classes=0)
    network = space.token2arch()
    assert network(image(space)).shape[2:] == [4, 4]


def test_the_first_architecture_of_mobile_net_v1_is_the_published_network():
    # Howard et al., 2017: 569 million multiply-adds, 4.2 million parameters.
    network = search.MobileNetV1Space().token2arch()
    assert flops(network, [None, 3, 224, 224]) == pytest.approx(569e6, rel=0.01)
    assert sum(p.size for p in network.parameters()) == pytest.approx(4.2e6, rel=0.02)


def test_the_first_architecture_of_mobile_net_v2_is_the_published_network():
    # Sandler et al., 2018: 300 million multiply-adds, 3.4 million parameters.
    network = search.MobileNetV2Space().token2arch()
    assert flops(network, [None, 3, 224, 224]) == pytest.approx(300e6, rel=0.03)
    assert sum(p.size for p in network.parameters()) == pytest.approx(3.5e6, rel=0.03)


def test_the_first_architecture_of_res_net_is_res_net_18():
    # He et al., 2016: 1.8 billion multiply-adds; 11.69 million parameters.
    network = search.ResNetSpace().token2arch()
    assert flops(network, [None, 3, 224, 224]) == pytest.approx(1.814e9, rel=0.01)
    assert sum(p.size for p in network.parameters()) == pytest.approx(11.69e6, rel=0.01)


@pytest.mark.parametrize(
    "name", ["MobileNetV1BlockSpace", "MobileNetV2BlockSpace", "ResNetBlockSpace"]
)
def test_spaces_of_blocks_halve_as_their_mask_says(name):
    space = search.SEARCHSPACE.get(name)(block_mask=[1, 0, 1], in_channels=8)
    blocks = space.token2arch()
    assert blocks(proa.randn([1, 8, 16, 16])).shape[2:] == [4, 4]


@pytest.mark.feature("L481")
def test_a_space_of_ones_own_is_a_table_of_choices():
    def build(arch):
        layers = [proa.nn.Linear(4, arch["width"]), proa.nn.ReLU()] * arch["depth"]
        return proa.nn.Sequential(*layers[:2], proa.nn.Linear(arch["width"], 2))

    space = ChoiceSpace(
        {"width": [8, 16], "depth": [1, 2, 3]}, build, {"width": 16, "depth": 2}
    )
    assert space.range_table() == [2, 3] and space.size == 6
    assert space.init_tokens() == [1, 1]
    assert space.describe([0, 2]) == {"width": 8, "depth": 3}
    assert space.token2arch([0, 0])[0].weight.shape == [4, 8]
    with pytest.raises(InvalidTypeError, match="sequence of blocks"):
        space.plan([0, 0])


@search.SEARCHSPACE.register
class DepthSpace(search.SearchSpace):
    """As a space is written for PaddleSlim."""

    def init_tokens(self):
        return [1]

    def range_table(self):
        return [3]

    def token2arch(self, tokens=None):
        return lambda x: x * (tokens or self.init_tokens())[0]


@pytest.mark.feature("L481")
def test_a_registered_space_is_found_by_its_name():
    (arch,) = search.SANAS(["DepthSpace"], save_checkpoint=None).next_archs()
    assert arch(5) == 5


def test_errors_name_the_choice():
    space = ChoiceSpace({"a": [1, 2], "kernel": [3, 5]}, lambda arch: [])
    with pytest.raises(InvalidArgumentError, match=r"'kernel' in \[0, 2\), got 2"):
        space.describe([0, 2])
    with pytest.raises(InvalidArgumentError, match="2 tokens, one for each of a, ker"):
        space.describe([0])
    with pytest.raises(InvalidArgumentError, match="'kernel' to be one of 3, 5, got 7"):
        space.tokens({"a": 1, "kernel": 7})
    with pytest.raises(InvalidArgumentError, match="'a' to be one of 1, 2, got nothin"):
        ChoiceSpace({"a": [1, 2]}, lambda arch: [], {"b": 1})
    with pytest.raises(InvalidArgumentError, match="option of 'a', got none"):
        ChoiceSpace({"a": []}, lambda arch: [])
    with pytest.raises(InvalidArgumentError, match="a choice, got none"):
        ChoiceSpace({}, lambda arch: [])


def test_arguments_of_spaces_are_checked():
    with pytest.raises(InvalidArgumentError, match="halved block_num times, got 224"):
        search.MobileNetV2Space(output_size=16)
    with pytest.raises(
        InvalidArgumentError, match="at most 3 stages that halve, got 4"
    ):
        search.ResNetSpace(output_size=4, block_num=6)
    with pytest.raises(InvalidArgumentError, match="block_mask of 0 and 1"):
        search.MobileNetV1BlockSpace(block_mask=[2])
    with pytest.raises(InvalidArgumentError, match="block_mask, or input_size"):
        search.MobileNetV1BlockSpace()
    with pytest.raises(InvalidArgumentError, match="positive scale"):
        search.MobileNetV1Space(scale=0)
    with pytest.raises(NotFoundError, match="ResNetSpace"):
        search.SEARCHSPACE.get("VGGSpace")
    with pytest.raises(InvalidArgumentError, match="kind must be one of conv"):
        Block("mystery", 1, 1).layer()
    with pytest.raises(InvalidArgumentError, match="positive sizes"):
        Block("conv", 0, 1).layer()
    with pytest.raises(InvalidArgumentError, match="at least as many channels"):
        Block("blaze", 8, 4).layer()
