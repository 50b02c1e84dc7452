"""Parameters outside layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa.base.dtype import DTypeLike
from proa.nn.attr import ParamAttr
from proa.nn.layer import Layer
from proa.tensor.arguments import as_ints

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike
    from proa.nn.schemes import Initializer
    from proa.tensor.arguments import IntsLike


def create_parameter(
    shape: IntsLike,
    dtype: DTypeLike = "float32",
    name: str | None = None,
    attr: ParamAttrLike | None = None,
    is_bias: bool = False,
    default_initializer: Initializer | None = None,
) -> Any:
    """A new parameter that belongs to no layer."""
    given = ParamAttr.of(attr)
    if given is not None and given.name is None:
        given.name = name
    return Layer("create_parameter").create_parameter(
        as_ints("create_parameter", shape),
        given if given is not None else False, dtype, is_bias, default_initializer,
    )  # fmt: skip
