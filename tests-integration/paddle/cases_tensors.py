"""Operators on tensors: elementwise, shapes, reductions, indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
from builder import IMAGE, Build, case, f, ints, op, simple, weight
from paddle import static

BINARY = {
    "add": paddle.add, "sub": paddle.subtract, "mul": paddle.multiply,
    "div": paddle.divide, "max": paddle.maximum, "min": paddle.minimum,
    "mod": paddle.remainder, "equal": paddle.equal, "less_than": paddle.less_than,
    "greater_equal": paddle.greater_equal,
}  # fmt: skip
for name, build in BINARY.items():
    case(f"binary_{name}", [f(3, 4), f(4)], build)
case("binary_atan2", [f(3, 4), f(3, 4)],
     lambda x, y: op("atan2", {"X1": x, "X2": y}, {}, ("Out", "float32")))  # fmt: skip
case("binary_pow", [np.abs(f(3, 4)), f(4)], paddle.pow)
case("binary_floordiv", [ints(9, 3, 4), ints(5, 4) + 1], paddle.floor_divide)
case("binary_int_mod", [ints(9, 3, 4) - 4, ints(5, 4) + 1], paddle.remainder)
case("binary_logical", [f(3) > 0, f(3) > 0], paddle.logical_xor)
case("binary_bitwise", [ints(9, 5), ints(9, 5)], paddle.bitwise_or)
for name, shape, axis in (
    ("middle", (4, 5), 1),
    ("front", (3, 4), 0),
    ("one", (4,), 1),
    ("trailing", (3, 1), 0),
):
    case(
        f"elementwise_axis_{name}", [f(3, 4, 5), f(*shape)],
        lambda x, y, a=axis: op("elementwise_add", {"X": x, "Y": y}, {"axis": a},
                                ("Out", "float32")),
    )  # fmt: skip

ACTIVATIONS: dict[str, Build] = {
    "relu": F.relu, "relu6": F.relu6, "sigmoid": F.sigmoid, "tanh": paddle.tanh,
    "swish": F.swish, "silu": F.silu, "mish": F.mish, "gelu": F.gelu,
    "gelu_tanh": lambda x: simple("gelu", x, approximate=True),
    "elu": lambda x: F.elu(x, 0.7),
    "celu": lambda x: F.celu(x, 0.7), "selu": F.selu, "hard_swish": F.hardswish,
    "hard_sigmoid": F.hardsigmoid, "hard_tanh": F.hardtanh, "hard_shrink": F.hardshrink,
    "softshrink": F.softshrink, "softsign": F.softsign, "log_sigmoid": F.log_sigmoid,
    "softplus": lambda x: simple("softplus", x, beta=2.0, threshold=10.0),
    "tanh_shrink": F.tanhshrink,
    "leaky_relu": F.leaky_relu, "stanh": paddle.stanh,
    "thresholded_relu": F.thresholded_relu, "log_softmax": F.log_softmax,
    "softmax": lambda x: F.softmax(x, 1),
    "maxout": lambda x: F.maxout(paddle.unsqueeze(x, 3), 2),
    "prelu_all": lambda x: static.nn.prelu(x, "all"),
    "prelu_channel": lambda x: static.nn.prelu(x, "channel"),
    "prelu_element": lambda x: static.nn.prelu(x, "element"),
}  # fmt: skip
for name, build in ACTIVATIONS.items():
    case(f"activation_{name}", f(2, 4, 3), build)
for name in [
    "abs",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "exp",
    "expm1",
    "floor",
    "log1p",
    "reciprocal",
    "round",
    "sign",
    "sin",
    "sinh",
    "square",
    "tan",
    "atan",
    "asinh",
]:
    case(f"unary_{name}", f(3, 4) / 2, lambda x, n=name: simple(n, x))
for name in ("sqrt", "rsqrt", "log", "log2", "log10"):
    case(f"unary_{name}", np.abs(f(3, 4)) + 0.1, lambda x, n=name: simple(n, x))
case("unary_isnan", np.array([0, np.nan, np.inf], np.float32),
     lambda x: simple("isnan_v2", x, "bool"))  # fmt: skip
case("pow", np.abs(f(3, 4)), lambda x: paddle.pow(x, 1.5))
case("clip", f(3, 4), lambda x: paddle.clip(x, -0.5, 0.4))
case("scale", f(3, 4), lambda x: paddle.scale(x, 2.0, 0.5, bias_after_scale=False))
case("cast", f(3, 4) * 3, lambda x: paddle.cast(x, "int32"))
case("increment", ints(5, 1), lambda x: paddle.increment(x, 2))
case("add_n", [f(3, 4), f(3, 4), f(3, 4)], lambda *xs: paddle.add_n(list(xs)))
case("where", [f(3) > 0, f(3), f(3)], paddle.where)
case("clip_by_norm", f(3, 4), lambda x: paddle.nn.ClipGradByNorm(1.0) and op(
    "clip_by_norm", {"X": x}, {"max_norm": 1.0}, ("Out", "float32")))  # fmt: skip
for p in ("upscale_in_train", "downscale_in_infer"):
    case(
        f"dropout_{p}",
        f(3, 4),
        lambda x, p=p: F.dropout(x, 0.4, training=False, mode=p),
    )

case(
    "fc",
    f(3, 4, 5),
    lambda x: static.nn.fc(x, 6, num_flatten_dims=2, activation="relu"),
)
case("fc_flat", f(3, 4, 5), lambda x: static.nn.fc(x, 6))
case("mul", [f(2, 3, 4), f(3, 4, 5)], lambda x, y: op(
    "mul", {"X": x, "Y": y}, {"x_num_col_dims": 1, "y_num_col_dims": 2},
    ("Out", "float32")))  # fmt: skip
case("matmul", [f(2, 3, 4), f(2, 5, 4)], lambda x, y: op(
    "matmul_v2", {"X": x, "Y": y}, {"trans_x": False, "trans_y": True},
    ("Out", "float32")))  # fmt: skip
case("matmul_v1", [f(2, 4, 3), f(2, 4, 5)], lambda x, y: op(
    "matmul", {"X": x, "Y": y}, {"transpose_X": True, "transpose_Y": False,
                                 "alpha": 0.5}, ("Out", "float32")))  # fmt: skip
case("bmm", [f(2, 3, 4), f(2, 4, 5)],
     lambda x, y: op("bmm", {"X": x, "Y": y}, {}, ("Out", "float32")))  # fmt: skip
case("dot", [f(5), f(5)],
     lambda x, y: op("dot", {"X": x, "Y": y}, {}, ("Out", "float32")))  # fmt: skip
case(
    "addmm",
    [f(3, 5), f(3, 4), f(4, 5)],
    lambda i, x, y: paddle.addmm(i, x, y, 0.5, 2.0),
)
case("einsum", [f(3, 4), f(4, 5)], lambda x, y: paddle.einsum("ij,jk->ki", x, y))
case("kron", [f(2, 3), f(3, 2)], paddle.kron)
case("bilinear_product", [f(3, 4), f(3, 5)],
     lambda x, y: static.nn.bilinear_tensor_product(x, y, 6))  # fmt: skip

SHAPES: dict[str, Build] = {
    "reshape": lambda x: paddle.reshape(x, [0, -1, 2]),
    "reshape_list": lambda x: paddle.reshape(x, [paddle.shape(x)[0], 2, -1]),
    "reshape_tensor": lambda x: paddle.reshape(x, paddle.shape(x)),
    "reshape_product": lambda x: paddle.reshape(
        x, [paddle.shape(x)[0] * paddle.shape(x)[1], paddle.shape(x)[2]]),
    "transpose": lambda x: paddle.transpose(x, [2, 0, 1]),
    "unsqueeze": lambda x: paddle.unsqueeze(x, [0, 2]),
    "squeeze": lambda x: paddle.squeeze(paddle.unsqueeze(x, [1, -1])),
    "squeeze_axis": lambda x: paddle.squeeze(paddle.unsqueeze(x, [1, -1]), [1]),
    "flatten": lambda x: paddle.flatten(x, 1, 2),
    "slice": lambda x: x[:, 1:, -2:],
    "slice_drop": lambda x: x[:, 1],
    "slice_tensor": lambda x: paddle.slice(
        x, [1], [paddle.full([1], 1, "int32")], [paddle.shape(x)[1]]),
    "strided_slice": lambda x: x[:, ::-2, 1::2],
    "split": lambda x: paddle.split(x, 2, axis=1),
    "split_sections": lambda x: paddle.split(x, [1, -1], axis=1),
    "concat": lambda x: paddle.concat([x, x * 2], axis=-1),
    "stack": lambda x: paddle.stack([x, x * 2], axis=1),
    "unstack": lambda x: paddle.unstack(x, axis=1),
    "unbind": lambda x: paddle.unbind(x, axis=1),
    "expand": lambda x: paddle.expand(x, [2, -1, -1, -1]),
    "expand_as": lambda x: op("expand_as_v2", {"X": x[:1], "Y": x},
                               {"target_shape": [3, 4, 4]}, ("Out", "float32")),
    "tile": lambda x: paddle.tile(x, [2, 1, 3]),
    "shape": lambda x: paddle.shape(x),
    "flip": lambda x: paddle.flip(x, [0, 2]),
    "roll": lambda x: simple("roll", x, shifts=[1, -1], axis=[0, 2]),
    "pad": lambda x: F.pad(x, [0, 0, 1, 2, 0, 3], value=0.5),
    "pad3d": lambda x: F.pad(x, [1, 2], mode="replicate", data_format="NCL"),
    "tril": lambda x: simple("tril_triu", x, diagonal=1, lower=True),
    "crop": lambda x: paddle.crop(x, [2, 3, -1], [1, 0, 1]),
    "full_like": lambda x: paddle.full_like(x, 3.0),
    "full_batch": lambda x: paddle.full([paddle.shape(x)[0], 2], 4, "int64"),
    "batch_size_like": lambda x: op(
        "fill_constant_batch_size_like", {"Input": x},
        {"shape": [-1, 5], "value": 2.5, "dtype": 5}, ("Out", "float32")),
    "zeros_like": paddle.zeros_like,
    "arange": lambda x: paddle.arange(0, paddle.shape(x)[1], 1, "int32"),
    "diagonal": lambda x: op("diagonal", {"Input": x}, {"offset": 1, "axis1": 0,
                             "axis2": 2}, ("Out", "float32")),
    "repeat": lambda x: paddle.repeat_interleave(x, 2, 1),
    "set_value": lambda x: set_value(x),
    "assign_value": lambda x: x + paddle.assign(f(2)[:1]),
    "numel": lambda x: paddle.numel(x),
}  # fmt: skip


def set_value(x: Any) -> Any:
    y = x * 1
    return static.setitem(y, (slice(None), slice(1, 3)), 7.0)


for name, build in SHAPES.items():
    case(f"shape_{name}", f(3, 4, 4), build)
case("pixel_shuffle", f(2, 8, 3, 3), lambda x: F.pixel_shuffle(x, 2))
case("pixel_unshuffle", IMAGE[:, :, :8, :8], lambda x: F.pixel_unshuffle(x, 2))
case("channel_shuffle", IMAGE, lambda x: F.channel_shuffle(x, 2))
case("temporal_shift", IMAGE, lambda x: F.temporal_shift(x, 2))
case("pad2d_reflect", IMAGE, lambda x: F.pad(x, [1, 2, 2, 1], mode="reflect"))
case("meshgrid", [f(3), f(4)], lambda x, y: paddle.meshgrid(x, y))
case("eye", f(3, 3), lambda x: x + paddle.eye(3))
case("linspace", f(5), lambda x: x + paddle.linspace(0, 1, 5))
case("unfold", IMAGE, lambda x: F.unfold(x, 3, 2, 1))
case("one_hot", ints(5, 3, 2), lambda x: F.one_hot(x, 5))

for name in ("sum", "mean", "max", "min", "prod"):
    case(f"reduce_{name}", f(3, 4, 5), lambda x, n=name: simple(
        f"reduce_{n}", x, dim=[0, 2], keep_dim=False, reduce_all=False))  # fmt: skip
    case(f"reduce_{name}_all", f(3, 4), lambda x, n=name: simple(
        f"reduce_{n}", x, dim=[0], keep_dim=False, reduce_all=True))  # fmt: skip
case("reduce_any", f(3, 4) > 1, lambda x: simple(
    "reduce_any", x, "bool", dim=[1], keep_dim=True, reduce_all=False))  # fmt: skip
case("logsumexp", f(3, 4), lambda x: simple(
    "logsumexp", x, axis=[1], keepdim=False, reduce_all=False))  # fmt: skip
case("argmax", f(3, 4), lambda x: op(
    "arg_max", {"X": x}, {"axis": 1, "keepdims": False, "flatten": False, "dtype": 2},
    ("Out", "int32")))  # fmt: skip
case("argmax_flat", f(3, 4), lambda x: op(
    "arg_max", {"X": x}, {"axis": 0, "keepdims": False, "flatten": True, "dtype": 3},
    ("Out", "int64")))  # fmt: skip
case("argsort", f(3, 4), lambda x: paddle.argsort(x, 1, True))
case("sort", f(3, 4), lambda x: paddle.sort(x, 0))
case("topk", f(3, 6), lambda x: paddle.topk(x, 2, 1))
case("cumsum", f(3, 4), lambda x: paddle.cumsum(x, 1))
case("cumprod", f(3, 4), lambda x: paddle.cumprod(x, 1))
case("norm_2", f(3, 4), lambda x: paddle.norm(x, 2, 1))
case("norm_1", f(3, 4), lambda x: paddle.norm(x, 1, 1))
case("norm_inf", f(3, 4), lambda x: paddle.norm(x, np.inf, 1))
case("norm_fro", f(3, 4), lambda x: paddle.norm(x))
case("trace", f(4, 4), lambda x: paddle.trace(x))
case("kthvalue", f(3, 5), lambda x: paddle.kthvalue(x, 2))

case("gather", [f(5, 3), ints(5, 4)], lambda x, i: paddle.gather(x, i))
case("gather_axis", [f(5, 3), ints(3, 4)], lambda x, i: paddle.gather(x, i, 1))
case("gather_nd", [f(4, 3, 2), ints(3, 5, 2)], paddle.gather_nd)
case("scatter", [f(5, 2), np.array([3, 0]), f(2, 2)], paddle.scatter)
case("scatter_add", [f(5, 2), np.array([3, 0, 3]), f(3, 2)],
     lambda x, i, u: paddle.scatter(x, i, u, overwrite=False))  # fmt: skip
case("scatter_nd_add", [f(5, 2), ints(5, 4, 1), f(4, 2)], paddle.scatter_nd_add)
case("index_select", [f(4, 3), ints(3, 5)], lambda x, i: paddle.index_select(x, i, 1))
case("index_sample", [f(4, 3), ints(3, 4, 2)], paddle.index_sample)
case("take_along_axis", [f(4, 3), ints(4, 2, 3)],
     lambda x, i: paddle.take_along_axis(x, i, 0, broadcast=False))  # fmt: skip
case(
    "embedding", ints(7, 2, 3), lambda i: static.nn.embedding(i, [7, 4], padding_idx=2)
)
case("lookup_table", ints(7, 2, 3, 1), lambda i: op(
    "lookup_table", {"W": weight(7, 4), "Ids": i}, {"padding_idx": -1},
    ("Out", "float32")))  # fmt: skip
case("nonzero", f(3, 4), lambda x: paddle.nonzero(x > 0))
case("masked_select", f(3, 4), lambda x: paddle.masked_select(x, x > 0))
case("unique", ints(4, 9), lambda x: paddle.unique(x))
case("searchsorted", [np.sort(f(6)), f(4)], paddle.searchsorted)
case("sequence_mask", ints(5, 3), lambda x: F.sequence_mask(x, 6))
