"""Networks of Paddle's collections with all their parts, narrow and shallow.

PP-YOLO and Faster R-CNN with what follows the network, both stages of PP-OCR, ERNIE.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import proa
from proa import nn
from proa.nn import functional as F
from proa.vision import ops


def conv(cin: int, cout: int, size: int = 3, stride: int = 1, act: str = "relu",
         groups: int = 1) -> Any:  # fmt: skip
    """A convolution with batch normalization and an activation."""
    body = [
        nn.Conv2D(cin, cout, size, stride, size // 2, groups=groups, bias_attr=False),
        nn.BatchNorm2D(cout),
    ]
    kinds = {"relu": nn.ReLU, "hardswish": nn.Hardswish}
    return nn.Sequential(*body, *([kinds[act]()] if act else []))


# -- ResNet-vd -------------------------------------------------------------------------
class Deformable(nn.Layer):
    """A convolution whose taps move, with offsets and masks of its own (DCN v2)."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.where = nn.Conv2D(channels, 27, 3, stride, 1)
        self.body = ops.DeformConv2D(channels, channels, 3, stride, 1, bias_attr=False)
        self.norm = nn.BatchNorm2D(channels)

    def forward(self, x: Any) -> Any:
        offset, mask = proa.split(self.where(x), [18, 9], 1)
        return F.relu(self.norm(self.body(x, offset, F.sigmoid(mask))))


class Bottleneck(nn.Layer):
    """The block of ResNet-vd (He et al., 2019): the shortcut halves by a mean."""

    def __init__(self, cin: int, width: int, stride: int, moves: bool) -> None:
        super().__init__()
        middle = Deformable(width, stride) if moves else conv(width, width, 3, stride)
        self.body = nn.Sequential(
            conv(cin, width, 1), middle, conv(width, 4 * width, 1, act="")
        )
        means = [nn.AvgPool2D(2, 2, ceil_mode=True)] if stride == 2 else []
        self.short = nn.Sequential(*means, conv(cin, 4 * width, 1, act=""))

    def forward(self, x: Any) -> Any:
        return F.relu(self.body(x) + self.short(x))


