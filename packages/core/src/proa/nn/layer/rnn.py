"""Recurrent networks: a cell along a sequence, in one or both directions, in layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from proa._core import Tensor, ops
from proa.base.mode import static_builder
from proa.base.naming import mark_names
from proa.errors import InvalidArgumentError, ShapeError
from proa.jit.control_flow import while_loop
from proa.nn import functional as F
from proa.nn.layer.base import Layer
from proa.nn.layer.container import LAYER_BYTES, LayerList
from proa.nn.layer.rnn_cells import GRUCell, LSTMCell, RNNCellBase, SimpleRNNCell
from proa.nn.pytree import tree_map
from proa.tensor.arguments import as_count
from proa.tensor.symbolic_dims import number_of

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike
    from proa.nn.pytree import Nest

__all__ = ["GRU", "LSTM", "RNN", "BiRNN", "SimpleRNN"]

#: The states of a stack of layers: h, or h and c.
States = TypeVar("States", Tensor, tuple[Tensor, Tensor])


class RecurrentCell(Protocol):
    """A cell as it is called."""

    def __call__(
        self, inputs: Any, states: Any, /, **kwargs: Any
    ) -> tuple[Any, Any]: ...

    def get_initial_states(self, batch_ref: Any, *, batch_dim_idx: int) -> Any: ...


def _steps(x: Any, axis: int) -> Any:
    """Steps of a nest of sequences, which must agree; they may be symbolic."""
    while isinstance(x, (list, tuple)):
        if not x:
            raise InvalidArgumentError("[RNN] expected inputs, got an empty list")
        x = x[0]
    if x.ndim < 2:
        raise ShapeError("RNN", "inputs must have a batch and a time axis", x.shape)
    if x.shape[axis] == 0:
        raise ShapeError("RNN", "inputs must have at least one step", x.shape)
    return x.shape[axis]


def _select_valid(inside: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """new in the samples that are inside their length, else old."""
    mask = ops.unsqueeze(inside, axis=list(range(1, new.ndim)))
    return ops.where(mask, new, old)


def _zeros(like: Tensor) -> Tensor:
    return ops.full_like(like, value=0, dtype=like.dtype)


def _scan(
    cell: Any,
    inputs: Any,
    states: Any,
    length: Tensor | None,
    reverse: bool,
    axis: int,
    extra: dict[str, Any],
) -> tuple[Any, Any]:
    """The cell along the sequence; axis is that of time."""
    if getattr(cell, "runs_fused", False) and isinstance(inputs, Tensor) and not extra:
        if inputs.ndim != 3:
            raise ShapeError("RNN", "inputs must be of rank 3", inputs.shape)
        x = inputs if axis == 0 else ops.transpose(inputs, perm=[1, 0, 2])
        y, states = cell.along(x, states, length, reverse)
        return y if axis == 0 else ops.transpose(y, perm=[1, 0, 2]), states
    restart_names = mark_names()

    def step(t: Any, states: Any) -> tuple[Any, Any]:
        if static_builder() is not None:  # each step has the parameters of the first
            restart_names()
        now = tree_map(lambda x: _at(x, axis, t), inputs)
        out, new = cell(now, states, **extra)
        if length is None:
            return out, new
        inside = ops.greater_than(length, t)
        return (
            tree_map(lambda y: _select_valid(inside, y, _zeros(y)), out),
            tree_map(lambda n, o: _select_valid(inside, n, o), new, states),
        )

    count = _steps(inputs, axis)
    if int(count) == -1:
        return _looped(step, states, number_of(count), reverse, axis)
    outputs: list[Any] = [None] * int(count)
    for t in reversed(range(count)) if reverse else range(count):
        outputs[t], states = step(t, states)
    return tree_map(lambda *ys: ops.stack(*ys, axis=axis), *outputs), states


def _at(x: Tensor, axis: int, t: Any) -> Tensor:
    """The entry at a step, a number or a Tensor int64 (1,)."""
    if isinstance(t, Tensor):
        return ops.squeeze(ops.gather(x, t, axis=axis), axis=[axis])
    return ops.select(x, axis=axis, index=t)


def _looped(
    step: Callable[[Any, Any], tuple[Any, Any]],
    states: Any,
    number: Tensor,
    reverse: bool,
    axis: int,
) -> tuple[Any, Any]:
    """The steps of a graph whose number is symbolic: the first one, then a loop."""
    count = ops.cast(ops.reshape(number, shape=[1]), dtype="int64")

    def place(k: Tensor) -> Tensor:
        return ops.sub(ops.sub(count, k), 1) if reverse else k

    def joined(stack: Tensor, y: Tensor) -> Tensor:
        entry = ops.unsqueeze(y, axis=[0])
        pair = (entry, stack) if reverse else (stack, entry)
        return ops.concat(*pair, axis=0)

    def body(k: Tensor, states: Any, stacks: Any) -> list[Any]:
        out, new = step(place(k), states)
        return [ops.add(k, 1), new, tree_map(joined, stacks, out)]

    out, states = step(place(ops.full(shape=[1], value=0, dtype="int64")), states)
    stacks = tree_map(lambda y: ops.unsqueeze(y, axis=[0]), out)
    begin = [ops.full(shape=[1], value=1, dtype="int64"), states, stacks]
    _, states, stacks = while_loop(
        lambda k, states, stacks: ops.less_than(k, count), body, begin
    )
    if axis == 0:
        return stacks, states

    def by_batch(y: Tensor) -> Tensor:
        return ops.transpose(y, perm=[1, 0, *range(2, y.ndim)])

    return tree_map(by_batch, stacks), states


class RNN(Layer):
    """A cell run along a sequence.

    Args:
        cell: The cell; anything called as ``cell(inputs, states)`` that returns
            (outputs, new states) and has `get_initial_states`.
        is_reverse: Whether to run from the end to the beginning; outputs stay in the
            order of the inputs.
        time_major: Whether inputs and outputs are (time, batch, ..) and not
            (batch, time, ..).

    Shape:
        inputs (batch, time, ..) or a nest of such. sequence_length (batch,) of
        integers: steps at and after it leave the states as they are and give outputs
        of 0. Further keyword arguments go to the cell. Returns (outputs, final states).
    """

    def __init__(
        self, cell: RecurrentCell, is_reverse: bool = False, time_major: bool = False
    ) -> None:
        super().__init__()
        self.cell = cell
        self.is_reverse, self.time_major = is_reverse, time_major

    def forward(
        self,
        inputs: Nest,
        initial_states: Nest | None = None,
        sequence_length: Tensor | None = None,
        **kwargs: object,
    ) -> tuple[Nest, Nest]:
        if initial_states is None:
            initial_states = self.cell.get_initial_states(
                inputs, batch_dim_idx=1 if self.time_major else 0
            )
        return _scan(
            self.cell, inputs, initial_states, sequence_length, self.is_reverse,
            0 if self.time_major else 1, kwargs,
        )  # fmt: skip


class BiRNN(Layer):
    """Two cells, one along a sequence and one against it.

    Args:
        cell_fw: The cell that runs forward.
        cell_bw: The cell that runs backward.
        time_major: Whether inputs and outputs are (time, batch, ..).

    Shape:
        inputs (batch, time, ..); initial_states a pair of the cells' states. Returns
        (outputs, (states forward, states backward)), outputs joined on the last axis.
    """

    def __init__(
        self,
        cell_fw: RecurrentCell,
        cell_bw: RecurrentCell,
        time_major: bool = False,
    ) -> None:
        super().__init__()
        sizes = [getattr(c, "input_size", None) for c in (cell_fw, cell_bw)]
        if sizes[0] != sizes[1]:
            raise InvalidArgumentError(
                "[BiRNN] both cells must have one input_size, "
                f"got {sizes[0]} and {sizes[1]}"
            )
        self.cell_fw, self.cell_bw, self.time_major = cell_fw, cell_bw, time_major

    def forward(
        self,
        inputs: Nest,
        initial_states: Nest | None = None,
        sequence_length: Tensor | None = None,
        **kwargs: object,
    ) -> tuple[Nest, Nest]:
        cells = (self.cell_fw, self.cell_bw)
        if initial_states is None:
            initial_states = [
                cell.get_initial_states(
                    inputs, batch_dim_idx=1 if self.time_major else 0
                )
                for cell in cells
            ]
        elif len(initial_states) != 2:
            raise InvalidArgumentError(
                "[BiRNN] initial_states must be of both cells, "
                f"got {len(initial_states)}"
            )
        axis = 0 if self.time_major else 1
        (y, forward), (z, backward) = (
            _scan(cell, inputs, states, sequence_length, reverse, axis, kwargs)
            for cell, states, reverse in zip(
                cells, initial_states, (False, True), strict=True
            )
        )
        joined = tree_map(lambda a, b: ops.concat(a, b, axis=-1), y, z)
        return joined, (forward, backward)


class _RecurrentStack(LayerList, Generic[States]):
    """Recurrent layers one on another, the parameters also under flat names.

    Those are weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, then the same with
    _reverse for the second direction, then layer 1 (_l1) and on.
    """

    _components = 1

    def __init__(
        self,
        cell: Callable[[int], RNNCellBase],
        input_size: int,
        hidden_size: int,
        num_layers: int,
        direction: str,
        time_major: bool,
        dropout: float,
        biases: tuple[ParamAttrLike | None, ParamAttrLike | None],
    ) -> None:
        super().__init__()
        where = type(self).__name__
        if direction not in ("forward", "bidirect", "bidirectional"):
            raise InvalidArgumentError(
                f"[{where}] direction must be forward, bidirect or bidirectional, "
                f"got {direction!r}"
            )
        if num_layers < 1:
            raise InvalidArgumentError(
                f"[{where}] num_layers must be positive, got {num_layers}"
            )
        as_count(where, "num_layers", num_layers, LAYER_BYTES)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.num_layers, self.dropout = num_layers, dropout
        self.time_major = time_major
        self.num_directions = 1 if direction == "forward" else 2
        self.state_components = self._components
        for i in range(num_layers):
            size = input_size if i == 0 else self.num_directions * hidden_size
            if self.num_directions == 1:
                self.append(RNN(cell(size), False, time_major))
            else:
                self.append(BiRNN(cell(size), cell(size), time_major))
        self._name_parameters(biases)

    def _name_parameters(self, biases: tuple[object, object]) -> None:
        names = ["weight_ih", "weight_hh"]
        for name, attr in zip(("bias_ih", "bias_hh"), biases, strict=True):
            names += [name] if attr is not False else []
        for i, layer in enumerate(self):
            cells = layer._sub_layers.values()
            for cell, suffix in zip(cells, ("", "_reverse"), strict=False):
                for name in names:
                    setattr(self, f"{name}_l{i}{suffix}", getattr(cell, name))

    def _split(self, states: Any) -> list[Any]:
        """States (layers * directions, batch, hidden) for each layer and direction."""
        count, where = self.num_layers * self.num_directions, type(self).__name__
        parts = (states,) if self._components == 1 else tuple(states)
        if len(parts) != self._components:
            raise InvalidArgumentError(
                f"[{where}] initial_states must be a pair (h, c), got {len(parts)}"
            )
        for part in parts:
            if part.ndim != 3 or part.shape[0] not in (-1, count):
                raise ShapeError(
                    where,
                    f"initial_states must be ({count}, batch, {self.hidden_size})",
                    part.shape,
                )
        each = [
            tuple(ops.select(part, axis=0, index=i) for part in parts)
            for i in range(count)
        ]
        return [e[0] for e in each] if self._components == 1 else list(each)

    def forward(
        self,
        inputs: Tensor,
        initial_states: States | Sequence[Tensor] | None = None,
        sequence_length: Tensor | None = None,
    ) -> tuple[Tensor, States]:
        split = None if initial_states is None else self._split(initial_states)
        directions = self.num_directions
        finals: list[Any] = []
        out = inputs
        for i, layer in enumerate(self):
            if i > 0 and self.dropout:
                out = F.dropout(out, self.dropout, training=self.training)
            own = (
                None if split is None else split[i * directions : (i + 1) * directions]
            )
            if own is not None and directions == 1:
                own = own[0]
            out, final = layer(out, own, sequence_length)
            finals += [final] if directions == 1 else list(final)
        return out, tree_map(lambda *s: ops.stack(*s, axis=0), *finals)

    def flatten_parameters(self) -> None:
        """Kept for callers; the parameters stay where they are."""

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.time_major:
            text += f", time_major={self.time_major}"
        return text + (f", dropout={self.dropout}" if self.dropout else "")


class SimpleRNN(_RecurrentStack[Tensor]):
    """Layers of `SimpleRNNCell`.

    Args:
        input_size: Length of the input's last axis.
        hidden_size: Length of a state.
        num_layers: Layers one on another.
        direction: forward, or bidirect(ional): two cells a layer, outputs joined.
        time_major: Whether inputs and outputs are (time, batch, ..).
        dropout: Share of a layer's outputs dropped before the next, in training.
        activation: tanh or relu.
        weight_ih_attr: See `SimpleRNNCell`, also for the others.

    Shape:
        inputs (batch, time, input_size), initial_states (layers * directions, batch,
        hidden_size) or None for 0, sequence_length (batch,) or None. Returns outputs
        (batch, time, directions * hidden_size), 0 after a sequence's end, and the final
        states shaped as the initial ones.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        activation: str = "tanh",
        weight_ih_attr: ParamAttrLike | None = None,
        weight_hh_attr: ParamAttrLike | None = None,
        bias_ih_attr: ParamAttrLike | None = None,
        bias_hh_attr: ParamAttrLike | None = None,
        name: str | None = None,
    ) -> None:
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        super().__init__(
            lambda size: SimpleRNNCell(size, hidden_size, activation, *attrs),
            input_size, hidden_size, num_layers, direction, time_major, dropout,
            attrs[2:],
        )  # fmt: skip
        self.activation = activation


class _GatedStack(_RecurrentStack[States]):
    _cell: type[LSTMCell] | type[GRUCell]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: ParamAttrLike | None = None,
        weight_hh_attr: ParamAttrLike | None = None,
        bias_ih_attr: ParamAttrLike | None = None,
        bias_hh_attr: ParamAttrLike | None = None,
        name: str | None = None,
    ) -> None:
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        super().__init__(
            lambda size: self._cell(size, hidden_size, *attrs),
            input_size, hidden_size, num_layers, direction, time_major, dropout,
            attrs[2:],
        )  # fmt: skip


class LSTM(_GatedStack[tuple[Tensor, Tensor]]):
    """Layers of `LSTMCell`; arguments as `SimpleRNN` but for activation.

    Shape:
        As `SimpleRNN`, the states a pair (h, c).
    """

    _cell, _components = LSTMCell, 2


class GRU(_GatedStack[Tensor]):
    """Layers of `GRUCell`; arguments and shapes as `SimpleRNN` but for activation."""

    _cell = GRUCell
