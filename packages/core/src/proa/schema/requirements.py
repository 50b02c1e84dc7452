"""What the arrays and attributes of an operator must satisfy, by its shape rule.

The sentence is what an error says when the rule refuses a call, before the call's
arrays and attributes. Rules of gradients are met by whatever their forward op admitted,
so one sentence serves them all.
"""

from __future__ import annotations

_ENDS = "axis must be within x's axes"
_SQUARE = "the last two axes of x, its matrices, must be of one size"
_MATRIX = "x must have at least 2 axes"
_CONVOLVED = (
    "x (N, C, H, W) and w (O, C / groups, kH, kW) must have 4 axes and matching "
    "channels, groups divide O, kernels fit into the padded image"
)
_WINDOW = (
    "x must have 4 axes, and a window must be no larger than the padded image, its "
    "padding less than itself, stride and dilation at least 1"
)
_NORMED = (
    "x must have at least 2 axes, and the other arrays one element for each channel "
    "(x's axis 1)"
)
_MASK = "a mask must be bool or of the scores' dtype, and broadcast to their shape"
_INDEXED = (
    "the last axis of index names an element: it must be no longer than x has axes"
)
_SCALE = "scale must be float32 with one element, or one for each index of x's axis"
_CLASS = (
    "logits must have label's axes and one more, the classes, which is not empty, and "
    "all the others must be equal"
)

