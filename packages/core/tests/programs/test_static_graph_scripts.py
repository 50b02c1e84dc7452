"""Programs for the static graph as tutorials write them, on small data.

Each builds its network statement by statement, trains by an `Executor`, and is compared
with the same network in dynamic mode or in NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa as paddle
from proa import static
from proa.nn import functional as F

from .inference_models import check_saved

RNG = np.random.default_rng(0)
FIRST = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def static_graph() -> Iterator[None]:
    """What a script that begins with ``paddle.enable_static()`` has for itself."""
    paddle.enable_static()
    try:
        with (
            static.program_guard(static.Program(), static.Program()),
            static.scope_guard(static.Scope()),
            paddle.utils.unique_name.guard(),
        ):
            paddle.seed(1)
            RNG.bit_generator.state = FIRST
            yield
    finally:
        paddle.disable_static()


def started() -> static.Executor:
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())
    return exe


def held() -> dict[str, Any]:
    """Persistable values by name."""
    found = static.default_main_program().state_dict()
    return {name: t.numpy().copy() for name, t in found.items()}


# -- recognize digits: two groups of convolution and pooling -------------------------
def digits(count: int) -> tuple[Any, Any]:
    """Images of bars, whose places are their classes, in noise."""
    labels = RNG.integers(0, 10, (count, 1))
    images = 0.3 * RNG.normal(size=(count, 1, 20, 20))
    for image, (label,) in zip(images, labels, strict=True):
        image[0, 2 * label : 2 * label + 2, 4:16] += 1
    return images.astype("float32"), labels


def convolution_and_pooling(x: Any, filters: int) -> Any:
    result = static.nn.conv2d(x, filters, 5, padding=2, act="relu")
    return F.max_pool2d(result, 2, 2)


def test_digits_are_recognized(tmp_path: Path) -> None:
    image = static.data("img", [None, 1, 20, 20])
    label = static.data("label", [None, 1], "int64")
    x = static.nn.batch_norm(convolution_and_pooling(image, 8))
    x = convolution_and_pooling(x, 8)
    prediction = static.nn.fc(x, 10, activation="softmax")
    loss = F.cross_entropy(prediction, label, use_softmax=False)
    share = static.accuracy(prediction, label)
    test_program = static.default_main_program().clone(for_test=True)
    paddle.optimizer.Adam(0.01).minimize(loss)
    exe = started()
    losses = []
    for _ in range(40):
        images, labels = digits(32)
        feed = {"img": images, "label": labels}
        losses += exe.run(feed=feed, fetch_list=[loss])
    assert np.mean(losses[-5:]) < 0.2 * losses[0]
    images, labels = digits(100)
    feed = {"img": images, "label": labels}
    scores, right = exe.run(test_program, feed=feed, fetch_list=[prediction, share])
    assert right > 0.9
    np.testing.assert_allclose(right, (scores.argmax(1) == labels[:, 0]).mean())
    want = in_dynamic_mode(images, held())
    np.testing.assert_allclose(scores, want, rtol=1e-3, atol=1e-5)
    feed = {"img": images}
    check_saved(tmp_path, exe, test_program, [image], [prediction], feed, [scores])


def in_dynamic_mode(images: Any, weights: dict[str, Any]) -> Any:
    paddle.disable_static()
    w = {name: paddle.to_tensor(value) for name, value in weights.items()}
    x = paddle.to_tensor(images)
    for i in range(2):
        x = F.conv2d(x, w[f"conv2d_{i}.w_0"], w[f"conv2d_{i}.b_0"], padding=2)
        x = F.max_pool2d(F.relu(x), 2, 2)
        if i == 0:
            norm = [w[f"batch_norm_0.{k}"] for k in ("w_1", "w_2", "w_0", "b_0")]
            x = F.batch_norm(x, *norm)
    x = F.linear(paddle.flatten(x, 1), w["fc_0.w_0"], w["fc_0.b_0"])
    scores = F.softmax(x).numpy()
    paddle.enable_static()
    return scores


# -- word2vec: the next word of four, by one table of embeddings ----------------------
WORDS, WIDTH, HIDDEN = 30, 8, 16


def n_grams() -> Any:
    """Five words in a row of a text in which each follows from the two before."""
    text = [1, 2]
    for _ in range(200):
        text.append((3 * text[-1] + text[-2]) % WORDS)
    return np.array([text[i : i + 5] for i in range(len(text) - 4)])


def test_words_are_embedded_by_their_neighbours(tmp_path: Path) -> None:
    names = ["firstw", "secondw", "thirdw", "fourthw", "nextw"]
    *context, following = [static.data(n, [None, 1], "int64") for n in names]
    embedded = [
        static.nn.embedding(word, [WORDS, WIDTH], is_sparse=True, param_attr="shared_w")
        for word in context
    ]
    joined = paddle.concat(embedded, axis=2)
    hidden = static.nn.fc(joined, HIDDEN, activation="sigmoid")
    prediction = static.nn.fc(hidden, WORDS, activation="softmax")
    loss = F.cross_entropy(prediction, following, use_softmax=False)
    paddle.optimizer.SGD(1.0).minimize(loss)
    exe = started()
    first, grams = held(), n_grams()
    shapes = {n: v.shape for n, v in first.items()}
    assert shapes["shared_w"] == (WORDS, WIDTH) and len(shapes) == 5
    feed = {name: grams[:, i : i + 1] for i, name in enumerate(names)}
    losses = [exe.run(feed=feed, fetch_list=[loss])[0] for _ in range(60)]
    assert losses[-1] < 0.7 * losses[0]
    want, table = words_in_numpy(first, grams, 3)
    np.testing.assert_allclose(losses[:3], want, rtol=1e-4)
    exe.run(static.default_startup_program())
    for name, value in first.items():
        static.default_main_program().find(name).set_value(value)
    for _ in range(3):
        exe.run(feed=feed)
    np.testing.assert_allclose(held()["shared_w"], table, rtol=1e-3, atol=1e-4)
    main = static.default_main_program()
    test_program = main.clone(for_test=True)
    scores = exe.run(test_program, feed=feed, fetch_list=[prediction])
    check_saved(tmp_path, exe, test_program, context, [prediction], feed, scores)


def words_in_numpy(
    first: dict[str, Any], grams: Any, steps: int
) -> tuple[list[float], Any]:
    """Losses and the table after steps of gradient descent, derived by hand."""
    w = {name: value.astype("float64") for name, value in first.items()}
    losses, count = [], len(grams)
    for _ in range(steps):
        x = w["shared_w"][grams[:, :4]].reshape(count, -1)
        h = 1 / (1 + np.exp(-(x @ w["fc_0.w_0"] + w["fc_0.b_0"])))
        scores = h @ w["fc_1.w_0"] + w["fc_1.b_0"]
        p = np.exp(scores - scores.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        losses.append(-np.log(p[np.arange(count), grams[:, 4]]).mean())
        p[np.arange(count), grams[:, 4]] -= 1
        dscores = p / count
        dh = (dscores @ w["fc_1.w_0"].T) * h * (1 - h)
        dx = (dh @ w["fc_0.w_0"].T).reshape(count, 4, WIDTH)
        np.add.at(w["shared_w"], grams[:, :4], -dx)
        w["fc_1.w_0"] -= h.T @ dscores
        w["fc_1.b_0"] -= dscores.sum(0)
        w["fc_0.w_0"] -= x.T @ dh
        w["fc_0.b_0"] -= dh.sum(0)
    return losses, w["shared_w"]


# -- sentiment: an LSTM whose steps are rounds of while_loop --------------------------
def reviews(count: int) -> tuple[Any, Any]:
    """Sentences of words of which those below 10 are good and the others bad."""
    words = RNG.integers(0, 20, (count, 9))
    return words, ((words < 10).sum(1, keepdims=True) > 4).astype("int64")


def lstm_by_while(words: Any, width: int) -> Any:
    """The last state of an LSTM over (N, T) words."""
    embedded = static.nn.embedding(words, [20, width], param_attr="table")
    steps = paddle.transpose(embedded, [1, 0, 2])
    weight = static.create_parameter([2 * width, 4 * width], "float32", name="gates")
    bias = static.create_parameter([4 * width], "float32", name="shift", is_bias=True)
    state = paddle.zeros_like(steps[0])
    step = paddle.full([1], 0, "int64")
    last = paddle.full([1], 9, "int64")

    def body(t: Any, h: Any, c: Any) -> list[Any]:
        x = paddle.squeeze(paddle.gather(steps, t), [0])
        gates = paddle.matmul(paddle.concat([x, h], axis=1), weight) + bias
        i, f, o, g = paddle.split(gates, 4, axis=1)
        c = F.sigmoid(f) * c + F.sigmoid(i) * paddle.tanh(g)
        return [t + 1, F.sigmoid(o) * paddle.tanh(c), c]

    _, h, _ = static.nn.while_loop(
        lambda t, h, c: paddle.less_than(t, last), body, [step, state, state]
    )
    return h


def test_sentiment_is_read_by_an_lstm_in_a_loop(tmp_path: Path) -> None:
    words = static.data("words", [None, 9], "int64")
    label = static.data("label", [None, 1], "int64")
    prediction = static.nn.fc(lstm_by_while(words, 6), 2, activation="softmax")
    loss = F.cross_entropy(prediction, label, use_softmax=False)
    share = static.accuracy(prediction, label)
    paddle.optimizer.Adam(0.05).minimize(loss)
    exe = started()
    first, batches = held(), [reviews(64) for _ in range(40)]
    losses, shares = [], []
    for texts, labels in batches:
        found = exe.run(
            feed={"words": texts, "label": labels}, fetch_list=[loss, share]
        )
        losses.append(found[0])
        shares.append(found[1])
    assert np.mean(losses[-5:]) < 0.5 * losses[0] and np.mean(shares[-5:]) > 0.85
    want = sentiment_in_dynamic_mode(first, batches[:4])
    np.testing.assert_allclose(losses[:4], want, rtol=1e-4)
    test_program = static.default_main_program().clone(for_test=True)
    feed = {"words": batches[0][0], "label": batches[0][1]}
    scores = exe.run(test_program, feed=feed, fetch_list=[prediction])
    check_saved(tmp_path, exe, test_program, [words], [prediction], feed, scores)


def sentiment_in_dynamic_mode(first: dict[str, Any], batches: Any) -> list[float]:
    paddle.disable_static()
    names = ("table", "gates", "shift", "fc_0.w_0", "fc_0.b_0")
    w = {}
    for name in names:
        w[name] = paddle.create_parameter(list(first[name].shape), "float32")
        w[name].set_value(first[name])
    optimizer, losses = paddle.optimizer.Adam(0.05, parameters=list(w.values())), []
    for texts, labels in batches:
        x = F.embedding(paddle.to_tensor(texts), w["table"])
        h = c = paddle.zeros([len(texts), 6])
        for t in range(9):
            gates = paddle.concat([x[:, t], h], axis=1) @ w["gates"] + w["shift"]
            i, f, o, g = paddle.split(gates, 4, axis=1)
            c = F.sigmoid(f) * c + F.sigmoid(i) * paddle.tanh(g)
            h = F.sigmoid(o) * paddle.tanh(c)
        scores = F.linear(h, w["fc_0.w_0"], w["fc_0.b_0"])
        loss = F.cross_entropy(scores, paddle.to_tensor(labels))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    paddle.enable_static()
    return losses


# -- CTR-DNN: embeddings of slots with dense features, measured by the area -----------
def clicks(count: int) -> tuple[Any, list[Any], Any]:
    """Dense features, ids of three slots, and clicks that follow from both."""
    dense = RNG.random((count, 4)).astype("float32")
    slots = [RNG.integers(0, 50, (count, 1)) for _ in range(3)]
    taste = sum(np.cos(s[:, 0]) for s in slots) + dense.sum(1) - 2
    return dense, slots, (taste > 0).astype("int64")[:, None]


def test_clicks_are_predicted(tmp_path: Path) -> None:
    dense = static.data("dense_input", [None, 4])
    slots = [static.data(f"C{i}", [None, 1], "int64") for i in range(3)]
    label = static.data("label", [None, 1], "int64")
    embedded = [
        static.nn.sparse_embedding(
            slot, [50, 6],
            param_attr=paddle.ParamAttr(
                f"SparseFeatFactors{i}", paddle.nn.initializer.Uniform()
            ),
        )
        for i, slot in enumerate(slots)
    ]  # fmt: skip
    x = paddle.concat([*embedded, dense], axis=1)
    for i, size in enumerate((32, 16)):
        x = static.nn.fc(x, size, activation="relu", name=f"layer_{i}")
    prediction = static.nn.fc(x, 2, activation="softmax", name="prediction")
    loss = F.cross_entropy(prediction, label, use_softmax=False)
    test_program = static.default_main_program().clone(for_test=True)
    area, latest, _ = static.auc(prediction, label, num_thresholds=2**12, slide_steps=5)
    paddle.optimizer.Adam(0.01).minimize(loss)
    exe = started()

    def fed(count: int) -> dict[str, Any]:
        features, ids, labels = clicks(count)
        slots = {f"C{i}": slot for i, slot in enumerate(ids)}
        return {"dense_input": features, "label": labels, **slots}

    found = [exe.run(feed=fed(64), fetch_list=[loss, area, latest]) for _ in range(80)]
    losses, areas, late = (np.array(v).reshape(-1) for v in zip(*found, strict=True))
    assert losses[-5:].mean() < 0.6 * losses[0]
    assert late[-1] > 0.9 > areas[0] and late[-1] > areas[-1]
    feed = fed(200)
    (scores,) = exe.run(test_program, feed=feed, fetch_list=[prediction])
    w = held()
    h = np.concatenate(
        [*(w[f"SparseFeatFactors{i}"][feed[f"C{i}"][:, 0]] for i in range(3)),
         feed["dense_input"]], 1,
    )  # fmt: skip
    for i in range(2):
        h = np.maximum(h @ w[f"layer_{i}.w_0"] + w[f"layer_{i}.b_0"], 0)
    raw = h @ w["prediction.w_0"] + w["prediction.b_0"]
    want = np.exp(raw) / np.exp(raw).sum(1, keepdims=True)
    np.testing.assert_allclose(scores, want, rtol=1e-3, atol=1e-5)
    inputs = [dense, *slots]
    check_saved(tmp_path, exe, test_program, inputs, [prediction], feed, [scores])


# -- machine translation: an encoder and a decoder of GRUs, beam search ---------------
START, END, SYMBOLS, UNITS, BEAMS = 0, 1, 8, 24, 3
LENGTH = 5


def sentences(count: int) -> tuple[Any, Any]:
    """Four words, and their translation: each word's successor, from the last on."""
    source = RNG.integers(2, SYMBOLS, (count, LENGTH - 1))
    target = 2 + (source[:, ::-1] - 2 + 1) % (SYMBOLS - 2)
    ends = np.full((count, 1), END)
    return source, np.concatenate([target, ends], axis=1)


