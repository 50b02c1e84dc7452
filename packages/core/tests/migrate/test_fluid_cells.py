"""A program of 1.x with a cell of its own, rewritten: attention, and a beam search."""

from __future__ import annotations

from pathlib import Path

import pytest

import proa

from .programs import migrated

pytest.importorskip("libcst")

PROGRAM = '''
"""Sentences of which each word becomes the one after it; padded, of any length."""
import numpy as np
import paddle
import paddle.fluid as fluid
import paddle.fluid.layers as layers

WORDS, WIDTH, BEGIN, END = 12, 16, 0, 1


class Attending(layers.RNNCell):
    def __init__(self):
        self.unit = layers.GRUCell(WIDTH)

    def call(self, word, state, memory, projected, mask):
        query = layers.unsqueeze(layers.fc(state, size=WIDTH, bias_attr=False), [1])
        mixed = layers.elementwise_add(projected, query)
        score = layers.fc(input=mixed, size=1, num_flatten_dims=2, bias_attr=False)
        score = layers.softmax(layers.elementwise_add(layers.squeeze(score, [2]), mask))
        context = layers.reduce_sum(
            layers.elementwise_mul(memory, score, axis=0), dim=1)
        return self.unit(layers.concat([word, context], axis=1), state)


def embedding(words, name):
    return fluid.embedding(input=words, size=[WORDS, WIDTH],
                           param_attr=fluid.ParamAttr(name=name))


def scores(x):
    return layers.fc(x, size=WORDS, num_flatten_dims=len(x.shape) - 1,
                     param_attr=fluid.ParamAttr(name="scores"))


def network(source, length, target=None, beams=3):
    words = embedding(source, "source_words")
    memory, state = layers.rnn(
        cell=layers.GRUCell(hidden_size=WIDTH), inputs=words, sequence_length=length)
    projected = layers.fc(memory, size=WIDTH, num_flatten_dims=2, bias_attr=False)
    mask = layers.sequence_mask(length, maxlen=layers.shape(source)[1], dtype="float32")
    mask = (mask - 1.0) * 1e9
    begin = layers.fc(state, size=WIDTH, act="tanh")
    cell = Attending()
    if target is not None:
        found, _ = layers.rnn(
            cell=cell, inputs=embedding(target, "target_words"), initial_states=begin,
            memory=memory, projected=projected, mask=mask)
        return scores(found)
    tile = layers.BeamSearchDecoder.tile_beam_merge_with_batch
    search = layers.BeamSearchDecoder(
        cell, start_token=BEGIN, end_token=END, beam_size=beams,
        embedding_fn=lambda x: embedding(x, "target_words"), output_fn=scores)
    found, _ = layers.dynamic_decode(
        search, inits=begin, max_step_num=4, memory=tile(memory, beams),
        projected=tile(projected, beams), mask=tile(mask, beams))
    return found


def sentences(count, seed):
    noise = np.random.RandomState(seed)
    for _ in range(count):
        source = noise.randint(2, WORDS - 1, noise.randint(1, 4)).tolist()
        yield source, [BEGIN] + [w + 1 for w in source], [w + 1 for w in source] + [END]


def padded(rows):
    lengths = np.array([len(row) for row in rows], dtype="int64")
    whole = [row + [END] * (max(lengths) - len(row)) for row in rows]
    return np.array(whole, dtype="int64"), lengths


def train(folder, passes):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        names = ["source", "length", "target", "target_length", "label"]
        shapes = [[None, None], [None], [None, None], [None], [None, None]]
        source, length, target, count, label = [
            fluid.data(name, shape, "int64") for name, shape in zip(names, shapes)]
        logits = network(source, length, target)
        cost = layers.cross_entropy(input=layers.softmax(logits), label=label)
        mask = layers.sequence_mask(
            count, maxlen=layers.shape(logits)[1], dtype="float32")
        cost = layers.reduce_sum(cost * mask) / layers.reduce_sum(mask)
        fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(clip_norm=5.0))
        rate = layers.noam_decay(WIDTH, 30)
        fluid.optimizer.Adam(learning_rate=rate).minimize(cost)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    losses = []
    for _ in range(passes):
        for batch in paddle.batch(lambda: sentences(64, 0), batch_size=16)():
            parts = list(zip(*batch))
            feed = dict(zip(names[:4], padded(parts[0]) + padded(parts[1])))
            feed["label"] = padded(parts[2])[0]
            losses.append(float(exe.run(main, feed=feed, fetch_list=[cost])[0]))
    fluid.io.save_params(exe, folder, main_program=main)
    return losses


def translate(folder, sources):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        found = network(fluid.data("source", [None, None], "int64"),
                        fluid.data("length", [None], "int64"))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    fluid.io.load_params(exe, folder, main_program=main)
    rows, lengths = padded(sources)
    feed = {"source": rows, "length": lengths}
    ids, = exe.run(main, feed=feed, fetch_list=[found])
    return [[int(w) for w in row[:, 0] if w != END] for row in ids]
'''


@pytest.mark.feature("L167")
def test_a_cell_of_the_program_translates_sentences_of_any_length(
    tmp_path: Path,
) -> None:
    with migrated(PROGRAM) as names:
        proa.seed(3)
        losses = names["train"](str(tmp_path), 40)
        assert losses[-1] < 0.1 < losses[0]
        sources = [source for source, _, _ in names["sentences"](64, 0)][:14]
        found = names["translate"](str(tmp_path), sources)
    assert found == [[word + 1 for word in source] for source in sources]
