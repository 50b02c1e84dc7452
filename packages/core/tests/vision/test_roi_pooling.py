"""Pooling of regions and deformable convolution against NumPy, bin by bin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, ShapeError
from proa.static import create_lod_tensor
from proa.vision import ops

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 8, 6, 7))
BOXES = np.array(
    [[0, 1, 8, 9], [-3, -2, 5, 4], [4.3, 2.2, 13.7, 11.1], [6, 6, 6.2, 6.1]]
)
COUNTS = np.array([1, 3], np.int32)
IMAGE = [0, 1, 1, 1]
SIZE, SCALE = [2, 2], 0.5


def tensors(*arrays: Any) -> list[Any]:
    return [proa.to_tensor(a) for a in arrays]


def away(x: Any) -> Any:
    """To the nearest integer, halves away from 0."""
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def bilinear(plane: Any, y: float, x: float) -> float:
    """Zero outside, straight lines between the pixels."""
    total = 0.0
    for i in (int(np.floor(y)), int(np.floor(y)) + 1):
        for j in (int(np.floor(x)), int(np.floor(x)) + 1):
            if 0 <= i < plane.shape[0] and 0 <= j < plane.shape[1]:
                total += plane[i, j] * (1 - abs(y - i)) * (1 - abs(x - j))
    return total


def clamped(plane: Any, y: float, x: float) -> float:
    """As roi_align reads: the border continues for one pixel."""
    h, w = plane.shape
    if y < -1 or y > h or x < -1 or x > w:
        return 0.0
    return bilinear(plane, min(max(y, 0), h - 1), min(max(x, 0), w - 1))


def slope(f: Any, x: Any, seed: int = 1) -> None:
    """The gradient of sum(f ** 2) along a direction, and its own, by differences."""
    along = np.random.default_rng(seed).standard_normal(x.shape)
    h = 1e-5

    def run(step: float) -> Any:
        v = proa.to_tensor(x + step * along, stop_gradient=False)
        loss = (f(v) ** 2).sum()
        (g,) = proa.grad([loss], [v], create_graph=True)
        return v, float(loss.numpy()), g

    v, _, g = run(0)
    (_, up, g_up), (_, down, g_down) = run(h), run(-h)
    np.testing.assert_allclose(
        (g.numpy() * along).sum(), (up - down) / 2 / h, rtol=1e-5
    )
    (second,) = proa.grad([(g * proa.to_tensor(along)).sum()], [v])
    want = ((g_up.numpy() - g_down.numpy()) * along).sum() / 2 / h
    np.testing.assert_allclose(
        (second.numpy() * along).sum(), want, rtol=1e-4, atol=1e-6
    )


def aligned_mean(ratio: int, aligned: bool) -> Any:
    y = np.zeros((len(BOXES), X.shape[1], *SIZE))
    for r, box in enumerate(BOXES):
        x1, y1, x2, y2 = box * SCALE - (0.5 if aligned else 0.0)
        side = np.array([y2 - y1, x2 - x1])
        side = side if aligned else np.maximum(side, 1)
        step = side / SIZE
        n = [ratio if ratio > 0 else max(int(np.ceil(s)), 1) for s in step]
        for c, i, j in np.ndindex(*y.shape[1:]):
            points = [
                clamped(
                    X[IMAGE[r], c],
                    y1 + (i + (p + 0.5) / n[0]) * step[0],
                    x1 + (j + (q + 0.5) / n[1]) * step[1],
                )
                for p, q in np.ndindex(*n)
            ]
            y[r, c, i, j] = np.mean(points)
    return y


@pytest.mark.feature("L100")
@pytest.mark.parametrize("ratio", [-1, 1, 2])
@pytest.mark.parametrize("aligned", [True, False])
def test_roi_align(ratio: int, aligned: bool) -> None:
    x, boxes, counts = tensors(X, BOXES, COUNTS)
    want = aligned_mean(ratio, aligned)
    got = ops.roi_align(x, boxes, counts, SIZE, SCALE, ratio, aligned)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-9)
    slope(lambda x: ops.roi_align(x, boxes, counts, SIZE, SCALE, ratio, aligned), X)
    if ratio == -1:
        layer = ops.RoIAlign(SIZE, SCALE)
        got = layer(x, boxes, counts, aligned=aligned)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-9)
        assert "output_size=[2, 2], spatial_scale=0.5" in repr(layer)


def test_roi_pool() -> None:
    want = np.zeros((len(BOXES), X.shape[1], *SIZE))
    for r, box in enumerate(BOXES):
        x1, y1, x2, y2 = away(box * SCALE)
        step = np.maximum([y2 - y1 + 1, x2 - x1 + 1], 1) / SIZE
        for i, j in np.ndindex(*SIZE):
            top, left = y1 + np.floor(i * step[0]), x1 + np.floor(j * step[1])
            end = y1 + np.ceil((i + 1) * step[0]), x1 + np.ceil((j + 1) * step[1])
            rows = slice(*(int(np.clip(v, 0, 6)) for v in (top, end[0])))
            cols = slice(*(int(np.clip(v, 0, 7)) for v in (left, end[1])))
            part = X[IMAGE[r], :, rows, cols].reshape(X.shape[1], -1)
            want[r, :, i, j] = part.max(1) if part.size else 0
    x, boxes, counts = tensors(X, BOXES, COUNTS)
    got = ops.roi_pool(x, boxes, counts, SIZE, SCALE)
    np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(ops.RoIPool(2, SCALE)(x, boxes, counts).numpy(), want)
    slope(lambda x: ops.roi_pool(x, boxes, counts, SIZE, SCALE), X)


def test_psroi_pool() -> None:
    want = np.zeros((len(BOXES), 2, *SIZE))
    for r, box in enumerate(BOXES):
        x1, y1 = away(box[:2]) * SCALE
        x2, y2 = (away(box[2:]) + 1) * SCALE
        step = np.maximum([y2 - y1, x2 - x1], 0.1) / SIZE
        for c, i, j in np.ndindex(2, *SIZE):
            rows = [np.floor(y1 + i * step[0]), np.ceil(y1 + (i + 1) * step[0])]
            cols = [np.floor(x1 + j * step[1]), np.ceil(x1 + (j + 1) * step[1])]
            rows, cols = (
                np.clip(rows, 0, 6).astype(int),
                np.clip(cols, 0, 7).astype(int),
            )
            part = X[IMAGE[r], (c * 2 + i) * 2 + j, slice(*rows), slice(*cols)]
            want[r, c, i, j] = part.mean() if part.size else 0
    x, boxes, counts = tensors(X, BOXES, COUNTS)
    got = ops.psroi_pool(x, boxes, counts, SIZE, SCALE)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-9)
    got = ops.PSRoIPool(2, SCALE)(x, boxes, counts).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
    slope(lambda x: ops.psroi_pool(x, boxes, counts, SIZE, SCALE), X)
    with pytest.raises(ShapeError, match="9 must divide the channels"):
        ops.psroi_pool(x, boxes, counts, 3)


@pytest.mark.feature("L095")
def test_prroi_pool_takes_boxes_as_one_tensor_or_by_image() -> None:
    want = np.zeros((len(BOXES), X.shape[1], *SIZE))
    n = 400  # midpoints of a fine grid, whose mean is near the integral
    for r, box in enumerate(BOXES):
        x1, y1, x2, y2 = box * SCALE
        ys = y1 + (np.arange(2 * n) + 0.5) / (2 * n) * (y2 - y1)
        xs = x1 + (np.arange(2 * n) + 0.5) / (2 * n) * (x2 - x1)
        down = np.maximum(0, 1 - np.abs(ys[:, None] - np.arange(6)))
        along = np.maximum(0, 1 - np.abs(xs[:, None] - np.arange(7)))
        fine = down @ X[IMAGE[r]] @ along.T
        want[r] = fine.reshape(-1, 2, n, 2, n).mean((2, 4))
    x, boxes, counts = tensors(X, BOXES, COUNTS)
    got = ops.prroi_pool(x, boxes, counts, SIZE, SCALE)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-3, atol=1e-4)
    sequences = create_lod_tensor(BOXES, [COUNTS.tolist()])
    for split in ([boxes[:1], boxes[1:]], sequences):
        again = ops.prroi_pool(x, split, None, SIZE, SCALE)
        np.testing.assert_array_equal(again.numpy(), got.numpy())
    slope(lambda x: ops.prroi_pool(x, boxes, counts, SIZE, SCALE), X)
    few = proa.to_tensor([1, 2])
    smooth = BOXES[:3] + 0.13  # no edge in the middle of a pixel
    slope(lambda b: ops.prroi_pool(x, b, few, SIZE, SCALE), smooth)
    with pytest.raises(InvalidArgumentError, match="expected boxes_num"):
        ops.prroi_pool(x, boxes)


def test_regions_are_checked() -> None:
    x, boxes, counts = tensors(X, BOXES, COUNTS)
    with pytest.raises(InvalidArgumentError, match=r"add up to the 4 boxes, got 3"):
        ops.roi_align(x, boxes, counts - proa.to_tensor([0, 1], "int32"), 2)
    with pytest.raises(ShapeError, match=r"boxes must have shape \(R, 4\)"):
        ops.roi_pool(x, boxes[:, :3], counts, 2)
    with pytest.raises(ShapeError, match=r"x must be \(N, C, H, W\)"):
        ops.roi_align(x[0], boxes, counts, 2)
    with pytest.raises(InvalidArgumentError, match="output_size must be one number"):
        ops.roi_align(x, boxes, counts, [2, 0])
    with pytest.raises(InvalidArgumentError, match="boxes must be finite"):
        ops.roi_align(x, boxes * float("inf"), counts, 2)
    none = proa.zeros([0, 4], "float64")
    zero = proa.zeros([2], "int32")
    assert ops.roi_align(x, none, zero, 2).shape == [0, 8, 2, 2]


def test_regions_are_recorded_with_unknown_numbers() -> None:
    def all_of(x: Any, boxes: Any, counts: Any) -> Any:
        return (
            ops.roi_align(x, boxes, counts, SIZE, SCALE),
            ops.roi_align(x, boxes, counts, SIZE, SCALE, 2, False),
            ops.roi_pool(x, boxes, counts, SIZE, SCALE),
            ops.psroi_pool(x, boxes, counts, SIZE, SCALE),
            ops.prroi_pool(x, boxes, counts, SIZE, SCALE),
        )

    spec = proa.static.InputSpec
    recorded = proa.jit.to_static(
        all_of,
        input_spec=[
            spec([None, 8, 6, 7], "float64"), spec([None, 4], "float64"),
            spec([None], "int32"),
        ],
    )  # fmt: skip
    given = tensors(X, BOXES, COUNTS)
    for got, want in zip(recorded(*given), all_of(*given), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9, atol=1e-9)


DEFORM = [
    ({}, (1, 1, 0, 1)),
    ({"stride": 2, "padding": 1, "deformable_groups": 2}, (2, 1, 1, 2)),
    ({"groups": 2, "dilation": 2, "padding": 2}, (1, 2, 2, 1)),
]


@pytest.mark.parametrize(("given", "geometry"), DEFORM)
@pytest.mark.parametrize("masked", [True, False])
def test_deformable_convolution(given: Any, geometry: Any, masked: bool) -> None:
    step, gap, pad, parts = geometry
    groups = given.get("groups", 1)
    rng = np.random.default_rng(7)
    x, w = (
        rng.standard_normal((2, 4, 5, 6)),
        rng.standard_normal((6, 4 // groups, 2, 3)),
    )
    b = rng.standard_normal(6)
    size = [(n + 2 * pad - gap * (k - 1) - 1) // step + 1 for n, k in [(5, 2), (6, 3)]]
    offset = rng.uniform(-1.5, 1.5, (2, 2 * parts * 6, *size))
    mask = rng.uniform(0, 1, (2, parts * 6, *size)) if masked else None
    columns = np.zeros((2, 4, 6, *size))
    for n, c, k, i, j in np.ndindex(*columns.shape):
        g = c // (4 // parts)
        y, xx = offset[n, 2 * (g * 6 + k) : 2 * (g * 6 + k) + 2, i, j]
        y, xx = y + i * step - pad + k // 3 * gap, xx + j * step - pad + k % 3 * gap
        columns[n, c, k, i, j] = bilinear(x[n, c], y, xx)
        if mask is not None:
            columns[n, c, k, i, j] *= mask[n, g * 6 + k, i, j]
    columns = columns.reshape(2, groups, 4 // groups, 6, *size)
    kernels = w.reshape(groups, 6 // groups, 4 // groups, 6)
    want = np.einsum("ngckij,gock->ngoij", columns, kernels).reshape(2, 6, *size)
    want = want + b[:, None, None]
    arrays = [a for a in (x, offset, w, b, mask) if a is not None]

    def run(x: Any, offset: Any, w: Any, b: Any, mask: Any = None) -> Any:
        return ops.deform_conv2d(x, offset, w, b, **given, mask=mask)

    got = run(*tensors(*arrays))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-9)
    for i, a in enumerate(arrays):
        others = tensors(*arrays)
        slope(lambda v, i=i, others=others: run(*others[:i], v, *others[i + 1 :]), a)


def test_deformable_layer_without_offsets_is_conv2d() -> None:
    layer = ops.DeformConv2D(4, 6, 3, stride=2, padding=1, groups=2)
    x = proa.to_tensor(X[:, :4].astype(np.float32))
    offset = proa.zeros([2, 18, 3, 4])
    want = proa.nn.functional.conv2d(x, layer.weight, layer.bias, 2, 1, groups=2)
    got = layer(x, offset)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-5)
    half = layer(x, offset, proa.full([2, 9, 3, 4], 0.5))
    bias = layer.bias.numpy()[:, None, None]
    want = (want.numpy() - bias) / 2 + bias
    np.testing.assert_allclose(half.numpy(), want, rtol=1e-5, atol=1e-5)
    with pytest.raises(ShapeError, match=r"offset must have shape \(N, 18, 3, 4\)"):
        layer(x, proa.zeros([2, 18, 4, 4]))
    with pytest.raises(ShapeError, match=r"mask must have shape \(N, 9, 3, 4\)"):
        layer(x, offset, offset)

    spec = proa.static.InputSpec
    recorded = proa.jit.to_static(
        layer, input_spec=[spec([None, 4, 6, 7]), spec([None, 18, 3, 4])]
    )
    np.testing.assert_allclose(recorded(x, offset).numpy(), got.numpy(), rtol=1e-5)
