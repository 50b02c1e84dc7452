"""Variables: symbolic tensors of a static program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from proa import _core
from proa._core import Tensor, ops
from proa.base.mode import StaticBuilder, static_builder
from proa.base.naming import unique_name
from proa.base.no_tape import NoTape
from proa.errors import (
    InvalidArgumentError,
    NotFoundError,
    PreconditionNotMetError,
)
from proa.ir.program import Value
from proa.nn.attr import ParamAttr
from proa.tensor.parameter import Parameter

if TYPE_CHECKING:
    from proa.base.typing import TensorLike
    from proa.static.block import Block
    from proa.static.program import Program
    from proa.static.recorder import ProgramRecorder
    from proa.static.scope import Scope


class Variable(Tensor):
    """A symbolic tensor of a static program: a dtype, a shape in which -1 is unknown,
    and a name, by which an Executor feeds and fetches it.

    All methods of Tensor that need no value work on it and are recorded.

    Args:
        value: What it stands for.
        recorder: Recorder of its program.
    """

    def __new__(cls, value: Value, recorder: ProgramRecorder) -> Variable:
        symbol = _core.symbol(list(value.shape), value.dtype, (recorder, value))
        variable: Variable = Tensor.__new__(cls, symbol)  # type: ignore[call-arg]
        variable.name = value.name
        return variable

    def __init__(self, value: Value, recorder: ProgramRecorder) -> None:
        super().__init__()

    @property
    def program(self) -> Program:
        """The program that it belongs to."""
        owner: Program = self._handle[0].owner
        return owner

    @property
    def block(self) -> Block:
        """The program's global block."""
        return self.program.global_block()

    @property
    def is_parameter(self) -> bool:
        """Whether it is a parameter."""
        return isinstance(self, Parameter)

    @property
    def is_data(self) -> bool:
        """Whether runs are fed it."""
        return self.name in self.program.data

    @property
    def grad_name(self) -> str:
        """The name of its gradient."""
        return f"{self.name}@GRAD"

    @property
    def lod_level(self) -> int:
        """How many levels of lengths its rows have."""
        found = self.program.sequences.get(self._handle[1])
        return 0 if found is None else len(found.levels)

    @property
    def type(self) -> str:
        """What runs hold for it."""
        return "LOD_TENSOR"

    @property
    def dist_attr(self) -> None:
        """None: no Variable is spread over devices."""

    @property
    def attr_names(self) -> list[str]:
        """What `attr` knows."""
        return ["is_data", "is_parameter", "persistable", "stop_gradient"]

    def attr(self, name: str) -> bool:
        """One of the facts of `attr_names`.

        Raises:
            NotFoundError: If it is none of them.
        """
        if name not in self.attr_names:
            raise NotFoundError(
                f"[Variable.attr] expected one of {self.attr_names}, got {name!r}"
            )
        return bool(getattr(self, name))

    def detach(self) -> Variable:
        """The same value, to which no gradient flows."""
        recorder, value = self._handle
        return Variable(value, recorder)

    def get_value(self, scope: Scope | None = None) -> Tensor:
        """A copy of what a scope (the current one if None) holds for it.

        Raises:
            PreconditionNotMetError: If it holds nothing yet.
        """
        from proa.static.scope import global_scope

        found = (scope or global_scope()).find_var(self.name)
        if found is None or found.tensor is None:
            raise PreconditionNotMetError(
                f"[Variable.get_value] expected {self.name!r} in the scope, as the "
                "startup program leaves it there, got nothing"
            )
        return found.tensor.detach().clone()

    def set_value(self, value: TensorLike, scope: Scope | None = None) -> Variable:
        """Let a scope (the current one if None) hold this value for it.

        That another Variable takes this one's place from here on is recorded.

        Raises:
            InvalidArgumentError: If the value has another shape, or the Variable is
                not persistable.
        """
        from proa.static.scope import global_scope

        if isinstance(value, Tensor) and value._is_symbolic:
            with NoTape():
                self[...] = value
            return self
        if not self.persistable:
            raise InvalidArgumentError(
                "[Variable.set_value] expected a persistable Variable, got "
                f"{self.name!r}"
            )
        given = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
        shape = tuple(self.shape)
        if given.shape != shape and -1 not in shape:
            raise InvalidArgumentError(
                f"[Variable.set_value] {self.name!r} must have shape {shape}, got "
                f"{given.shape}"
            )
        (scope or global_scope()).var(self.name).set(value, self.dtype)
        return self

    def backward(
        self,
        grad_tensor: Tensor | None = None,
        retain_graph: bool = False,
        create_graph: bool = False,
    ) -> NoReturn:
        """Refused: gradients are recorded by `append_backward` or `minimize`.

        Raises:
            PreconditionNotMetError: Always.
        """
        self._refuse("backward", "static.append_backward records gradients")

    def gradient(self) -> NoReturn:
        """Refused: fetch `grad_name` of a run.

        Raises:
            PreconditionNotMetError: Always.
        """
        self._refuse("gradient", "a run gives it, as a fetch of grad_name")

    def clear_gradient(self, set_to_zero: bool = True) -> NoReturn:
        """Refused: every run computes gradients again.

        Raises:
            PreconditionNotMetError: Always.
        """
        self._refuse("clear_gradient", "every run computes gradients again")

    def _refuse(self, method: str, why: str) -> NoReturn:
        raise PreconditionNotMetError(
            f"[Variable.{method}] expected a Tensor of dynamic mode ({why}), got the "
            f"Variable {self.name!r}"
        )

    def to_string(self, throw_on_error: bool = True, with_details: bool = False) -> str:
        """Its name, shape and dtype."""
        kind = "persist " if self.persistable else ""
        return (
            f"{kind}var {self.name} : {self.type}.shape{tuple(self.shape)}."
            f"dtype({self.dtype.name}).stop_gradient({self.stop_gradient})"
        )

    def __repr__(self) -> str:
        return self.to_string()

    __str__ = __repr__

    def __deepcopy__(self, memo: dict[int, object]) -> Any:
        """A state of its own that begins with the same value; another Variable is its
        own copy.
        """
        builder = static_builder()
        if builder is None or not self.persistable:
            return self
        value = ops.assign(self.detach())
        copied = memo[id(self)] = self._copied(builder, value, unique_name(self.name))
        return copied

    def _copied(self, builder: StaticBuilder, value: Tensor, name: str) -> Tensor:
        """A state of this kind that begins with a value."""
        return builder.buffer(value, name)


