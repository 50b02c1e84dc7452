"""Recurrent layers over the rows of sequences, and their units.

Weights have the shapes and the order of gates that they had in 1.x.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import proa
from proa._core import Tensor
from proa.migrate.fluid.layers.activation import activated
from proa.migrate.fluid.layers.recurrence import DynamicRNN
from proa.nn import functional as F
from proa.static.building import layer_name
from proa.static.nn.sequence_layout import sequence_reverse
from proa.static.state import parameter_of

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike
    from proa.nn.attr import ParamAttrLike

__all__ = [
    "dynamic_gru", "dynamic_lstm", "dynamic_lstmp", "gru_unit", "lstm_unit",
]  # fmt: skip


class _Lstm:
    """Steps of an LSTM whose gates are candidate, input, forget, output.

    Args:
        size: Length of the cell's state.
        gates: Bias (1, 4 * size), followed by three peephole weights if there are any.
        acts: Activations of gates, of the cell's output and of the candidate.
    """

    def __init__(self, size: int, gates: Tensor | None, acts: tuple[str, ...]) -> None:
        self._size, self._acts = size, acts
        self._bias = self._peepholes = None
        if gates is not None:
            self._bias = gates[:, : 4 * size]
            if int(gates.shape[1]) > 4 * size:
                self._peepholes = [
                    gates[:, k * size : (k + 1) * size] for k in (4, 5, 6)
                ]

    def __call__(self, mixed: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """(hidden, cell) of x @ W_x + h @ W_h, which has no bias yet."""
        gate, output, candidate = self._acts
        if self._bias is not None:
            mixed = proa.add(mixed, self._bias)
        c, i, f, o = proa.split(mixed, 4, -1)
        if self._peepholes is not None:
            i, f = (
                proa.add(part, proa.multiply(cell, weight))
                for part, weight in zip((i, f), self._peepholes, strict=False)
            )
        new = proa.add(
            proa.multiply(activated(f, gate), cell),
            proa.multiply(activated(i, gate), activated(c, candidate)),
        )
        if self._peepholes is not None:
            o = proa.add(o, proa.multiply(new, self._peepholes[2]))
        return proa.multiply(activated(o, gate), activated(new, output)), new


def _memories(
    rnn: DynamicRNN, *begin: tuple[Tensor | None, int], dtype: DTypeLike
) -> list[Tensor]:
    return [rnn.memory(init, [size], dtype=dtype) for init, size in begin]


def _in_order(is_reverse: bool, *outputs: Tensor) -> list[Tensor]:
    return [sequence_reverse(x) if is_reverse else x for x in outputs]


def _lstm(
    layer: str,
    size: int,
    dtype: DTypeLike,
    bias_attr: ParamAttrLike | None,
    use_peepholes: bool,
    acts: tuple[str, ...],
) -> _Lstm:
    """The steps of a layer, with its bias."""
    shape = [1, (7 if use_peepholes else 4) * size]
    bias = parameter_of(layer, shape, dtype, bias_attr, is_bias=True)
    return _Lstm(size, bias, acts)


def dynamic_lstm(
    input: Tensor,
    size: int,
    h_0: Tensor | None = None,
    c_0: Tensor | None = None,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    dtype: DTypeLike = "float32",
    name: str | None = None,
) -> list[Tensor]:
    """Hidden and cell states of an LSTM, for each row.

    Args:
        input: Rows (n, size) of sequences, x @ W_x of a layer in front.
        size: Four times the length of the states.
        h_0: The first hidden states, a row for each sequence; None for zeros.
        c_0: The first cell states.
        param_attr: How the weight (size / 4, size) is made.
        bias_attr: How the bias (1, size) is made, of 7 / 4 that size with peepholes.
        use_peepholes: Whether gates see the cell.
        is_reverse: Whether to go from the end.
        gate_activation: The activation of gates.
        cell_activation: That of the cell's output.
        candidate_activation: That of the candidate.
        dtype: The dtype of weights.
        name: What names of parameters begin with.
    """
    layer, width = layer_name("dynamic_lstm", "lstm", name), size // 4
    weight = parameter_of(layer, [width, size], dtype, param_attr)
    acts = (gate_activation, cell_activation, candidate_activation)
    lstm, rnn = _lstm(layer, width, dtype, bias_attr, use_peepholes, acts), DynamicRNN()
    rows = _in_order(is_reverse, input)[0]

    @rnn.block()
    def step() -> None:
        x = rnn.step_input(rows)
        h, c = _memories(rnn, (h_0, width), (c_0, width), dtype=dtype)
        hidden, cell = lstm(proa.add(x, proa.matmul(h, weight)), c)
        rnn.update_memory(h, hidden)
        rnn.update_memory(c, cell)
        rnn.output(hidden, cell)

    return _in_order(is_reverse, *rnn())


def dynamic_lstmp(
    input: Tensor,
    size: int,
    proj_size: int,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    proj_activation: str = "tanh",
    dtype: DTypeLike = "float32",
    name: str | None = None,
    h_0: Tensor | None = None,
    c_0: Tensor | None = None,
    cell_clip: float | None = None,
    proj_clip: float | None = None,
) -> list[Tensor]:
    """`dynamic_lstm` whose hidden state is projected: the projections and the cells.

    Args:
        proj_size: Length of projections.
        proj_activation: Their activation.
        cell_clip: The greatest size of cells; None for any.
        proj_clip: The greatest size of projections.
    """
    layer, width = layer_name("dynamic_lstmp", "lstmp", name), size // 4
    weight = parameter_of(layer, [proj_size, size], dtype, param_attr)
    projection = parameter_of(layer, [width, proj_size], dtype, param_attr)
    acts = (gate_activation, cell_activation, candidate_activation)
    lstm, rnn = _lstm(layer, width, dtype, bias_attr, use_peepholes, acts), DynamicRNN()
    rows = _in_order(is_reverse, input)[0]

    @rnn.block()
    def step() -> None:
        x = rnn.step_input(rows)
        r, c = _memories(rnn, (h_0, proj_size), (c_0, width), dtype=dtype)
        hidden, cell = lstm(proa.add(x, proa.matmul(r, weight)), c)
        out = activated(proa.matmul(hidden, projection), proj_activation)
        if cell_clip:
            cell = proa.clip(cell, -cell_clip, cell_clip)
        if proj_clip:
            out = proa.clip(out, -proj_clip, proj_clip)
        rnn.update_memory(r, out)
        rnn.update_memory(c, cell)
        rnn.output(out, cell)

    return _in_order(is_reverse, *rnn())


def gru_step(
    x: Tensor, h: Tensor, weight: Tensor, bias: Any, acts: tuple[str, str],
    origin_mode: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(hidden, reset state, gates) of a GRU with gates update, reset, candidate."""
    gate, candidate = acts
    size = int(h.shape[-1])
    if bias is not None:
        x = proa.add(x, bias)
    mixed = proa.add(x[:, : 2 * size], proa.matmul(h, weight[:, : 2 * size]))
    gates = activated(mixed, gate)
    u, r = gates[:, :size], gates[:, size:]
    reset = proa.multiply(r, h)
    own = proa.add(x[:, 2 * size :], proa.matmul(reset, weight[:, 2 * size :]))
    c = activated(own, candidate)
    old, new = (h, c) if origin_mode else (c, h)  # u * old + (1 - u) * new
    hidden = proa.add(new, proa.multiply(u, proa.subtract(old, new)))
    return hidden, reset, proa.concat([gates, c], 1)


