"""Where layers keep their state: in tensors, or in static mode in Variables."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor
from proa.base.mode import static_builder
from proa.base.naming import unique_name
from proa.base.no_tape import NoTape
from proa.ir.record import at_once
from proa.nn.attr import ParamAttr
from proa.nn.schemes import Initializer
from proa.tensor.parameter import Parameter


def new_parameter(
    shape: list[int], dtype: Any, attr: ParamAttr, stem: str, init: Initializer
) -> Tensor:
    """A parameter, called ``<stem>_N`` unless the attribute names it.

    In static mode the startup program fills it.
    """
    if (builder := static_builder()) is not None:
        return builder.parameter(shape, dtype, attr, stem, init)
    with at_once():  # a parameter outlives the program in which it may be made
        first = init.make(shape, dtype)
    return Parameter(
        first,
        trainable=attr.trainable,
        name=attr.name or unique_name(stem),
        learning_rate=attr.learning_rate,
        regularizer=attr.regularizer,
        need_clip=attr.need_clip,
    )


def derived_parameter(value: Tensor, name: str, trainable: bool = True) -> Tensor:
    """A parameter that takes over the memory of a value; in static mode one that begins
    with a Variable's value.
    """
    if (builder := static_builder()) is not None:
        return builder.derived_parameter(value, name, trainable)
    return Parameter(value, trainable, name)


def held_buffer(
    before: Tensor | None,
    tensor: Tensor | None,
    persistable: bool,
    stem: str,
    is_parameter: bool = False,
) -> Tensor | None:
    """What a layer is to hold as a buffer: the tensor.

    In static mode that is a persistable Variable, which begins with the tensor's value
    and continues with what later is assigned to it; with is_parameter a parameter that
    is not trained.
    """
    builder = static_builder()
    if builder is None or tensor is None or tensor is before:
        return tensor
    if before is not None and before._is_symbolic and before.persistable:
        with NoTape():
            before[...] = tensor
        return before
    if tensor._is_symbolic or persistable:
        return builder.buffer(tensor, unique_name(stem), is_parameter)
    return tensor
