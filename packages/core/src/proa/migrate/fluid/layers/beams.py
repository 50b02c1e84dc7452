"""Search with beams of as many rows as are left, in arrays of such entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from proa import _core
from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.migrate.fluid.host_calls import Array, Like, Rows, on_host
from proa.nn.sequences import RowSequences, row_numbers_of
from proa.static import arrays
from proa.static.nn.sequence_arguments import (
    has_sequences,
    sequences_of,
    with_sequences,
)
from proa.static.program import Program
from proa.tensor.array import TensorArray
from proa.tensor.symbolic_dims import number_of

__all__ = ["beam_search", "beam_search_decode"]

#: Added to a place that a run is to refuse.
_BEYOND = 1 << 40


class RaggedArray:
    """An array whose entries may have different numbers of rows, one after another.

    Its parts are the rows, and for each level the lengths; each with the number that
    every entry has. Levels are those of the first entry. Entries are appended.
    """

    def __init__(self, program: Program, array: TensorArray) -> None:
        self._recorder = program.recorder
        first = array[0]
        own = sequences_of("array_write", first).levels if has_sequences(first) else []
        self.tail = tuple(int(n) for n in first.shape[1:])
        entries = [[x, *_levels(x, len(own))] for x in array]

        def joined(part: int) -> Callable[[], Tensor]:
            return lambda: ops.concat(*(entry[part] for entry in entries), axis=0)

        def counts(part: int) -> Callable[[], Tensor]:
            return lambda: ops.concat(*(_count(e[part]) for e in entries), axis=0)

        self.parts = [
            tuple(
                arrays.hoisted(self._recorder, array.depth, make)
                for make in (joined(part), counts(part))
            )
            for part in range(1 + len(own))
        ]

    def write(self, x: Tensor, i: Tensor) -> None:
        """Append an entry; runs refuse another place than that after the last one."""
        place = ops.cast(ops.reshape(i, shape=[1]), dtype="int64")
        wrong = ops.cast(ops.not_equal(place, self.length()), dtype="int64")
        for part, own in zip(self.parts, [x, *_levels(x, len(self.parts) - 1)],
                             strict=True):  # fmt: skip
            count = ops.gather(_count(own), ops.mul(wrong, _BEYOND), axis=0)
            for held, more in zip(part, (own, count), strict=True):
                result = ops.concat(held, more, axis=0)
                self._recorder.value_of(held)  # which a body around may have to carry
                _core.rebind_symbol(held, result)

    def read(self, i: Tensor) -> Tensor:
        """The entry at a place."""
        given = [t for part in self.parts for t in part]
        kind = self.parts[0][0].dtype.name
        levels = len(self.parts) - 1

        def pick(place: Array, *parts: Array) -> list[Array]:
            at = int(place.reshape(-1)[0])
            pairs = zip(parts[::2], parts[1::2], strict=True)
            return [_entries(rows, counts)[at] for rows, counts in pairs]

        likes = [Like(kind, (None, *self.tail))] + [Like("int64", (None,))] * levels
        rows, *lengths = on_host(pick, [i, *given], likes)
        if not levels:
            return rows
        return with_sequences(rows, RowSequences(lengths, None, rows))

    def length(self) -> Tensor:
        """How many entries there are, int64 (1,)."""
        return arrays.count_rows(self.parts[0][1])


def _count(x: Tensor) -> Tensor:
    """How many rows it has, int64 (1,)."""
    size = ops.cast(number_of(x.shape[0]), dtype="int64")
    return ops.reshape(size, shape=[1])


def _levels(x: Tensor, count: int) -> list[Tensor]:
    """The lengths of x by level; of one level, each row is one where it has none."""
    if not count:
        return []
    own = sequences_of("array_write", x).levels if has_sequences(x) else []
    if len(own) == count:
        return list(own)
    if own or count > 1:
        raise InvalidArgumentError(
            f"[array_write] entries of the array have {count} levels of lengths, got "
            f"{len(own)}"
        )
    return [ops.full_like(row_numbers_of(x), value=1, dtype="int64")]


def _entries(rows: Array, counts: Array) -> list[Array]:
    return list(np.split(rows, np.cumsum(counts)[:-1]))


def _two_levels(given: Sequence[Any]) -> list[list[int]]:
    for each in given:
        if isinstance(each, Rows) and len(each.lengths) == 2:
            return each.lengths
    raise InvalidArgumentError(
        "[beam_search] expected scores, or what was selected before, with two levels "
        "of lengths: those of sources, and of beams"
    )


def _plain(given: Any) -> Array:
    array: Array = given.array if isinstance(given, Rows) else given
    return array


def _choose(
    chosen: list[list[tuple[int, float]]], beams: range, end_id: int, beam_size: int,
    old: Array, before: Array, own: Array, total: Array,
) -> None:  # fmt: skip
    """Put the best candidates of a source into the lists of its beams.

    Args:
        chosen: Words and scores of each beam.
        beams: Those of the source.
        end_id: The word that ends a beam.
        beam_size: How many candidates are kept.
        old: The beams' last words.
        before: The beams' scores.
        own: Candidates of each beam.
        total: Their scores.
    """
    found = []
    for beam in beams:
        if old[beam] == end_id:
            found.append((float(before[beam]), beam, end_id))
            continue
        pairs = zip(total[beam], own[beam], strict=True)
        found += [(float(s), beam, int(word)) for s, word in pairs]
    best = sorted(found, key=lambda each: (-each[0], -each[1]))[:beam_size]
    if all(word == end_id and old[beam] == end_id for _, beam, word in best):
        return
    for score, beam, word in best:
        chosen[beam].append((word, score))


def beam_search(
    pre_ids: Tensor,
    pre_scores: Tensor,
    ids: Tensor | None,
    scores: Tensor,
    beam_size: int,
    end_id: int,
    level: int = 0,
    is_accumulated: bool = True,
    name: str | None = None,
    return_parent_idx: bool = False,
) -> tuple[Tensor, ...]:
    """A step of a search: the best candidates of each source.

    A beam that has ended has itself as its one candidate; a source all of whose beams
    have ended is left out from the step after on.

    Args:
        pre_ids: The last words of the beams (n, 1), with two levels of lengths.
        pre_scores: Their scores (n, 1).
        ids: Candidates of each beam (n, k); None for words 0 to k - 1.
        scores: Their scores (n, k), with those of the beams.
        beam_size: How many candidates of a source are kept.
        end_id: The word that ends a beam.
        level: Must be 0.
        is_accumulated: Whether scores are sums of logarithms; else they are
            probabilities.
        name: Has no meaning here.
        return_parent_idx: Whether the beams that candidates continue are given, too.

    Returns:
        Words and scores (m, 1), whose first level of lengths is the number of beams of
        each source, and whose second one is that of each beam's candidates.
    """
    if level:
        raise InvalidArgumentError(f"[beam_search] expected level=0, got {level}")

    def search(words: Any, sums: Any, *rest: Any) -> list[Any]:
        lengths = _two_levels([rest[-1], words, sums])
        old, before = _plain(words).reshape(-1), _plain(sums).reshape(-1)
        rate = _plain(rest[-1]).reshape(len(old), -1)
        wide = np.broadcast_to(np.arange(rate.shape[1]), rate.shape)
        own = _plain(rest[0]).reshape(rate.shape) if len(rest) > 1 else wide
        total = rate if is_accumulated else before[:, None] + np.log(rate)
        ends = np.cumsum([0, *lengths[1]])[np.cumsum([0, *lengths[0]])]
        chosen: list[list[tuple[int, float]]] = [[] for _ in old]
        for low, high in pairwise(ends):
            _choose(chosen, range(low, high), end_id, beam_size, old, before, own,
                    total)  # fmt: skip
        flat = [each for beam in chosen for each in beam]
        found = [np.diff(ends).tolist(), [len(beam) for beam in chosen]]
        parents = np.repeat(np.arange(len(chosen)), found[1])
        words = np.asarray([w for w, _ in flat], "int64").reshape(-1, 1)
        sums = np.asarray([s for _, s in flat], "float32").reshape(-1, 1)
        return [Rows(words, found), Rows(sums, found), parents]

    given = [pre_ids, pre_scores, *([] if ids is None else [ids]), scores]
    likes = [Like("int64", (None, 1), 2), Like("float32", (None, 1), 2)]
    *result, parents = on_host(search, given, [*likes, Like("int32", (None,))])
    return (*result, parents) if return_parent_idx else tuple(result)


def beam_search_decode(
    ids: TensorArray,
    scores: TensorArray,
    beam_size: int,
    end_id: int,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The sentences that a search has found, by falling score.

    Args:
        ids: What `beam_search` selected in each step.
        scores: The scores of that.
        beam_size: How many sentences a source has.
        end_id: The word that ends a sentence, which is given once.
        name: Has no meaning here.

    Returns:
        Words and their scores (n,), whose first level of lengths is the number of
        sentences of each source, and whose second one is that of each sentence's words.

    Raises:
        InvalidArgumentError: If these are no arrays of a loop with `beam_search`.
    """
    held = [
        store
        for store in (getattr(array, "store", None) for array in (ids, scores))
        if isinstance(store, RaggedArray) and len(store.parts) == 3
    ]
    if len(held) != 2:
        raise InvalidArgumentError(
            "[beam_search_decode] expected arrays that a While loop wrote what "
            "beam_search selected to"
        )

    def decode(*parts: Array) -> list[Rows]:
        pairs = list(zip(parts[::2], parts[1::2], strict=True))
        words, sources, beams, sums = (_entries(*pairs[k]) for k in (0, 1, 2, 3))
        found = [
            _sentences(source, words, sums, sources, beams, end_id)
            for source in range(len(sources[0]))
        ]
        for each in found:
            each.sort(key=lambda sentence: -sentence[1][-1] if sentence[1] else np.inf)
            each += [([], [])] * (beam_size - len(each))
        flat = [sentence for each in found for sentence in each]
        lengths = [[len(each) for each in found], [len(w) for w, _ in flat]]
        return [
            Rows(np.asarray([x for s in flat for x in s[k]]), lengths) for k in range(2)
        ]

    ids_store, scores_store = held
    given = [t for part in ids_store.parts for t in part] + [*scores_store.parts[0]]
    likes = [Like("int64", (None,), 2), Like("float32", (None,), 2)]
    words, sums = on_host(decode, given, likes)
    return words, sums


def _sentences(
    source: int, words: Sequence[Array], sums: Sequence[Array],
    sources: Sequence[Array], beams: Sequence[Array], end_id: int,
) -> list[tuple[list[int], list[float]]]:  # fmt: skip
    """The sentences of a source, each read from its last word to its first one."""
    places: list[int] = []
    found: list[tuple[list[int], list[float]]] = []
    for step in reversed(range(len(words))):
        starts = np.cumsum([0, *sources[step]])
        low, high = starts[source], starts[source + 1]
        rows = np.cumsum([0, *beams[step]])
        parent = np.repeat(np.arange(len(beams[step])), beams[step])
        if not places:
            places = list(range(rows[low], rows[high]))
            found = [([], []) for _ in places]
        for i, place in enumerate(places):
            word, own = int(words[step][place, 0]), found[i]
            if word != end_id or not own[0]:
                own[0].insert(0, word)
                own[1].insert(0, float(sums[step][place, 0]))
            places[i] = int(parent[place])
    return found
