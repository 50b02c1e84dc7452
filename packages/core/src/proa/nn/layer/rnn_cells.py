"""One step of a recurrent network: the cells that `RNN` runs along a sequence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from proa._core import Tensor, ops
from proa.autograd.recurrent import Cell, recurrent, step
from proa.base.dtype import as_dtype
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn.layer.base import Layer
from proa.nn.schemes import Constant, Uniform
from proa.tensor.arguments import present_axis

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike
    from proa.base.dtype import dtype as DType
    from proa.nn.attr import ParamAttrLike
    from proa.nn.pytree import Nest

__all__ = ["GRUCell", "LSTMCell", "RNNCellBase", "SimpleRNNCell"]

#: The shape of a state, or a nest of such.
StateShape: TypeAlias = Sequence[int] | Sequence["StateShape"]


def _is_shape(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(n, int) for n in value)


def _filled(
    shape: Any, batch: Tensor, axis: int, value: float, dtype: DTypeLike
) -> Any:
    """A tensor (batch, \\*shape), or the same nest of them as of shapes."""
    if not _is_shape(shape):
        return tuple(_filled(s, batch, axis, value, dtype) for s in shape)
    size = [n for n in shape if n != -1]
    count = batch.shape[present_axis("get_initial_states", axis, batch.ndim)]
    if count != -1:
        return ops.full(shape=[count, *size], value=value, dtype=dtype)
    # Unknown while recording: the batch's length is that of a line of batch_ref.
    line = batch
    for other in reversed(range(batch.ndim)):
        if other != axis % batch.ndim:
            line = ops.select(line, axis=other, index=0)
    line = ops.reshape(line, shape=[0] + [1] * len(size))
    wide = ops.broadcast_to(line, shape=[-1, *size])
    return ops.full_like(wide, value=value, dtype=dtype)


class RNNCellBase(Layer):
    """A cell: ``outputs, new_states = cell(inputs, states)``.

    Subclasses define `forward` and the property `state_shape`.
    """

    @property
    def state_shape(self) -> StateShape:
        """Shape of the state without the batch axis, or a (nested) tuple of such."""
        raise NotImplementedError(
            f"[{type(self).__name__}] a cell must define state_shape, got none"
        )

    @property
    def state_dtype(self) -> DTypeLike:
        """Element type of the states."""
        kind: DType = self._dtype
        return kind

    def get_initial_states(
        self,
        batch_ref: Nest,
        shape: StateShape | None = None,
        dtype: DTypeLike | None = None,
        init_value: float = 0.0,
        batch_dim_idx: int = 0,
    ) -> Any:
        """States filled with ``init_value`` for the batch that ``batch_ref`` has.

        Args:
            batch_ref: A tensor (or a nest of them; the first counts) whose axis
                ``batch_dim_idx`` is the batch.
            shape: Shapes of the states without the batch axis, nested as the states
                shall be; None is `state_shape`.
            dtype: Their element type; None is `state_dtype`.
            init_value: What they are filled with.
            batch_dim_idx: Which axis of batch_ref is the batch.
        """
        first: Any = batch_ref
        while isinstance(first, (list, tuple)):
            if not first:
                raise InvalidArgumentError(
                    f"[{type(self).__name__}] expected inputs that hold a tensor, got "
                    "an empty list"
                )
            first = first[0]
        wanted = self.state_shape if shape is None else shape
        kind = as_dtype(self.state_dtype if dtype is None else dtype)
        return _filled(wanted, first, batch_dim_idx, float(init_value), kind)


class _GateCell(RNNCellBase):
    """A cell with one input and one recurrent product for all of its gates."""

    _gates: int

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: ParamAttrLike | None = None,
        weight_hh_attr: ParamAttrLike | None = None,
        bias_ih_attr: ParamAttrLike | None = None,
        bias_hh_attr: ParamAttrLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if hidden_size <= 0:
            raise InvalidArgumentError(
                f"[{type(self).__name__}] hidden_size must be greater than 0, "
                f"got {hidden_size}"
            )
        self.input_size, self.hidden_size = input_size, hidden_size
        rows = self._gates * hidden_size
        self.weight_ih = self._create([rows, input_size], weight_ih_attr, 1.0)
        self.weight_hh = self._create([rows, hidden_size], weight_hh_attr, 1.0)
        self.bias_ih = self._create([rows], bias_ih_attr, 0.0, is_bias=True)
        self.bias_hh = self._create([rows], bias_hh_attr, 0.0, is_bias=True)

    def _create(
        self,
        shape: list[int],
        attr: ParamAttrLike | None,
        fixed: float,
        is_bias: bool = False,
    ) -> Any:
        """A parameter; where attr is False one that stays at ``fixed``."""
        limit = 1.0 / math.sqrt(self.hidden_size)
        init = Constant(fixed) if attr is False else Uniform(-limit, limit)
        result = self.create_parameter(
            shape, attr=None if attr is False else attr, is_bias=is_bias,
            default_initializer=init,
        )  # fmt: skip
        if attr is False:
            init(result)
            result.stop_gradient = True
        return result

    def _projected(self, inputs: Tensor) -> Tensor:
        """(.., input_size) -> (.., gates * hidden_size), the input's part of gates."""
        if inputs.shape[-1] not in (-1, self.input_size):
            raise ShapeError(
                type(self).__name__,
                f"the last axis of inputs must be {self.input_size}",
                inputs.shape,
            )
        return ops.linear(inputs, ops.swap_last(self.weight_ih), self.bias_ih)

    @property
    def _kind(self) -> Cell:
        """The operator's name of the cell."""
        raise NotImplementedError

    def _step(self, inputs: Tensor, h: Tensor, c: Any) -> tuple[Tensor, Any]:
        r = ops.linear(h, ops.swap_last(self.weight_hh), self.bias_hh)
        return step(self._kind, self._projected(inputs), r, h, c)

    @property
    def runs_fused(self) -> bool:
        """Whether a sequence may go through the operator of this cell: no subclass or
        hook may change what a step does.
        """
        plain = type(self) in (SimpleRNNCell, LSTMCell, GRUCell)
        return plain and not self._forward_pre_hooks and not self._forward_post_hooks

    def along(
        self,
        inputs: Tensor,
        states: Tensor | Sequence[Tensor],
        length: Tensor | None,
        reverse: bool,
    ) -> tuple[Tensor, Tensor | tuple[Tensor, Tensor]]:
        """Outputs (time, batch, hidden) and final states for inputs (time, batch, ..)
        by one operator; see `RNN`.
        """
        given: Any = states
        h0, c0 = given if isinstance(self, LSTMCell) else (given, None)
        y, h, c = recurrent(
            self._projected(inputs), self.weight_hh, h0, c0, self.bias_hh, length,
            cell=self._kind, reverse=reverse,
        )  # fmt: skip
        return y, h if c is None else (h, c)

    @property
    def state_shape(self) -> StateShape:
        """(hidden_size,)."""
        return (self.hidden_size,)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


