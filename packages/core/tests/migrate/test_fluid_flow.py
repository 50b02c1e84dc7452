"""Loops, branches and recurrent networks of 1.x by `with` blocks, rewritten."""

from __future__ import annotations

import textwrap
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import proa
from proa import migrate
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.static import create_lod_tensor

from .programs import migrated, rewritten

pytest.importorskip("libcst")

HEAD = """
import numpy as np
import paddle.fluid as fluid
from paddle.fluid import layers

def run(fetch, feed=None):
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe.run(fluid.default_main_program(), feed or {}, fetch, return_numpy=False)
"""


def results(source: str, **feed: Any) -> list[Any]:
    """What a program's function `build`, whose results are fetched, computes."""
    with migrated(HEAD + textwrap.dedent(source)) as names:
        return [np.asarray(x) for x in names["run"](names["build"](), feed)]


def test_a_block_becomes_a_function_whose_names_are_around_it() -> None:
    code = rewritten(
        "import paddle.fluid as fluid\n"
        "def f(cond, x, i):\n"
        "    loop = fluid.layers.While(cond)\n"
        "    # a round\n"
        "    with loop.block():\n"
        "        i = fluid.layers.increment(i)\n"
        "        y = x + i  # of its own\n"
        "    return i\n"
    )
    assert code == (
        "import paddle\n"
        "def f(cond, x, i):\n"
        "    loop = paddle.migrate.fluid.layers.While(cond)\n"
        "    # a round\n"
        "    @loop.block()\n"
        "    def _body():\n"
        "        nonlocal i\n"
        "        i = paddle.increment(i)\n"
        "        y = x + i  # of its own\n"
        "    return i\n"
    )


def test_a_block_that_returns_is_left_and_reported() -> None:
    found = migrate.rewrite(
        "import paddle.fluid as fluid\n"
        "def f(cond):\n"
        "    loop = fluid.layers.While(cond)\n"
        "    with loop.block():\n"
        "        return cond\n"
    )
    (left,) = found.by_hand
    assert left.line == 4 and "without return" in left.text
    assert "    with loop.block():\n" in found.code


@pytest.mark.feature("L167")
def test_a_loop_adds_and_a_switch_ends_it() -> None:
    total, rounds = results("""
        def build():
            i = layers.fill_constant(shape=[1], dtype='int64', value=0)
            limit = layers.fill_constant([1], 'int64', 10)
            total = layers.zeros([1], 'float32')
            cond = layers.less_than(x=i, y=limit)
            loop = layers.While(cond=cond)
            with loop.block():
                i = layers.increment(x=i, value=1, in_place=True)
                layers.sums([total, layers.cast(i, 'float32')], out=total)
                with layers.Switch() as switch:
                    four = layers.fill_constant([1], 'int64', 4)
                    with switch.case(layers.equal(i, four)):
                        layers.fill_constant([1], 'bool', False, out=cond)
                    with switch.default():
                        layers.less_than(x=i, y=limit, cond=cond)
            return [total, i]
        """)
    assert (total, rounds) == (10, 4)


def test_a_loop_at_the_top_of_a_module_binds_global_names() -> None:
    source = HEAD + textwrap.dedent("""
        i = layers.fill_constant([1], 'int64', 0)
        n = layers.fill_constant([1], 'int64', 5)
        square = layers.zeros([1], 'int64')
        cond = layers.less_than(i, n)
        loop = layers.While(cond)
        with loop.block():
            i = layers.increment(i)
            layers.assign(i * i, square)
            cond = layers.less_than(i, n, cond=cond)
        found, = run([square])
        """)
    with migrated(source) as names:
        assert np.asarray(names["found"]) == 25


def test_lists_are_written_and_read_in_a_loop() -> None:
    x = np.arange(6, dtype="float32").reshape(2, 3)
    last, count = results(
        """
        def build():
            x = fluid.data('x', [2, 3], 'float32')
            i = layers.zeros(shape=[1], dtype='int64', force_cpu=True)
            n = layers.fill_constant([1], 'int64', 3)
            kept = layers.array_write(x, i)
            cond = layers.less_than(i, n)
            loop = layers.While(cond)
            with loop.block():
                before = layers.array_read(array=kept, i=i)
                i = layers.increment(i)
                layers.array_write(layers.scale(before, 2.0), i, array=kept)
                layers.less_than(i, n, cond=cond)
            return [layers.array_read(kept, n), layers.array_length(kept)]
        """,
        x=x,
    )
    np.testing.assert_array_equal(last, 8 * x)
    assert count == 4


