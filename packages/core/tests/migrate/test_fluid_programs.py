"""Whole programs as they were written for Paddle 1.x, rewritten by the tool and run.

Recognising digits, word vectors and clicks, in other words than the book of Paddle 1.x
and on small made-up data.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import proa

from .programs import migrated

pytest.importorskip("libcst")

DIGITS = '''
"""Which of four corners of a picture is bright?"""
import random

import numpy
import paddle
import paddle.fluid as fluid

BATCH_SIZE = 16


def pictures(count):
    def reader():
        noise = numpy.random.RandomState(count)
        for k in range(count):
            image = noise.rand(1, 12, 12).astype("float32") * 0.4
            row, column = divmod(k % 4, 2)
            image[0, 6 * row:6 * row + 6, 6 * column:6 * column + 6] += 0.6
            yield image.flatten() * 2.0 - 1.0, k % 4
    return reader


def loss_net(hidden, label):
    prediction = fluid.layers.fc(input=hidden, size=4, act="softmax")
    loss = fluid.layers.cross_entropy(input=prediction, label=label)
    return prediction, fluid.layers.mean(loss), fluid.layers.accuracy(prediction, label)


def convolutional_net(img, label):
    conv = fluid.nets.simple_img_conv_pool(
        input=img, filter_size=3, num_filters=4, pool_size=2, pool_stride=2, act="relu")
    conv = fluid.layers.batch_norm(conv)
    conv = fluid.nets.simple_img_conv_pool(
        input=conv, filter_size=2, num_filters=6, pool_size=2, pool_stride=2,
        act="relu")
    return loss_net(conv, label)


def train(folder):
    img = fluid.layers.data(name="img", shape=[1, 12, 12], dtype="float32")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    prediction, avg_cost, acc = convolutional_net(img, label)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.AdamOptimizer(learning_rate=0.01).minimize(avg_cost)

    use_cuda = fluid.core.is_compiled_with_cuda()
    place = fluid.CUDAPlace(0) if use_cuda else fluid.CPUPlace()
    exe = fluid.Executor(place)
    train_reader = paddle.batch(
        paddle.reader.shuffle(pictures(160), buf_size=500), batch_size=BATCH_SIZE)
    test_reader = paddle.batch(pictures(32), batch_size=BATCH_SIZE)
    feeder = fluid.DataFeeder(feed_list=["img", label], place=place)
    exe.run(fluid.default_startup_program())

    for epoch in range(4):
        for data in train_reader():
            exe.run(fluid.default_main_program(), feed=feeder.feed(data),
                    fetch_list=[avg_cost.name, acc.name])
    accuracy = fluid.metrics.Accuracy()
    for data in test_reader():
        value, = exe.run(test_program, feed=feeder.feed(data), fetch_list=[acc])
        accuracy.update(value=value, weight=len(data))
    fluid.io.save_inference_model(folder, ["img"], [prediction], exe)
    return accuracy.eval()


def infer(folder):
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        [program, feeds, fetches] = fluid.io.load_inference_model(folder, exe)
        images = numpy.stack([i for i, _ in pictures(8)()]).reshape([8, 1, 12, 12])
        results = exe.run(program, feed={feeds[0]: images}, fetch_list=fetches)
    return numpy.argsort(results[0])[:, -1]
'''


@pytest.mark.feature("L167")
def test_recognize_digits(tmp_path: Path) -> None:
    with migrated(DIGITS) as names:
        proa.seed(7)
        assert names["train"](str(tmp_path / "model")) > 0.9
        assert names["infer"](str(tmp_path / "model")).tolist() == [0, 1, 2, 3] * 2


WORDS = '''
"""The word after four words, by vectors that the four share."""
import numpy
import paddle
import paddle.fluid as fluid
from paddle.fluid.layers import embedding, fc

EMBED_SIZE, HIDDEN_SIZE, N = 8, 16, 5


def inference_program(words, dict_size):
    embeds = [
        embedding(input=word, size=[dict_size, EMBED_SIZE], dtype="float32",
                  is_sparse=True, param_attr="shared_w")
        for word in words
    ]
    context = fluid.layers.concat(input=embeds, axis=1)
    hidden1 = fc(input=context, size=HIDDEN_SIZE, act="sigmoid")
    return fc(input=hidden1, size=dict_size, act="softmax")


def sentences(dict_size):
    def reader():
        for start in range(dict_size):
            yield tuple((start + k * k) % dict_size for k in range(N))
    return reader


def train(dict_size, passes):
    names = ["firstw", "secondw", "thirdw", "fourthw", "nextw"]
    words = [fluid.layers.data(name=n, shape=[1], dtype="int64") for n in names]
    predict_word = inference_program(words[:-1], dict_size)
    cost = fluid.layers.cross_entropy(input=predict_word, label=words[-1])
    avg_cost = fluid.layers.mean(cost)
    optimizer = fluid.optimizer.AdagradOptimizer(
        learning_rate=fluid.layers.exponential_decay(
            0.3, decay_steps=100, decay_rate=0.9),
        regularization=fluid.regularizer.L2DecayRegularizer(8e-6))
    optimizer.minimize(avg_cost)
    place = fluid.CPUPlace()
    feeder = fluid.DataFeeder(feed_list=words, place=place)
    exe = fluid.Executor(place)
    exe.run(fluid.default_startup_program())
    losses = []
    for _ in range(passes):
        for data in paddle.batch(sentences(dict_size), 10)():
            value = exe.run(fluid.default_main_program(), feed=feeder.feed(data),
                            fetch_list=[avg_cost])
            losses.append(float(value[0]))
    return losses
'''


@pytest.mark.feature("L167")
def test_word_vectors() -> None:
    with migrated(WORDS) as names:
        proa.seed(1)
        losses = names["train"](20, 150)
        parameters = [
            p.name for p in proa.static.default_main_program().all_parameters()
        ]
    assert losses[0] == pytest.approx(np.log(20), rel=0.1)
    assert losses[-1] < 0.2
    assert parameters.count("shared_w") == 1 and len(parameters) == 5


CLICKS = '''
"""Whether an advertisement is clicked, by sparse words and dense numbers."""
import numpy as np
import paddle
import paddle.fluid as fluid

dense_feature_dim, sparse_feature_dim, embedding_size, slots = 3, 50, 4, 3


def ctr_dnn_model():
    dense_input = fluid.layers.data(
        name="dense_input", shape=[dense_feature_dim], dtype="float32")
    sparse_input_ids = [
        fluid.layers.data(name="C" + str(i), shape=[1], lod_level=1, dtype="int64")
        for i in range(slots)]
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")

    def embedding_layer(input):
        emb = fluid.layers.embedding(
            input=input, is_sparse=True, size=[sparse_feature_dim, embedding_size],
            param_attr=fluid.ParamAttr(
                name="SparseFeatFactors", initializer=fluid.initializer.Uniform()))
        return fluid.layers.sequence_pool(input=emb, pool_type="average")

    sparse_embed_seq = list(map(embedding_layer, sparse_input_ids))
    concated = fluid.layers.concat(sparse_embed_seq + [dense_input], axis=1)
    fc1 = fluid.layers.fc(
        input=concated, size=16, act="relu",
        param_attr=fluid.ParamAttr(initializer=fluid.initializer.Normal(
            scale=1 / np.sqrt(concated.shape[1]))))
    fc2 = fluid.layers.fc(input=fc1, size=8, act="relu")
    predict = fluid.layers.fc(input=fc2, size=2, act="softmax")
    cost = fluid.layers.cross_entropy(input=predict, label=label)
    avg_cost = fluid.layers.reduce_mean(cost)
    auc_var, batch_auc_var, auc_states = fluid.layers.auc(
        input=predict, label=label, num_thresholds=2 ** 12, slide_steps=20)
    return avg_cost, predict, auc_var, [dense_input] + sparse_input_ids + [label]


def samples(count, seed):
    noise = np.random.RandomState(seed)
    for _ in range(count):
        dense = noise.rand(dense_feature_dim).astype("float32")
        words = [noise.randint(0, sparse_feature_dim, noise.randint(1, 4)).tolist()
                 for _ in range(slots)]
        clicked = int(np.mean(words[0]) / sparse_feature_dim + 0.3 * dense[0] > 0.6)
        yield [dense] + words + [clicked]


def train(folder):
    avg_cost, predict, auc_var, data_list = ctr_dnn_model()
    fluid.optimizer.Adam(learning_rate=0.02).minimize(avg_cost)
    exe = fluid.Executor(fluid.CPUPlace())
    feeder = fluid.DataFeeder(feed_list=data_list, place=fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    for epoch in range(12):
        reader = paddle.batch(
            fluid.io.shuffle(lambda: samples(512, 0), buf_size=256), batch_size=64)
        for data in reader():
            loss_val, auc_val = exe.run(fluid.default_main_program(),
                                        feed=feeder.feed(data),
                                        fetch_list=[avg_cost, auc_var])
    fluid.io.save_persistables(exe, folder)
    return evaluate(exe, feeder, predict)


def evaluate(exe, feeder, predict):
    test = fluid.default_main_program().clone(for_test=True)
    metric = fluid.metrics.Auc("auc")
    for data in paddle.batch(lambda: samples(128, 1), batch_size=64)():
        found, = exe.run(test, feed=feeder.feed(data), fetch_list=[predict.name])
        labels = np.asarray([[sample[-1]] for sample in data])
        metric.update(preds=found, labels=labels)
    return metric.eval()


def resume(folder):
    """With what was saved, in another process."""
    avg_cost, predict, _, data_list = ctr_dnn_model()
    fluid.optimizer.Adam(learning_rate=0.02).minimize(avg_cost)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    fluid.io.load_persistables(exe, folder)
    return evaluate(exe, fluid.DataFeeder(data_list, None), predict)
'''


@pytest.mark.feature("L167")
def test_clicks_are_predicted_and_training_goes_on(tmp_path: Path) -> None:
    with migrated(CLICKS) as names:
        proa.seed(5)
        area = names["train"](str(tmp_path))
    assert area > 0.8
    # A file for each Variable, of its name: parameters, moments, the bins of the areas.
    assert (tmp_path / "SparseFeatFactors").is_file() and (
        tmp_path / "fc_0.w_0"
    ).is_file()
    with migrated(CLICKS) as names:
        assert names["resume"](str(tmp_path)) == pytest.approx(area)
