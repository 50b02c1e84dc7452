"""The networks of the zoo, narrow enough to train on two cores in a minute.

A backbone gives a feature map for each of its stages; classifiers, detectors and
segmentation networks read those that they need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import proa
from proa import nn
from proa.nn import functional as F
from proa.vision.ops import DeformConv2D

# --- parts


def conv_norm(
    i: int, o: int, kernel: int = 3, stride: int = 1, groups: int = 1,
    dilation: int = 1, act: bool = True, scale: float = 1.0,
) -> nn.Sequential:  # fmt: skip
    """A convolution of `i` to `o` channels, its batch norm, and ReLU if `act`.

    The norm begins with `scale`: 0 at the end of a residual body lets deep networks
    begin as shallow ones.
    """
    begin = proa.ParamAttr(initializer=nn.initializer.Constant(scale))
    layers: list[nn.Layer] = [
        nn.Conv2D(
            i, o, kernel, stride, dilation * (kernel // 2), dilation, groups,
            bias_attr=False,
        ),
        nn.BatchNorm2D(o, weight_attr=begin),
    ]  # fmt: skip
    return nn.Sequential(*layers, *([nn.ReLU()] if act else []))


def separable(i: int, o: int, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    """Depthwise and pointwise convolution (Howard et al., 2017)."""
    return nn.Sequential(
        conv_norm(i, i, 3, stride, groups=i, dilation=dilation), conv_norm(i, o, 1)
    )


class Residual(nn.Layer):
    """body(x) + shortcut(x), then ReLU if `act`; the shortcut may be nothing."""

    def __init__(
        self, body: nn.Layer, shortcut: nn.Layer | None = None, act: bool = True
    ) -> None:
        super().__init__()
        self.body, self.shortcut, self.act = body, shortcut, act

    def forward(self, x: Any) -> Any:
        y = self.body(x) + (x if self.shortcut is None else self.shortcut(x))
        return F.relu(y) if self.act else y


def inverted(
    i: int, o: int, stride: int = 1, expansion: int = 4, kernel: int = 3,
    dilation: int = 1,
) -> nn.Layer:  # fmt: skip
    """An inverted residual (Sandler et al., 2018)."""
    wide = i * expansion
    body = nn.Sequential(
        conv_norm(i, wide, 1),
        conv_norm(wide, wide, kernel, stride, groups=wide, dilation=dilation),
        conv_norm(wide, o, 1, act=False),
    )
    return Residual(body, act=False) if i == o and stride == 1 else body


class Deformable(nn.Layer):
    """A 3 x 3 convolution whose offsets and mask another one computes (DCN v2)."""

    def __init__(self, i: int, o: int, stride: int = 1) -> None:
        super().__init__()
        still = proa.ParamAttr(initializer=nn.initializer.Constant(0.0))
        self.offset = nn.Conv2D(i, 27, 3, stride, 1, weight_attr=still)
        self.conv = DeformConv2D(i, o, 3, stride, 1, bias_attr=False)
        self.norm = nn.BatchNorm2D(o)

    def forward(self, x: Any) -> Any:
        moved = self.offset(x)
        y = self.conv(x, moved[:, :18], F.sigmoid(moved[:, 18:]))
        return F.relu(self.norm(y))


def bottleneck(i: int, mid: int, stride: int = 1, deform: bool = False) -> Residual:
    """ResNet's bottleneck, its shortcut pooled as of ResNet-vd (He et al., 2019)."""
    o = 4 * mid
    spatial = Deformable(mid, mid, stride) if deform else conv_norm(mid, mid, 3, stride)
    last = conv_norm(mid, o, 1, act=False, scale=0.0)
    body = nn.Sequential(conv_norm(i, mid, 1), spatial, last)
    if i == o and stride == 1:
        return Residual(body)
    pool = [nn.AvgPool2D(2, 2)] if stride == 2 else []
    return Residual(body, nn.Sequential(*pool, conv_norm(i, o, 1, act=False)))


# --- backbones


