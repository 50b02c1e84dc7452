"""Layers of static graphs that are no convolutions or norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.autograd import PyLayer
from proa.errors import InvalidArgumentError, InvalidTypeError
from proa.nn import functional as F
from proa.nn.schemes import Constant
from proa.static.building import (
    activated,
    check_activation,
    known,
    layer_name,
)
from proa.static.state import parameter_of, require_static
from proa.tensor.arguments import check_rank

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike
    from proa.nn.attr import ParamAttrLike, ParamAttrsLike

__all__ = [
    "bilinear_tensor_product", "embedding", "fc", "prelu", "row_conv",
    "sparse_embedding", "static_pylayer",
]  # fmt: skip


def _attr_of_each(given: Any, count: int) -> list[Any]:
    """One attribute for each weight; a name is numbered if there are several."""
    if isinstance(given, (list, tuple)):
        if len(given) != count:
            raise InvalidArgumentError(
                f"[static.nn.fc] expected weight_attr for each of {count} inputs, got "
                f"{len(given)}"
            )
        return list(given)
    return [given] * count


def fc(
    x: Tensor | Sequence[Tensor],
    size: int,
    num_flatten_dims: int = 1,
    weight_attr: ParamAttrsLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    activation: str | None = None,
    name: str | None = None,
) -> Tensor:
    """activation(sum over inputs of x @ weight + bias): a fully connected layer.

    Args:
        x: Input (.., d, ..), or a list of them with a weight for each.
        size: Length of the rows that come out.
        num_flatten_dims: The first axes that stay; the others are flattened to the
            rows that are multiplied. -1 is the last axis alone.
        weight_attr: How the weight ``fc_0.w_0`` (d, size) is made; a list gives one
            attribute for each input.
        bias_attr: How the bias ``fc_0.b_0`` (size,) is made; False for none.
        activation: Name of the activation that follows.
        name: What parameters' names begin with, in place of ``fc_0``.

    Raises:
        PreconditionNotMetError: In dynamic mode.
        InvalidTypeError: If x is no Variable, or list of them.
        InvalidArgumentError: If num_flatten_dims is out of range, or what is flattened
            has symbolic sizes.
    """
    layer = layer_name("fc", "fc", name)
    check_activation("fc", activation)
    inputs: list[Any] = list(x) if isinstance(x, (list, tuple)) else [x]
    if not inputs or not all(isinstance(one, Tensor) for one in inputs):
        raise InvalidTypeError(
            "[static.nn.fc] x must be a Variable or a list of Variables, got "
            f"{type(x).__name__}"
        )
    total: Any = None
    for one, attr in zip(inputs, _attr_of_each(weight_attr, len(inputs)), strict=True):
        first_axis = one.ndim - 1 if num_flatten_dims == -1 else num_flatten_dims
        if not 1 <= first_axis < one.ndim:
            raise InvalidArgumentError(
                f"[static.nn.fc] num_flatten_dims must be in [1, {one.ndim}) or -1, "
                f"got {num_flatten_dims}"
            )
        rows = ops.flatten(one, start_axis=first_axis, stop_axis=-1)
        width = known("fc", "axes to flatten", rows.shape[-1])
        weight = parameter_of(layer, [width, size], one.dtype, attr)
        product = ops.linear(rows, weight, None)
        total = product if total is None else ops.add(total, product)
    bias = parameter_of(layer, [size], inputs[0].dtype, bias_attr, is_bias=True)
    return activated(total if bias is None else ops.add(total, bias), activation)


def embedding(
    input: Tensor,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: ParamAttrLike | None = None,
    dtype: DTypeLike = "float32",
) -> Tensor:
    """Rows of a table ``embedding_0.w_0`` at integers: `nn.functional.embedding`.

    Args:
        input: Row numbers of any shape, int32 or int64.
        size: (rows, width) of the table.
        is_sparse: Kept for callers; gradients of static programs are dense.
        is_distributed: Kept for callers; there is one process.
        padding_idx: The row that gives zeros and takes no gradient; negative ones count
            from the end.
        param_attr: How the table is made.
        dtype: Its dtype.

    Raises:
        PreconditionNotMetError: In dynamic mode.
    """
    layer = layer_name("embedding", "embedding")
    table = parameter_of(layer, list(size), dtype, param_attr)
    return F.embedding(input, table, padding_idx)


def sparse_embedding(
    input: Tensor,
    size: Sequence[int],
    padding_idx: int | None = None,
    is_test: bool = False,
    entry: object = None,
    table_class: str = "MemorySparseTable",
    param_attr: ParamAttrLike | None = None,
    dtype: DTypeLike = "float32",
    slot: object = None,
) -> Tensor:
    """`embedding` as programs for parameter servers have it: here the table is local.

    Args:
        input: Row numbers (.., 1), int64; the rows take the place of the last axis.
        size: (rows, width) of the table.
        padding_idx: The row that gives zeros.
        is_test: Kept for callers, as entry, table_class and slot are.
        entry: See is_test.
        table_class: See is_test.
        param_attr: How the table is made.
        dtype: Its dtype.
        slot: See is_test.

    Raises:
        PreconditionNotMetError: In dynamic mode.
    """
    layer = layer_name("sparse_embedding", "sparse_embedding")
    table = parameter_of(layer, list(size), dtype, param_attr)
    ids = ops.squeeze(input, axis=[-1]) if input.shape[-1] == 1 else input
    return F.embedding(ids, table, padding_idx)


def bilinear_tensor_product(
    x: Tensor,
    y: Tensor,
    size: int,
    act: str | None = None,
    name: str | None = None,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
) -> Tensor:
    """act(x[n] @ weight[k] @ y[n] + bias[k]): `nn.functional.bilinear`.

    Args:
        x: (N, d).
        y: (N, e).
        size: How many numbers come out for each n.
        act: Name of the activation that follows.
        name: What parameters' names begin with, in place of
            ``bilinear_tensor_product_0``.
        param_attr: How the weight (size, d, e) is made.
        bias_attr: How the bias (1, size) is made; False for none.

    Raises:
        PreconditionNotMetError: In dynamic mode.
    """
    layer = layer_name("bilinear_tensor_product", "bilinear_tensor_product", name)
    check_activation("bilinear_tensor_product", act)
    sizes = [known("bilinear_tensor_product", "rows", t.shape[1]) for t in (x, y)]
    weight = parameter_of(layer, [size, *sizes], x.dtype, param_attr)
    bias = parameter_of(layer, [1, size], x.dtype, bias_attr, is_bias=True)
    return activated(F.bilinear(x, y, weight, bias), act)


def prelu(
    x: Tensor,
    mode: str,
    param_attr: ParamAttrLike | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """x where x > 0, else alpha * x, with a trained alpha ``prelu_0.w_0``.

    Args:
        x: The input, of rank 2 or more for mode "channel".
        mode: "all" for one alpha, "channel" for one of each channel, "element" for one
            of each element of a sample.
        param_attr: How alpha is made; 0.25 by default.
        data_format: Where the channels are.
        name: What alpha's name begins with.

    Raises:
        PreconditionNotMetError: In dynamic mode.
        InvalidArgumentError: If mode or data_format is another.
    """
    layer = layer_name("prelu", "prelu", name)
    if mode not in ("all", "channel", "element"):
        raise InvalidArgumentError(
            "[static.nn.prelu] mode must be 'all', 'channel' or 'element', got "
            f"{mode!r}"
        )
    if "C" not in str(data_format):
        raise InvalidArgumentError(
            "[static.nn.prelu] data_format must be such as NCHW or NHWC, got "
            f"{data_format!r}"
        )
    shape = [1] if mode == "all" else [1] * x.ndim
    if mode == "channel":
        check_rank("static.nn.prelu", "x", x, 2)
        axis = 1 if str(data_format).startswith("NC") else x.ndim - 1
        shape[axis] = known("prelu", "channels", x.shape[axis])
    elif mode == "element":
        shape = [1, *(known("prelu", "samples", n) for n in x.shape[1:])]
    alpha = parameter_of(
        layer, shape, x.dtype, param_attr, default_initializer=Constant(0.25)
    )
    if mode != "element":
        return F.prelu(x, ops.reshape(alpha, shape=[-1]), data_format)
    falling = ops.mul(F.relu(ops.neg(x)), alpha)
    return ops.sub(F.relu(x), falling)


def row_conv(
    input: Tensor,
    future_context_size: int,
    param_attr: ParamAttrLike | None = None,
    act: str | None = None,
) -> Tensor:
    """act(sum over i of weight[i] * x[t + i]), i = 0 .. future_context_size.

    Zeros are taken beyond the end (Amodei et al., Deep Speech 2, 2015).

    Args:
        input: x (N, T, d).
        future_context_size: Steps that are looked ahead.
        param_attr: How the weight ``row_conv_0.w_0`` (future_context_size + 1, d) is
            made.
        act: Name of the activation that follows.

    Raises:
        PreconditionNotMetError: In dynamic mode.
    """
    layer = layer_name("row_conv", "row_conv")
    check_activation("row_conv", act)
    check_rank("static.nn.row_conv", "input", input, 3, 3)
    ahead = int(future_context_size)
    width = known("row_conv", "rows", input.shape[2])
    weight = parameter_of(layer, [ahead + 1, width], input.dtype, param_attr)
    wide = ops.pad(input, low=[0, 0, 0], high=[0, ahead, 0], value=0)
    seen = ops.windows(wide, axis=1, size=ahead + 1, step=1, dilation=1)
    # (N, T, d, steps) * (d, steps)
    product = ops.mul(seen, ops.transpose(weight, perm=[1, 0]))
    return activated(ops.sum(product, axis=[-1]), act)


class _Written(PyLayer):
    """The functions of one `static_pylayer`."""

    @staticmethod
    def forward(ctx: Any, functions: Any, *inputs: Tensor) -> Any:
        forward_fn, ctx.backward_fn = functions
        return forward_fn(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return ctx.backward_fn(*grads)


def static_pylayer(
    forward_fn: Callable[..., Any],
    inputs: Sequence[Tensor],
    backward_fn: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """``forward_fn(*inputs)``, whose gradients ``backward_fn`` records.

    Args:
        forward_fn: Takes Variables and returns one or several; called once, when the
            program is built.
        inputs: What it takes.
        backward_fn: Takes the results' gradients, returns the inputs'; without it no
            gradient flows.
        name: Has no meaning here.

    Raises:
        PreconditionNotMetError: In dynamic mode.
        InvalidTypeError: If forward_fn or backward_fn is no function.
    """
    require_static("nn.static_pylayer")
    for what, given in (("forward_fn", forward_fn), ("backward_fn", backward_fn)):
        if not callable(given) and not (what == "backward_fn" and given is None):
            raise InvalidTypeError(
                f"[static.nn.static_pylayer] {what} must be a function, got "
                f"{type(given).__name__}"
            )
    if backward_fn is not None:
        return _Written.apply((forward_fn, backward_fn), *inputs)
    result = forward_fn(*[x.detach() for x in inputs])
    if isinstance(result, (list, tuple)):
        return type(result)(r.detach() for r in result)
    return None if result is None else result.detach()
