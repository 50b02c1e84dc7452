"""Whole programs of sequences as they were written for Paddle 1.x, rewritten and run.

The sentiment of reviews and translation, in other words than the book of Paddle 1.x and
on small made-up data.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import proa

from .programs import migrated

pytest.importorskip("libcst")

SENTIMENT = '''
"""Whether a review is good, by stacked LSTMs, by a DynamicRNN and by convolutions."""
import numpy as np
import paddle
import paddle.fluid as fluid

EMB, HID = 8, 8


def stacked_lstm_net(data, input_dim):
    emb = fluid.layers.embedding(input=data, size=[input_dim, EMB], is_sparse=True)
    fc1 = fluid.layers.fc(input=emb, size=4 * HID)
    lstm1, cell1 = fluid.layers.dynamic_lstm(input=fc1, size=4 * HID)
    inputs = [fc1, lstm1]
    fc = fluid.layers.fc(input=inputs, size=4 * HID)
    lstm, cell = fluid.layers.dynamic_lstm(input=fc, size=4 * HID, is_reverse=True)
    fc_last = fluid.layers.sequence_pool(input=fc, pool_type="max")
    lstm_last = fluid.layers.sequence_pool(input=lstm, pool_type="max")
    return fluid.layers.fc(input=[fc_last, lstm_last], size=2, act="softmax")


def dynamic_rnn_lstm(data, input_dim):
    sentence = fluid.layers.embedding(input=data, size=[input_dim, EMB])
    sentence = fluid.layers.fc(input=sentence, size=HID, act="tanh")
    rnn = fluid.layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(sentence)
        prev_hidden = rnn.memory(value=0.0, shape=[HID])
        prev_cell = rnn.memory(value=0.0, shape=[HID])

        def gate_common(ipt, hidden, size):
            gate0 = fluid.layers.fc(input=ipt, size=size, bias_attr=True)
            gate1 = fluid.layers.fc(input=hidden, size=size, bias_attr=False)
            return fluid.layers.sums(input=[gate0, gate1])

        forget_gate = fluid.layers.sigmoid(x=gate_common(word, prev_hidden, HID))
        input_gate = fluid.layers.sigmoid(x=gate_common(word, prev_hidden, HID))
        output_gate = fluid.layers.sigmoid(x=gate_common(word, prev_hidden, HID))
        cell_gate = fluid.layers.tanh(x=gate_common(word, prev_hidden, HID))
        cell = fluid.layers.sums(input=[
            fluid.layers.elementwise_mul(x=forget_gate, y=prev_cell),
            fluid.layers.elementwise_mul(x=input_gate, y=cell_gate)])
        hidden = fluid.layers.elementwise_mul(output_gate, fluid.layers.tanh(x=cell))
        rnn.update_memory(prev_cell, cell)
        rnn.update_memory(prev_hidden, hidden)
        rnn.output(hidden)
    last = fluid.layers.sequence_last_step(rnn())
    return fluid.layers.fc(input=last, size=2, act="softmax")


def convolution_net(data, input_dim):
    emb = fluid.layers.embedding(input=data, size=[input_dim, EMB])
    convs = [fluid.nets.sequence_conv_pool(
        input=emb, num_filters=HID, filter_size=size, act="tanh", pool_type="sqrt")
        for size in (3, 4)]
    return fluid.layers.fc(input=convs, size=2, act="softmax")


def reviews(input_dim):
    """A review is good if its first word is in the second half of the dictionary."""
    noise = np.random.RandomState(3)
    for _ in range(64):
        words = noise.randint(0, input_dim, noise.randint(1, 7))
        yield words.tolist(), int(words[0] >= input_dim // 2)


def train(net, input_dim, passes, rate):
    data = fluid.layers.data(name="words", shape=[1], dtype="int64", lod_level=1)
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    prediction = globals()[net](data, input_dim)
    cost = fluid.layers.mean(fluid.layers.cross_entropy(input=prediction, label=label))
    accuracy = fluid.layers.accuracy(input=prediction, label=label)
    fluid.optimizer.Adam(learning_rate=rate).minimize(cost)
    place = fluid.CPUPlace()
    exe = fluid.Executor(place)
    feeder = fluid.DataFeeder([data, label], place)
    exe.run(fluid.default_startup_program())
    for _ in range(passes):
        got = []
        for batch in paddle.batch(lambda: reviews(input_dim), batch_size=32)():
            got.append(exe.run(feed=feeder.feed(batch), fetch_list=[accuracy]))
    return float(np.mean(got))
'''


@pytest.mark.feature("L167")
@pytest.mark.parametrize(
    "net", ["stacked_lstm_net", "dynamic_rnn_lstm", "convolution_net"]
)
def test_sentiment_of_reviews(net: str) -> None:
    with migrated(SENTIMENT) as names:
        proa.seed(2)
        assert names["train"](net, 12, 40, 0.05) > 0.9


TRANSLATION = '''
"""Words of one language into those of another, with attention; read by a While loop."""
import numpy as np
import paddle
import paddle.fluid as fluid
import paddle.fluid.layers as pd
from paddle.fluid.executor import Executor

dict_size, word_dim, hidden_dim, decoder_size = 10, 16, 16, 16
start_id, end_id, max_length = 0, 1, 6


def encoder():
    src_word_id = pd.data(name="src_word_id", shape=[1], dtype="int64", lod_level=1)
    src_embedding = pd.embedding(input=src_word_id, size=[dict_size, word_dim],
                                 param_attr=fluid.ParamAttr(name="vemb"))
    fc_forward = pd.fc(input=src_embedding, size=hidden_dim * 3, bias_attr=False)
    src_forward = pd.dynamic_gru(input=fc_forward, size=hidden_dim)
    fc_backward = pd.fc(input=src_embedding, size=hidden_dim * 3, bias_attr=False)
    src_backward = pd.dynamic_gru(input=fc_backward, size=hidden_dim, is_reverse=True)
    encoded_vector = pd.concat(input=[src_forward, src_backward], axis=1)
    encoded_proj = pd.fc(input=encoded_vector, size=decoder_size, bias_attr=False)
    backward_first = pd.sequence_pool(input=src_backward, pool_type="first")
    decoder_boot = pd.fc(input=backward_first, size=decoder_size, act="tanh")
    return encoded_vector, encoded_proj, decoder_boot


def attention(encoder_vec, encoder_proj, decoder_state):
    state_proj = pd.fc(input=decoder_state, size=decoder_size, bias_attr=False,
                       param_attr=fluid.ParamAttr(name="att_state"))
    state_expand = pd.sequence_expand(x=state_proj, y=encoder_proj)
    mixed = pd.tanh(pd.elementwise_add(encoder_proj, state_expand))
    weights = pd.fc(input=mixed, size=1, bias_attr=False,
                    param_attr=fluid.ParamAttr(name="att_score"))
    weights = pd.sequence_softmax(input=weights)
    scaled = pd.elementwise_mul(x=encoder_vec, y=pd.reshape(weights, [-1]), axis=0)
    return pd.sequence_pool(input=scaled, pool_type="sum")


def decoder_step(word_emb, state, context):
    inputs = pd.fc(input=[context, word_emb], size=decoder_size * 3, bias_attr=False,
                   param_attr=[fluid.ParamAttr(name="dec_c"),
                               fluid.ParamAttr(name="dec_w")])
    hidden, _, _ = pd.gru_unit(
        input=inputs, hidden=state, size=decoder_size * 3, bias_attr=False,
        param_attr=fluid.ParamAttr(name="dec_gru"))
    out = pd.fc(input=hidden, size=dict_size, act="softmax",
                param_attr=fluid.ParamAttr(name="out_w"),
                bias_attr=fluid.ParamAttr(name="out_b"))
    return hidden, out


def target_embedding(word):
    return pd.embedding(input=word, size=[dict_size, word_dim],
                        param_attr=fluid.ParamAttr(name="target_emb"))


def train_decoder(encoder_vec, encoder_proj, decoder_boot):
    trg_word = pd.data(name="target_word", shape=[1], dtype="int64", lod_level=1)
    rnn = pd.DynamicRNN()
    with rnn.block():
        current_word = rnn.step_input(target_embedding(trg_word))
        vec = rnn.static_input(encoder_vec)
        proj = rnn.static_input(encoder_proj)
        hidden_mem = rnn.memory(init=decoder_boot, need_reorder=True)
        context = attention(vec, proj, hidden_mem)
        hidden, out = decoder_step(current_word, hidden_mem, context)
        rnn.update_memory(hidden_mem, hidden)
        rnn.output(out)
    return rnn()


def decode(encoder_vec, encoder_proj, decoder_boot):
    """The most probable words, by a loop over arrays of words and states."""
    array_len = pd.fill_constant(shape=[1], dtype="int64", value=max_length)
    counter = pd.zeros(shape=[1], dtype="int64", force_cpu=True)
    state_array = pd.create_array("float32")
    pd.array_write(decoder_boot, array=state_array, i=counter)
    ids_array = pd.create_array("int64")
    first = pd.fill_constant_batch_size_like(
        input=decoder_boot, shape=[-1, 1], dtype="int64", value=start_id)
    pd.array_write(first, array=ids_array, i=counter)
    cond = pd.less_than(x=counter, y=array_len)
    while_op = pd.While(cond=cond)
    with while_op.block():
        pre_ids = pd.array_read(array=ids_array, i=counter)
        pre_state = pd.array_read(array=state_array, i=counter)
        context = attention(encoder_vec, encoder_proj, pre_state)
        state, probability = decoder_step(target_embedding(pre_ids), pre_state, context)
        scores, indices = pd.topk(probability, k=1)
        ended = pd.reduce_all(pd.equal(indices, pd.fill_constant([1], "int64", end_id)))
        with pd.Switch() as switch:
            with switch.case(ended):
                pd.fill_constant(
                    shape=[1], value=0, dtype="bool", force_cpu=True, out=cond)
            with switch.default():
                pd.increment(x=counter, value=1, in_place=True)
                pd.array_write(state, array=state_array, i=counter)
                pd.array_write(indices, array=ids_array, i=counter)
                pd.less_than(x=counter, y=array_len, cond=cond)
    words, _ = fluid.layers.tensor_array_to_tensor([pd.array_read(ids_array, counter)])
    return words, pd.array_length(ids_array), ids_array


def pairs(count):
    """The translation of a word is the word after it; sentences keep their order."""
    noise = np.random.RandomState(0)
    for _ in range(count):
        source = noise.randint(2, dict_size - 1, noise.randint(1, 4)).tolist()
        target = [word + 1 for word in source]
        yield source, [start_id] + target, target + [end_id]


def train(passes):
    prediction = train_decoder(*encoder())
    label = pd.data(name="target_next_word", shape=[1], dtype="int64", lod_level=1)
    avg_cost = pd.mean(pd.cross_entropy(input=prediction, label=label))
    fluid.optimizer.Adam(
        learning_rate=0.03,
        regularization=fluid.regularizer.L2DecayRegularizer(1e-5)).minimize(avg_cost)
    exe = Executor(fluid.CPUPlace())
    exe.run(fluid.framework.default_startup_program())
    feeder = fluid.DataFeeder(["src_word_id", "target_word", "target_next_word"], None)
    losses = []
    for _ in range(passes):
        for data in paddle.batch(lambda: pairs(64), batch_size=32)():
            loss, = exe.run(fluid.framework.default_main_program(),
                            feed=feeder.feed(data), fetch_list=[avg_cost])
            losses.append(float(loss))
    return losses


def translate(sentences):
    """With the parameters of training, in a program of its own."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        _, count, ids = decode(*encoder())
        places = [pd.fill_constant([1], "int64", k) for k in range(1, 4)]
        words = [pd.array_read(ids, k) for k in places]
    lengths = [[len(s) for s in sentences]]
    rows = np.concatenate([np.asarray(s, "int64") for s in sentences]).reshape([-1, 1])
    feed = {"src_word_id": fluid.create_lod_tensor(rows, lengths, fluid.CPUPlace())}
    exe = Executor(fluid.CPUPlace())
    found = exe.run(main, feed=feed, fetch_list=[count] + words)
    return int(found[0][0]), np.concatenate(found[1:], 1).tolist()
