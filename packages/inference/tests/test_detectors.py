"""Detectors of two stages on ResNet-50: what a predictor finds is what the network
found.
"""

import numpy as np
import pytest

import proa
from proa import nn
from proa.nn import functional as F
from proa.static import InputSpec
from proa.vision import ops
from proa.vision.models import resnet50
from proa_inference import Config, create_predictor

STRIDE, HEIGHT, WIDTH = 16, 96, 128
CLASSES = 3


def normal(std):
    """Weights such that scores differ and boxes move a little, as trained."""
    return proa.ParamAttr(initializer=nn.initializer.Normal(0.0, std))


def anchors(height, width):
    """(H, W, 9, 4): boxes of three sizes and shapes around every cell."""
    side = np.float32([32, 64, 96]).reshape(3, 1)
    ratio = np.sqrt(np.float32([0.5, 1, 2]))
    half = np.stack([side / ratio, side * ratio], -1).reshape(-1, 2) / 2
    y, x = np.mgrid[:height, :width]
    middle = (np.stack([x, y], -1)[:, :, None] + np.float32(0.5)) * STRIDE
    return np.concatenate([middle - half, middle + half], -1).astype("f4")


class RCNN(nn.Layer):
    """Faster R-CNN (Ren et al., 2015) on the maps of stride 16, the last stage on each
    region; with masks, Mask R-CNN (He et al., 2017).
    """

    def __init__(self, masks):
        super().__init__()
        body = resnet50(num_classes=0, with_pool=False)
        self.stem = nn.Sequential(body.conv1, body.bn1, body.relu, body.maxpool)
        self.stages = nn.Sequential(body.layer1, body.layer2, body.layer3)
        self.last = body.layer4
        self.region = nn.Conv2D(1024, 64, 3, padding=1)
        self.object = nn.Conv2D(64, 9, 1, weight_attr=normal(0.1))
        self.shift = nn.Conv2D(64, 36, 1, weight_attr=normal(0.02))
        self.kind = nn.Linear(2048, CLASSES + 1, weight_attr=normal(0.1))
        self.box = nn.Linear(2048, CLASSES * 4, weight_attr=normal(0.01))
        self.mask = None
        if masks:
            self.mask = nn.Sequential(
                nn.Conv2DTranspose(2048, 32, 2, 2), nn.ReLU(), nn.Conv2D(32, CLASSES, 1)
            )

    def forward(self, image, size):
        features = self.stages(self.stem(image))
        cells = proa.to_tensor(anchors(*features.shape[2:]))
        x = F.relu(self.region(features))
        boxes, _, count = ops.generate_proposals(
            F.sigmoid(self.object(x)), self.shift(x), size, cells,
            proa.ones_like(cells), 60, 12, 0.7, 4.0, return_rois_num=True,
        )  # fmt: skip
        y = self.last(ops.roi_align(features, boxes, count, 14, 1 / STRIDE))
        means = y.mean([2, 3])
        scores = F.softmax(self.kind(means))[:, :CLASSES]
        codes = self.box(means).reshape([-1, CLASSES, 4])
        spread = [0.1, 0.1, 0.2, 0.2]
        moved = ops.box_coder(
            boxes, spread, codes, "decode_center_size", False, axis=1
        ).reshape([-1, 4])
        kinds = proa.zeros_like(codes[:, :, 0]).astype("int64")
        kinds = (kinds + proa.arange(CLASSES)).reshape([-1])
        scores = scores.reshape([-1])
        selected = ops.nms(moved, 0.5, scores, kinds, list(range(CLASSES)))[:8]
        found = {
            "kinds": proa.gather(kinds, selected),
            "scores": proa.gather(scores, selected),
            "boxes": proa.gather(moved, selected),
        }
        if self.mask is not None:
            maps = F.sigmoid(self.mask(y)).reshape([-1, 14, 14])
            found["masks"] = proa.gather(maps, selected)
        return found


def network_and_image(masks):
    """The network, its statistics those of noise, and an image."""
    proa.seed(4)
    network = RCNN(masks)
    for layer in network.sublayers():
        if isinstance(layer, nn.BatchNorm2D):
            layer._momentum = 0.0
    size = proa.to_tensor(np.float32([[HEIGHT, WIDTH]]))
    network(proa.to_tensor(images(9)), size)
    network.eval()
    return network


def images(seed):
    return np.random.default_rng(seed).standard_normal((1, 3, HEIGHT, WIDTH), "f4")


def saved(network, path):
    specs = [
        InputSpec([1, 3, HEIGHT, WIDTH], "float32", "image"),
        InputSpec([1, 2], "float32", "size"),
    ]
    proa.jit.save(network, path, specs)
    return path


def check(network, run):
    """`run` finds in three images what the network does; more than nothing."""
    size, counts = np.float32([[HEIGHT, WIDTH]]), []
    for seed in range(3):
        with proa.no_grad():
            want = network(proa.to_tensor(images(seed)), proa.to_tensor(size))
        got = run({"image": images(seed), "size": size})
        assert list(got) == list(want)
        np.testing.assert_array_equal(got["kinds"], want["kinds"].numpy())
        for name in list(got)[1:]:
            np.testing.assert_allclose(got[name], want[name].numpy(), 1e-3, 1e-4)
        counts.append(len(got["kinds"]))
    assert min(counts) > 1
    return counts


@pytest.mark.feature("L567")
def test_faster_rcnn_predicts_by_handles(tmp_path):
    network = network_and_image(masks=False)
    predictor = create_predictor(Config(saved(network, tmp_path / "faster.proa")))

    def run(arrays):
        for name, array in arrays.items():
            handle = predictor.get_input_handle(name)
            handle.reshape(array.shape)
            handle.copy_from_cpu(array)
        predictor.run()
        names = predictor.get_output_names()
        return {n: predictor.get_output_handle(n).copy_to_cpu() for n in names}

    check(network, run)


@pytest.mark.feature("L568")
@pytest.mark.parametrize("optimize", [True, False], ids=["passes", "plain"])
def test_mask_rcnn_of_the_dynamic_graph_predicts_the_same(tmp_path, optimize):
    network = network_and_image(masks=True)
    config = Config(saved(network, tmp_path / "mask.proa"))
    config.switch_ir_optim(optimize)
    predictor = create_predictor(config)
    names = predictor.get_output_names()
    assert names == ["kinds", "scores", "boxes", "masks"]
    check(
        network,
        lambda arrays: dict(
            zip(names, predictor.run(list(arrays.values())), strict=True)
        ),
    )