def dynamic_gru(
    input: Tensor,
    size: int,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    candidate_activation: str = "tanh",
    h_0: Tensor | None = None,
    origin_mode: bool = False,
) -> Tensor:
    """Hidden states of a GRU, for each row.

    Args:
        input: Rows (n, 3 * size) of sequences, x @ W_x of a layer in front.
        size: Length of the hidden state.
        param_attr: How the weight (size, 3 * size) is made: update, reset, candidate.
        bias_attr: How the bias (1, 3 * size) is made.
        is_reverse: Whether to go from the end.
        gate_activation: The activation of gates.
        candidate_activation: That of the candidate.
        h_0: The first states, a row for each sequence; None for zeros.
        origin_mode: Whether the update gate is the share that is kept (Cho et al.,
            2014), not the one that is replaced.
    """
    layer = layer_name("dynamic_gru", "gru")
    weight = parameter_of(layer, [size, 3 * size], input.dtype, param_attr)
    bias = parameter_of(layer, [1, 3 * size], input.dtype, bias_attr, is_bias=True)
    acts = (gate_activation, candidate_activation)
    rnn, rows = DynamicRNN(), _in_order(is_reverse, input)[0]

    @rnn.block()
    def step() -> None:
        x = rnn.step_input(rows)
        (h,) = _memories(rnn, (h_0, size), dtype=input.dtype)
        hidden = gru_step(x, h, weight, bias, acts, origin_mode)[0]
        rnn.update_memory(h, hidden)
        rnn.output(hidden)

    return _in_order(is_reverse, rnn())[0]


def gru_unit(
    input: Tensor,
    hidden: Tensor,
    size: int,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    activation: str = "tanh",
    gate_activation: str = "sigmoid",
    origin_mode: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """One step of a GRU: the hidden state, the state after the reset, and the gates.

    Args:
        input: (n, size), x @ W_x of a layer in front.
        hidden: (n, size / 3), the state before.
        size: Three times the length of the state.
        param_attr: As `dynamic_gru` has it.
        bias_attr: Likewise.
        activation: The activation of the candidate.
        gate_activation: That of gates.
        origin_mode: As `dynamic_gru` has it.
    """
    layer, width = layer_name("gru_unit", "gru_unit"), size // 3
    weight = parameter_of(layer, [width, size], input.dtype, param_attr)
    bias = parameter_of(layer, [1, size], input.dtype, bias_attr, is_bias=True)
    acts = (gate_activation, activation)
    return gru_step(input, hidden, weight, bias, acts, origin_mode)


def lstm_unit(
    x_t: Tensor,
    hidden_t_prev: Tensor,
    cell_t_prev: Tensor,
    forget_bias: float = 0.0,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: its hidden state and its cell.

    Gates input, forget, output and candidate are one layer of x and the hidden state.
    """
    size = int(cell_t_prev.shape[1])
    mixed = proa.static.nn.fc(
        proa.concat([x_t, hidden_t_prev], 1), 4 * size, 1, param_attr, bias_attr,
        name=name,
    )  # fmt: skip
    i, f, o, candidate = proa.split(mixed, 4, -1)
    remembered = proa.multiply(F.sigmoid(proa.scale(f, 1.0, forget_bias)), cell_t_prev)
    cell = proa.add(remembered, proa.multiply(F.sigmoid(i), proa.tanh(candidate)))
    return proa.multiply(F.sigmoid(o), proa.tanh(cell)), cell
