"""Layers: convolution, pooling, normalisation, resizing, recurrence, loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
from builder import IMAGE, case, f, ints, op, rng, weight
from paddle import static


def conv_net(x: Any, **options: Any) -> Any:
    return static.nn.conv2d(x, 6, 3, **options)


for name, options in {
    "plain": {}, "stride_pad": {"stride": 2, "padding": [1, 2]},
    "four_pads": {"padding": [0, 1, 2, 1]}, "same": {"padding": "SAME", "stride": 2},
    "valid": {"padding": "VALID"}, "groups": {"groups": 2}, "dilated": {"dilation": 2},
    "act": {"act": "relu"},
}.items():  # fmt: skip
    case(f"conv2d_{name}", IMAGE, lambda x, o=options: conv_net(x, **o))
case("conv2d_depthwise", IMAGE, lambda x: static.nn.conv2d(x, 8, 3, groups=4))
case("conv3d", f(1, 2, 5, 6, 7), lambda x: static.nn.conv3d(x, 4, 3, padding=1))
for name, options in {
    "plain": {"filter_size": 3},
    "stride": {"filter_size": 4, "stride": 2, "padding": 1},
    "size": {"filter_size": 3, "stride": 2, "output_size": [20, 21]},
    "groups": {"filter_size": 2, "stride": 2, "groups": 2},
}.items():  # fmt: skip
    case(
        f"conv2d_transpose_{name}", IMAGE,
        lambda x, o=options: static.nn.conv2d_transpose(x, 6, **o),
    )  # fmt: skip

POOLS: dict[str, Any] = {
    "max": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_ceil": lambda x: F.max_pool2d(x, 2, 2, 0, ceil_mode=True),
    "max_index": lambda x: F.max_pool2d(x, 2, 2, 0, return_mask=True),
    "avg": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "avg_inclusive": lambda x: F.avg_pool2d(x, 3, 2, 1, exclusive=False),
    "avg_ceil": lambda x: F.avg_pool2d(x, 2, 2, 0, ceil_mode=True),
    "avg_ceil_pad": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "avg_same": lambda x: F.avg_pool2d(x, 3, 2, "SAME"),
    "max_same": lambda x: F.max_pool2d(x, 3, 2, "SAME"),
    "avg_valid": lambda x: F.avg_pool2d(x, 3, 2, "VALID"),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, [3, 4]),
    "adaptive_one": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive_max": lambda x: F.adaptive_max_pool2d(x, [3, 4]),
    "global": lambda x: op(
        "pool2d", {"X": x}, {"ksize": [1, 1], "global_pooling": True,
                             "pooling_type": "avg"}, ("Out", "float32")),
}  # fmt: skip
for name, build in POOLS.items():
    case(f"pool2d_{name}", IMAGE, build)
case("pool3d", f(1, 2, 5, 6, 7), lambda x: F.avg_pool3d(x, 2, 2))


def batch_norm(x: Any, **options: Any) -> Any:
    c = x.shape[-1 if options.get("data_layout") == "NHWC" else 1]
    return F.batch_norm(
        x, weight(value=f(c)), weight(value=np.abs(f(c)) + 0.5), weight(value=f(c)),
        weight(value=f(c)), training=False,
        data_format=options.get("data_layout", "NCHW"),
    )  # fmt: skip


case("batch_norm", IMAGE, batch_norm)
case("batch_norm_nhwc", IMAGE, lambda x: batch_norm(x, data_layout="NHWC"))
case("batch_norm_matrix", f(3, 5), lambda x: batch_norm(x))
case("layer_norm", f(3, 4, 5), lambda x: static.nn.layer_norm(x, begin_norm_axis=2))
case("layer_norm_all", f(3, 4, 5), lambda x: static.nn.layer_norm(x))
case(
    "layer_norm_plain", f(3, 4, 5),
    lambda x: static.nn.layer_norm(x, scale=False, shift=False),
)  # fmt: skip
case("group_norm", IMAGE, lambda x: static.nn.group_norm(x, 2))
case("instance_norm", IMAGE, lambda x: static.nn.instance_norm(x))
case("local_response_norm", IMAGE, lambda x: F.local_response_norm(x, 3))
case("normalize", f(3, 4), lambda x: F.normalize(x, axis=1))
case("data_norm", f(3, 4), lambda x: static.nn.data_norm(x))
case(
    "l2_normalize", f(3, 4),
    lambda x: op("norm", {"X": x}, {"axis": 1, "epsilon": 1e-10}, ("Out", "float32"),
                 ("Norm", "float32"))[0],
)  # fmt: skip
case("spectral_norm", f(4, 5), lambda x: static.nn.spectral_norm(x, power_iters=2))
case(
    "affine_channel", IMAGE,
    lambda x: op("affine_channel", {"X": x, "Scale": weight(4), "Bias": weight(4)},
                 {"data_layout": "NCHW"}, ("Out", "float32")),
)  # fmt: skip

for mode in ("nearest", "bilinear", "bicubic"):
    case(
        f"interp_{mode}_size",
        IMAGE,
        lambda x, m=mode: F.interpolate(x, [13, 7], mode=m),
    )
    case(f"interp_{mode}_scale", IMAGE,
         lambda x, m=mode: F.interpolate(x, None, 2.0, mode=m))  # fmt: skip
    if mode != "nearest":
        case(f"interp_{mode}_corners", IMAGE,
             lambda x, m=mode: F.interpolate(
                 x, [13, 7], mode=m, align_corners=True))  # fmt: skip
case("interp_bilinear_align_mode", IMAGE,
     lambda x: F.interpolate(x, [13, 7], mode="bilinear", align_mode=1))  # fmt: skip
case("interp_like", [IMAGE, f(1, 1, 5, 6)],
     lambda x, y: F.interpolate(x, paddle.shape(y)[2:], mode="nearest"))  # fmt: skip
case("interp_linear", f(2, 3, 7),
     lambda x: F.interpolate(x, [11], mode="linear", data_format="NCW"))  # fmt: skip
case("interp_trilinear", f(1, 2, 4, 5, 6),
     lambda x: F.interpolate(
         x, [5, 3, 8], mode="trilinear", data_format="NCDHW"))  # fmt: skip
for corners in (True, False):
    case(f"interp_v1_nearest_{corners}", IMAGE, lambda x, c=corners: op(
        "nearest_interp", {"X": x}, {"out_h": 13, "out_w": 7, "scale": 0.0,
         "interp_method": "nearest", "align_corners": c, "align_mode": 1,
         "data_layout": "NCHW"},
        ("Out", "float32")))  # fmt: skip
    case(f"interp_v1_bilinear_{corners}", IMAGE, lambda x, c=corners: op(
        "bilinear_interp", {"X": x}, {"out_h": -1, "out_w": -1, "scale": 2.0,
         "interp_method": "bilinear", "align_corners": c, "align_mode": 1,
         "data_layout": "NCHW"}, ("Out", "float32")))  # fmt: skip
case("grid_sample", [IMAGE, f(2, 5, 6, 2) / 2], lambda x, g: op(
    "grid_sampler", {"X": x, "Grid": g},
    {"mode": "bilinear", "padding_mode": "zeros", "align_corners": True},
    ("Output", "float32")))  # fmt: skip
case("affine_grid", f(2, 2, 3), lambda t: F.affine_grid(t, [2, 3, 5, 6]))


def recurrent(kind: Any, x: Any, **options: Any) -> Any:
    paddle.seed(1)
    y, state = kind(4, 5, **options)(x)
    return [y, *(state if isinstance(state, tuple) else [state])]


for name, kind in (
    ("lstm", paddle.nn.LSTM), ("gru", paddle.nn.GRU), ("rnn", paddle.nn.SimpleRNN)
):  # fmt: skip
    case(f"{name}", f(2, 6, 4), lambda x, k=kind: recurrent(k, x))
    case(f"{name}_deep", f(2, 6, 4), lambda x, k=kind: recurrent(
        k, x, num_layers=2, direction="bidirect"))  # fmt: skip


def lstm_with_lengths(x: Any, lengths: Any) -> Any:
    paddle.seed(1)
    y, (h, c) = paddle.nn.LSTM(4, 5)(x, sequence_length=lengths)
    return [y, h, c]


case("lstm_lengths", [f(3, 6, 4), np.array([6, 2, 4])], lstm_with_lengths)
for mode in (True, False):
    case(f"gru_unit_{mode}", [f(3, 12), f(3, 4)], lambda x, h, o=mode: op(
        "gru_unit", {"Input": x, "HiddenPrev": h, "Weight": weight(4, 12),
                     "Bias": weight(1, 12)},
        {"activation": 2, "gate_activation": 1, "origin_mode": o},
        ("Gate", "float32"), ("ResetHiddenPrev", "float32"),
        ("Hidden", "float32"))[2])  # fmt: skip

CHANNELS = f(4, 3, 2, 2)
QUANTIZERS: dict[str, Any] = {
    "fake_quantize_abs_max": {},
    "fake_quantize_dequantize_abs_max": {},
    "fake_channel_wise_quantize_abs_max": {
        "quant_axis": 0,
        "is_test": False,
        "round_type": 0,
    },
    "fake_channel_wise_quantize_dequantize_abs_max": {"quant_axis": 1},
}
for name, attrs in QUANTIZERS.items():
    case(name, CHANNELS, lambda x, n=name, a=attrs: op(
        n, {"X": x}, {"bit_length": 8, **a}, ("Out", "float32"),
        ("OutScale", "float32"))[0])  # fmt: skip
for name in (
    "fake_quantize_moving_average_abs_max",
    "fake_quantize_dequantize_moving_average_abs_max", "fake_quantize_range_abs_max",
):  # fmt: skip
    case(name, CHANNELS, lambda x, n=name: op(
        n, {"X": x, "InScale": weight(value=np.array([1.5], np.float32))},
        {"bit_length": 8, "is_test": True}, ("Out", "float32"),
        ("OutScale", "float32"))[0])  # fmt: skip
case("fake_dequantize_max_abs", np.round(CHANNELS * 40), lambda x: op(
    "fake_dequantize_max_abs",
    {"X": x, "Scale": weight(value=np.array([1.5], np.float32))},
    {"max_range": 127.0}, ("Out", "float32")))  # fmt: skip
case("channel_wise_dequantize", np.round(CHANNELS * 40), lambda x: op(
    "fake_channel_wise_dequantize_max_abs",
    {"X": x, "Scales": [weight(value=np.abs(f(4)))]},
    {"quant_bits": [8], "quant_axis": 0}, ("Out", "float32")))  # fmt: skip
for axis in (-1, 1):
    scale = np.abs(f(1 if axis < 0 else 3)) + 0.5
    point = np.zeros(scale.shape, np.float32)
    for name in ("quantize_linear", "dequantize_linear"):
        x = CHANNELS if name[0] == "q" else np.round(CHANNELS * 40)
        case(f"{name}_{axis}", x, lambda x, n=name, a=axis, s=scale, z=point: op(
            n, {"X": x, "Scale": weight(value=s), "ZeroPoint": weight(value=z)},
            {"quant_axis": a, "bit_length": 8, "is_test": True},
            ("Y", "float32")))  # fmt: skip


def two_branches(x: Any) -> Any:
    big = paddle.mean(x) > 0
    return static.nn.cond(big, lambda: (x * 2, x + 1), lambda: (x - 1, x * 3))


def three_cases(x: Any) -> Any:
    k = paddle.cast(paddle.sum(x), "int64")
    return static.nn.switch_case(k, {0: lambda: x + 1, 1: lambda: x * 5}, lambda: x - 7)


def doubled(n: Any, x: Any) -> Any:
    i = paddle.zeros([1], "int64")
    return static.nn.while_loop(
        lambda i, x: i < n,
        lambda i, x: [i + 1, x * 2 + paddle.cast(i, "float32")],
        [i, x],
    )


def collected(x: Any) -> Any:
    array = paddle.tensor.create_array("float32")
    i, end = paddle.zeros([1], "int64"), paddle.full([1], 3, "int64")

    def body(i: Any, array: Any) -> Any:
        paddle.tensor.array_write(x * paddle.cast(i, "float32"), i, array)
        return [i + 1, array]

    _, array = static.nn.while_loop(lambda i, a: i < end, body, [i, array])
    n = paddle.tensor.array_length(array)
    stacked, _ = (
        paddle.tensor.manipulation.tensor_array_to_tensor(array, 0, True)
        if (hasattr(paddle.tensor.manipulation, "tensor_array_to_tensor"))
        else (paddle.tensor.array_read(array, n - 1), None)
    )
    return [stacked, paddle.tensor.array_read(array, n - 1)]


for sign in (1, -1):
    case(f"cond_{sign}", np.abs(f(3)) * sign, two_branches)
case("switch_case", np.full(3, 0.4, np.float32), three_cases)
case("while", [np.array([4]), f(3)], doubled)
case("array", f(3), collected)

case("cross_entropy", [f(4, 5), ints(5, 4, 1)],
     lambda x, y: F.softmax_with_cross_entropy(x, y, return_softmax=True))  # fmt: skip
case("bce_logits", [f(4, 5), (f(4, 5) > 0).astype(np.float32)],
     lambda x, y: F.binary_cross_entropy_with_logits(
         x, y, reduction="none"))  # fmt: skip
case("huber", [f(4, 1), f(4, 1)], lambda x, y: op(
    "huber_loss", {"X": x, "Y": y}, {"delta": 0.7}, ("Out", "float32"),
    ("Residual", "float32"))[0])  # fmt: skip
case("log_loss", [np.abs(f(4, 1)) % 1, (f(4, 1) > 0).astype(np.float32)], F.log_loss)

BOXES = np.cumsum(np.abs(f(1, 8, 4)), -1).astype(np.float32)
case("multiclass_nms", [BOXES, np.abs(f(1, 3, 8)) % 1], lambda b, s: op(
    "multiclass_nms3", {"BBoxes": b, "Scores": s},
    {"background_label": -1, "score_threshold": 0.2, "nms_top_k": 6, "keep_top_k": 7,
     "nms_threshold": 0.3, "normalized": True, "nms_eta": 1.0},
    ("Out", "float32"), ("Index", "int32"), ("NmsRoisNum", "int32")))  # fmt: skip
case("matrix_nms", [BOXES, np.abs(f(1, 3, 8)) % 1], lambda b, s: op(
    "matrix_nms", {"BBoxes": b, "Scores": s},
    {"background_label": 0, "score_threshold": 0.1, "post_threshold": 0.1,
     "nms_top_k": 6, "keep_top_k": 7, "normalized": True, "use_gaussian": False},
    ("Out", "float32"), ("Index", "int32"), ("RoisNum", "int32")))  # fmt: skip
case("iou_similarity", [BOXES[0], BOXES[0, :3]], lambda x, y: op(
    "iou_similarity", {"X": x, "Y": y}, {"box_normalized": False},
    ("Out", "float32")))  # fmt: skip
case("generate_proposals", [np.abs(f(2, 3, 4, 5)) % 1, f(2, 12, 4, 5),
                            np.array([[60, 70], [30, 64]], np.float32)],
     lambda s, d, i: op(
         "generate_proposals_v2",
         {"Scores": s, "BboxDeltas": d, "ImShape": i,
          "Anchors": weight(value=np.sort(rng.uniform(0, 60, (4, 5, 3, 2, 2)), 3)
                            .reshape(4, 5, 3, 4).astype(np.float32)),
          "Variances": weight(value=np.full((4, 5, 3, 4), 0.5, np.float32))},
         {"pre_nms_topN": 40, "post_nms_topN": 12, "nms_thresh": 0.4, "min_size": 3.0,
          "eta": 1.0, "pixel_offset": False},
         ("RpnRois", "float32"), ("RpnRoiProbs", "float32"),
         ("RpnRoisNum", "int32")))  # fmt: skip


def shared_out(boxes: Any, counts: Any) -> Any:
    levels, restore, numbers = paddle.vision.ops.distribute_fpn_proposals(
        boxes, 2, 4, 3, 16, rois_num=counts
    )
    return [*levels, restore, *numbers]


case("distribute_fpn", [BOXES[0] * 10, np.array([3, 5], np.int32)], shared_out)
case("yolo_box", [f(1, 14, 4, 4), np.array([[64, 64]], np.int32)], lambda x, s: (
    paddle.vision.ops.yolo_box(x, s, [10, 13, 16, 30], 2, 0.01, 16)))  # fmt: skip
case("prior_box", [IMAGE, f(2, 3, 32, 32)], lambda x, i: paddle.vision.ops.prior_box(
    x, i, [4.0], [8.0], [1.0, 2.0], flip=True))  # fmt: skip
case("roi_align", [IMAGE, np.cumsum(np.abs(f(3, 4)), -1).astype(np.float32),
                   np.array([1, 2], np.int32)],
     lambda x, r, n: paddle.vision.ops.roi_align(x, r, n, 3))  # fmt: skip
