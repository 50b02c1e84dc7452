"""Boxes, anchors, proposals and YOLO heads against NumPy loops and worked examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, ShapeError
from proa.vision import ops

RNG = np.random.default_rng(0)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def iou(a: Any, b: Any, extra: float = 0.0) -> float:
    w = max(min(a[2], b[2]) - max(a[0], b[0]) + extra, 0)
    h = max(min(a[3], b[3]) - max(a[1], b[1]) + extra, 0)
    area = [(c[2] - c[0] + extra) * (c[3] - c[1] + extra) for c in (a, b)]
    return float(w * h / (sum(area) - w * h))


def some_boxes(n: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 10, (n, 2))
    return np.concatenate([low, low + rng.uniform(1, 6, (n, 2))], 1).astype(np.float32)


def greedy(boxes: Any, order: Any, threshold: float) -> list[int]:
    selected: list[int] = []
    for i in order:
        if all(iou(boxes[i], boxes[k]) <= threshold for k in selected):
            selected.append(int(i))
    return selected


def test_nms() -> None:
    boxes, scores = some_boxes(40), RNG.uniform(size=40).astype(np.float32)
    kinds = RNG.integers(0, 3, 40)
    b, s, k = (proa.to_tensor(a) for a in (boxes, scores, kinds))
    assert ops.nms(b, 0.2).numpy().tolist() == greedy(boxes, range(40), 0.2)
    best = greedy(boxes, np.argsort(-scores), 0.2)
    assert ops.nms(b, 0.2, s).numpy().tolist() == best
    assert ops.nms(b, 0.2, s, top_k=3).numpy().tolist() == best[:3]
    apart = [
        i
        for kind in (0, 2)
        for i in greedy(
            boxes, [i for i in np.argsort(-scores) if kinds[i] == kind], 0.2
        )
    ]
    apart.sort(key=lambda i: -scores[i])
    got = ops.nms(b, 0.2, s, k, [0, 2])
    assert got.numpy().tolist() == apart
    assert got.dtype == "int64"
    assert ops.nms(b, 0.2, s, k, [0, 2], top_k=4).numpy().tolist() == apart[:4]
    assert ops.nms(proa.zeros([0, 4])).shape == [0]


def test_nms_names_missing_arguments() -> None:
    b = proa.to_tensor(some_boxes(4))
    with pytest.raises(ShapeError, match=r"boxes must have shape \(R, 4\)"):
        ops.nms(b[:, :3])
    with pytest.raises(ShapeError, match=r"scores must have shape \(R,\)"):
        ops.nms(b, scores=proa.ones([3]))
    with pytest.raises(InvalidArgumentError, match="needs scores and categories"):
        ops.nms(b, category_idxs=proa.zeros([4], "int64"))
    with pytest.raises(InvalidArgumentError, match="top_k must not exceed the 4"):
        ops.nms(b, top_k=5)


@pytest.mark.parametrize("gaussian", [False, True])
def test_matrix_nms(gaussian: bool) -> None:
    boxes, scores = some_boxes(12)[None], RNG.uniform(size=(1, 3, 12)).astype("float32")
    found = []
    for label in (1, 2):
        order = [i for i in np.argsort(-scores[0, label]) if scores[0, label, i] > 0.1]
        for at, i in enumerate(order):
            smallest = 1.0
            for before, j in enumerate(order[:at]):
                largest = max((iou(boxes[0, j], boxes[0, m]) for m in order[:before]),
                           default=0.0)  # fmt: skip
                o = iou(boxes[0, i], boxes[0, j])
                fall = (1 - o) / (1 - largest)
                smallest = min(
                    smallest, np.exp((largest**2 - o**2) * 2) if gaussian else fall
                )
            score = scores[0, label, i] * smallest
            if score > 0.15:
                found.append((score, label, i))
    found.sort(key=lambda f: -f[0])
    out, count, index = ops.matrix_nms(
        proa.to_tensor(boxes), proa.to_tensor(scores), 0.1, 0.15, -1, 10, gaussian,
        return_index=True,
    )  # fmt: skip
    assert count is not None and index is not None
    want = [[label, s, *boxes[0, i]] for s, label, i in found[:10]]
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-4)
    assert count.numpy().tolist() == [len(want)]
    assert index.numpy().ravel().tolist() == [i for _, _, i in found[:10]]


@pytest.mark.parametrize("normalized", [True, False])
def test_box_coder_is_undone(normalized: bool) -> None:
    extra = 0.0 if normalized else 1.0
    prior, target = some_boxes(3), some_boxes(5, 1)
    variance = RNG.uniform(0.1, 1, (3, 4)).astype(np.float32)
    want = np.zeros((5, 3, 4))
    for n, m in np.ndindex(5, 3):
        ps, ts = (b[2:] - b[:2] + extra for b in (prior[m], target[n]))
        shift = (target[n, :2] + ts / 2 - prior[m, :2] - ps / 2) / ps
        want[n, m] = np.concatenate([shift, np.log(ts / ps)]) / variance[m]
    p, v, t = (proa.to_tensor(a) for a in (prior, variance, target))
    code = ops.box_coder(p, v, t, "encode_center_size", normalized)
    np.testing.assert_allclose(code.numpy(), want, rtol=1e-4, atol=1e-5)
    back = ops.box_coder(p, v, code, "decode_center_size", normalized)
    np.testing.assert_allclose(
        back.numpy(), np.broadcast_to(target[:, None], (5, 3, 4)), rtol=1e-4, atol=1e-4
    )
    transposed_view = proa.transpose(code, [1, 0, 2])
    other = ops.box_coder(
        p, v, transposed_view, "decode_center_size", normalized, axis=1
    )
    np.testing.assert_allclose(
        other.numpy(), back.numpy().transpose(1, 0, 2), rtol=1e-5
    )
    plain = ops.box_coder(p, [0.1, 0.1, 0.2, 0.2], t, "encode_center_size", normalized)
    np.testing.assert_allclose(
        plain.numpy(), want * variance / np.array([0.1, 0.1, 0.2, 0.2]), rtol=1e-4,
        atol=1e-5,
    )  # fmt: skip
    with pytest.raises(InvalidArgumentError, match="code_type must be"):
        ops.box_coder(p, v, t, "encode")
    with pytest.raises(InvalidArgumentError, match="axis must be 0 or 1"):
        ops.box_coder(p, v, t, axis=2)


def test_prior_box() -> None:
    features, image = proa.zeros([1, 8, 2, 3]), proa.zeros([1, 3, 20, 60])
    boxes, variances = ops.prior_box(
        features, image, [4.0], [9.0], [2.0], flip=True, offset=0.5
    )
    assert boxes.shape == variances.shape == [2, 3, 4, 4]
    r = 2**0.5
    sizes = [(4, 4), (4 * r, 4 / r), (4 / r, 4 * r), (6, 6)]
    for i, j, k in np.ndindex(2, 3, 4):
        x, y = (j + 0.5) * 20, (i + 0.5) * 10
        w, h = sizes[k]
        want = [(x - w / 2) / 60, (y - h / 2) / 20, (x + w / 2) / 60, (y + h / 2) / 20]
        np.testing.assert_allclose(boxes.numpy()[i, j, k], want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variances.numpy()[1, 2, 3], [0.1, 0.1, 0.2, 0.2])
    first, _ = ops.prior_box(
        features, image, 4.0, 9.0, 2.0, flip=True, min_max_aspect_ratios_order=True
    )
    np.testing.assert_array_equal(first.numpy(), boxes.numpy()[:, :, [0, 3, 1, 2]])
    cut, _ = ops.prior_box(features, image, [40.0], clip=True, steps=[20.0, 10.0])
    assert cut.numpy().min() == 0 and cut.numpy().max() == 1
    with pytest.raises(InvalidArgumentError, match="max_sizes must be as many"):
        ops.prior_box(features, image, [4.0], [9.0, 10.0])


@pytest.mark.feature("L100")
@pytest.mark.parametrize("offset", [False, True])
def test_generate_proposals(offset: bool) -> None:
    extra = 1.0 if offset else 0.0
    n, a, h, w = 2, 3, 4, 5
    scores = RNG.uniform(size=(n, a, h, w)).astype(np.float32)
    deltas = RNG.normal(size=(n, 4 * a, h, w)).astype(np.float32) * 0.3
    anchors = some_boxes(h * w * a, 4).reshape(h, w, a, 4) * 2
    variances = np.full((h, w, a, 4), 0.5, np.float32)
    size = np.array([[20, 22], [25, 18]], np.float32)
    wanted, counts = [], []
    for i in range(n):
        boxes, points = [], []
        for y, x, k in np.ndindex(h, w, a):
            box, d = anchors[y, x, k], deltas[i, 4 * k : 4 * k + 4, y, x] * 0.5
            side = box[2:] - box[:2] + extra
            middle = box[:2] + side / 2 + d[:2] * side
            side = side * np.exp(d[2:])
            box = np.concatenate([middle - side / 2, middle + side / 2 - extra])
            boxes.append(np.clip(box, 0, np.tile(size[i][::-1] - extra, 2)))
            points.append(scores[i, k, y, x])
        order = np.argsort(-np.array(points))[:40]
        selected: list[Any] = []
        for o in order:
            b = boxes[o]
            side = b[2:] - b[:2] + extra
            inside = not offset or (b[:2] + side / 2 <= size[i][::-1]).all()
            if (
                (side >= 2).all()
                and inside
                and all(iou(b, other, extra) <= 0.6 for other, _ in selected)
            ):
                selected.append((b, points[o]))
        wanted += selected[:6]
        counts.append(len(selected[:6]))
    given = [proa.to_tensor(v) for v in (scores, deltas, size, anchors, variances)]
    boxes_, points_, number = ops.generate_proposals(
        *given, 40, 6, 0.6, 2.0, pixel_offset=offset, return_rois_num=True
    )
    assert number is not None and number.numpy().tolist() == counts
    np.testing.assert_allclose(
        boxes_.numpy(), [b for b, _ in wanted], rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(points_.numpy().ravel(), [p for _, p in wanted])
    none, zero, _ = ops.generate_proposals(*given, min_size=1000.0)
    assert none.shape == [2, 4] and not none.numpy().any() and zero.shape == [2, 1]


@pytest.mark.feature("L100")
@pytest.mark.parametrize("offset", [False, True])
def test_distribute_fpn_proposals(offset: bool) -> None:
    # Sides of 223 and 224: with the last pixel's own width both reach level 4.
    sides = np.array([112.0, 223.0, 30.0, 224.0, 900.0, 448.0])
    boxes = np.stack([sides * 0, sides * 0, sides, sides], 1).astype(np.float32)
    extra = 1 if offset else 0
    level = np.clip(4 + np.floor(np.log2((sides + extra) / 224)), 2, 5)
    assert level[1] == (4 if offset else 3)
    rois, restore, counts = ops.distribute_fpn_proposals(
        proa.to_tensor(boxes), 2, 5, 4, 224, offset, proa.to_tensor([4, 2], "int32")
    )
    for k, got in zip(range(2, 6), rois, strict=True):
        np.testing.assert_array_equal(got.numpy(), boxes[level == k])
    together = proa.concat(rois)
    back = proa.gather(together, restore.flatten())
    np.testing.assert_array_equal(back.numpy(), boxes)
    assert counts is not None
    image = np.array([0, 0, 0, 0, 1, 1])
    for k, count in zip(range(2, 6), counts, strict=True):
        assert count.numpy().tolist() == [
            int(((level == k) & (image == i)).sum()) for i in (0, 1)
        ]
    with pytest.raises(InvalidArgumentError, match="max_level must be at least"):
        ops.distribute_fpn_proposals(proa.to_tensor(boxes), 3, 2, 4, 224)


ANCHORS = [10, 13, 16, 30, 33, 23]


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize(("scale_xy", "aware"), [(1.0, False), (1.2, True)])
def test_yolo_box(clip: bool, scale_xy: float, aware: bool) -> None:
    n, h, w, classes, ratio = 2, 3, 4, 2, 8
    x = RNG.normal(size=(n, 3 * (7 + aware), h, w))
    size = np.array([[40, 60], [33, 21]], np.int32)
    head = x[:, 3:] if aware else x
    boxes, scores = np.zeros((n, 3 * h * w, 4)), np.zeros((n, 3 * h * w, classes))
    for i, a, y, c in np.ndindex(n, 3, h, w):
        p = head[i, 7 * a : 7 * a + 7, y, c]
        conf = sigmoid(p[4])
        if aware:
            conf = conf**0.6 * sigmoid(x[i, a, y, c]) ** 0.4
        if conf < 0.45:
            continue
        bias = -0.5 * (scale_xy - 1)
        bx = (c + sigmoid(p[0]) * scale_xy + bias) * size[i, 1] / w
        by = (y + sigmoid(p[1]) * scale_xy + bias) * size[i, 0] / h
        bw = np.exp(p[2]) * ANCHORS[2 * a] * size[i, 1] / (ratio * w)
        bh = np.exp(p[3]) * ANCHORS[2 * a + 1] * size[i, 0] / (ratio * h)
        box = np.array([bx - bw / 2, by - bh / 2, bx + bw / 2, by + bh / 2])
        if clip:
            box[:2] = np.maximum(box[:2], 0)
            box[2:] = np.minimum(box[2:], [size[i, 1] - 1, size[i, 0] - 1])
        at = (a * h + y) * w + c
        boxes[i, at], scores[i, at] = box, conf * sigmoid(p[5:])
    got = ops.yolo_box(
        proa.to_tensor(x), proa.to_tensor(size), ANCHORS, classes, 0.45, ratio, clip,
        scale_x_y=scale_xy, iou_aware=aware, iou_aware_factor=0.4,
    )  # fmt: skip
    np.testing.assert_allclose(got[0].numpy(), boxes, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(got[1].numpy(), scores, rtol=1e-9, atol=1e-9)


def cross_entropy(x: float, t: float) -> float:
    return float(max(x, 0) - x * t + np.log1p(np.exp(-abs(x))))


def reference_loss(
    x: Any,
    gt: Any,
    label: Any,
    mask: list[int],
    score: Any,
    smooth: bool,
    scale_xy: float,
) -> Any:
    n, _, h, w = x.shape
    classes, ratio, thresh = 3, 8, 0.3
    anchors = np.array(ANCHORS, float).reshape(-1, 2)
    p = x.reshape(n, len(mask), 5 + classes, h, w)
    low = min(1 / classes, 1 / 40) if smooth else 0.0
    loss = np.zeros(n)

    def centred(b: Any) -> Any:
        return [b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2]

    for i in range(n):
        objects = np.zeros((len(mask), h, w))
        for a, y, c in np.ndindex(*objects.shape):
            q, bias = p[i, a, :, y, c], -0.5 * (scale_xy - 1)
            box = [
                (c + sigmoid(q[0]) * scale_xy + bias) / w,
                (y + sigmoid(q[1]) * scale_xy + bias) / h,
                np.exp(q[2]) * anchors[mask[a], 0] / (ratio * w),
                np.exp(q[3]) * anchors[mask[a], 1] / (ratio * h),
            ]
            found = [iou(centred(box), centred(g)) for g in gt[i] if min(g[2:]) > 1e-6]
            if max(found, default=0.0) > thresh:
                objects[a, y, c] = -1
        for t, g in enumerate(gt[i]):
            if min(g[2:]) <= 1e-6:
                continue
            whole = np.array([ratio * w, ratio * h])
            like = [iou(centred([0, 0, *(an / whole)]), centred([0, 0, *g[2:]]))
                    for an in anchors]  # fmt: skip
            best = int(np.argmax(like))
            if best not in mask:
                continue
            a, c, y = mask.index(best), int(g[0] * w), int(g[1] * h)
            q, s = p[i, a, :, y, c], score[i, t]
            where = cross_entropy(q[0], g[0] * w - c) + cross_entropy(
                q[1], g[1] * h - y
            )
            where += np.abs(q[2:4] - np.log(g[2:] * whole / anchors[best])).sum()
            loss[i] += where * (2 - g[2] * g[3]) * s
            for k in range(classes):
                target = 1 - low if k == label[i, t] else low
                loss[i] += cross_entropy(q[5 + k], target) * s
            objects[a, y, c] = s
        for a, y, c in np.ndindex(*objects.shape):
            o, q = objects[a, y, c], p[i, a, 4, y, c]
            if o > 1e-5:
                loss[i] += cross_entropy(q, 1) * o
            elif o > -0.5:
                loss[i] += cross_entropy(q, 0)
    return loss


@pytest.mark.parametrize("mask", [[0, 1, 2], [2, 0]])
@pytest.mark.parametrize(("smooth", "scale_xy"), [(True, 1.0), (False, 1.1)])
def test_yolo_loss(mask: list[int], smooth: bool, scale_xy: float) -> None:
    x = RNG.normal(size=(2, len(mask) * 8, 3, 4))
    gt = np.concatenate(
        [RNG.uniform(0.05, 0.95, (2, 4, 2)), RNG.uniform(0.1, 0.9, (2, 4, 2))], 2
    )
    gt[1, 2:] = 0  # only two boxes in this image
    gt[0, 3] = gt[0, 2]  # two in one place: the last one's score counts
    label, score = RNG.integers(0, 3, (2, 4)), RNG.uniform(0.5, 1, (2, 4))

    def loss(x: Any) -> Any:
        return ops.yolo_loss(
            x, proa.to_tensor(gt), proa.to_tensor(label), ANCHORS, mask, 3, 0.3, 8,
            proa.to_tensor(score), smooth, scale_x_y=scale_xy,
        )  # fmt: skip

    want = reference_loss(x, gt, label, mask, score, smooth, scale_xy)
    np.testing.assert_allclose(loss(proa.to_tensor(x)).numpy(), want, rtol=1e-9)
    v = proa.to_tensor(x, stop_gradient=False)
    loss(v).sum().backward()
    along = RNG.normal(size=x.shape)
    up, down = (
        reference_loss(x + e * along, gt, label, mask, score, smooth, scale_xy).sum()
        for e in (1e-6, -1e-6)
    )
    np.testing.assert_allclose(
        (v.grad.numpy() * along).sum(), (up - down) / 2e-6, rtol=1e-4
    )
    spec = [proa.static.InputSpec([None, *x.shape[1:]], "float64")]
    if mask == [2, 0]:
        got = proa.jit.to_static(loss, input_spec=spec)(proa.to_tensor(x))
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-9)


def test_yolo_checks_its_input() -> None:
    x, size = proa.zeros([1, 21, 2, 2]), proa.zeros([1, 2], "int32")
    with pytest.raises(ShapeError, match=r"x must be \(N, 3 \* 8, H, W\)"):
        ops.yolo_box(x, size, ANCHORS, 3, 0.1, 8)
    with pytest.raises(InvalidArgumentError, match="anchors must be pairs"):
        ops.yolo_box(x, size, [1, 2, 3], 2, 0.1, 8)
    box, label = proa.zeros([1, 2, 4]), proa.zeros([1, 2], "int32")
    with pytest.raises(InvalidArgumentError, match="anchor_mask must name some of 3"):
        ops.yolo_loss(x, box, label, ANCHORS, [0, 1, 3], 2, 0.5, 8)
    with pytest.raises(ShapeError, match=r"gt_box must be \(N, B, 4\)"):
        ops.yolo_loss(x, box[0], label, ANCHORS, [0, 1, 2], 2, 0.5, 8)


def test_pictures_from_files(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.full((8, 16, 3), [200, 100, 50], np.uint8)
    path = tmp_path / "picture.jpg"
    image.fromarray(pixels).save(path, quality=95)
    data = ops.read_file(str(path))
    assert data.dtype == "uint8" and data.numpy().tobytes() == path.read_bytes()
    got = ops.decode_jpeg(data)
    assert got.shape == [3, 8, 16] and got.dtype == "uint8"
    assert np.abs(got.numpy().astype(int) - pixels.transpose(2, 0, 1)).max() <= 4
    assert ops.decode_jpeg(data, "gray").shape == [1, 8, 16]
    assert ops.decode_jpeg(data, mode="rgb").shape == [3, 8, 16]
    with pytest.raises(InvalidArgumentError, match="mode must be one of"):
        ops.decode_jpeg(data, "bgr")
    with pytest.raises(InvalidArgumentError, match="x must be the bytes of a picture"):
        ops.decode_jpeg(data[:10])