class ParameterVariable(Variable, Parameter):  # type: ignore[misc]
    """A parameter of a static program; its value is in a scope.

    Args:
        value: What it stands for.
        recorder: Recorder of its program.
        attr: A ParamAttr.
    """

    def __init__(self, value: Value, recorder: ProgramRecorder, attr: Any) -> None:
        self._is_parameter = True
        self.stop_gradient = not attr.trainable
        self.persistable = True
        self.optimize_attr = {"learning_rate": attr.learning_rate}
        self.regularizer = attr.regularizer
        self.need_clip = attr.need_clip
        self.do_model_average = attr.do_model_average

    def __new__(
        cls, value: Value, recorder: ProgramRecorder, attr: Any
    ) -> ParameterVariable:
        result = Variable.__new__(cls, value, recorder)
        assert isinstance(result, ParameterVariable)
        return result

    def creation_attr(self) -> ParamAttr:
        """What it was made with, without an initializer."""
        return ParamAttr(
            self.name,
            None,
            self.optimize_attr["learning_rate"],
            self.regularizer,
            self.trainable,
            self.do_model_average,
            self.need_clip,
        )

    def _copied(self, builder: StaticBuilder, value: Tensor, name: str) -> Tensor:
        result: Any = builder.derived_parameter(value, name, self.trainable)
        result.optimize_attr = dict(self.optimize_attr)
        result.regularizer, result.need_clip = self.regularizer, self.need_clip
        return result  # type: ignore[no-any-return]

    __deepcopy__ = Variable.__deepcopy__
    __repr__ = __str__ = Variable.__repr__