class Translator:
    """The parts that training and search share, by the names of their parameters."""

    def __init__(self) -> None:
        shapes = {
            "words": [SYMBOLS, UNITS], "meanings": [SYMBOLS, UNITS],
            "encoder_gates": [2 * UNITS, 2 * UNITS], "encoder_new": [2 * UNITS, UNITS],
            "decoder_gates": [3 * UNITS, 2 * UNITS], "decoder_new": [3 * UNITS, UNITS],
            "scores": [UNITS, SYMBOLS],
        }  # fmt: skip
        self.w = {
            n: static.create_parameter(s, "float32", n) for n, s in shapes.items()
        }

    def gru(self, part: str, x: Any, h: Any, z: Any = None) -> Any:
        known = [] if z is None else [z]
        gates = F.sigmoid(
            paddle.matmul(paddle.concat([x, h, *known], -1), self.w[f"{part}_gates"])
        )
        update, reset = paddle.split(gates, 2, axis=-1)
        new = paddle.tanh(
            paddle.matmul(
                paddle.concat([x, reset * h, *known], -1), self.w[f"{part}_new"]
            )
        )
        return update * h + (1 - update) * new

    def encode(self, source: Any) -> Any:
        words = F.embedding(source, self.w["words"])
        h = paddle.zeros_like(words[:, 0])
        for t in range(LENGTH - 1):
            h = self.gru("encoder", words[:, t], h)
        return h

    def step(self, word: Any, h: Any, context: Any) -> tuple[Any, Any]:
        x = F.embedding(word, self.w["meanings"])
        h = self.gru("decoder", x, h, context)
        return F.log_softmax(paddle.matmul(h, self.w["scores"])), h


