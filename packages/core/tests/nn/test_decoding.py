"""Beam search against a search of everything."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn import functional as F

START, END, VOCABULARY = 0, 1, 4


class _Table(nn.Layer):
    """A cell whose scores depend on the last id alone."""

    def __init__(self, scores: Any) -> None:
        super().__init__()
        self.table = proa.to_tensor(scores)

    def forward(self, ids: Any, states: Any) -> Any:
        return F.embedding(ids, self.table), states + 1


def _best(scores: Any, steps: int, count: int) -> list[tuple[list[int], float]]:
    """The likeliest sequences of some steps that end at END or at the last step."""
    log_p = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    found = []
    for path in itertools.product(range(VOCABULARY), repeat=steps):
        ended = path.index(END) if END in path else steps
        if any(k != END for k in path[ended:]):
            continue
        total, last = 0.0, START
        for k in path[: ended + 1]:
            total, last = total + log_p[last, k], k
        found.append((list(path), total))
    return sorted(found, key=lambda f: -f[1])[:count]


def test_a_wide_beam_finds_the_likeliest_sequences() -> None:
    scores = np.random.default_rng(2).normal(size=(VOCABULARY,) * 2).astype("float32")
    beam = VOCABULARY**2
    decoder = nn.BeamSearchDecoder(_Table(scores), START, END, beam)
    ids, states, lengths = nn.dynamic_decode(
        decoder, proa.zeros([2, 1]), max_step_num=2, return_length=True
    )
    assert ids.shape == [2, 3, beam]
    want = _best(scores, 3, 5)
    for b in range(2):
        for k, (path, total) in enumerate(want):
            assert ids.numpy()[b, :, k].tolist() == path
            assert states.log_probs.numpy()[b, k] == pytest.approx(total, abs=1e-4)
            size = path.index(END) + 1 if END in path else 3
            assert lengths.numpy()[b, k] == size
    np.testing.assert_array_equal(states.cell_states.numpy(), 3)


def test_decoding_stops_when_all_beams_have_ended() -> None:
    scores = np.full((VOCABULARY,) * 2, -5.0, "float32")
    scores[START, 2] = scores[2, END] = scores[3, END] = 5.0
    decoder = nn.BeamSearchDecoder(_Table(scores), START, END, 1)
    ids, _ = nn.dynamic_decode(
        decoder, proa.zeros([1, 1]), max_step_num=50, output_time_major=True
    )
    assert ids.numpy()[:, 0, 0].tolist() == [2, END]


def test_beam_search_over_a_recurrent_cell() -> None:
    cell, table = nn.LSTMCell(5, 6), nn.Embedding(VOCABULARY, 5)
    output = nn.Linear(6, VOCABULARY)
    decoder = nn.BeamSearchDecoder(cell, START, END, 3, table, output)
    assert decoder.tracks_own_finished
    states = cell.get_initial_states(proa.zeros([2, 5]))
    ids, final = nn.dynamic_decode(decoder, states, max_step_num=4)
    assert ids.shape[0] == 2 and ids.shape[2] == 3
    inputs, first, _ = decoder.initialize(states)
    out, after, _, _ = decoder.step(0, inputs, first)
    one = decoder.OutputWrapper(*(o.unsqueeze(0) for o in out))
    whole, same = decoder.finalize(one, after, after.lengths)
    np.testing.assert_array_equal(whole.numpy()[0], out.predicted_ids.numpy())
    assert same is after
    assert final.cell_states[1].shape == [2, 3, 6]
    log_probs = final.log_probs.numpy()
    assert (np.diff(log_probs) <= 0).all()


def test_a_decoder_of_ones_own() -> None:
    class Count:
        """Sample i ends after i + 1 steps."""

        def initialize(self, inits: Any) -> Any:
            return inits, inits, proa.to_tensor([False, False])

        def step(self, time: Any, inputs: Any, states: Any) -> Any:
            ended = proa.to_tensor([True, int(time) >= 1])
            return states + 10, states + 1, inputs, ended

    out, states, lengths = nn.dynamic_decode(
        Count(), proa.zeros([2]), impute_finished=True, return_length=True
    )
    np.testing.assert_array_equal(out.numpy(), [[10, 11], [10, 11]])
    np.testing.assert_array_equal(states.numpy(), [1, 2])
    np.testing.assert_array_equal(lengths.numpy(), [1, 2])


def test_gather_tree_follows_parents_from_the_end() -> None:
    rng = np.random.default_rng(0)
    ids, parents = rng.integers(0, 9, (4, 2, 3)), rng.integers(0, 3, (4, 2, 3))
    want = np.empty_like(ids)
    for b, k in np.ndindex(2, 3):
        beam = k
        for t in reversed(range(4)):
            want[t, b, k] = ids[t, b, beam]
            beam = parents[t, b, beam]
    got = F.gather_tree(proa.to_tensor(ids), proa.to_tensor(parents))
    np.testing.assert_array_equal(got.numpy(), want)
    with pytest.raises(ShapeError, match="parents must be"):
        F.gather_tree(proa.to_tensor(ids), proa.to_tensor(parents[1:]))


def test_tiling_repeats_each_sample() -> None:
    x = proa.arange(4).reshape([2, 2])
    tiled = nn.BeamSearchDecoder.tile_beam_merge_with_batch(x, 3)
    np.testing.assert_array_equal(tiled.numpy(), np.repeat(x.numpy(), 3, 0))
    with pytest.raises(InvalidArgumentError, match="beam_size must be positive"):
        nn.BeamSearchDecoder(None, START, END, 0)


@pytest.mark.feature("L101")
@pytest.mark.parametrize("dtype", ["int64", "float32", "bool"])
def test_sequence_mask(dtype: str) -> None:
    x = np.array([[0, 3], [1, 2]])
    want = (np.arange(4) < x[..., None]).astype(dtype)
    got = F.sequence_mask(proa.to_tensor(x), maxlen=4, dtype=dtype)
    np.testing.assert_array_equal(got.numpy(), want)
    assert str(got.dtype).endswith(dtype)
    free = F.sequence_mask(proa.to_tensor(x))
    np.testing.assert_array_equal(free.numpy(), want[..., :3])