class Backbone(nn.Layer):
    """Stages one after the other; the result is the feature map of each.

    Attributes:
        channels: Number of channels of the feature maps.
    """

    def __init__(self, stages: Sequence[nn.Layer], channels: Sequence[int]) -> None:
        super().__init__()
        self.stages, self.channels = nn.LayerList(stages), tuple(channels)

    def forward(self, x: Any) -> list[Any]:
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps


def mobilenet(width: int) -> Backbone:
    """MobileNetV1 of four stages, each of half the size of the one before it."""
    w = width
    return Backbone(
        [
            nn.Sequential(conv_norm(3, w, 3, 2), separable(w, 2 * w)),
            nn.Sequential(separable(2 * w, 4 * w, 2), separable(4 * w, 4 * w)),
            nn.Sequential(separable(4 * w, 8 * w, 2), separable(8 * w, 8 * w)),
            nn.Sequential(
                separable(8 * w, 16 * w, 2),
                *(separable(16 * w, 16 * w) for _ in range(2)),
            ),
        ],
        (2 * w, 4 * w, 8 * w, 16 * w),
    )


def resnet50_vd(width: int, deform: bool = False) -> Backbone:
    """ResNet-50-vd without the pooling after its stem: images are small.

    With `deform` the last stage has deformable convolutions.
    """
    stem = [conv_norm(3, width, 3, 2), conv_norm(width, width)]
    stages, i = [], width
    for number, count in enumerate((3, 4, 6, 3)):
        mid = width << number
        blocks: list[nn.Layer] = []
        for block in range(count):
            stride = 2 if block == 0 and number > 0 else 1
            blocks.append(bottleneck(i, mid, stride, deform and number == 3))
            i = 4 * mid
        stages.append(nn.Sequential(*([] if number else stem), *blocks))
    return Backbone(stages, [4 * width << n for n in range(4)])


def mobilenet_v2(width: int, kernel: int = 3, expansion: int = 4) -> Backbone:
    """MobileNetV2 down to an eighth of the image, then dilated."""
    w, shape = width, {"expansion": expansion, "kernel": kernel}
    return Backbone(
        [
            nn.Sequential(conv_norm(3, w, 3, 2), inverted(w, w, expansion=1)),
            nn.Sequential(
                inverted(w, 2 * w, 2, **shape), inverted(2 * w, 2 * w, **shape)
            ),
            nn.Sequential(
                inverted(2 * w, 4 * w, 2, **shape),
                inverted(4 * w, 4 * w, dilation=2, **shape),
                inverted(4 * w, 6 * w, dilation=2, **shape),
            ),
        ],
        (w, 2 * w, 6 * w),
    )  # fmt: skip


def xception(width: int) -> Backbone:
    """Xception (Chollet, 2017) down to an eighth of the image, then dilated."""

    def block(i: int, o: int, stride: int = 1, dilation: int = 1) -> Residual:
        body = nn.Sequential(
            separable(i, o, dilation=dilation),
            separable(o, o, stride, dilation),
        )
        projected = i != o or stride > 1
        return Residual(
            body, conv_norm(i, o, 1, stride, act=False) if projected else None
        )

    w = width
    return Backbone(
        [
            nn.Sequential(conv_norm(3, w, 3, 2), conv_norm(w, w)),
            block(w, 2 * w, 2),
            nn.Sequential(
                block(2 * w, 4 * w, 2), *(block(4 * w, 4 * w, 1, 2) for _ in range(3))
            ),
        ],
        (w, 2 * w, 4 * w),
    )


# --- networks


