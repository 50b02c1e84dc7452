"""Functions of sequences of 1.x give the same of padded sequences with lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa.static import create_lod_tensor

from .programs import migrated

pytest.importorskip("libcst")

PROGRAM = """
import paddle.fluid as fluid
from paddle.fluid import layers

named = lambda: fluid.ParamAttr(name='moves', initializer=fluid.initializer.Normal())

def build():
    rows = layers.data('rows', [3], lod_level=1)
    tags = layers.data('tags', [1], dtype='int64', lod_level=1)
    scores = fluid.data('scores', [None, 3, 3], 'float32')
    padded = fluid.data('padded', [None, 3], 'int64')
    length = fluid.data('length', [None], 'int64')
    label = layers.unsqueeze(padded, [2])
    return [
        layers.linear_chain_crf(rows, tags, named()),
        layers.linear_chain_crf(scores, label, named(), length=length),
        layers.crf_decoding(rows, named()),
        layers.crf_decoding(scores, named(), length=length),
        *layers.ctc_greedy_decoder(scores, 2, input_length=length, padding_value=-1),
        *layers.edit_distance(padded, padded, input_length=length, label_length=length),
        *layers.chunk_eval(padded, padded, 'plain', 2, seq_length=length),
    ]

def run(feed):
    fetch = build()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe.run(feed=feed, fetch_list=fetch)
"""


def test_padded_sequences_give_what_rows_give() -> None:
    lengths, rng = [2, 3], np.random.default_rng(2)
    rows = rng.normal(size=(5, 3)).astype("float32")
    tags = np.asarray([[0], [2], [1], [1], [0]])
    scores = np.zeros((2, 3, 3), "float32")
    padded = np.zeros((2, 3), "int64")
    for k, own in enumerate(np.split(np.arange(5), [2])):
        scores[k, : len(own)] = rows[own]
        padded[k, : len(own)] = tags[own, 0]
    feed = {
        "rows": create_lod_tensor(rows, [lengths]),
        "tags": create_lod_tensor(tags, [lengths]),
        "scores": scores, "padded": padded, "length": np.asarray(lengths),
    }  # fmt: skip
    with migrated(PROGRAM) as names:
        found = [np.asarray(x) for x in names["run"](feed)]
    cost, cost_padded, path, path_padded, ids, counts, distance, number, *rates = found
    np.testing.assert_allclose(cost_padded, cost, rtol=1e-5)
    flat = np.concatenate([p[:n] for p, n in zip(path_padded, lengths, strict=True)])
    np.testing.assert_array_equal(path[:, 0], flat)
    decoded = zip(np.split(rows, [2]), ids, counts, strict=True)
    for own, labels, count in decoded:
        best = own.argmax(1)
        merged = [
            b for k, b in enumerate(best) if b != 2 and (not k or b != best[k - 1])
        ]
        assert labels.tolist() == merged + [-1] * (3 - len(merged))
        assert count == len(merged)
    assert distance.tolist() == [[0.0], [0.0]] and number == 2
    # Chunks of one type: [0], then [1, 1] and [0]; 2 is outside.
    assert [r.item() for r in rates] == pytest.approx([1, 1, 1, 3, 3, 3])


def test_a_loop_runs_at_once_in_dynamic_mode() -> None:
    layers = proa.migrate.fluid.layers
    i, limit = proa.zeros([1], "int64"), proa.full([1], 3, "int64")
    going = proa.less_than(i, limit)
    loop: Any = layers.While(going)

    @loop.block()
    def _body() -> None:
        proa.increment(i)
        proa.assign(proa.less_than(i, limit), going)

    assert i.item() == 3
