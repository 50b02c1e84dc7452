"""Layers of static graphs against PyTorch's and NumPy's formulas."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import proa
from proa import static
from proa.errors import InvalidArgumentError, InvalidTypeError, PreconditionNotMetError
from proa.static import nn as snn

from ..torch_reference import torch

TF = torch.nn.functional
RNG = np.random.default_rng(3)
Programs = tuple[static.Program, static.Program]

X = RNG.normal(size=(3, 4, 7, 7)).astype("float32")
VOLUME = RNG.normal(size=(2, 3, 5, 5, 5)).astype("float32")
ROWS = RNG.normal(size=(3, 5, 4)).astype("float32")
OFFSET = RNG.normal(size=(3, 18, 5, 5)).astype("float32")
RANDOM = proa.nn.initializer.Normal(0.0, 1.0)


def _data(name: str, array: Any) -> Any:
    return static.data(name, [None, *array.shape[1:]], str(array.dtype))


def _run(startup: static.Program, feed: Any, *fetched: Any, runs: int = 1) -> list[Any]:
    exe = static.Executor()
    exe.run(startup)
    for _ in range(runs):
        found = exe.run(feed=feed, fetch_list=list(fetched))
    return found


def _held() -> dict[str, Any]:
    """What the scope holds, as PyTorch's tensors."""
    program = static.default_main_program()
    return {
        name: torch.from_numpy(np.array(t.numpy()))
        for name, t in program.state_dict().items()
    }


