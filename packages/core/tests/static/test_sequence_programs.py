"""Functions of sequences in programs, fed LoDTensors.

Each is compared with the same function in dynamic mode, which `test_sequence` compares
with NumPy; gradients are compared with central differences of that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import static
from proa.errors import Error, InvalidArgumentError
from proa.static import LoDTensor, create_lod_tensor
from proa.static import nn as snn

RNG = np.random.default_rng(9)
Programs = tuple[static.Program, static.Program]
BATCHES = ([2, 0, 3, 1], [4], [1, 5, 2])


def _rows(lengths: list[int], width: int = 4) -> Any:
    return RNG.normal(size=(sum(lengths), width))


def _fixed(value: Any) -> Any:
    return proa.nn.initializer.Assign(np.asarray(value))


WEIGHT = RNG.normal(size=(12, 2))


def _with_lengths_of(x: Any, rows: Any) -> Any:
    """Rows that are computed of x; in a program they have its lengths already."""
    return rows if rows._is_symbolic else create_lod_tensor(rows, x._lengths)


def _sliced(x: Any) -> Any:
    """All rows but the first of each sequence that has one."""
    ones = _with_lengths_of(x, proa.ones_like(x))
    count = snn.sequence_pool(ones, "sum")[:, :1].astype("int64")
    first = proa.minimum(count, proa.ones_like(count))
    return snn.sequence_slice(x, first, count - first)


def _around(x: Any) -> Any:
    wide, lengths = snn.sequence_pad(x, 0.5)
    return snn.sequence_unpad(wide * 2.0, lengths)


def _repeated(x: Any) -> Any:
    """Sequence i as often as it has rows."""
    return snn.sequence_expand(x, x, ref_level=-1)


ROW_WISE: dict[str, Callable[[Any], Any]] = {
    **{f"pool_{k}": lambda x, k=k: snn.sequence_pool(x, k, pad_value=3.0)
       for k in ("sum", "average", "sqrt", "max", "first", "last")},
    "first_step": snn.sequence_first_step,
    "last_step": snn.sequence_last_step,
    "softmax": lambda x: snn.sequence_softmax(_with_lengths_of(x, x[:, :1])),
    "conv": lambda x: snn.sequence_conv(
        x, 2, 3, bias_attr=False, param_attr=proa.ParamAttr(initializer=_fixed(WEIGHT)),
        act="tanh"),
    "reverse": snn.sequence_reverse,
    "concat": lambda x: snn.sequence_concat([x, snn.sequence_reverse(x), x]),
    "slice": lambda x: _sliced(x),
    "reshape": lambda x: snn.sequence_reshape(x, 2),
    "expand_rows": lambda x: snn.sequence_expand(
        snn.sequence_pool(x, "sum"), x, ref_level=0),
    "expand_sequences": _repeated,
    "expand_as": lambda x: snn.sequence_expand_as(snn.sequence_last_step(x), x),
    "pad": lambda x: snn.sequence_pad(x, 0.5)[0],
    "pad_to": lambda x: snn.sequence_pad(x, -1.0, maxlen=6)[0],
    "pad_unpad": _around,
    "pad_of_slices": lambda x: snn.sequence_pad(_sliced(x), 0.0)[0],
    "max_of_slices": lambda x: snn.sequence_pool(_sliced(x), "max"),
}  # fmt: skip


def _eager(build: Callable[[Any], Any], rows: Any, lengths: list[int]) -> Any:
    return build(create_lod_tensor(rows, [lengths]))


@pytest.mark.feature("L101")
@pytest.mark.parametrize("name", ROW_WISE)
def test_a_program_computes_what_dynamic_mode_computes(
    static_mode: Programs, name: str
) -> None:
    main, startup = static_mode
    build = ROW_WISE[name]
    x = static.data("x", [-1, 4], "float64", lod_level=1)
    x.stop_gradient = False
    out = build(x)
    weights = static.data("weights", [-1, -1], "float64")
    loss = (out.reshape([-1, out.shape[-1]]) * weights).sum()
    (gradient,) = static.gradients(loss, x)
    run = static.Executor().run
    run(startup)
    for lengths in BATCHES:
        rows = _rows(lengths)
        proa.disable_static()
        want = _eager(build, rows, lengths)
        factors = RNG.normal(size=(want.size // want.shape[-1], want.shape[-1]))
        delta, e = RNG.normal(size=rows.shape), 1e-5
        up, down = (
            (_eager(build, rows + s * delta, lengths).numpy().reshape(factors.shape)
             * factors).sum()
            for s in (e, -e)
        )  # fmt: skip
        proa.enable_static()
        feed = {"x": create_lod_tensor(rows, [lengths]), "weights": factors}
        got, found = run(main, feed, [out, gradient], return_numpy=False)
        np.testing.assert_array_equal(got.numpy(), want.numpy())
        assert isinstance(got, LoDTensor) == isinstance(want, LoDTensor)
        if isinstance(want, LoDTensor):
            assert got.lod() == want.lod()
        slope = (found.numpy() * delta).sum()
        assert slope == pytest.approx((up - down) / (2 * e), rel=1e-6, abs=1e-8)


def test_ids_are_enumerated_and_scattered(static_mode: Programs) -> None:
    main, _ = static_mode
    ids = static.data("ids", [-1, 1], "int64", lod_level=1)
    updates = static.data("updates", [-1, 1], "float32", lod_level=1)
    table = static.data("table", [-1, 5], "float32")
    near = snn.sequence_enumerate(ids, 2, pad_value=9)
    added = snn.sequence_scatter(table, ids, updates)
    lengths, values = [2, 0, 3], np.array([[1], [1], [0], [4], [1]])
    numbers = RNG.normal(size=(5, 1)).astype(np.float32)
    got, sums = static.Executor().run(
        main,
        {
            "ids": create_lod_tensor(values, [lengths]),
            "updates": create_lod_tensor(numbers, [lengths]),
            "table": np.zeros((3, 5), np.float32),
        },
        [near, added],
    )
    np.testing.assert_array_equal(got, [[1, 1], [1, 9], [0, 4], [4, 1], [1, 9]])
    want = np.zeros((3, 5), np.float32)
    np.add.at(want, (np.repeat(range(3), lengths), values[:, 0]), numbers[:, 0])
    np.testing.assert_allclose(sums, want, rtol=1e-6)


def test_outer_levels_are_propagated_and_referred_to(static_mode: Programs) -> None:
    main, _ = static_mode
    x = static.data("x", [-1, 2], "float32", lod_level=2)
    y = static.data("y", [-1, 2], "float32")
    assert (x.lod_level, y.lod_level) == (2, 0)
    pooled = snn.sequence_pool(x, "sum")
    again = snn.sequence_pool(pooled, "sum")
    spread = snn.sequence_expand(y, x, ref_level=0)
    rows = np.arange(12, dtype=np.float32).reshape(6, 2)
    fed = create_lod_tensor(rows, [[2, 1], [3, 1, 2]])
    small = np.array([[1, 2], [3, 4]], np.float32)
    one, two, three = static.Executor().run(
        main, {"x": fed, "y": small}, [pooled, again, spread], return_numpy=False
    )
    sums = np.array([rows[:3].sum(0), rows[3], rows[4:].sum(0)])
    np.testing.assert_array_equal(one.numpy(), sums)
    assert one.recursive_sequence_lengths() == [[2, 1]]
    np.testing.assert_array_equal(two.numpy(), [sums[:2].sum(0), sums[2]])
    np.testing.assert_array_equal(three.numpy(), small[[0, 0, 1]])
    assert three.recursive_sequence_lengths() == [[2, 1]]


def test_a_text_classifier_learns(static_mode: Programs) -> None:
    """Embedding, windows, pooling and a classifier, as sentiment programs have them."""
    main, startup = static_mode
    main.random_seed = startup.random_seed = 3
    ids = static.data("ids", [-1], "int64", lod_level=1)
    label = static.data("label", [-1, 1], "int64")
    emb = snn.embedding(ids, [20, 8])
    assert emb.lod_level == 1
    hidden = snn.sequence_conv(emb, 16, act="tanh")
    pooled = snn.sequence_pool(hidden, "max")
    logits = snn.fc(pooled, 2)
    loss = proa.mean(proa.nn.functional.cross_entropy(logits, label))
    tested = main.clone(for_test=True)
    proa.optimizer.Adam(0.05).minimize(loss)
    executor = static.Executor()
    executor.run(startup)
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(30):
        lengths = rng.integers(1, 7, 16).tolist()
        words = rng.integers(0, 20, (sum(lengths), 1))
        parts = np.split(words[:, 0], np.cumsum(lengths)[:-1])
        wanted = np.array([[int((p < 5).any())] for p in parts])
        feed = {"ids": create_lod_tensor(words[:, 0], [lengths]), "label": wanted}
        losses.append(float(executor.run(main, feed, [loss])[0]))
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
    again = static.Program.parse_from_string(tested.serialize_to_string())
    first, second = (executor.run(p, feed, [logits.name]) for p in (tested, again))
    np.testing.assert_array_equal(first, second)


def test_a_saved_program_takes_lod_tensors(
    static_mode: Programs, tmp_path: Any
) -> None:
    x = static.data("x", [-1, 3], "float32", lod_level=1)
    out = snn.sequence_pool(snn.sequence_reverse(x), "first")
    executor = static.Executor()
    static.save_inference_model(str(tmp_path / "m"), [x], [out], executor)
    program, names, targets = static.load_inference_model(str(tmp_path / "m"), executor)
    assert names[0] == "x"
    rows = _rows([2, 3], 3).astype(np.float32)
    fed = create_lod_tensor(rows, [[2, 3]])
    (got,) = executor.run(program, {"x": fed}, targets)
    np.testing.assert_array_equal(got, rows[[1, 4]])


def test_what_cannot_be_is_refused(static_mode: Programs) -> None:
    main, _ = static_mode
    x = static.data("x", [-1, 3], "float32", lod_level=1)
    plain = static.data("plain", [-1, 3], "float32")
    run = static.Executor().run
    with pytest.raises(InvalidArgumentError, match="must be data with lod_level"):
        snn.sequence_pool(plain, "sum")
    pooled = snn.sequence_pool(x, "sum")
    rows = np.zeros((6, 3), np.float32)
    with pytest.raises(InvalidArgumentError, match="must be fed a LoDTensor with 1"):
        run(main, {"x": rows}, [pooled])
    two = create_lod_tensor(rows, [[1, 1], [2, 4]])
    with pytest.raises(InvalidArgumentError, match="LoDTensor with 2"):
        run(main, {"x": two}, [pooled])
    short = snn.sequence_pad(x, 0.0, maxlen=2)[0]
    fed = create_lod_tensor(rows, [[2, 4]])
    with pytest.raises(Error, match="gather"):
        run(main, {"x": fed}, [short])
    number = proa.full([2], 3, "int64")
    cut = snn.sequence_slice(x, number * 0, number)
    with pytest.raises(Error, match="gather"):
        run(main, {"x": fed}, [cut])
    fed.set_recursive_sequence_lengths([[3, 3]])
    assert run(main, {"x": fed}, [cut])[0].shape == (6, 3)


def _reversed(rows: Any, lengths: list[int]) -> Any:
    return np.concatenate([part[::-1] for part in _parts(rows, lengths)])


def _parts(rows: Any, lengths: list[int]) -> list[Any]:
    return np.split(rows, np.cumsum(lengths)[:-1])


#: (state, data) -> the next state, by a program and by NumPy.
IN_LOOPS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "pooled": (
        lambda h, x: h + snn.sequence_expand_as(snn.sequence_pool(x, "sum"), x),
        lambda h, x, n: h + np.repeat([p.sum(0) for p in _parts(x, n)], n, 0),
    ),
    "reversed": (
        lambda h, x: h + snn.sequence_reverse(x * 2.0),
        lambda h, x, n: h + 2 * _reversed(x, n),
    ),
    "twice": (
        lambda h, x: h + snn.sequence_reverse(snn.sequence_reverse(x)),
        lambda h, x, n: h + x,
    ),
}


@pytest.mark.parametrize("name", IN_LOOPS)
@pytest.mark.parametrize("trains", [False, True])
def test_bodies_of_loops_compute_with_sequences_of_data(
    static_mode: Programs, name: str, trains: bool
) -> None:
    main, startup = static_mode
    ours, theirs = IN_LOOPS[name]
    x = static.data("x", [-1, 3], "float32", lod_level=1)
    scale = static.create_parameter([1], "float32", default_initializer=_fixed([1.0]))
    _, h = snn.while_loop(
        lambda i, h: i < 3,
        lambda i, h: [i + 1, ours(h, x)],
        [proa.zeros([1], "int64"), x * scale],
    )
    if trains:
        proa.optimizer.SGD(0.0).minimize(h.sum())
    lengths = [2, 4, 1]
    rows = _rows(lengths, 3).astype(np.float32)
    want = rows
    for _ in range(3):
        want = theirs(want, rows, lengths)
    executor = static.Executor()
    executor.run(startup)
    (got,) = executor.run(main, {"x": create_lod_tensor(rows, [lengths])}, [h])
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_sum_of_rows_has_the_sequences_of_the_first(static_mode: Programs) -> None:
    """Each row of a sequence plus what was repeated for it."""
    main, _ = static_mode
    x = static.data("x", [-1, 2], "float32", lod_level=1)
    repeated = snn.sequence_expand(snn.sequence_pool(x, "sum"), x)
    total = snn.sequence_pool(x + repeated, "sum")
    rows, lengths = np.ones((5, 2), np.float32), [2, 3]
    feed = {"x": create_lod_tensor(rows, [lengths])}
    (found,) = static.Executor().run(main, feed, [total])
    np.testing.assert_array_equal(found, [[n + n * n] * 2 for n in lengths])
