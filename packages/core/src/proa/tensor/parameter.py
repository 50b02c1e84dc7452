"""Parameters: tensors that layers own and optimizers change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proa._core import Tensor
from proa.base.naming import unique_name
from proa.errors import InvalidArgumentError

if TYPE_CHECKING:
    from proa.optimizer.regularizer import Regularizer


class Parameter(Tensor):
    """A tensor that is trained.

    Args:
        data: Its first value, whose memory it takes over.
        trainable: Whether gradients are computed for it.
        name: A unique name; made up if None.
        learning_rate: Factor on the optimizer's learning rate.
        regularizer: A regularizer of its own, which takes the place of the optimizer's.
        need_clip: Whether gradient clipping applies to it.
    """

    optimize_attr: dict[str, float]
    regularizer: Regularizer | None
    need_clip: bool

    def __init__(
        self,
        data: Tensor,
        trainable: bool = True,
        name: str | None = None,
        learning_rate: float = 1.0,
        regularizer: Regularizer | None = None,
        need_clip: bool = True,
    ) -> None:
        super().__init__()  # the memory of data was taken over when this was made
        self._is_parameter = True
        self.name = name if name is not None else unique_name("parameter")
        self.stop_gradient = not trainable
        self.persistable = True
        self.optimize_attr = {"learning_rate": learning_rate}
        self.regularizer = regularizer
        self.need_clip = need_clip

    @property
    def trainable(self) -> bool:
        """Whether gradients are computed for it."""
        return not self.stop_gradient

    @trainable.setter
    def trainable(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise InvalidArgumentError(
                f"[Parameter] expected trainable to be a bool, got {value!r}"
            )
        self.stop_gradient = not value

    @property
    def block(self) -> None:
        """None: outside a Program it is in no block.

        Programs hand it on to initializers, as in ``init(param, param.block)``.
        """

    def __repr__(self) -> str:
        from proa.tensor.printing import tensor_text

        return tensor_text(self, "Parameter containing:\n")

    __str__ = __repr__

    def __deepcopy__(self, memo: dict[int, object]) -> Parameter:
        copy = Parameter(
            self.detach().clone(),
            self.trainable,
            unique_name(self.name),
            self.optimize_attr["learning_rate"],
            self.regularizer,
            self.need_clip,
        )
        memo[id(self)] = copy
        return copy