#: What is recorded for x, and PyTorch's result for it and the parameters.
LAYERS: dict[str, tuple[Any, Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "fc": (
        ROWS,
        lambda x: snn.fc(x, 6, 2, RANDOM, RANDOM, activation="tanh"),
        lambda x, p: torch.tanh(x @ p["fc_0.w_0"] + p["fc_0.b_0"]),
    ),
    "fc that flattens": (
        ROWS,
        lambda x: snn.fc(x, 6, bias_attr=False),
        lambda x, p: x.reshape(3, 20) @ p["fc_0.w_0"],
    ),
    "conv2d": (
        X,
        lambda x: snn.conv2d(
            x, 6, 3, 2, 1, groups=2, bias_attr=RANDOM, act="relu", name="c"
        ),
        lambda x, p: TF.conv2d(
            x, p["c.w_0"], p["c.b_0"], stride=2, padding=1, groups=2
        ).relu(),
    ),
    "conv2d_transpose": (
        X,
        lambda x: snn.conv2d_transpose(x, 6, 15, stride=2, bias_attr=False),
        lambda x, p: TF.conv_transpose2d(x, p["conv2d_transpose_0.w_0"], stride=2),
    ),
    "conv3d": (
        VOLUME,
        lambda x: snn.conv3d(x, 2, 3, padding=1),
        lambda x, p: TF.conv3d(x, p["conv3d_0.w_0"], p["conv3d_0.b_0"], padding=1),
    ),
    "conv3d_transpose": (
        VOLUME,
        lambda x: snn.conv3d_transpose(x, 2, filter_size=3, stride=2),
        lambda x, p: TF.conv_transpose3d(x, p["conv3d_transpose_0.w_0"], stride=2),
    ),
    "layer_norm": (
        X,
        lambda x: snn.layer_norm(x, begin_norm_axis=2, param_attr=RANDOM),
        lambda x, p: TF.layer_norm(x, (7, 7), p["layer_norm_0.w_0"].reshape(7, 7)),
    ),
    "group_norm": (
        X,
        lambda x: snn.group_norm(x, 2, param_attr=RANDOM, bias_attr=RANDOM),
        lambda x, p: TF.group_norm(x, 2, p["group_norm_0.w_0"], p["group_norm_0.b_0"]),
    ),
    "instance_norm": (
        X,
        lambda x: snn.instance_norm(x, param_attr=RANDOM),
        lambda x, p: TF.instance_norm(x, weight=p["instance_norm_0.w_0"]),
    ),
    "prelu of channels": (
        X,
        lambda x: snn.prelu(x, "channel", RANDOM),
        lambda x, p: TF.prelu(x, p["prelu_0.w_0"].reshape(-1)),
    ),
    "prelu of all": (
        X,
        lambda x: snn.prelu(x, "all"),
        lambda x, p: TF.leaky_relu(x, 0.25),
    ),
    "prelu of elements": (
        X,
        lambda x: snn.prelu(x, "element", RANDOM),
        lambda x, p: torch.where(x > 0, x, x * p["prelu_0.w_0"]),
    ),
    "bilinear_tensor_product": (
        X[:, 0, 0],
        lambda x: snn.bilinear_tensor_product(x, x * 2, 5, bias_attr=RANDOM),
        lambda x, p: TF.bilinear(
            x, x * 2, p["bilinear_tensor_product_0.w_0"],
            p["bilinear_tensor_product_0.b_0"][0],
        ),
    ),
    "row_conv": (
        ROWS,
        lambda x: snn.row_conv(x, 2, act="sigmoid"),
        lambda x, p: torch.sigmoid(
            sum(
                TF.pad(x, (0, 0, 0, 2))[:, i : i + 5] * p["row_conv_0.w_0"][i]
                for i in range(3)
            )
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_pytorchs(name: str, static_mode: Programs) -> None:
    array, record, formula = LAYERS[name]
    x = _data("x", array)
    x.stop_gradient = False
    out = record(x)
    weights = RNG.normal(size=[len(array), *out.shape[1:]]).astype("float32")
    loss = (out * _data("weights", weights)).sum()
    parameters = [p for p in static_mode[0].all_parameters() if p.trainable]
    gradients = static.gradients([loss], [x, *parameters])
    feed = {"x": array, "weights": weights}
    got, *found = _run(static_mode[1], feed, out, *gradients)
    held = {k: v.requires_grad_() for k, v in _held().items()}
    given = torch.from_numpy(array).requires_grad_()
    want = formula(given, held)
    np.testing.assert_allclose(got, want.detach(), rtol=1e-4, atol=1e-4)
    (want * torch.from_numpy(weights)).sum().backward()
    np.testing.assert_allclose(found[0], given.grad, rtol=1e-3, atol=1e-4)
    for parameter, gradient in zip(parameters, found[1:], strict=True):
        expected = held[parameter.name].grad
        if expected is not None:
            np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=2e-3)


def test_a_fully_connected_layer_adds_up_its_inputs(static_mode: Programs) -> None:
    a, b = X[:, 0, 0], X[:, 1, 0, :3]
    out = snn.fc([_data("a", a), _data("b", b)], 5, weight_attr=RANDOM)
    (got,) = _run(static_mode[1], {"a": a, "b": b}, out)
    held = _held()
    want = a @ held["fc_0.w_0"].numpy() + b @ held["fc_0.w_1"].numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    with pytest.raises(InvalidArgumentError, match="num_flatten_dims"):
        snn.fc(_data("c", a), 5, num_flatten_dims=2)
    for wrong in (a, [], [a]):
        with pytest.raises(InvalidTypeError, match="x must be a Variable or a list"):
            snn.fc(wrong, 5)
    with pytest.raises(InvalidArgumentError, match="weight_attr"):
        snn.fc(_data("d", a), 5, weight_attr=[RANDOM, RANDOM])


def test_batch_norm_keeps_statistics_that_tests_take(static_mode: Programs) -> None:
    x = _data("x", X)
    out = snn.batch_norm(
        x, act="relu", momentum=0.8, param_attr=RANDOM, moving_mean_name="mean"
    )
    test = static_mode[0].clone(for_test=True)
    exe = static.Executor()
    exe.run(static_mode[1])
    model = torch.nn.BatchNorm2d(4, momentum=0.2)
    model.weight.data = _held()["batch_norm_0.w_0"]
    for k in range(3):
        (got,) = exe.run(feed={"x": X + k}, fetch_list=[out])
        want = model(torch.from_numpy(X + k)).relu()
        np.testing.assert_allclose(got, want.detach(), rtol=1e-4, atol=1e-4)
    held = _held()
    np.testing.assert_allclose(held["mean"], model.running_mean, rtol=1e-4, atol=1e-5)
    # PyTorch's running variance is unbiased, PaddlePaddle's is not.
    variance = 1.0
    for k in range(3):
        variance = 0.8 * variance + 0.2 * (X + k).var((0, 2, 3), dtype="float64")
    np.testing.assert_allclose(held["batch_norm_0.w_1"], variance, rtol=1e-4)
    (got,) = exe.run(test, feed={"x": X}, fetch_list=[out])
    model.running_var = held["batch_norm_0.w_1"]
    want = model.eval()(torch.from_numpy(X)).relu()
    np.testing.assert_allclose(got, want.detach(), rtol=1e-4, atol=1e-4)


def test_convolutions_say_what_does_not_fit(static_mode: Programs) -> None:
    x = _data("x", X)
    for call, text in (
        (lambda: snn.conv2d(x, 6, 3, groups=3), "divisible by groups"),
        (lambda: snn.conv3d(x, 6, 3), "rank 5"),
        (lambda: snn.conv2d(x, 6, 3, act="no such"), "name of an activation"),
        (lambda: snn.conv2d_transpose(x, 6), "filter_size or output_size"),
    ):
        with pytest.raises(InvalidArgumentError, match=text):
            call()


def test_channels_may_be_last(static_mode: Programs) -> None:
    image = np.ascontiguousarray(X.transpose(0, 2, 3, 1))
    x = _data("x", image)
    out = snn.conv2d(x, 6, 3, data_format="NHWC")
    out = snn.group_norm(out, 3, data_layout="NHWC")
    out = snn.batch_norm(out, data_layout="NHWC", is_test=True)
    out = snn.prelu(out, "channel", data_format="NHWC")
    (got,) = _run(static_mode[1], {"x": image}, out)
    y = TF.conv2d(torch.from_numpy(X), _held()["conv2d_0.w_0"])
    want = TF.leaky_relu(TF.group_norm(y, 3) / np.sqrt(1 + 1e-5), 0.25)
    np.testing.assert_allclose(got.transpose(0, 3, 1, 2), want, rtol=1e-4, atol=1e-4)


def test_embeddings_are_rows_of_their_tables(static_mode: Programs) -> None:
    ids = np.array([[1, 3], [0, 2]])
    x, column = static.data("x", [None, 2], "int64"), static.data("c", [-1, 1], "int64")
    rows = snn.embedding(x, [4, 3], is_sparse=True, padding_idx=-1)
    one = snn.sparse_embedding(column, [4, 3])
    found = _run(static_mode[1], {"x": ids, "c": ids[:, :1]}, rows, one)
    held = _held()
    want = held["embedding_0.w_0"].numpy().copy()
    want[3] = 0
    np.testing.assert_array_equal(found[0], want[ids])
    np.testing.assert_array_equal(
        found[1], held["sparse_embedding_0.w_0"].numpy()[ids[:, 0]]
    )


def test_data_norm_sums_up_what_it_has_seen(static_mode: Programs) -> None:
    x = _data("x", X[:, 0, 0])
    first = {"batch_size": 10.0, "batch_sum": 5.0, "batch_square": 20.0}
    out = snn.data_norm(x, param_attr=first, summary_decay_rate=0.9)
    test = static_mode[0].clone(for_test=True)
    exe = static.Executor()
    exe.run(static_mode[1])
    batch = X[:, 0, 0].astype("float64")
    size, total, square = 10.0, np.full(7, 5.0), np.full(7, 20.0)
    for program in (static_mode[0], test, static_mode[0]):
        (got,) = exe.run(program, feed={"x": X[:, 0, 0]}, fetch_list=[out])
        mean = total / size
        want = (batch - mean) * np.sqrt(size / square)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
        if program is not test:
            size = 0.9 * size + 3
            total = 0.9 * total + batch.sum(0)
            square = 0.9 * square + ((batch - mean) ** 2).sum(0) + 3e-5
    np.testing.assert_allclose(_held()["dn.batch_sum"], total, rtol=1e-5)
    np.testing.assert_allclose(_held()["dn.batch_square_sum"], square, rtol=1e-5)


def test_data_norm_leaves_out_slots_that_were_not_shown(static_mode: Programs) -> None:
    rows = np.array([[1.0, 2.0, 0.0, 7.0], [0.0, 4.0, 1.0, 3.0]], "float32")
    out = snn.data_norm(_data("x", rows), slot_dim=2, enable_scale_and_shift=True)
    (got,) = _run(static_mode[1], {"x": rows}, out)
    np.testing.assert_allclose(got, [[1, 2, 0, 0], [0, 0, 1, 3]], rtol=1e-6)
    np.testing.assert_allclose(_held()["dn.batch_sum"], [1, 2, 1, 3], rtol=1e-6)
    with pytest.raises(InvalidArgumentError, match="slot_dim must divide 4"):
        snn.data_norm(_data("y", rows), slot_dim=3)


def test_spectral_norm_divides_by_the_largest_singular_value(
    static_mode: Programs,
) -> None:
    w = static.create_parameter([5, 3, 2], "float32", name="w")
    out = snn.spectral_norm(w, dim=1, power_iters=60)
    (got,) = _run(static_mode[1], {}, out)
    weight = _held()["w"].numpy()
    sigma = np.linalg.svd(weight.transpose(1, 0, 2).reshape(3, 10))[1][0]
    np.testing.assert_allclose(got, weight / sigma, rtol=1e-5)
    with pytest.raises(InvalidArgumentError, match="dim must be an axis"):
        snn.spectral_norm(w, dim=3)


def test_deform_conv2d_without_offsets_is_a_convolution(static_mode: Programs) -> None:
    x, offset = _data("x", X), _data("offset", OFFSET)
    mask = np.full((3, 9, 5, 5), 0.5, "float32")
    out = snn.deform_conv2d(x, offset, _data("mask", mask), 6, 3, bias_attr=False)
    feed = {"x": X, "offset": np.zeros_like(OFFSET), "mask": mask}
    (got,) = _run(static_mode[1], feed, out)
    weight = _held()["deformable_conv_0.w_0"]
    want = 0.5 * TF.conv2d(torch.from_numpy(X), weight)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [None, 3])
def test_nce_contrasts_labels_with_what_is_drawn(
    rows: int | None, static_mode: Programs
) -> None:
    x = static.data("x", [rows, 4])
    label = static.data("label", [rows, 1], "int64")
    weights = static.data("weights", [rows, 1])
    cost = snn.nce(
        x, label, 5, weights, RANDOM, RANDOM, 3, sampler="custom_dist",
        custom_dist=[0, 2, 0, 0, 0],
    )  # fmt: skip
    array, given = ROWS[:, 0], np.array([[0.5], [1], [2]], "float32")
    labels = np.array([[0], [4], [1]])
    (got,) = _run(static_mode[1], {"x": array, "label": labels, "weights": given}, cost)
    held = _held()
    scores = array @ held["nce_0.w_0"].numpy().T + held["nce_0.b_0"].numpy()[:, 0]
    o = 1 / (1 + np.exp(-scores))
    noise = 3.0 * np.array([0, 1, 0, 0, 0])
    own = np.take_along_axis(o, labels, 1)
    want = -np.log(own / (own + noise[labels]))
    want += -3 * np.log(noise[1] / (o[:, 1:2] + noise[1]))
    np.testing.assert_allclose(got, want * given / 4, rtol=1e-4)


def test_nce_gives_what_paddlepaddle_gave(static_mode: Programs) -> None:
    x, label = static.data("x", [None, 2]), static.data("y", [None, 1], "int64")
    cost = snn.nce(
        x, label, 4, num_neg_samples=2, sampler="custom_dist",
        custom_dist=[0.0, 1.0, 0.0, 0.0],
        param_attr=proa.nn.initializer.Constant(0.1),
    )  # fmt: skip
    rows = np.arange(6, dtype="float32").reshape(3, 2)
    feed = {"x": rows, "y": np.array([[3], [2], [1]])}
    (got,) = _run(static_mode[1], feed, cost)
    want = [[0.15539041], [0.18064362], [0.6489188]]  # of PaddlePaddle 2.6.2
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("sampler", ["uniform", "log_uniform"])
def test_nce_draws_classes_as_often_as_they_are_probable(
    sampler: str, static_mode: Programs
) -> None:
    from proa.static.nn.loss import _probabilities, _samples

    chances = _probabilities(sampler, 4, None)
    k = np.arange(4)
    want = np.full(4, 0.25)
    if sampler == "log_uniform":
        want = np.log((k + 2) / (k + 1)) / np.log(5)
    np.testing.assert_allclose(chances, want)
    x = static.data("x", [None, 2])
    drawn, fixed = (_samples(x, 50, chances, seed) for seed in (0, 9))
    exe = static.Executor()
    feed = {"x": np.zeros((200, 2), "float32")}
    first, seeded = exe.run(feed=feed, fetch_list=[drawn, fixed])
    second, again = exe.run(feed=feed, fetch_list=[drawn, fixed])
    for found in (first, second, seeded):
        counts = np.bincount(found.reshape(-1), minlength=4) / 10000
        np.testing.assert_allclose(counts, want, atol=0.025)  # 5 deviations
    assert (first != second).any()
    np.testing.assert_array_equal(seeded, again)
    with pytest.raises(InvalidArgumentError, match="sampler"):
        _probabilities("normal", 4, None)


def test_crf_decoding_finds_the_best_of_all_paths(static_mode: Programs) -> None:
    scores = RNG.normal(size=(4, 3, 2)).astype("float32")
    lengths, time = np.array([3, 2, 1, 3]), 3
    x, length = _data("x", scores), _data("length", lengths)
    label = static.data("label", [None, 3], "int64")
    attr = proa.ParamAttr("transitions", RANDOM)
    path = snn.crf_decoding(x, attr, length=length)
    agree = snn.crf_decoding(x, attr, label, length)
    feed = {"x": scores, "length": lengths, "label": np.ones((4, 3), "int64")}
    found, right = _run(static_mode[1], feed, path, agree)
    begin, end, *moves = _held()["transitions"].numpy()
    for i, n in enumerate(lengths):
        paths = [np.array(p) for p in np.ndindex(*[2] * n)]
        totals = [
            begin[p[0]] + end[p[-1]] + scores[i, np.arange(n), p].sum()
            + sum(moves[a][b] for a, b in pairwise(p))
            for p in paths
        ]  # fmt: skip
        best = paths[int(np.argmax(totals))]
        np.testing.assert_array_equal(found[i], [*best, *[0] * (time - n)])
        np.testing.assert_array_equal(right[i], [*(best == 1), *[0] * (time - n)])


def test_heads_of_a_detector_have_a_row_for_each_box(static_mode: Programs) -> None:
    image = static.data("image", [None, 3, 32, 32])
    maps = [static.data(f"m{n}", [None, 4, n, n]) for n in (4, 2, 1)]
    ratios = [[2.0], [2.0, 3.0], [2.0]]
    places, scores, boxes, spreads = snn.multi_box_head(
        maps, image, 32, 5, ratios, min_ratio=20, max_ratio=90, offset=0.5
    )
    # A square for each of two sizes, and two for each ratio, as it is flipped.
    count = 16 * 4 + 4 * 6 + 1 * 4
    arrays = [RNG.normal(size=(2, *m.shape[1:])).astype("float32") for m in maps]
    feed = {m.name: a for m, a in zip(maps, arrays, strict=True)}
    found = _run(static_mode[1], feed, places, scores, boxes, spreads)
    shapes = [(2, count, 4), (2, count, 5), (count, 4), (count, 4)]
    assert [f.shape for f in found] == shapes
    held = _held()
    y = TF.conv2d(torch.from_numpy(arrays[0]), held["conv2d_0.w_0"])
    want = y.permute(0, 2, 3, 1).reshape(2, -1, 4)
    np.testing.assert_allclose(found[0][:, :64], want, rtol=1e-4, atol=1e-4)
    # The first map's boxes: 10 % and the mean of 10 % and 20 % of the image.
    sides = (found[2][:, 2:] - found[2][:, :2])[:2]
    np.testing.assert_allclose(sides[:, 0], [0.1, 0.1 * np.sqrt(2.0)], rtol=1e-5)
    with pytest.raises(InvalidArgumentError, match="min_sizes"):
        snn.multi_box_head(maps[:2], image, 32, 5, ratios, 20, 90)


def test_gradients_may_be_written_by_hand(static_mode: Programs) -> None:
    x = static.data("x", [None, 3])
    x.stop_gradient = False
    y = snn.static_pylayer(lambda a: a * a, [x], lambda g: g * 7)
    cut = snn.static_pylayer(lambda a: [a + 1], [x])[0]
    (gradient,) = static.gradients([y.sum() + cut.sum() * 0], [x])
    array = ROWS[:, 0, :3]
    found = _run(static_mode[1], {"x": array}, y, gradient, cut)
    np.testing.assert_allclose(found[0], array**2, rtol=1e-6)
    np.testing.assert_array_equal(found[1], np.full_like(array, 7))
    np.testing.assert_allclose(found[2], array + 1, rtol=1e-6)
    assert cut.stop_gradient
    with pytest.raises(InvalidTypeError, match="forward_fn"):
        snn.static_pylayer(3, [x])  # type: ignore[arg-type]


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_weight_norm_trains_length_and_direction(
    dim: int | None, static_mode: Programs
) -> None:
    attr = static.WeightNormParamAttr(dim=dim, name="w", initializer=RANDOM)
    out = snn.fc(_data("x", X[:, 0, 0]), 5, weight_attr=attr, bias_attr=False)
    loss = out.sum()
    proa.optimizer.SGD(0.1).minimize(loss)
    exe = static.Executor()
    exe.run(static_mode[1])
    before = _held()
    v, g = (before[n].clone().requires_grad_() for n in ("w_v", "w_g"))
    axes = [a for a in range(2) if a != dim] if dim is not None else [0, 1]
    lengths = np.sqrt((before["w_v"].numpy() ** 2).sum(tuple(axes), keepdims=True))
    np.testing.assert_allclose(g.detach(), lengths, rtol=1e-5)
    weight = g * v / v.square().sum(axes, keepdim=True).sqrt()
    want = torch.from_numpy(X[:, 0, 0]) @ weight
    (got,) = exe.run(feed={"x": X[:, 0, 0]}, fetch_list=[out])
    np.testing.assert_allclose(got, want.detach(), rtol=1e-4, atol=1e-5)
    want.sum().backward()
    after = _held()
    for name, tensor in (("w_v", v), ("w_g", g)):
        np.testing.assert_allclose(
            after[name], (tensor - 0.1 * tensor.grad).detach(), rtol=1e-4, atol=1e-4
        )


@pytest.mark.feature("L268")
@pytest.mark.parametrize(
    "name", ["fc", "conv2d", "embedding", "data_norm", "batch_norm", "nce",
             "multi_box_head", "spectral_norm", "crf_decoding", "static_pylayer"]
)  # fmt: skip
def test_layers_of_graphs_are_refused_in_dynamic_mode(name: str) -> None:
    function = getattr(snn, name)
    x = proa.ones([2, 3, 4])
    arguments: dict[str, tuple[Any, ...]] = {
        "embedding": ([4, 3],), "data_norm": (), "batch_norm": (), "conv2d": (2, 3),
        "nce": (x, 3), "spectral_norm": (), "crf_decoding": (None,),
        "multi_box_head": (x, 3, 2, []), "static_pylayer": ([x],),
    }  # fmt: skip
    with pytest.raises(PreconditionNotMetError, match=rf"nn\.{name}\] builds a static"):
        first = [x] if name == "multi_box_head" else x
        function(first, *arguments.get(name, (3,)))