def train_translator() -> tuple[static.Executor, list[float]]:
    source = static.data("source", [None, LENGTH - 1], "int64")
    given = static.data("given", [None, LENGTH], "int64")
    wanted = static.data("wanted", [None, LENGTH], "int64")
    model = Translator()
    context = h = model.encode(source)
    costs = []
    for t in range(LENGTH):
        scores, h = model.step(given[:, t], h, context)
        costs.append(F.nll_loss(scores, wanted[:, t]))
    loss = paddle.add_n(costs) / LENGTH
    clip = paddle.nn.ClipGradByGlobalNorm(5.0)
    paddle.optimizer.Adam(0.01, grad_clip=clip).minimize(loss)
    exe, losses = started(), []
    for _ in range(250):
        words, target = sentences(32)
        before = np.concatenate([np.full((32, 1), START), target[:, :-1]], axis=1)
        feed = {"source": words, "given": before, "wanted": target}
        losses.append(float(exe.run(feed=feed, fetch_list=[loss])[0]))
    return exe, losses


def beam_search(model: Translator, source: Any) -> tuple[Any, Any]:
    """The words of every beam (N, BEAMS, LENGTH) and their scores, by while_loop."""

    def widened(x: Any) -> Any:
        return paddle.tile(paddle.unsqueeze(x, 1), [1, BEAMS, 1])

    context = widened(model.encode(source))
    ones = paddle.cast(paddle.zeros_like(context[:, :, 0]), "int64")
    alone = paddle.to_tensor(np.array([[0.0] + [-1e9] * (BEAMS - 1)], "float32"))
    totals = paddle.zeros_like(context[:, :, 0]) + alone
    words = paddle.tile(paddle.unsqueeze(ones, 2), [1, 1, LENGTH])
    step, last = paddle.full([1], 0, "int64"), paddle.full([1], LENGTH, "int64")
    places = paddle.to_tensor(np.arange(LENGTH))
    finished = paddle.to_tensor(
        np.where(np.arange(SYMBOLS) == END, 0.0, -1e9).astype("float32")
    )

    def body(t: Any, word: Any, words: Any, h: Any, totals: Any) -> list[Any]:
        scores, h = model.step(word, h, context)
        ended = paddle.unsqueeze(paddle.equal(word, END), 2)
        scores = paddle.where(ended, paddle.zeros_like(scores) + finished, scores)
        sums = paddle.flatten(scores + paddle.unsqueeze(totals, 2), 1)
        totals, chosen = paddle.topk(sums, BEAMS)
        beam, word = chosen // SYMBOLS, chosen % SYMBOLS
        index = paddle.unsqueeze(beam, 2)
        h = paddle.take_along_axis(h, paddle.tile(index, [1, 1, UNITS]), 1)
        words = paddle.take_along_axis(words, paddle.tile(index, [1, 1, LENGTH]), 1)
        here = paddle.equal(places, t)
        words = paddle.where(here, paddle.unsqueeze(word, 2) + words * 0, words)
        return [t + 1, word, words, h, totals]

    _, _, words, _, totals = static.nn.while_loop(
        lambda t, *others: paddle.less_than(t, last), body,
        [step, ones + START, words, context, totals],
    )  # fmt: skip
    return words, totals