def test_gradients_flow_through_a_loop_with_layers() -> None:
    source = HEAD + textwrap.dedent("""
        def build(w):
            x = fluid.data('x', [None, 3], 'float32')
            state = layers.assign(x)
            i, n = layers.zeros([1], 'int64'), layers.fill_constant([1], 'int64', 2)
            cond = layers.less_than(i, n)
            loop = layers.While(cond)
            init = fluid.initializer.NumpyArrayInitializer(w)
            with loop.block():
                attr = fluid.ParamAttr(name='w', initializer=init)
                hidden = layers.fc(state, 3, bias_attr=False, param_attr=attr)
                layers.assign(hidden, state)
                layers.increment(i)
                layers.less_than(i, n, cond=cond)
            loss = layers.reduce_sum(state)
            fluid.optimizer.SGD(0.5).minimize(loss)
            return loss
        """)
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(3, 3)).astype("f"), rng.normal(size=(2, 3)).astype("f")
    with migrated(source) as names:
        (loss,) = names["run"]([names["build"](w)], {"x": x})
        found = np.array(proa.static.global_scope().find_var("w").get_tensor())
        parameters = proa.static.default_main_program().all_parameters()
    assert [p.name for p in parameters] == ["w"]
    np.testing.assert_allclose(np.asarray(loss), (x @ w @ w).sum(), rtol=1e-5)
    ones = np.ones((2, 3))
    grad = x.T @ ones @ w.T + (x @ w).T @ ones
    np.testing.assert_allclose(found, w - 0.5 * grad, rtol=1e-4, atol=1e-6)


def test_rows_are_computed_by_one_of_two_blocks() -> None:
    x = np.asarray([[1.0, 5], [-2, 3], [4, 0], [-1, 1]], "float32")
    (found,) = results(
        """
        def build():
            x = fluid.data('x', [None, 2], 'float32')
            first = layers.slice(x, [1], [0], [1])
            below = layers.less_than(first, layers.zeros([1], 'float32'))
            ie = layers.IfElse(below)
            with ie.true_block():
                rows = ie.input(x)
                ie.output(rows - layers.reduce_mean(rows))
            with ie.false_block():
                ie.output(layers.scale(ie.input(x), 10.0))
            return ie()
        """,
        x=x,
    )
    wanted, below = 10 * x, x[:, 0] < 0
    wanted[below] = x[below] - x[below].mean()
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_branches_without_as_many_results_are_an_error() -> None:
    layers = proa.migrate.fluid.layers
    ie = layers.IfElse(proa.to_tensor([[True], [False]]))
    with pytest.raises(PreconditionNotMetError, match="in true_block or false_block"):
        ie.input(proa.ones([2, 1]))
    with pytest.raises(InvalidArgumentError, match="as many outputs"):
        ie()
    with pytest.raises(PreconditionNotMetError, match="static mode"):
        layers.StaticRNN().step()(lambda: None)


RNN = """
def build():
    x = fluid.data('x', [%s, None, 3], 'float32')
    rnn = layers.StaticRNN()
    with rnn.step():
        word = rnn.step_input(x)
        prev = rnn.memory(shape=[-1, 4], batch_ref=word)
        hidden = layers.fc([word, prev], 4, act='tanh', bias_attr=False, param_attr=[
            fluid.ParamAttr(k, fluid.initializer.NumpyArrayInitializer(v))
            for k, v in (('w', W), ('u', U))])
        rnn.update_memory(prev, hidden)
        rnn.step_output(hidden)
        rnn.step_output(layers.scale(hidden, 2.0))
    out, twice = rnn()
    loss = layers.reduce_sum(out)
    fluid.optimizer.SGD(0.1).minimize(loss)
    return [out, twice]
"""
RNG = np.random.default_rng(5)
W = RNG.normal(0, 0.5, (3, 4)).astype("float32")
U = RNG.normal(0, 0.5, (4, 4)).astype("float32")


def _elman(x: Any, w: Any = W, u: Any = U) -> Any:
    h, found = np.zeros((x.shape[1], 4)), []
    for row in x:
        h = np.tanh(row @ w + h @ u)
        found.append(h)
    return np.stack(found)


