"""Ready-made networks: Paddle's parameter names, what they compute, their weights."""

from __future__ import annotations

import hashlib
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, NotFoundError, UnavailableError
from proa.static import InputSpec
from proa.vision import models

# The state dict of each network in paddlepaddle 2.6.2: number of entries, and the
# beginning of the SHA-256 of its lines "name size size …", in order.
PADDLE = {
    "alexnet": (16, "62108f6ffedd8b6a"),
    "densenet121": (606, "8b0c9e4432a14167"),
    "densenet161": (806, "fa1680131f3aa99f"),
    "densenet169": (846, "b2e141c5d0202b7c"),
    "densenet201": (1006, "715e268cd0ee9a39"),
    "densenet264": (1326, "80692064737bf79b"),
    "googlenet": (69, "5b043ba97b53ab25"),
    "inception_v3": (472, "dfd7c7da0ad3002d"),
    "mobilenet_v1": (137, "203f5e03754c62b1"),
    "mobilenet_v2": (262, "d35658fe46c5da8d"),
    "mobilenet_v3_large": (266, "c3c224ac9653a258"),
    "mobilenet_v3_small": (210, "986dda689b8f877b"),
    "resnet101": (522, "fea257d3f77a593b"),
    "resnet152": (777, "9a594093d8931b8a"),
    "resnet18": (102, "3d7abd675adf7297"),
    "resnet34": (182, "aa03bc4e29f39fbb"),
    "resnet50": (267, "9ac9d9de3fed4f24"),
    "resnext101_32x4d": (522, "4d6449d61ea8cf3a"),
    "resnext101_64x4d": (522, "2d36a98abd42a065"),
    "resnext152_32x4d": (777, "f302bfdcfef442a1"),
    "resnext152_64x4d": (777, "9d921fd5ef9c6262"),
    "resnext50_32x4d": (267, "07eabae6c78e5347"),
    "resnext50_64x4d": (267, "7dba92f82955d33b"),
    "shufflenet_v2_swish": (282, "068a16b8e7cc2188"),
    "shufflenet_v2_x0_25": (282, "2b1d5fbd1fb46b69"),
    "shufflenet_v2_x0_33": (282, "8c5efcbe0a276ae5"),
    "shufflenet_v2_x0_5": (282, "a8169e9f6e1656a4"),
    "shufflenet_v2_x1_0": (282, "068a16b8e7cc2188"),
    "shufflenet_v2_x1_5": (282, "e609d4ab75cf4cd0"),
    "shufflenet_v2_x2_0": (282, "dc7b8bb433ab352b"),
    "squeezenet1_0": (52, "ff11bc565f1a2d15"),
    "squeezenet1_1": (52, "186d2f7becd139a2"),
    "vgg11": (22, "84441cd49704081f"),
    "vgg13": (26, "f491044c97906c12"),
    "vgg16": (32, "95949af02484395e"),
    "vgg19": (38, "16b56cce8d3a677a"),
    "wide_resnet101_2": (522, "a012aaf53b2e6daf"),
    "wide_resnet50_2": (267, "d7171a7203ff5566"),
    "LeNet": (10, "44deb498c8e88c91"),
}
LARGE = {
    "alexnet", "densenet161", "densenet169", "densenet201", "densenet264",
    "inception_v3", "resnet101", "resnet152", "resnext101_32x4d", "resnext101_64x4d",
    "resnext152_32x4d", "resnext152_64x4d", "resnext50_64x4d", "vgg13", "vgg16",
    "vgg19", "wide_resnet101_2", "wide_resnet50_2",
}  # fmt: skip


def marked(name: str) -> Any:
    return pytest.param(name, marks=[pytest.mark.full] if name in LARGE else [])


@pytest.mark.feature("L278")
@pytest.mark.parametrize("name", [marked(name) for name in PADDLE])
def test_parameters_are_named_and_shaped_as_paddles(name: str) -> None:
    state = getattr(models, name)().state_dict()
    lines = [f"{key} {' '.join(map(str, value.shape))}" for key, value in state.items()]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    assert (len(state), digest[:16]) == PADDLE[name]


# Smallest image that a network takes, and settings that keep it small.
SMALL = {
    "densenet121": (32, {}),
    "inception_v3": (75, {}),
    "mobilenet_v1": (32, {"scale": 0.25}),
    "mobilenet_v2": (32, {"scale": 0.25}),
    "mobilenet_v3_large": (32, {"scale": 0.5}),
    "mobilenet_v3_small": (32, {"scale": 0.5}),
    "resnet18": (32, {}),
    "resnext50_32x4d": (32, {}),
    "shufflenet_v2_swish": (32, {}),
    "shufflenet_v2_x0_25": (32, {}),
    "squeezenet1_0": (64, {}),
    "squeezenet1_1": (32, {}),
}


@pytest.mark.feature("L278")
@pytest.mark.parametrize("name", list(SMALL))
def test_networks_compute_the_same_eagerly_and_recorded(name: str) -> None:
    proa.seed(0)
    size, settings = SMALL[name]
    net = getattr(models, name)(num_classes=5, **settings)
    net.eval()
    x = proa.randn([3, 3, size, size])
    with proa.no_grad():
        want = net(x)
        spec = [InputSpec([None, 3, size, size], "float32")]
        got = proa.jit.to_static(net, input_spec=spec)(x)
    assert want.shape == [3, 5]
    scale = float(abs(want).max())
    np.testing.assert_allclose(got.numpy() / scale, want.numpy() / scale, atol=2e-5)