'''


@pytest.mark.feature("L167")
def test_translation_with_attention_and_a_loop_that_decodes() -> None:
    with migrated(TRANSLATION) as names:
        proa.seed(4)
        losses = names["train"](40)
        assert losses[-1] < 0.2 < losses[0]
        pairs = [pair for pair in names["pairs"](64) if len(pair[0]) == 3]
        count, words = names["translate"]([source for source, _, _ in pairs])
    assert count == 4  # the first word and three more
    assert words == [target[1:] for _, target, _ in pairs]


CELLS = '''
"""Sequences read by a cell, and written by a search with beams."""
import numpy as np
import paddle.fluid as fluid
import paddle.fluid.layers as layers

VOCABULARY, WIDTH, START, END = 7, 12, 0, 1


def build(beam_size, steps):
    source = fluid.data("source", [None, 3], "int64")
    length = fluid.data("length", [None], "int64")
    embed = lambda x: fluid.embedding(
        x, [VOCABULARY, WIDTH], param_attr=fluid.ParamAttr(name="words"))
    encoder = layers.GRUCell(hidden_size=WIDTH)
    _, state = layers.rnn(encoder, embed(source), sequence_length=length)
    cell = layers.GRUCell(hidden_size=WIDTH)
    output = lambda x: layers.fc(
        x, VOCABULARY, num_flatten_dims=len(x.shape) - 1, bias_attr=False,
        param_attr=fluid.ParamAttr(name="out"))
    decoder = layers.BeamSearchDecoder(
        cell, start_token=START, end_token=END, beam_size=beam_size,
        embedding_fn=embed, output_fn=output)
    outputs, _ = layers.dynamic_decode(decoder, inits=state, max_step_num=steps)
    return outputs


