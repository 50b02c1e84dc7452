"""Decoding step by step: the loop, and beam search."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.base.mode import static_builder
from proa.base.naming import mark_names
from proa.errors import InvalidArgumentError
from proa.nn import functional as F
from proa.nn.pytree import tree_map

if TYPE_CHECKING:
    from proa.nn.layer.rnn import RecurrentCell
    from proa.nn.pytree import Nest

__all__ = ["BeamSearchDecoder", "dynamic_decode"]

_INT64, _BOOL = as_dtype("int64"), as_dtype("bool")
#: Minus the logarithm of a probability that never wins.
_HUGE = 1e9


class BeamSearchDecoder:
    """Keeps the ``beam_size`` likeliest beginnings of each sequence.

    Args:
        cell: ``outputs, new_states = cell(inputs, states)``, such as a recurrent cell.
        start_token: The id each sequence begins with.
        end_token: The id that ends one.
        beam_size: How many beginnings are kept.
        embedding_fn: From ids to the cell's inputs; None gives it the ids.
        output_fn: From the cell's outputs to scores of the vocabulary; None leaves
            them as they are.

    Shapes: states and inputs are (batch, beam, ..) here and (batch * beam, ..) for the
    cell, embedding_fn's results (batch, beam, ..).
    """

    class OutputWrapper(NamedTuple):
        """One step: scores, ids and the beams they go on from, (batch, beam)."""

        scores: Tensor
        predicted_ids: Tensor
        parent_ids: Tensor

    class StateWrapper(NamedTuple):
        """The cell's states and each beam's log-probability, end and length."""

        cell_states: Nest
        log_probs: Tensor
        finished: Tensor
        lengths: Tensor

    def __init__(
        self,
        cell: RecurrentCell,
        start_token: int,
        end_token: int,
        beam_size: int,
        embedding_fn: Callable[[Tensor], Nest] | None = None,
        output_fn: Callable[[Any], Tensor] | None = None,
    ) -> None:
        if beam_size < 1:
            raise InvalidArgumentError(
                f"[BeamSearchDecoder] beam_size must be positive, got {beam_size}"
            )
        self.cell, self.beam_size = cell, beam_size
        self.embedding_fn, self.output_fn = embedding_fn, output_fn
        self.start_token, self.end_token = int(start_token), int(end_token)

    @staticmethod
    def tile_beam_merge_with_batch(x: Tensor, beam_size: int) -> Tensor:
        """(batch, ..) -> (batch * beam, ..), each sample repeated."""
        return _merged(_expanded(x, beam_size))

    @property
    def tracks_own_finished(self) -> bool:
        """True: beams change places, so the states report which have ended."""
        return True

    def initialize(
        self, initial_cell_states: Nest
    ) -> tuple[Nest, StateWrapper, Tensor]:
        """First inputs, states and ends, from states (batch, ..) of the cell."""
        states = tree_map(lambda s: _expanded(s, self.beam_size), initial_cell_states)
        first: Any = initial_cell_states
        while isinstance(first, (list, tuple)):
            first = first[0]
        # (batch, beam), also where the size of the batch is symbolic.
        first_column = (slice(None),) + (0,) * (first.ndim - 1)
        like = _expanded(first[first_column], self.beam_size)
        start = ops.full_like(like, value=self.start_token, dtype=_INT64)
        places = ops.arange(start=0, step=1, count=self.beam_size, dtype=_INT64)
        # The beams are equal at first; only one of them may go on.
        low = ops.cast(ops.where(ops.equal(places, 0), 0.0, -_HUGE), dtype=first.dtype)
        log_probs = ops.add(ops.full_like(like, value=0, dtype=first.dtype), low)
        finished = ops.full_like(like, value=False, dtype=_BOOL)
        lengths = ops.full_like(like, value=0, dtype=_INT64)
        inputs = start if self.embedding_fn is None else self.embedding_fn(start)
        return inputs, self.StateWrapper(states, log_probs, finished, lengths), finished

    def _chosen(
        self, logits: Tensor, next_states: Nest, state: StateWrapper
    ) -> tuple[OutputWrapper, StateWrapper]:
        vocabulary = logits.shape[-1]
        step = ops.log_softmax(logits)
        # A beam that has ended continues with end_token at no cost, and nothing else.
        ids = ops.arange(start=0, step=1, count=vocabulary, dtype=_INT64)
        ended = ops.where(ops.equal(ids, self.end_token), 0.0, -_HUGE)
        over = ops.unsqueeze(state.finished, axis=[2])
        step = ops.where(over, ops.cast(ended, dtype=step.dtype), step)
        total = ops.add(step, ops.unsqueeze(state.log_probs, axis=[2]))
        scores, index = ops.topk(
            ops.flatten(total, start_axis=1, stop_axis=2), k=self.beam_size
        )
        parent = ops.floor_div(index, vocabulary)
        token = ops.sub(index, ops.mul(parent, vocabulary))
        finished = ops.take_along_axis(state.finished, parent, axis=1)
        running = ops.cast(ops.logical_not(finished), dtype=_INT64)
        lengths = ops.add(ops.take_along_axis(state.lengths, parent, axis=1), running)
        finished = ops.logical_or(finished, ops.equal(token, self.end_token))
        cells = tree_map(lambda s: _picked(s, parent), next_states)
        return (
            self.OutputWrapper(scores, token, parent),
            self.StateWrapper(cells, scores, finished, lengths),
        )

    def step(
        self, time: Tensor, inputs: Nest, states: StateWrapper, **kwargs: object
    ) -> tuple[OutputWrapper, StateWrapper, Nest, Tensor]:
        """One step: (output, states, next inputs, which beams have ended)."""
        out, cells = self.cell(
            tree_map(_merged, inputs), tree_map(_merged, states.cell_states), **kwargs
        )
        out = out if self.output_fn is None else self.output_fn(out)
        beam = self.beam_size
        logits = _split(out, beam)
        output, new = self._chosen(
            logits, tree_map(lambda s: _split(s, beam), cells), states
        )
        ids = output.predicted_ids
        inputs = ids if self.embedding_fn is None else self.embedding_fn(ids)
        return output, new, inputs, new.finished

    def finalize(
        self,
        outputs: OutputWrapper,
        final_states: StateWrapper,
        sequence_lengths: Tensor,
    ) -> tuple[Tensor, StateWrapper]:
        """Whole sequences (time, batch, beam), the likeliest first."""
        return F.gather_tree(outputs.predicted_ids, outputs.parent_ids), final_states


def _expanded(x: Tensor, beam: int) -> Tensor:
    """(batch, ..) -> (batch, beam, ..)."""
    shape = [-1] * (x.ndim + 1)
    shape[1] = beam
    return ops.broadcast_to(ops.unsqueeze(x, axis=[1]), shape=shape)


def _merged(x: Tensor) -> Tensor:
    """(batch, beam, ..) -> (batch * beam, ..)."""
    return ops.flatten(x, start_axis=0, stop_axis=1)


def _split(x: Tensor, beam: int) -> Tensor:
    """(batch * beam, ..) -> (batch, beam, ..)."""
    return ops.reshape(x, shape=[-1, beam, *x.shape[1:]])


def _picked(x: Tensor, parent: Tensor) -> Tensor:
    """The beams of x (batch, beam, ..) named by parent (batch, beam)."""
    index = ops.unsqueeze(parent, axis=list(range(2, x.ndim)))
    return ops.take_along_axis(x, index, axis=1)


def dynamic_decode(
    decoder: Any,
    inits: Any = None,
    max_step_num: int | None = None,
    output_time_major: bool = False,
    impute_finished: bool = False,
    is_test: bool = False,
    return_length: bool = False,
    **kwargs: Any,
) -> Any:
    """Call ``decoder.step`` until every sequence has ended.

    Where a graph is recorded, max_step_num + 1 steps are: beams that have ended go on
    with their last token, so the results are longer than they are otherwise.

    Args:
        decoder: Has ``initialize(inits)`` -> (inputs, states, finished),
            ``step(time, inputs, states, **kwargs)`` -> (outputs, states, inputs,
            finished), and may have ``finalize(outputs, states, lengths)`` and
            ``tracks_own_finished``.
        inits: What initialize is given.
        max_step_num: The last step's number (steps count from 0); None for no end,
            which a graph needs.
        output_time_major: Whether outputs are (time, batch, ..) and not (batch, time).
        impute_finished: Whether states of ended sequences stay as they are (for
            decoders that do not track ends themselves).
        is_test: Kept for callers; has no meaning here.
        return_length: Whether to return the sequences' lengths too.

    Returns (outputs, final states) and, if requested, lengths.

    Raises:
        InvalidArgumentError: If nothing is to be decoded, or max_step_num is None where
            a graph is recorded.
    """
    inputs, states, finished = decoder.initialize(inits)
    if finished._is_symbolic and max_step_num is None:
        raise InvalidArgumentError(
            "[dynamic_decode] expected max_step_num where a graph is recorded, got None"
        )
    own = bool(getattr(decoder, "tracks_own_finished", False))
    lengths = ops.full_like(finished, value=0, dtype=_INT64)
    steps: list[Any] = []
    restart_names = mark_names()
    while finished._is_symbolic or not bool(ops.all(finished).item()):
        if static_builder() is not None:  # each step has the parameters of the first
            restart_names()
        time = ops.full(shape=[1], value=len(steps), dtype=_INT64)
        output, new, inputs, ended = decoder.step(time, inputs, states, **kwargs)
        if own:
            lengths = getattr(new, "lengths", lengths)
        else:
            ended = ops.logical_or(ended, finished)
            running = ops.cast(ops.logical_not(finished), dtype=_INT64)
            lengths = ops.add(lengths, running)
            if impute_finished:
                new = tree_map(lambda n, o, f=finished: _stopped(n, o, f), new, states)
        states, finished = new, ended
        steps.append(output)
        if max_step_num is not None and len(steps) > max_step_num:
            break
    if not steps:
        raise InvalidArgumentError(
            "[dynamic_decode] expected an unfinished sequence at the start, got none"
        )
    outputs = tree_map(lambda *ys: ops.stack(*ys, axis=0), *steps)
    if hasattr(decoder, "finalize"):
        outputs, states = decoder.finalize(outputs, states, lengths)
    if not output_time_major:
        outputs = tree_map(
            lambda y: ops.transpose(y, perm=[1, 0, *range(2, y.ndim)]), outputs
        )
    return (outputs, states, lengths) if return_length else (outputs, states)


def _stopped(new: Tensor, old: Tensor, finished: Tensor) -> Tensor:
    mask = ops.unsqueeze(finished, axis=list(range(finished.ndim, new.ndim)))
    return ops.where(mask, old, new)