@pytest.mark.parametrize("name", ["mobilenet_v2", "mobilenet_v3_small", "squeezenet1_1",
                                  "shufflenet_v2_x0_25"])  # fmt: skip
def test_every_parameter_gets_a_gradient(name: str) -> None:
    proa.seed(0)
    _, settings = SMALL[name]
    net = getattr(models, name)(num_classes=4, **settings)
    scores = net(proa.randn([4, 3, 64, 64]))
    proa.nn.functional.cross_entropy(scores, proa.to_tensor([0, 1, 2, 3])).backward()
    trained = [p for p in net.parameters() if not p.stop_gradient]
    assert all(p.grad is not None for p in trained)
    assert all(np.isfinite(p.grad.numpy()).all() for p in trained)


def test_classes_take_the_settings_of_their_functions() -> None:
    for net in (
        models.MobileNetV1(0.25, num_classes=3),
        models.MobileNetV2(scale=0.25, num_classes=3),
        models.MobileNetV3Small(0.5, 3),
        models.MobileNetV3Large(0.5, num_classes=3, with_pool=True),
    ):
        net.eval()
        assert net(proa.ones([1, 3, 32, 32])).shape == [1, 3]


@pytest.mark.parametrize("name", ["mobilenet_v1", "squeezenet1_1", "resnet18"])
def test_the_head_can_be_left_out(name: str) -> None:
    net = getattr(models, name)(num_classes=0, with_pool=False)
    net.eval()
    channels = {"mobilenet_v1": 1024}.get(name, 512)
    features = net(proa.ones([1, 3, 64, 64]))
    assert features.shape[:2] == [1, channels]
    assert features.ndim == 4


@pytest.mark.full
def test_googlenet_has_two_side_classifiers() -> None:
    out = models.GoogLeNet(num_classes=7)(proa.ones([2, 3, 224, 224]))
    assert [y.shape for y in out] == [[2, 7]] * 3


@pytest.mark.full
@pytest.mark.parametrize("batch_norm", [False, True])
def test_vgg_and_alexnet_compute(batch_norm: bool) -> None:
    net = models.vgg11(batch_norm=batch_norm, num_classes=3)
    assert isinstance(net, models.VGG)
    assert net(proa.ones([2, 3, 32, 32])).shape == [2, 3]
    assert models.AlexNet(3)(proa.ones([2, 3, 224, 224])).shape == [2, 3]


def test_weights_are_read_from_a_local_file(tmp_path: Path) -> None:
    net = models.mobilenet_v1(scale=0.25, num_classes=3)
    path = tmp_path / "net.pdparams"
    proa.save(net.state_dict(), str(path))
    other = models.mobilenet_v1(pretrained=str(path), scale=0.25, num_classes=3)
    for key, value in net.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[key].numpy(), value.numpy())
    with pytest.raises(InvalidArgumentError, match=r"difference in .* first "):
        models.mobilenet_v1(pretrained=path, scale=0.5, num_classes=3)
    with pytest.raises(NotFoundError):
        models.mobilenet_v1(pretrained=os.fspath(tmp_path / "none.pdparams"))


def test_weights_may_be_a_file_of_paddle(tmp_path: Path) -> None:
    net = models.mobilenet_v1(scale=0.25, num_classes=3)
    state = {key: value.numpy() for key, value in net.state_dict().items()}
    path = tmp_path / "mobilenet.pdparams"
    path.write_bytes(pickle.dumps(state, protocol=4))
    other = models.mobilenet_v1(path, scale=0.25, num_classes=3)
    np.testing.assert_array_equal(other.fc.weight.numpy(), state["fc.weight"])


@pytest.mark.parametrize("name", [n for n in PADDLE if n != "LeNet" and n not in LARGE])
def test_nothing_is_downloaded(name: str) -> None:
    with pytest.raises(UnavailableError, match=rf"\[{name}\] pretrained .* local file"):
        getattr(models, name)(pretrained=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [(lambda: models.SqueezeNet("2.0"), "version must be"),
     (lambda: models.ShuffleNetV2(0.7), "scale must be one of"),
     (lambda: models.ShuffleNetV2(act="tanh"), "act relu or swish"),
     (lambda: models.DenseNet(100), "layers must be one of"),
     (lambda: models.ResNet(models.resnet.BasicBlock, 19), "depth must be one of")],
)  # fmt: skip
def test_unknown_variants_are_rejected(make: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make()


def test_residual_blocks_take_a_norm_and_a_dilation() -> None:
    """Networks for segmentation derive theirs with Paddle's eight arguments."""
    block = models.resnet.BottleneckBlock(
        16, 4, 1, None, 1, 64, 2, lambda n: nn.GroupNorm(2, n)
    )
    assert isinstance(block.bn2, nn.GroupNorm)
    assert block.conv2(proa.ones([1, 4, 7, 7])).shape == [1, 4, 7, 7]
    # Taps two apart: the middle of an edge row sees the zeros outside it.
    block.conv2.weight.set_value(np.ones([4, 4, 3, 3], np.float32))
    y = block.conv2(proa.ones([1, 4, 7, 7])).numpy()[0, 0]
    assert y[3, 3] == 36 and y[1, 3] == y[3, 1] == 24 and y[1, 1] == 16
    with pytest.raises(ValueError, match="dilation must be 1, 64 and 1"):
        models.resnet.BasicBlock(16, 16, dilation=2)