def search_in_numpy(w: dict[str, Any], source: Any) -> tuple[list[int], float]:
    """The best beam of one sentence."""

    def gru(part: str, *given: Any) -> Any:
        x, h, *z = given
        gates = 1 / (1 + np.exp(-(np.concatenate([x, h, *z]) @ w[f"{part}_gates"])))
        update, reset = np.split(gates, 2)
        new = np.tanh(np.concatenate([x, reset * h, *z]) @ w[f"{part}_new"])
        return update * h + (1 - update) * new

    context = np.zeros(UNITS)
    for word in source:
        context = gru("encoder", w["words"][word], context)
    beams: list[tuple[float, list[int], Any]] = [(0.0, [START], context)]
    for _ in range(LENGTH):
        longer = []
        for total, words, h in beams:
            if words[-1] == END:
                longer.append((total, [*words, END], h))
                continue
            h = gru("decoder", w["meanings"][words[-1]], h, context)
            scores = h @ w["scores"]
            scores = scores - np.log(np.exp(scores).sum())
            longer += [(total + s, [*words, k], h) for k, s in enumerate(scores)]
        beams = sorted(longer, key=lambda b: -b[0])[:BEAMS]
    return beams[0][1][1:], beams[0][0]


def test_sentences_are_translated_by_beam_search(tmp_path: Path) -> None:
    exe, losses = train_translator()
    assert np.mean(losses[-5:]) < 0.1 * losses[0]
    search = static.Program()
    with static.program_guard(search, static.Program()):
        source = static.data("source", [None, LENGTH - 1], "int64")
        words, totals = beam_search(Translator(), source)
    given, wanted = sentences(20)
    found, scores = exe.run(search, feed={"source": given}, fetch_list=[words, totals])
    assert (found[:, 0] == wanted).all(axis=1).mean() > 0.9
    weights = {name: v.astype("float64") for name, v in held().items()}
    for i in range(5):
        best, total = search_in_numpy(weights, given[i])
        np.testing.assert_array_equal(found[i, 0], best)
        np.testing.assert_allclose(scores[i, 0], total, rtol=1e-3, atol=1e-4)
    feed, want = {"source": given}, [found, scores]
    check_saved(tmp_path, exe, search, [source], [words, totals], feed, want)