class ResNetVd(nn.Layer):
    """Feature maps of strides 4, 8, 16 and 32, of 16, 32, 64 and 128 channels."""

    channels = (16, 32, 64, 128)

    def __init__(self, moves: bool = False) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            conv(3, 4, 3, 2), conv(4, 4), conv(4, 8), nn.MaxPool2D(3, 2, 1)
        )
        given = (8, *self.channels)
        self.stages = nn.LayerList(
            [
                Bottleneck(given[i], c // 4, 1 if i == 0 else 2, moves and i == 3)
                for i, c in enumerate(self.channels)
            ]
        )

    def forward(self, x: Any) -> list[Any]:
        x, found = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            found.append(x)
        return found


# -- PP-YOLO (Long et al., 2020) -------------------------------------------------------
class CoordConv(nn.Layer):
    """A convolution over the channels and two more, the coordinates."""

    def __init__(self, cin: int, cout: int, size: int) -> None:
        super().__init__()
        self.body = conv(cin + 2, cout, size)

    def forward(self, x: Any) -> Any:
        height, width = x.shape[2:]
        across = proa.linspace(-1.0, 1.0, width).reshape([1, 1, 1, width])
        down = proa.linspace(-1.0, 1.0, height).reshape([1, 1, height, 1])
        zero = x[:, :1] * 0.0
        return self.body(proa.concat([x, zero + across, zero + down], 1))


class YoloBlock(nn.Layer):
    """Five convolutions, a pyramid of poolings among them, and a tip of one."""

    def __init__(self, cin: int, width: int, pools: bool) -> None:
        super().__init__()
        self.pools = pools
        self.first = nn.Sequential(CoordConv(cin, width, 1), conv(width, 2 * width))
        self.squeeze = conv(2 * width * (4 if pools else 1), width, 1)
        self.drop = nn.Dropout2D(0.1)
        self.last = nn.Sequential(
            conv(width, 2 * width), CoordConv(2 * width, width, 1)
        )
        self.tip = CoordConv(width, 2 * width, 3)

    def forward(self, x: Any) -> tuple[Any, Any]:
        x = self.first(x)
        if self.pools:
            x = proa.concat(
                [x, *(F.max_pool2d(x, k, 1, k // 2) for k in (5, 9, 13))], 1
            )
        route = self.last(self.drop(self.squeeze(x)))
        return route, self.tip(route)


class PPYolo(nn.Layer):
    """Three scales, IoU-aware boxes, suppression by matrix NMS."""

    anchors = (10, 13, 16, 30, 33, 23, 30, 61, 62, 45, 59, 119, 116, 90, 156, 198, 373,
               326)  # fmt: skip
    classes = 4

    def __init__(self) -> None:
        super().__init__()
        self.body = ResNetVd(moves=True)
        self.blocks = nn.LayerList(
            [YoloBlock(cin, w, i == 0) for i, (cin, w) in
             enumerate([(128, 16), (64 + 8, 8), (32 + 4, 4)])]
        )  # fmt: skip
        self.branches = nn.LayerList([conv(16, 8, 1), conv(8, 4, 1)])
        # Objects are rare: sigmoid(-3) of the cells have one.
        outputs = 3 * (6 + self.classes)
        bias = nn.initializer.Assign(np.full(outputs, -0.5, np.float32))
        self.heads = nn.LayerList(
            [nn.Conv2D(2 * w, outputs, 1, bias_attr=proa.ParamAttr(initializer=bias))
             for w in (16, 8, 4)]
        )  # fmt: skip

    def forward(self, image: Any, size: Any) -> Any:
        features = self.body(image)[:0:-1]
        boxes, scores, route = [], [], None
        for i, x in enumerate(features):
            if route is not None:
                up = F.interpolate(self.branches[i - 1](route), scale_factor=2)
                x = proa.concat([up, x], 1)
            route, tip = self.blocks[i](x)
            at = 6 * (2 - i)
            box, score = ops.yolo_box(
                self.heads[i](tip), size, list(self.anchors[at : at + 6]), self.classes,
                0.05, 32 >> i, scale_x_y=1.05, iou_aware=True, iou_aware_factor=0.4,
            )  # fmt: skip
            boxes.append(box)
            scores.append(score.transpose([0, 2, 1]))
        found, counts, _ = ops.matrix_nms(
            proa.concat(boxes, 1), proa.concat(scores, 2), 0.12, 0.1, -1, 20,
            background_label=-1,
        )  # fmt: skip
        return found, counts


# -- Faster R-CNN with a feature pyramid (Ren et al., 2015; Lin et al., 2017) ----------
class Pyramid(nn.Layer):
    """Maps of 16 channels of strides 4 to 32, and one of 64."""

    def __init__(self) -> None:
        super().__init__()
        self.lateral = nn.LayerList([nn.Conv2D(c, 16, 1) for c in ResNetVd.channels])
        self.smooth = nn.LayerList([nn.Conv2D(16, 16, 3, padding=1) for _ in range(4)])

    def forward(self, features: list[Any]) -> list[Any]:
        maps = [one(x) for one, x in zip(self.lateral, features, strict=True)]
        for i in (2, 1, 0):
            maps[i] = maps[i] + F.interpolate(maps[i + 1], scale_factor=2)
        maps = [one(x) for one, x in zip(self.smooth, maps, strict=True)]
        return [*maps, F.max_pool2d(maps[-1], 1, 2)]


def normal(std: float) -> Any:
    """Weights such that scores differ and boxes are moved a little, as trained."""
    return proa.ParamAttr(initializer=nn.initializer.Normal(0.0, std))


def anchors_of(height: int, width: int, stride: int) -> Any:
    """(H, W, 3, 4): boxes of 8 strides and three shapes around every cell."""
    ratio = np.array([0.5, 1.0, 2.0])
    half = np.stack([8 * stride / np.sqrt(ratio), 8 * stride * np.sqrt(ratio)], -1) / 2
    y, x = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    middle = ((np.stack([x, y], -1) + 0.5) * stride)[:, :, None]
    return np.concatenate([middle - half, middle + half], -1).astype(np.float32)


class FasterRCNN(nn.Layer):
    """Regions proposed at every level, judged at the level of their size."""

    classes = 3

    def __init__(self) -> None:
        super().__init__()
        self.body, self.pyramid = ResNetVd(), Pyramid()
        self.region = nn.Conv2D(16, 16, 3, padding=1)
        self.object = nn.Conv2D(16, 3, 1, weight_attr=normal(0.1))
        self.shift = nn.Conv2D(16, 12, 1, weight_attr=normal(0.02))
        self.judge = nn.Sequential(
            nn.Flatten(), nn.Linear(16 * 49, 32), nn.ReLU(), nn.Linear(32, 32),
            nn.ReLU(),
        )  # fmt: skip
        self.kind = nn.Linear(32, self.classes + 1, weight_attr=normal(0.3))
        self.box = nn.Linear(32, self.classes * 4)

    def propose(self, maps: list[Any], size: Any) -> Any:
        found = []
        for i, x in enumerate(maps):
            anchors = proa.to_tensor(anchors_of(*x.shape[2:], 4 << i))
            x = F.relu(self.region(x))
            found.append(
                ops.generate_proposals(
                    F.sigmoid(self.object(x)),
                    self.shift(x),
                    size,
                    anchors,
                    proa.ones_like(anchors),
                    100,
                    30,
                    0.7,
                    0.0,
                )
            )
        boxes, scores = (proa.concat([f[k] for f in found], 0) for k in (0, 1))
        best = proa.argsort(scores[:, 0], descending=True)[:50]
        return proa.gather(boxes, best)

    def forward(self, image: Any, size: Any) -> Any:
        maps = self.pyramid(self.body(image))
        boxes = self.propose(maps, size)
        count = proa.ones_like(boxes[:, :1]).sum(0).astype("int32")
        levels, restore, counts = ops.distribute_fpn_proposals(
            boxes, 2, 5, 4, 224, rois_num=count
        )
        regions = [
            ops.roi_align(x, levels[i], counts[i], 7, 1 / (4 << i))
            for i, x in enumerate(maps[:4])
        ]
        y = self.judge(proa.gather(proa.concat(regions, 0), restore[:, 0]))
        scores = F.softmax(self.kind(y))[:, : self.classes]
        codes = self.box(y).reshape([-1, self.classes, 4])
        boxes = ops.box_coder(boxes, [0.1, 0.1, 0.2, 0.2], codes, "decode_center_size",
                              False, axis=1)  # fmt: skip
        limit = size.flip([1]).tile([1, 2]).unsqueeze(1) - 1.0
        boxes = proa.maximum(proa.minimum(boxes, limit), proa.zeros([1]))
        boxes, scores = boxes.reshape([-1, 4]), scores.reshape([-1])
        kinds = proa.zeros_like(codes[:, :, 0]).astype("int64")
        kinds = (kinds + proa.arange(self.classes)).reshape([-1])
        selected = ops.nms(boxes, 0.5, scores, kinds, list(range(self.classes)))[:20]
        return [proa.gather(x, selected) for x in (kinds, scores, boxes)]


# -- PP-OCR (Du et al., 2020) ----------------------------------------------------------
class SqueezeExcite(nn.Layer):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down, self.up = (
            nn.Conv2D(channels, channels // 4, 1), nn.Conv2D(channels // 4, channels, 1)
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        y = F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))
        return x * F.hardsigmoid(self.up(y))


class MobileBlock(nn.Layer):
    """The block of MobileNetV3 (Howard et al., 2019)."""

    def __init__(self, cin: int, cout: int, stride: Any) -> None:
        super().__init__()
        wide = 3 * cin
        self.same = cin == cout and stride == 1
        self.body = nn.Sequential(
            conv(cin, wide, 1, act="hardswish"),
            conv(wide, wide, 5, stride, "hardswish", groups=wide),
            SqueezeExcite(wide), conv(wide, cout, 1, act=""),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return x + self.body(x) if self.same else self.body(x)


class TextDetector(nn.Layer):
    """Differentiable binarization: MobileNetV3, a pyramid, a map of text."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(3, 8, 3, 2, "hardswish")
        sizes = [(8, 8), (8, 12), (12, 16), (16, 20)]
        self.stages = nn.LayerList(
            [
                nn.Sequential(MobileBlock(a, b, 2), MobileBlock(b, b, 1))
                for a, b in sizes
            ]
        )
        self.lateral = nn.LayerList([nn.Conv2D(b, 16, 1) for _, b in sizes])
        self.smooth = nn.LayerList([nn.Conv2D(16, 4, 3, padding=1) for _ in sizes])
        self.head = nn.Sequential(
            conv(16, 4), nn.Conv2DTranspose(4, 4, 2, 2), nn.BatchNorm2D(4), nn.ReLU(),
            nn.Conv2DTranspose(4, 1, 2, 2), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, image: Any) -> Any:
        x, maps = self.stem(image), []
        for stage, lateral in zip(self.stages, self.lateral, strict=True):
            x = stage(x)
            maps.append(lateral(x))
        for i in (2, 1, 0):
            maps[i] = maps[i] + F.interpolate(maps[i + 1], scale_factor=2)
        maps = [
            F.interpolate(one(m), scale_factor=1 << i) if i else one(m)
            for i, (one, m) in enumerate(zip(self.smooth, maps, strict=True))
        ]
        return self.head(proa.concat(maps[::-1], 1))


class TextRecognizer(nn.Layer):
    """CRNN: MobileNetV3 of flat strides, LSTMs of both directions, characters."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv(3, 8, 3, 2, "hardswish"), MobileBlock(8, 8, 1),
            MobileBlock(8, 12, (2, 1)), MobileBlock(12, 16, (2, 1)),
            MobileBlock(16, 16, (2, 1)), nn.MaxPool2D(2, 2),
        )  # fmt: skip
        self.sequence = nn.LSTM(16, 12, 2, direction="bidirect")
        self.head = nn.Linear(24, 37)

    def forward(self, image: Any) -> Any:
        x = self.body(image).squeeze(2).transpose([0, 2, 1])
        return F.softmax(self.head(self.sequence(x)[0]), axis=2)


class PPOcr(nn.Layer):
    """Where text is in pictures, and what cut lines say."""

    def __init__(self) -> None:
        super().__init__()
        self.detect, self.recognize = TextDetector(), TextRecognizer()

    def forward(self, image: Any, lines: Any) -> Any:
        return self.detect(image), self.recognize(lines)


# -- ERNIE 2.0 (Sun et al., 2020) ------------------------------------------------------
class Ernie(nn.Layer):
    """BERT with embeddings of tasks and ReLU, which labels tokens and sentences."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (50, 20, 4, 3)
        self.tables = nn.LayerList([nn.Embedding(n, 16) for n in sizes])
        self.norm = nn.LayerNorm(16)
        layer = nn.TransformerEncoderLayer(16, 4, 32, 0.1, "relu")
        self.body, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(16, 7)
        self.pool, self.kind = nn.Linear(16, 16), nn.Linear(16, 2)

    def forward(self, ids: Any, kinds: Any, tasks: Any) -> Any:
        mask = (ids == 0).astype("float32").unsqueeze([1, 2]) * -1e9
        places = proa.cumsum(proa.ones_like(ids), axis=1) - 1
        given = zip(self.tables, (ids, places, kinds, tasks), strict=True)
        x = self.body(self.norm(sum(table(k) for table, k in given)), mask)
        return self.head(x), self.kind(proa.tanh(self.pool(x[:, 0])))
