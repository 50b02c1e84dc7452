"""Viterbi decoding against all paths tried."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import proa
from proa.errors import ShapeError
from proa.text import ViterbiDecoder, viterbi_decode

RNG = np.random.RandomState(0)


def brute_force(
    potentials: np.ndarray, transitions: np.ndarray, length: int, marked: bool
) -> tuple[float, tuple[int, ...]]:
    """The best score and path over all paths."""

    def score(path: tuple[int, ...]) -> float:
        total = sum(potentials[t, tag] for t, tag in enumerate(path))
        total += sum(transitions[a, b] for a, b in itertools.pairwise(path))
        if marked:
            total += transitions[-1, path[0]] + transitions[-2, path[-1]]
        return float(total)

    paths = itertools.product(range(potentials.shape[1]), repeat=length)
    return max((score(path), path) for path in paths)


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("lengths", [[5, 5, 5], [1, 5, 3], [2, 1, 2]])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_best_path_is_found(marked: bool, lengths: list[int], dtype: str) -> None:
    potentials = RNG.randn(3, 5, 4).astype(dtype)
    transitions = RNG.randn(4, 4).astype(dtype)
    scores, paths = viterbi_decode(
        proa.to_tensor(potentials), proa.to_tensor(transitions),
        proa.to_tensor(lengths), marked,
    )  # fmt: skip
    assert scores.dtype == dtype
    assert paths.dtype == "int64"
    assert paths.shape == [3, max(lengths)]
    for i, length in enumerate(lengths):
        score, path = brute_force(potentials[i], transitions, length, marked)
        np.testing.assert_allclose(float(scores[i]), score, rtol=1e-5)
        assert paths[i].tolist() == [*path, *[0] * (max(lengths) - length)]


def test_the_layer_keeps_its_transitions() -> None:
    transitions = proa.to_tensor(RNG.randn(4, 4).astype(np.float32))
    potentials = proa.to_tensor(RNG.randn(2, 3, 4).astype(np.float32))
    lengths = proa.to_tensor([3, 2])
    got = ViterbiDecoder(transitions, include_bos_eos_tag=False)(potentials, lengths)
    want = viterbi_decode(potentials, transitions, lengths, include_bos_eos_tag=False)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize(
    ("potentials", "transitions", "lengths", "message"),
    [([2, 3], [3, 3], [3, 3], r"\(batch, time, tags\)"),
     ([2, 3, 4], [3, 4], [3, 3], r"transition_params must be \(4, 4\)"),
     ([2, 3, 4], [4, 4], [3], r"lengths must be \(2,\)"),
     ([2, 3, 4], [4, 4], [3, 4], r"lengths must be 1 to 3, got \(3, 4\)"),
     ([2, 3, 4], [4, 4], [0, 3], r"lengths must be 1 to 3")],
)  # fmt: skip
def test_incompatible_shapes_are_rejected(
    potentials: list[int], transitions: list[int], lengths: list[int], message: str
) -> None:
    with pytest.raises(ShapeError, match=message):
        viterbi_decode(
            proa.zeros(potentials), proa.zeros(transitions), proa.to_tensor(lengths)
        )