class Classifier(nn.Layer):
    """A linear layer over the mean of the last feature map."""

    def __init__(self, backbone: Backbone, classes: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.head = nn.Linear(backbone.channels[-1], classes)

    def forward(self, x: Any) -> Any:
        return self.head(self.pool(self.backbone(x)[-1]).flatten(1))


def detector(i: int, anchors: int, classes: int) -> nn.Conv2D:
    """The head of a detector: 5 + classes numbers for each anchor of a cell.

    The score of an object begins low, as few cells have one (Lin et al., 2017).
    """
    begin = np.tile([0, 0, 0, 0, -4] + classes * [0], anchors).astype(np.float32)
    bias = proa.ParamAttr(initializer=nn.initializer.Assign(begin))
    return nn.Conv2D(i, anchors * (5 + classes), 1, bias_attr=bias)


class Yolo(nn.Layer):
    """YOLOv3 with heads at a sixteenth and an eighth of the image.

    The result are the maps of both heads, (n, anchors * (5 + classes), h, w).
    """

    def __init__(
        self, backbone: Backbone, width: int, anchors: int, classes: int
    ) -> None:
        super().__init__()
        fine, coarse = backbone.channels[-2:]
        self.backbone = backbone
        self.coarse = nn.Sequential(
            conv_norm(coarse, width, 1), separable(width, width)
        )
        self.coarse_head = detector(width, anchors, classes)
        self.lateral = conv_norm(width, width // 2, 1)
        self.fine = nn.Sequential(
            conv_norm(width // 2 + fine, width, 1), separable(width, width)
        )
        self.fine_head = detector(width, anchors, classes)

    def forward(self, x: Any) -> tuple[Any, Any]:
        fine, coarse = self.backbone(x)[-2:]
        coarse = self.coarse(coarse)
        larger = F.interpolate(self.lateral(coarse), scale_factor=2, mode="nearest")
        fine = self.fine(proa.concat([larger, fine], axis=1))
        return self.coarse_head(coarse), self.fine_head(fine)


def _resized(x: Any, like: Any) -> Any:
    """The feature map in the size of another one."""
    return F.interpolate(x, size=like.shape[2:], mode="bilinear")


class Pyramid(nn.Layer):
    """Atrous spatial pyramid pooling: dilated convolutions and the whole image."""

    def __init__(self, i: int, o: int, rates: Sequence[int] = (2, 4)) -> None:
        super().__init__()
        self.branches = nn.LayerList(
            [conv_norm(i, o, 1), *(separable(i, o, 1, rate) for rate in rates)]
        )
        self.image = nn.Sequential(nn.AdaptiveAvgPool2D(1), conv_norm(i, o, 1))
        self.project = conv_norm(o * (2 + len(rates)), o, 1)

    def forward(self, x: Any) -> Any:
        parts = [branch(x) for branch in self.branches]
        parts.append(_resized(self.image(x), x))
        return self.project(proa.concat(parts, axis=1))


class DeepLab(nn.Layer):
    """DeepLabv3+ (Chen et al., 2018); logits in the size of the image."""

    def __init__(self, backbone: Backbone, width: int, classes: int) -> None:
        super().__init__()
        fine, coarse = backbone.channels[-2:]
        self.backbone = backbone
        self.pyramid = Pyramid(coarse, width)
        self.fine = conv_norm(fine, width // 2, 1)
        self.refine = separable(width + width // 2, width)
        self.head = nn.Conv2D(width, classes, 1)

    def forward(self, x: Any) -> Any:
        fine, coarse = self.backbone(x)[-2:]
        fine = self.fine(fine)
        coarse = _resized(self.pyramid(coarse), fine)
        y = self.refine(proa.concat([coarse, fine], axis=1))
        return _resized(self.head(y), x)


class FastScnn(nn.Layer):
    """Fast-SCNN (Poudel et al., 2019), one halving less than for large images."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        w = width
        self.downsample = nn.Sequential(conv_norm(3, w, 3, 2), separable(w, 2 * w, 2))
        self.context = nn.Sequential(
            inverted(2 * w, 2 * w, 2),
            inverted(2 * w, 2 * w),
            inverted(2 * w, 4 * w),
            Pyramid(4 * w, 4 * w),
        )
        self.fine = conv_norm(2 * w, 4 * w, 1, act=False)
        self.coarse = nn.Sequential(
            conv_norm(4 * w, 4 * w, 3, groups=4 * w, dilation=2),
            conv_norm(4 * w, 4 * w, 1, act=False),
        )
        self.classifier = nn.Sequential(
            separable(4 * w, 4 * w), separable(4 * w, 4 * w)
        )
        self.head = nn.Conv2D(4 * w, classes, 1)

    def forward(self, x: Any) -> Any:
        fine = self.downsample(x)
        coarse = self.coarse(_resized(self.context(fine), fine))
        y = self.classifier(F.relu(self.fine(fine) + coarse))
        return _resized(self.head(y), x)