#: The sentence by rule. Rules that are not here refuse nothing that a caller can give,
#: or are of gradients.
REQUIREMENTS: dict[str, str] = {
    "adaptive_pool2d": "x must have 4 axes with pixels, and size be 2 numbers from 1",
    "along_axis": "axis must be within x's axes, and all arrays be of one shape",
    "arange": "the number of elements must be at least 0",
    "attention": (
        "q, k and v must be of one dtype and of shape (batch, length, heads, width): "
        "one batch and number of heads, one width of q and k, one length of k and v; "
        + _MASK
    ),
    "attr": "shape must be at most 8 sizes of at least 0, and low be less than high",
    "batch_norm": _NORMED,
    "batch_norm_infer": _NORMED,
    "blend_rows": (
        "x and index must have 2 axes, index be int32 or int64, and weight have "
        "index's shape and x's dtype"
    ),
    "broadcast": (
        "the shapes must broadcast: from the last axis on, sizes are equal, or one is 1"
    ),
    "broadcast_channels": (
        "x must be a vector with one element for each channel (axis 1) of like"
    ),
    "broadcast_like": (
        "x must broadcast to like's shape: from the last axis on, sizes are equal or "
        "x's is 1"
    ),
    "broadcast_to": (
        "x must broadcast to shape: it has no more axes, and from the last on, sizes "
        "are equal or x's is 1; -1 keeps a size that x has"
    ),
    "channel_moments": (
        "x must have at least 2 axes, and scale have its dtype and an element for each "
        "channel (axis 1)"
    ),
    "concat": (
        "expected at least one array, axis within its axes, and arrays whose sizes "
        "differ along that axis alone"
    ),
    "conv2d": _CONVOLVED + ", and bias have O elements",
    "conv2d_norm": (
        _CONVOLVED + ", center, factor, shift and bias have O elements, and the "
        "residual the result's shape"
    ),
    "conv2d_transpose": (
        "x (N, C, H, W) and w (C, O / groups, kH, kW) must have 4 axes and equal C, "
        "groups divide C, output_padding be less than stride, the result have pixels, "
        "and bias have O elements"
    ),
    "det": _SQUARE,
    "diagonal": "axis1 and axis2 must be within x's axes and differ",
    "eig": _SQUARE,
    "embedding": "weight must have 2 axes: ids and features",
    "expand_last": "like must have x's axes and then as many more as axes says",
    "eye": "rows and columns must be at least 0",
    "flatten": "start_axis and stop_axis must be within x's axes, in this order",
    "gather": "axis must be within x's axes, and the result have at most 8 axes",
    "gather_nd": _INDEXED,
    "group_norm": (
        "x must have at least 2 axes, groups divide its channels (axis 1), and scale "
        "and bias have an element for each channel"
    ),
    "index_put": _INDEXED + "; v must have the elements' shape and x's dtype",
    "inplace": (
        "the gradient and the states must have the parameter's shape, and its dtype "
        "unless both are floating"
    ),
    "inplace_rows": (
        "rows must be a vector of int32 or int64, and values have a row of table's "
        "shape for each, of its dtype or floating"
    ),
    "label_gather": _CLASS.replace("logits", "x"),
    "label_mask": "label must have at most 7 axes",
    "layer_norm": (
        "axes must be from 1 to x's number of axes, and scale and bias have the shape "
        "of the last ones of x"
    ),
    "linear": (
        "x must have at least 2 axes, w (in, out) 2, x's last axis be as long as in, "
        "and bias have out elements"
    ),
    "linear_recurrence": "x and w must broadcast, and axis be within their axes",
    "linspace": "the number of elements must be at least 0",
    "lu": _MATRIX,
    "mask_scores": "x must have 4 axes; " + _MASK,
    "matmul": (
        "x's last axis must be as long as y's last but one, both have at least 2 axes, "
        "and those before broadcast"
    ),
    "mean_last": "axes must be from 0 to x's number of axes",
    "merge_rows": "rows must be a vector, and values floating with a row for each",
    "nonzero": "count must be at least 0",
    "one_hot": "depth must be at least 1, and x have at most 7 axes",
    "pad": (
        "low and high must have a number for each axis of x; reflected padding is "
        "less than the axis, circular no more, and neither is negative"
    ),
    "permute_rows": (
        "pivots must be int32, have x's axes but the last, and name no more rows than "
        "x has"
    ),
    "planes": _MATRIX,
    "pool2d": _WINDOW,
    "pool_gather": "index must have x's axes, and its batch and channels",
    "put_along_axis": (
        "axis must be within x's axes, index have as many axes, each no longer than "
        "x's but that one, and v have index's shape and x's dtype"
    ),
    "qr": _MATRIX,
    "qr_complete": _MATRIX,
    "quantize": _SCALE,
    "randperm": "the number of elements must be at least 0",
    "recurrent": (
        "xg must be (length, batch, gates * hidden), w (gates * hidden, hidden), "
        "h0 and c0 (batch, hidden), bias (gates * hidden) and length (batch), the "
        "first five of one dtype and c0 given for an LSTM alone"
    ),
    "reduce": (
        "every axis must be within x's axes and appear once, and x must not be empty "
        "along them"
    ),
    "reduce_keep": _ENDS,
    "reduce_one": _ENDS + ", and x not be empty",
    "reshape": (
        "shape must hold as many elements as x; at most one size is -1 (the rest), and "
        "0 keeps the size that x has there"
    ),
    "reshape_like": "x must hold as many elements as like",
    "resize_axis": "axis must be within x's axes and not be empty, before or after",
    "roi_max_index": (
        "x must have 4 axes, boxes be (n, 4) of its dtype, image be n int32 or int64, "
        "and size 2 numbers from 1"
    ),
    "same_all": "all arrays must be of one shape and dtype",
    "select": "axis must be within x's axes, and index within that axis",
    "sized": "sizes must be at least 0 and hold as many elements as the first array",
    "slice": (
        "axes must be within x's axes, each with a start, an end and a step that is "
        "not 0"
    ),
    "slice_assign": "v must have x's dtype and broadcast to the shape of the slice",
    "softmax_cross_entropy": _CLASS,
    "solve": (
        _SQUARE + ", y's last but one be as long, y have x's dtype, and the axes "
        "before broadcast"
    ),
    "sort": _ENDS,
    "square": _SQUARE,
    "squeeze": "every axis must be within x's axes and appear once",
    "stack": (
        "expected at least one array, all of one shape of at most 7 axes, and axis "
        "within the result's axes"
    ),
    "sum_channels": _MATRIX,
    "sum_leading": "x must have at least 1 axis",
    "svd": _MATRIX,
    "svd_full": _MATRIX,
    "swap_last": _MATRIX,
    "take_along_axis": (
        "axis must be within x's axes, and index have as many axes, which broadcast "
        "with x's but for that one"
    ),
    "tile": "repeats must be at most 8 numbers of at least 0",
    "topk": "axis must be within x's axes, and k be from 0 to its length",
    "transpose": "perm must contain every axis of x once",
    "unsqueeze": "every axis must be within the result's axes, at most 8, once",
    "windows": (
        "axis must be within x's axes and be as long as a window; size, step and "
        "dilation must be at least 1"
    ),
}

_GRADIENT = "the arrays must be those that the forward operator took and returned"


def requirement(rule: str) -> str:
    """What a call must satisfy for the rule to give shapes."""
    return REQUIREMENTS.get(rule, _GRADIENT)