def run(outputs, feed):
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    found, = exe.run(feed=feed, fetch_list=[outputs])
    return found
'''


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _gru(x: Any, h: Any, weights: Any) -> Any:
    gw, gb, cw, cb = weights
    r, u = np.split(_sigmoid(np.append(x, h) @ gw + gb), 2)
    return u * h + (1 - u) * np.tanh(np.append(x, r * h) @ cw + cb)


@pytest.mark.feature("L167")
def test_a_search_with_beams_finds_the_best_of_all_sequences() -> None:
    """A beam as wide as the vocabulary squared loses nothing in three steps."""
    with migrated(CELLS) as names:
        proa.seed(3)
        outputs = names["build"](49, 2)
        feed = {"source": np.asarray([[3, 4, 2]]), "length": np.asarray([3])}
        found = np.asarray(names["run"](outputs, feed))
        scope = proa.static.global_scope()
        values = {
            p.name: np.array(scope.find_var(p.name).get_tensor())
            for p in proa.static.default_main_program().all_parameters()
        }
    table, out = values.pop("words"), values.pop("out")
    parts = list(values.values())
    encoder, cell = parts[:4], parts[4:]
    state = np.zeros(12)
    for word in (3, 4, 2):
        state = _gru(table[word], state, encoder)

    def score(path: tuple[int, ...]) -> float:
        h, word, total = state, 0, 0.0
        for following in path:
            h = _gru(table[word], h, cell)
            logits = h @ out
            total += logits[following] - np.log(np.exp(logits).sum())
            word = following
            if word == 1:
                break
        return total

    steps = found.shape[1]
    best = max(product(range(7), repeat=steps), key=score)
    assert score(tuple(found[0, :, 0])) == pytest.approx(score(best), rel=1e-4)
