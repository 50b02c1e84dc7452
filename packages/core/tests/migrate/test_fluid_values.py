"""Functions of 1.x that 2.x lacks, rewritten, give what its documentation says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError

from .programs import executed, rewritten

pytest.importorskip("libcst")

RNG = np.random.default_rng(3)
X = RNG.normal(size=(2, 3, 4)).astype("float32")
Y = RNG.normal(size=(4, 3, 2)).astype("float32")
M = RNG.normal(size=(3, 4)).astype("float32")
N = RNG.normal(size=(3, 4)).astype("float32")
IMAGE = RNG.normal(size=(2, 4, 6, 6)).astype("float32")
VOLUME = RNG.normal(size=(2, 1, 4, 4, 4)).astype("float32")
ROW = np.asarray([3, 1, 3, 7, 1, 3], "int64")
LABEL = np.asarray([[2], [0], [3]], "int64")
CLICK = np.asarray([[1.0, 0.0, 1.0, 0.0]] * 3, "float32")
BOXES = np.asarray([[0, 0, 2, 2], [1, 1, 3, 3]], "float32")
ARRAYS = {
    "x": X, "y": Y, "m": M, "n": N, "image": IMAGE, "volume": VOLUME, "row": ROW,
    "label": LABEL, "click": CLICK, "boxes": BOXES,
    "first": np.asarray([1.0, 2.0], "float32"),
    "middle": RNG.normal(size=3).astype("float32"),
    "nan": np.asarray([1.0, np.nan], "float32"),
    "taught": np.asarray([[-2.0], [-1.0], [0.3], [1.4]], "float32"),
    "logit": np.asarray([[0.5], [-1.0], [2.0], [0.1]], "float32"),
    "padded": np.asarray([[5], [4]], "float32"),
}  # fmt: skip
SOFT = np.log1p(np.exp(M))


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _huber(d: Any, delta: float) -> Any:
    a = np.abs(d)
    return np.where(a <= delta, d * d / 2, delta * (a - delta / 2))


def _bpr() -> Any:
    rows = []
    for row, (k,) in zip(M, LABEL, strict=True):
        others = [j for j in range(4) if j != k]
        rows.append([-np.mean([np.log(_sigmoid(row[k] - row[j])) for j in others])])
    return np.asarray(rows)


def _depth() -> Any:
    rows = [IMAGE[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)]
    return np.concatenate(rows, 1)


def _patches() -> Any:
    rows = [
        IMAGE[b, :, i : i + 3, j : j + 3].reshape(-1)
        for b in range(2)
        for i in (0, 3)
        for j in (0, 3)
    ]
    return np.stack(rows)


#: Expressions of 1.x and what its documentation says that they are.
FORMULAS = {
    "layers.elementwise_add(x, first, axis=0)": X + np.reshape([1, 2], (2, 1, 1)),
    "layers.elementwise_mul(x, middle, 1, 'relu')":
        np.maximum(X * ARRAYS["middle"][:, None], 0),
    "layers.elementwise_sub(x, middle, axis=1)": X - ARRAYS["middle"][:, None],
    "layers.elementwise_div(x, first, axis=0)": X / np.reshape([1, 2], (2, 1, 1)),
    "layers.elementwise_max(x, middle, axis=1)":
        np.maximum(X, ARRAYS["middle"][:, None]),
    "layers.elementwise_min(x, middle, axis=1)":
        np.minimum(X, ARRAYS["middle"][:, None]),
    "layers.increment(first, 2.0, in_place=False)": np.asarray([3.0, 4.0]),
    "layers.mul(x, y, x_num_col_dims=2)":
        (X.reshape(6, 4) @ Y.reshape(4, 6)).reshape(2, 3, 3, 2),
    "layers.mul(m, y)": (M @ Y.reshape(4, 6)).reshape(3, 3, 2),
    "layers.mul(x, y, 1, 2)": X.reshape(2, 12) @ Y.reshape(12, 2),
    "layers.flatten(x)": X.reshape(2, 12),
    "layers.flatten(x, axis=2)": X.reshape(6, 4),
    "layers.flatten(x, axis=0)": X.reshape(1, 24),
    "layers.matmul(x, x, transpose_y=True, alpha=0.5)": X @ X.transpose(0, 2, 1) / 2,
    "layers.argsort(m, axis=0, descending=True)[0]": -np.sort(-M, 0),
    "layers.argsort(m)[1]": M.argsort(-1),
    "layers.affine_channel(image, scale=c, bias=c)":
        (IMAGE + 1) * np.reshape([1, 2, 3, 4], (4, 1, 1)),
    "layers.clip_by_norm(m, 1.0)": M / max(1, np.sqrt((M**2).sum())),
    "layers.cumsum(m, axis=0, exclusive=True)": np.cumsum(M, 0) - M,
    "layers.cumsum(m, reverse=True)": np.cumsum(M[:, ::-1], 1)[:, ::-1],
    "layers.fsp_matrix(image, image)":
        np.einsum("nchw,ndhw->ncd", IMAGE, IMAGE) / 36,
    "layers.has_inf(nan)": np.asarray([False]),
    "layers.has_nan(nan)": np.asarray([True]),
    "layers.isfinite(nan)": np.asarray([False]),
    "layers.isfinite(x)": np.asarray([True]),
    "layers.one_hot(label, 4)": np.eye(4)[[2, 0, 3]],
    "layers.one_hot(label, 3, allow_out_of_range=True)":
        np.eye(4)[[2, 0, 3]][:, :3],
    "layers.unique(row)[0]": np.asarray([3, 1, 7]),
    "layers.unique(row)[1]": np.asarray([0, 1, 0, 2, 1, 0]),
    "layers.unique_with_counts(row)[2]": np.asarray([3, 2, 1]),
    "layers.tensor_array_to_tensor([m, n], axis=0)[0]": np.concatenate([M, N]),
    "layers.tensor_array_to_tensor([m, n], axis=1, use_stack=True)[0]":
        np.stack([M, N], 1),
    "layers.fill_constant_batch_size_like(m, [1, 2], 'float32', 7)": np.full((3, 2), 7),
    "layers.fill_constant_batch_size_like("
    "input=m, shape=[2, 1], dtype='int64', value=1, input_dim_idx=1, output_dim_idx=1)":
        np.ones((2, 4)),
    "layers.pad(m, [1, 0, 0, 2], 9.0)":
        np.pad(M, ((1, 0), (0, 2)), constant_values=9),
    "layers.pad2d(image, [1, 2, 3, 0], pad_value=5.0)":
        np.pad(IMAGE, ((0, 0), (0, 0), (1, 2), (3, 0)), constant_values=5),
    "layers.pad2d(image, paddings=[1, 0, 2, 1], mode='edge')":
        np.pad(IMAGE, ((0, 0), (0, 0), (1, 0), (2, 1)), "edge"),
    "layers.pad2d(image, [1, 1, 2, 2], 'reflect')":
        np.pad(IMAGE, ((0, 0), (0, 0), (1, 1), (2, 2)), "reflect"),
    "layers.pad_constant_like(m, n[:2, 1:], 3.0)":
        np.pad(N[:2, 1:], ((0, 1), (0, 1)), constant_values=3),
    "layers.crop(m, shape=[2, 2], offsets=[1, 2])": M[1:, 2:],
    "layers.shuffle_channel(image, 2)": IMAGE[:, [0, 2, 1, 3]],
    "layers.space_to_depth(image, 2)": _depth(),
    "layers.im2sequence(image, 3, 3)": _patches(),
    "layers.pool3d(volume, 2, 'avg', 2)":
        VOLUME.reshape(2, 1, 2, 2, 2, 2, 2, 2).mean((3, 5, 7)),
    "layers.pool3d(input=volume, pool_type='max', global_pooling=True)":
        VOLUME.max((2, 3, 4), keepdims=True),
    "layers.adaptive_pool3d(volume, [1, 2, 1], 'avg')":
        VOLUME.reshape(2, 1, 4, 2, 2, 4).mean((2, 4, 5)).reshape(2, 1, 1, 2, 1),
    "layers.iou_similarity(boxes, boxes)": np.asarray([[1, 1 / 7], [1 / 7, 1]]),
    "layers.bpr_loss(m, label)": _bpr(),
    "layers.cos_sim(m, n)":
        ((M * N).sum(1) / np.sqrt((M**2).sum(1) * (N**2).sum(1)))[:, None],
    "layers.huber_loss(m, n, delta=0.7)": _huber(M - N, 0.7),
    "layers.margin_rank_loss(click, m, n, margin=0.2)":
        np.maximum(0, -ARRAYS["click"] * (M - N) + 0.2),
    "layers.rank_loss(click, m, n)":
        np.log1p(np.exp(M - N)) - ARRAYS["click"] * (M - N),
    "layers.sigmoid_cross_entropy_with_logits(m, click)":
        SOFT - M * ARRAYS["click"],
    "layers.sigmoid_cross_entropy_with_logits(m, click, ignore_index=0,"
    " normalize=True)": (SOFT - M) * ARRAYS["click"] / 6,
    "layers.smooth_l1(m, n, sigma=2.0)":
        (4 * _huber(M - N, 0.25)).sum(1, keepdims=True),
    "layers.smooth_l1(x=x, y=x * 2)": _huber(X, 1).sum((1, 2)).reshape(2, 1),
    "layers.soft_relu(m * 50, threshold=3.0)":
        np.log1p(np.exp(np.clip(M * 50, -3, 3))),
    "layers.teacher_student_sigmoid_loss(logit, taught)": np.asarray([
        [np.log1p(np.exp(0.5))],
        [np.log1p(np.exp(-1.0)) + 1.0],
        [2 * np.log1p(np.exp(2.0)) - 2.0 * 0.3],
        [2 * np.log1p(np.exp(0.1)) - 0.1 - 0.1 * 0.4],
    ]),
    "layers.mean_iou(row - row + 1, row // 3, 3)[0]":
        np.asarray((0 / 2 + 3 / 6 + 0 / 1) / 3),
    "fluid.nets.glu(m, dim=1)": M[:, :2] * _sigmoid(M[:, 2:]),
}  # fmt: skip


@pytest.mark.feature("L167")
@pytest.mark.parametrize("expression", FORMULAS)
def test_an_expression_gives_what_it_gave(expression: str) -> None:
    begin = "import numpy as np\nimport paddle.fluid as fluid\n"
    begin += "from paddle.fluid import layers\n"
    names = {**ARRAYS, "c": np.asarray([1, 2, 3, 4], "float32")}
    code = rewritten(f"{begin}result = lambda {', '.join(names)}: {expression}\n")
    assert "import paddle.fluid" not in code
    tensors = {name: proa.to_tensor(a) for name, a in names.items()}
    found = executed(code)["result"](**tensors).numpy()
    wanted = np.asarray(FORMULAS[expression])
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_numbers_are_drawn_in_a_shape_with_the_batch() -> None:
    layers = proa.migrate.fluid.layers
    proa.seed(1)
    x = proa.zeros([4000, 2])
    uniform = layers.uniform_random_batch_size_like(x, [-1, 3], min=2.0, max=4.0)
    assert uniform.shape == [4000, 3]
    assert uniform.mean().item() == pytest.approx(3.0, abs=0.05)
    normal = layers.gaussian_random_batch_size_like(x, [-1, 3], mean=1.0, std=2.0)
    assert normal.std().item() == pytest.approx(2.0, abs=0.1)
    drawn = layers.sampling_id(proa.to_tensor([[0.0, 1.0], [1.0, 0.0]]))
    assert drawn.tolist() == [1, 0]
    part = layers.random_crop(proa.arange(10).reshape([1, 10]), [4])
    assert part.shape == [1, 4]
    assert (np.diff(part.numpy()) == 1).all()


def test_images_are_resized_by_their_shorter_side() -> None:
    layers = proa.migrate.fluid.layers
    x = proa.to_tensor(IMAGE[:, :, :4])
    assert layers.image_resize_short(x, 8).shape == [2, 4, 8, 12]
    line = proa.to_tensor([[[0.0, 1.0, 2.0]]])
    found = layers.resize_linear(line, [5])
    np.testing.assert_allclose(found.numpy(), [[[0, 0.5, 1, 1.5, 2]]], atol=1e-6)
    cube = line.reshape([1, 1, 1, 1, 3])
    found = layers.resize_trilinear(cube, [1, 1, 5])
    np.testing.assert_allclose(found.numpy().ravel(), [0, 0.5, 1, 1.5, 2], atol=1e-6)


def test_an_axis_that_does_not_fit_is_an_error() -> None:
    layers = proa.migrate.fluid.layers
    with pytest.raises(InvalidArgumentError, match=r"expected axis in \[0, 2\]"):
        layers.elementwise_add(proa.ones([2, 3, 4]), proa.ones([4]), axis=3)
    with pytest.raises(InvalidArgumentError, match="act must be the name"):
        layers.elementwise_add(proa.ones([2]), proa.ones([2]), axis=0, act="wave")
