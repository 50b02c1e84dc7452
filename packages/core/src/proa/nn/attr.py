"""`ParamAttr`: what a user may say about one parameter of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, Union

from proa.errors import InvalidArgumentError

if TYPE_CHECKING:
    from proa.nn.schemes import Initializer
    from proa.optimizer.regularizer import Regularizer

#: What a layer takes as an attribute of a parameter; see `ParamAttr.of`.
ParamAttrLike: TypeAlias = Union["ParamAttr", "Initializer", str, bool]
#: The same for all parts of a layer, or one for each.
ParamAttrsLike: TypeAlias = ParamAttrLike | Sequence[ParamAttrLike | None]


class ParamAttr:
    """How a layer makes one of its parameters.

    Args:
        name: The parameter's unique name.
        initializer: What fills it.
        learning_rate: Factor on the optimizer's learning rate.
        regularizer: A regularizer of its own.
        trainable: Whether it is trained.
        do_model_average: Kept for callers; has no meaning here.
        need_clip: Whether gradient clipping applies to it.
    """

    def __init__(
        self,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: Regularizer | None = None,
        trainable: bool = True,
        do_model_average: bool = True,
        need_clip: bool = True,
    ) -> None:
        self.name = name
        self.initializer = initializer
        self.learning_rate = learning_rate
        self.regularizer = regularizer
        self.trainable = trainable
        self.do_model_average = do_model_average
        self.need_clip = need_clip

    @staticmethod
    def of(value: ParamAttrLike | None) -> ParamAttr | None:
        """The attribute that ``value`` means; None if it means "no parameter".

        None means defaults, a str a name, an initializer that initializer, False none.
        """
        if value is None or value is True:
            return ParamAttr()
        if value is False:
            return None
        if isinstance(value, ParamAttr):
            return value
        if isinstance(value, str):
            return ParamAttr(name=value)
        if callable(value):
            return ParamAttr(initializer=value)
        raise InvalidArgumentError(
            "[ParamAttr] an attribute must be a ParamAttr, a name, an initializer, "
            f"True, False or None, got {value!r}"
        )

    @staticmethod
    def _to_attr(value: ParamAttrLike | None) -> ParamAttr | bool:
        """`of`, for callers that pass the result on: False for "no parameter"."""
        found = ParamAttr.of(value)
        return False if found is None else found