class SimpleRNNCell(_GateCell):
    """h' = act(W_ih x + b_ih + W_hh h + b_hh) (Elman, 1990).

    Args:
        input_size: Length of the input.
        hidden_size: Length of the state.
        activation: tanh or relu.
        weight_ih_attr: How W_ih (hidden_size, input_size) is made. An attribute that is
            False fixes a weight at 1 and a bias at 0.
        weight_hh_attr: How W_hh (hidden_size, hidden_size) is made.
        bias_ih_attr: How b_ih is made.
        bias_hh_attr: How b_hh is made.

    Shape:
        inputs (batch, input_size), states (batch, hidden_size), zeros if None. Returns
        (outputs, new states), both (batch, hidden_size) and the same.
    """

    _gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        activation: str = "tanh",
        weight_ih_attr: ParamAttrLike | None = None,
        weight_hh_attr: ParamAttrLike | None = None,
        bias_ih_attr: ParamAttrLike | None = None,
        bias_hh_attr: ParamAttrLike | None = None,
        name: str | None = None,
    ) -> None:
        if activation not in ("tanh", "relu"):
            raise InvalidArgumentError(
                f"[SimpleRNNCell] activation must be tanh or relu, got {activation!r}"
            )
        super().__init__(
            input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr,
            bias_hh_attr,
        )  # fmt: skip
        self.activation = activation

    @property
    def _kind(self) -> Cell:
        return "tanh" if self.activation == "tanh" else "relu"

    def forward(
        self, inputs: Tensor, states: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        h = self.get_initial_states(inputs) if states is None else states
        h = self._step(inputs, h, None)[0]
        return h, h

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, activation={self.activation}"


class LSTMCell(_GateCell):
    """Long short-term memory (Hochreiter & Schmidhuber, 1997).

    With (i, f, g, o) = W_ih x + b_ih + W_hh h + b_hh:
    c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c').

    Args:
        input_size: Length of the input.
        hidden_size: Length of the states.
        weight_ih_attr: How W_ih (4 hidden_size, input_size) is made. An attribute that
            is False fixes a weight at 1 and a bias at 0.
        weight_hh_attr: How W_hh (4 hidden_size, hidden_size) is made.
        bias_ih_attr: How b_ih is made.
        bias_hh_attr: How b_hh is made.

    Shape:
        inputs (batch, input_size), states (h, c), each (batch, hidden_size), zeros if
        None. Returns (h', (h', c')).
    """

    _gates = 4

    def forward(
        self, inputs: Tensor, states: Sequence[Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        h, c = self.get_initial_states(inputs) if states is None else states
        h, c = self._step(inputs, h, c)
        return h, (h, c)

    @property
    def _kind(self) -> Cell:
        return "lstm"

    @property
    def state_shape(self) -> tuple[tuple[int], tuple[int]]:
        """((hidden_size,), (hidden_size,)): of h and c."""
        return ((self.hidden_size,), (self.hidden_size,))


class GRUCell(_GateCell):
    """Gated recurrent unit (Cho et al., 2014), the reset applied after the product.

    With (r, z, n) = W_ih x + b_ih and (R, Z, N) = W_hh h + b_hh:
    c = tanh(n + sigmoid(r + R) N), h' = z' h + (1 - z') c, z' = sigmoid(z + Z).

    Args:
        input_size: Length of the input.
        hidden_size: Length of the state.
        weight_ih_attr: How W_ih (3 hidden_size, input_size) is made. An attribute that
            is False fixes a weight at 1 and a bias at 0.
        weight_hh_attr: How W_hh (3 hidden_size, hidden_size) is made.
        bias_ih_attr: How b_ih is made.
        bias_hh_attr: How b_hh is made.

    Shape:
        inputs (batch, input_size), states (batch, hidden_size), zeros if None. Returns
        (outputs, new states), both (batch, hidden_size) and the same.
    """

    _gates = 3

    @property
    def _kind(self) -> Cell:
        return "gru"

    def forward(
        self, inputs: Tensor, states: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        h = self.get_initial_states(inputs) if states is None else states
        h = self._step(inputs, h, None)[0]
        return h, h
