"""Products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import proa
import proa.nn.functional as F
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.table import paddle_op


def _product(x: Any, y: Any, x_axes: int, y_axes: int) -> Any:
    """x and y as matrices: the first axes are rows, the others columns."""
    rest = list(y.shape[y_axes:])
    if x.ndim > x_axes + 1:
        x = proa.flatten(x, x_axes, -1)
    if y_axes > 1:
        y = proa.flatten(y, 0, y_axes - 1)
    if len(rest) > 1:
        y = proa.flatten(y, 1, -1)
    found = proa.matmul(x, y)
    return found if len(rest) == 1 else proa.reshape(found, [*x.shape[:x_axes], *rest])


@paddle_op("mul", inputs="X Y", weights="Y")
def mul(call: Call, x: Any, y: Any) -> Any:
    return _product(x, y, call.get("x_num_col_dims", 1), call.get("y_num_col_dims", 1))


@paddle_op("fc", inputs="Input W Bias", weights="W Bias")
def fc(call: Call, x: Any, w: Any, bias: Any = None) -> Any:
    if call.flag("padding_weights"):
        raise call.refuse("padded weights")
    found = _product(x, w, call.get("in_num_col_dims", 1), 1)
    found = found if bias is None else found + proa.reshape(bias, [-1])
    name = call.get("activation_type", "")
    if name not in ("", "relu"):
        raise call.refuse(f"the fused activation {name}")
    return F.relu(found) if name else found


@paddle_op("matmul_v2", inputs="X Y", weights="X Y")
def matmul(call: Call, x: Any, y: Any) -> Any:
    return proa.matmul(x, y, call.flag("trans_x"), call.flag("trans_y"))


@paddle_op("matmul", inputs="X Y", weights="X Y")
def matmul_scaled(call: Call, x: Any, y: Any) -> Any:
    found = proa.matmul(x, y, call.flag("transpose_X"), call.flag("transpose_Y"))
    alpha = call.get("alpha", 1.0)
    return found if alpha == 1.0 else found * alpha


def _add_binary(name: str, function: Callable[[Any, Any], Any]) -> None:
    def rule(call: Call, x: Any, y: Any) -> Any:
        return function(x, y)

    paddle_op(name, inputs="X Vec" if name == "mv" else "X Y")(rule)


for _name in ("bmm", "dot", "kron", "mv"):
    _add_binary(_name, getattr(proa, _name))


@paddle_op("cross", inputs="X Y")
def cross(call: Call, x: Any, y: Any) -> Any:
    axis = call.get("dim", 9)  # 9: the first axis of three elements
    return proa.cross(x, y, None if axis == 9 else axis)


@paddle_op("addmm", inputs="Input X Y")
def addmm(call: Call, added: Any, x: Any, y: Any) -> Any:
    return proa.addmm(added, x, y, call.get("Beta", 1.0), call.get("Alpha", 1.0))


@paddle_op("einsum", inputs="Operands*")
def einsum(call: Call, xs: list[Any]) -> Any:
    return proa.einsum(call.get("equation"), *xs)


@paddle_op(
    "bilinear_tensor_product", inputs="X Y Weight Bias", weights="Weight Bias"
)  # fmt: skip
def bilinear(call: Call, x: Any, y: Any, weight: Any, bias: Any = None) -> Any:
    # (b, m), (o, m, n), (b, n) -> (b, o)
    found = proa.einsum("bm,omn,bn->bo", x, weight, y)
    return found if bias is None else found + bias


@paddle_op("fused_softmax_mask", inputs="X Mask")
def softmax_mask(call: Call, x: Any, mask: Any) -> Any:
    return F.softmax(x + mask, -1)