def _step_of_descent(value: Any, loss: Any, rate: float = 0.1) -> Any:
    """value - rate * gradient, by central differences."""
    result = value.astype(np.float64)
    for index in np.ndindex(value.shape):
        e = np.zeros(value.shape)
        e[index] = 1e-5
        result[index] -= rate * (loss(value + e) - loss(value - e)) / 2e-5
    return result


@pytest.mark.feature("L167")
@pytest.mark.parametrize("steps", ["5", "None"])
def test_a_static_rnn_computes_and_learns(steps: str) -> None:
    x = RNG.normal(size=(5, 2, 3)).astype("float32")
    source = f"{HEAD}W, U = None, None\n{RNN % steps}"
    with migrated(source) as names:
        names.update(W=W, U=U)
        out, twice = map(np.asarray, names["run"](names["build"](), {"x": x}))
        scope = proa.static.global_scope()
        w, u = (np.array(scope.find_var(k).get_tensor()) for k in "wu")
    np.testing.assert_allclose(out, _elman(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(twice, 2 * _elman(x), rtol=1e-5, atol=1e-6)
    wanted = _step_of_descent(W, lambda v: _elman(x, w=v).sum())
    np.testing.assert_allclose(w, wanted, rtol=1e-4, atol=1e-5)
    wanted = _step_of_descent(U, lambda v: _elman(x, u=v).sum())
    np.testing.assert_allclose(u, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.feature("L167")
def test_a_dynamic_rnn_follows_lengths() -> None:
    lengths, rows = [2, 4, 1], RNG.normal(size=(7, 3)).astype("float32")
    start = RNG.normal(size=(3, 4)).astype("float32")
    source = """
        def build():
            x = layers.data('x', [3], dtype='float32', lod_level=1)
            start = layers.data('start', [4])
            rnn = layers.DynamicRNN()
            with rnn.block():
                word = rnn.step_input(x)
                first = rnn.static_input(start)
                prev = rnn.memory(init=start, need_reorder=True)
                count = rnn.memory(shape=[1], value=1.0)
                rnn.update_memory(count, count + 1.0)
                hidden = layers.tanh(layers.concat([word, count], 1) + prev + first)
                rnn.update_memory(prev, hidden)
                rnn.output(hidden)
            out = rnn()
            return [out, layers.sequence_last_step(out)]
        """
    out, last = results(source, x=create_lod_tensor(rows, [lengths]), start=start)
    wanted, ends = [], []
    for own, h in zip(np.split(rows, np.cumsum(lengths)[:-1]), start, strict=True):
        begin = h
        for count, row in enumerate(own, 1):
            h = np.tanh(np.append(row, count) + h + begin)
            wanted.append(h)
        ends.append(h)
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last, ends, rtol=1e-5, atol=1e-6)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _lstm(rows: Any, weight: Any, bias: Any, projection: Any = None) -> Any:
    """(hidden or its projection, cell) of candidate, input, forget, output gates."""
    size = weight.shape[1] // 4
    b, peepholes = bias[0, : 4 * size], np.split(bias[0, 4 * size :], 3)
    h, c, found = np.zeros(weight.shape[0]), np.zeros(size), []
    for row in rows:
        g, i, f, o = np.split(row + h @ weight + b, 4)
        i, f = _sigmoid(i + c * peepholes[0]), _sigmoid(f + c * peepholes[1])
        c = f * c + i * np.tanh(g)
        h = _sigmoid(o + c * peepholes[2]) * np.tanh(c)
        h = h if projection is None else np.tanh(h @ projection)
        found.append(np.concatenate([h, c]))
    return np.stack(found)


def _gru(rows: Any, weight: Any, bias: Any, origin: bool) -> Any:
    size = weight.shape[0]
    h, found = np.zeros(size), []
    for row in rows:
        u, r = np.split(
            _sigmoid((row + bias[0])[: 2 * size] + h @ weight[:, : 2 * size]), 2
        )
        c = np.tanh((row + bias[0])[2 * size :] + (r * h) @ weight[:, 2 * size :])
        h = u * h + (1 - u) * c if origin else (1 - u) * h + u * c
        found.append(h)
    return np.stack(found)


@pytest.mark.parametrize("backward", [False, True])
def test_lstms_and_grus_of_sequences(backward: bool) -> None:
    lengths = [3, 1, 2]
    rows = RNG.normal(size=(6, 12)).astype("float32")
    feed = {"x": create_lod_tensor(rows, [lengths])}
    source = HEAD + textwrap.dedent(f"""
        x = layers.data('x', [12], dtype='float32', lod_level=1)
        noise = fluid.initializer.Normal(0.0, 0.5)
        named = lambda name: fluid.ParamAttr(name=name, initializer=noise)
        hidden, cell = layers.dynamic_lstm(x, 12, param_attr=named('lw'),
            bias_attr=named('lb'), is_reverse={backward})
        projected, kept = layers.dynamic_lstmp(x, 12, 2, param_attr=named(None),
            bias_attr=named('pb'), is_reverse={backward})
        gru = layers.dynamic_gru(x, 4, param_attr=named('gw'), bias_attr=named('gb'),
            is_reverse={backward}, origin_mode={backward})
        found = lambda feed: run([hidden, cell, projected, kept, gru], feed)
        """)
    with migrated(source) as names:
        found = [np.asarray(x) for x in names["found"](feed)]
        scope = proa.static.global_scope()
        parameters = {
            p.name: np.array(scope.find_var(p.name).get_tensor())
            for p in proa.static.default_main_program().all_parameters()
        }
    lw, lb, pb, gw, gb = (parameters[k] for k in ("lw", "lb", "pb", "gw", "gb"))
    pw, projection = (v for k, v in parameters.items() if ".w_" in k)

    def each(function: Any) -> Any:
        found = []
        for own in np.split(rows, np.cumsum(lengths)[:-1]):
            result = function(own[::-1] if backward else own)
            found.append(result[::-1] if backward else result)
        return np.concatenate(found)

    both = each(lambda own: _lstm(own, lw, lb))
    np.testing.assert_allclose(np.hstack(found[:2]), both, rtol=1e-5, atol=1e-6)
    both = each(lambda own: _lstm(own, pw, pb, projection))
    np.testing.assert_allclose(np.hstack(found[2:4]), both, rtol=1e-5, atol=1e-6)
    wanted = each(lambda own: _gru(own, gw, gb, backward))
    np.testing.assert_allclose(found[4], wanted, rtol=1e-5, atol=1e-6)


def test_units_of_recurrent_layers() -> None:
    x, h, c = (RNG.normal(size=(2, n)).astype("float32") for n in (6, 2, 2))
    source = HEAD + textwrap.dedent("""
        sizes = (('x', 6), ('h', 2), ('c', 2))
        x, h, c = (fluid.data(k, [None, n], 'float32') for k, n in sizes)
        gru = layers.gru_unit(x, h, 6, bias_attr=False)
        lstm = layers.lstm_unit(x, h, c, forget_bias=1.0)
        found = lambda feed: run([*gru, *lstm], feed)
        """)
    with migrated(source) as names:
        found = [np.asarray(t) for t in names["found"]({"x": x, "h": h, "c": c})]
        scope = proa.static.global_scope()
        gw, lw, lb = (
            np.array(scope.find_var(p.name).get_tensor())
            for p in proa.static.default_main_program().all_parameters()
        )
    wanted = [_gru_once(row, own, gw) for row, own in zip(x, h, strict=True)]
    np.testing.assert_allclose(found[0], wanted, rtol=1e-5, atol=1e-6)
    i, f, o, g = np.split(np.hstack([x, h]) @ lw + lb, 4, 1)
    cell = _sigmoid(f + 1) * c + _sigmoid(i) * np.tanh(g)
    np.testing.assert_allclose(found[4], cell, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        found[3], _sigmoid(o) * np.tanh(cell), rtol=1e-5, atol=1e-6
    )


def _gru_once(row: Any, h: Any, weight: Any) -> Any:
    u, r = np.split(_sigmoid(row[:4] + h @ weight[:, :4]), 2)
    return (1 - u) * h + u * np.tanh(row[4:] + (r * h) @ weight[:, 4:])


def _scores_of_paths(rows: Any, moves: Any) -> dict[tuple[int, ...], float]:
    """The score of every path of tags."""
    first, last, moves = moves[0], moves[1], moves[2:]
    return {
        path: first[path[0]]
        + last[path[-1]]
        + sum(row[t] for row, t in zip(rows, path, strict=True))
        + sum(moves[a, b] for a, b in pairwise(path))
        for path in product(range(3), repeat=len(rows))
    }


def test_a_conditional_random_field_by_all_paths() -> None:
    lengths, rows = [2, 3, 1], RNG.normal(size=(6, 3)).astype("float32")
    tags = np.asarray([[0], [2], [1], [1], [0], [2]])
    feed = {
        "x": create_lod_tensor(rows, [lengths]),
        "tags": create_lod_tensor(tags, [lengths]),
    }
    source = HEAD + textwrap.dedent("""
        x = layers.data('x', [3], lod_level=1)
        tags = layers.data('tags', [1], dtype='int64', lod_level=1)
        attr = fluid.ParamAttr(name='moves', initializer=fluid.initializer.Normal())
        cost = layers.linear_chain_crf(x, tags, param_attr=attr)
        path = layers.crf_decoding(x, param_attr=fluid.ParamAttr(name='moves'))
        right = layers.crf_decoding(x, fluid.ParamAttr(name='moves'), label=tags)
        found = lambda feed: run([cost, path, right], feed)
        """)
    with migrated(source) as names:
        cost, path, right = (np.asarray(t) for t in names["found"](feed))
        moves = np.array(proa.static.global_scope().find_var("moves").get_tensor())
    ends = np.cumsum(lengths)[:-1]
    best: list[int] = []
    for k, (own, wanted) in enumerate(
        zip(np.split(rows, ends), np.split(tags[:, 0], ends), strict=True)
    ):
        scores = _scores_of_paths(own, moves)
        total = np.log(sum(np.exp(s) for s in scores.values()))
        assert cost[k, 0] == pytest.approx(total - scores[tuple(wanted)], rel=1e-4)
        best += max(scores, key=scores.__getitem__)
    assert path[:, 0].tolist() == best
    assert right[:, 0].tolist() == (np.asarray(best) == tags[:, 0]).astype(int).tolist()


def test_sequences_are_compared_decoded_and_chunked() -> None:
    probabilities = np.eye(3)[[0, 0, 2, 0, 1, 2, 2, 1]].astype("float32")
    inferred = np.asarray([[0], [1], [4], [2], [3]])  # B-0 I-0 O B-1 I-1
    wanted = np.asarray([[0], [1], [4], [2], [4]])
    feed = {
        "x": create_lod_tensor(probabilities, [[4, 4]]),
        "a": create_lod_tensor(inferred, [[3, 2]]),
        "b": create_lod_tensor(wanted, [[3, 2]]),
    }
    path, distance, count, *chunks = results(
        """
        def build():
            x = layers.data('x', [3], lod_level=1)
            a, b = (layers.data(k, [1], dtype='int64', lod_level=1) for k in 'ab')
            distance = layers.edit_distance(a, b, normalized=True, ignored_tokens=[1])
            return [layers.ctc_greedy_decoder(x, blank=2), *distance,
                    *layers.chunk_eval(a, b, 'IOB', 2)]
        """,
        **feed,
    )
    assert path[:, 0].tolist() == [0, 0, 1, 1]
    np.testing.assert_allclose(distance, [[0.0], [0.5]])
    assert count == 2
    rates = [c.item() for c in chunks]
    assert rates == pytest.approx([0.5, 0.5, 0.5, 2, 2, 1])
    edges = proa.migrate.fluid.metrics.ChunkEvaluator()
    edges.update(*chunks[3:])
    assert edges.eval() == (0.5, 0.5, 0.5)


def test_rows_get_other_lengths() -> None:
    rows = np.arange(8, dtype="float32").reshape(4, 2)
    feed = {
        "x": create_lod_tensor(rows, [[2, 2]]),
        "y": create_lod_tensor(rows, [[1, 3]]),
    }
    found = results(
        """
        def build():
            x, y = (layers.data(k, [2], lod_level=1) for k in 'xy')
            both = [layers.lod_reset(x, y), layers.lod_reset(x, target_lod=[0, 3, 4])]
            return [layers.sequence_pool(rows, 'sum') for rows in both]
        """,
        **feed,
    )
    np.testing.assert_array_equal(found[0], [rows[0], rows[1:].sum(0)])
    np.testing.assert_array_equal(found[1], [rows[:3].sum(0), rows[3]])