class Decoding(paddle.nn.Layer):
    """A GRU over the source, and `BeamSearchDecoder` from its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = paddle.nn.Embedding(SYMBOLS, 6)
        self.encoder = paddle.nn.GRU(6, 6)
        self.cell = paddle.nn.GRUCell(6, 6)
        self.scores = paddle.nn.Linear(
            6, SYMBOLS, weight_attr=paddle.nn.initializer.Normal(0.0, 2.0)
        )

    def forward(self, source: Any) -> Any:
        _, state = self.encoder(self.embedding(source))
        decoder = paddle.nn.BeamSearchDecoder(
            self.cell, START, END, BEAMS, self.embedding, self.scores
        )
        return paddle.nn.dynamic_decode(
            decoder, state[0], max_step_num=6, return_length=True
        )


def test_decoders_give_in_a_program_what_they_give_in_dynamic_mode(
    tmp_path: Path,
) -> None:
    net = Decoding()
    source = static.data("source", [None, 4], "int64")
    words, _, lengths = net(source)
    exe, given = started(), sentences(6)[0]
    found, ends = exe.run(feed={"source": given}, fetch_list=[words, lengths])
    main, feed = static.default_main_program(), {"source": given}
    check_saved(tmp_path, exe, main, [source], [words, lengths], feed, [found, ends])
    values = {name: v.get_value().numpy() for name, v in net.state_dict().items()}
    paddle.disable_static()
    same = Decoding()
    same.set_state_dict(values)
    with paddle.no_grad():
        want, _, sizes = same(paddle.to_tensor(given))
    count = want.shape[1]
    np.testing.assert_array_equal(found[:, :count], want.numpy())
    np.testing.assert_array_equal(ends, sizes.numpy())
    assert (found[:, count:] == END).all() and found.shape == (6, 7, BEAMS)
    with pytest.raises(paddle.errors.InvalidArgumentError, match="max_step_num"):
        paddle.enable_static()
        x = static.data("x", [None, 6])
        decoder = paddle.nn.BeamSearchDecoder(
            net.cell, START, END, 2, net.embedding, net.scores
        )
        paddle.nn.dynamic_decode(decoder, x)
