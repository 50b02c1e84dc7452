"""Cells of `layers.rnn`, which learn the length of their input when they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import proa
from proa._core import Tensor
from proa.nn import functional as F

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike
    from proa.nn.attr import ParamAttrLike

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "birnn", "rnn"]


class RNNCell:
    """The base of a program's own cells, which define `call`.

    It is no Layer: a cell may hold others and makes parameters by functions such as
    `static.nn.fc` when it is called.
    """

    def call(self, inputs: Any, states: Any, **kwargs: Any) -> tuple[Any, Any]:
        """(outputs, new states) of a step."""
        raise NotImplementedError(f"[{type(self).__name__}] a cell must define call")

    def __call__(self, inputs: Any, states: Any, **kwargs: Any) -> tuple[Any, Any]:
        return self.call(inputs, states, **kwargs)

    def get_initial_states(
        self,
        batch_ref: Any,
        shape: Any = None,
        dtype: DTypeLike = "float32",
        init_value: float = 0.0,
        batch_dim_idx: int = 0,
    ) -> Any:
        """States that are filled with a number.

        Args:
            batch_ref: A tensor, or a nest of them, with the batch.
            shape: The states' shapes without the batch; None for `state_shape`.
            dtype: The states' dtype.
            init_value: The number.
            batch_dim_idx: The axis of the batch in batch_ref.
        """
        while isinstance(batch_ref, (list, tuple)):
            batch_ref = batch_ref[0]
        batch = batch_ref.shape[batch_dim_idx]

        def filled(sizes: Any) -> Any:
            if sizes and isinstance(sizes[0], (list, tuple)):
                return [filled(each) for each in sizes]
            tail = [int(n) for n in sizes if int(n) != -1]
            return proa.full([batch, *tail], init_value, dtype)

        return filled(self.state_shape if shape is None else shape)

    @property
    def state_shape(self) -> Any:
        """The shapes of the states, without the batch."""
        raise NotImplementedError(
            f"[{type(self).__name__}] expected state_shape, or states that are given"
        )


class _Cell(proa.nn.RNNCellBase):
    def __init__(
        self,
        hidden_size: int,
        param_attr: ParamAttrLike | None,
        bias_attr: ParamAttrLike | None,
        dtype: DTypeLike,
    ) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self._parameters: dict[str, Any] = {}
        self._attrs, self._kind = (param_attr, bias_attr), dtype

    def _mixed(self, part: str, x: Tensor, gates: int) -> Tensor:
        """x @ weight + bias for so many gates, of parameters of this part."""
        if part not in self._parameters:
            shape = [int(x.shape[-1]), gates * self.hidden_size]
            weight, bias = self._attrs
            result = (
                self.create_parameter(shape, weight, self._kind),
                self.create_parameter(shape[1:], bias, self._kind, is_bias=True),
            )
            self._parameters[part] = result
            for name, one in zip(("weight", "bias"), result, strict=True):
                self.add_parameter(f"{part}_{name}", one)
        return F.linear(x, *self._parameters[part])


class GRUCell(_Cell):
    """A GRU of any length of input.

    u, r = sigmoid([x, h] W_g + b_g); c = tanh([x, r * h] W_c + b_c)
    h = u * h + (1 - u) * c
    """

    def __init__(
        self,
        hidden_size: int,
        param_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
        gate_activation: Any = None,
        activation: Any = None,
        dtype: DTypeLike = "float32",
        name: str = "GRUCell",
    ) -> None:
        super().__init__(hidden_size, param_attr, bias_attr, dtype)
        self._gate = gate_activation or F.sigmoid
        self._candidate = activation or proa.tanh

    def forward(self, inputs: Tensor, states: Any = None) -> tuple[Tensor, Tensor]:
        h = self.get_initial_states(inputs) if states is None else states
        mixed = self._mixed("gate", proa.concat([inputs, h], 1), 2)
        r, u = proa.split(self._gate(mixed), 2, -1)
        joined = proa.concat([inputs, proa.multiply(r, h)], 1)
        c = self._candidate(self._mixed("candidate", joined, 1))
        hidden = proa.add(c, proa.multiply(u, proa.subtract(h, c)))
        return hidden, hidden

    @property
    def state_shape(self) -> tuple[int, ...]:
        """The shape of a state, without the batch."""
        return (self.hidden_size,)


class LSTMCell(_Cell):
    """An LSTM of any length of input, whose states are [hidden, cell].

    i, j, f, o = [x, h] W + b; c = c * sigmoid(f + forget_bias) + sigmoid(i) * tanh(j);
    h = tanh(c) * sigmoid(o).
    """

    def __init__(
        self,
        hidden_size: int,
        param_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
        gate_activation: Any = None,
        activation: Any = None,
        forget_bias: float = 1.0,
        dtype: DTypeLike = "float32",
        name: str = "LSTMCell",
    ) -> None:
        super().__init__(hidden_size, param_attr, bias_attr, dtype)
        self._gate = gate_activation or F.sigmoid
        self._output = activation or proa.tanh
        self._forget_bias = forget_bias

    def forward(self, inputs: Tensor, states: Any = None) -> tuple[Tensor, Any]:
        h, c = self.get_initial_states(inputs) if states is None else states
        mixed = self._mixed("gate", proa.concat([inputs, h], 1), 4)
        i, j, f, o = proa.split(mixed, 4, -1)
        remembered = proa.multiply(c, self._gate(proa.scale(f, 1.0, self._forget_bias)))
        cell = proa.add(remembered, proa.multiply(self._gate(i), self._output(j)))
        hidden = proa.multiply(self._output(cell), self._gate(o))
        return hidden, [hidden, cell]

    @property
    def state_shape(self) -> Any:
        """The shapes of the states, without the batch."""
        return [(self.hidden_size,), (self.hidden_size,)]


def rnn(
    cell: Any,
    inputs: Tensor,
    initial_states: Any = None,
    sequence_length: Tensor | None = None,
    time_major: bool = False,
    is_reverse: bool = False,
    **kwargs: Any,
) -> Any:
    """(outputs, last states) of a cell over a batch of padded sequences."""
    network = proa.nn.RNN(cell, is_reverse, time_major)
    return network(inputs, initial_states, sequence_length, **kwargs)


def birnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Tensor,
    initial_states: Any = None,
    sequence_length: Tensor | None = None,
    time_major: bool = False,
    **kwargs: Any,
) -> Any:
    """(outputs, last states) of one cell from the beginning and one from the end."""
    network = proa.nn.BiRNN(cell_fw, cell_bw, time_major)
    return network(inputs, initial_states, sequence_length, **kwargs)
