"""Programs of 1.x that read their data themselves, rewritten and run."""

from __future__ import annotations

import numpy as np
import pytest

from .programs import migrated

pytest.importorskip("libcst")

PROGRAM = '''
"""Sums of rows of sequences, and of numbers, that readers give."""
import numpy as np
import paddle
import paddle.fluid as fluid


def samples():
    for n in range(1, 6):
        yield [[n]] * n, [n * 10]


def read_by(kind):
    if kind == "py_reader":
        reader = fluid.layers.py_reader(
            capacity=8, shapes=[[-1, 1], [-1, 1]], dtypes=["int64", "int64"],
            lod_levels=[1, 0], name="train", use_double_buffer=True)
        reader.decorate_paddle_reader(paddle.batch(samples, batch_size=2))
        reader = fluid.layers.double_buffer(reader)
        words, label = fluid.layers.read_file(reader)
        return reader, words, label
    words = fluid.data("words", [None, 1], "int64", lod_level=1)
    label = fluid.data("label", [None, 1], "int64")
    if kind == "by data":
        reader = fluid.layers.create_py_reader_by_data(8, [words, label])
        reader.decorate_sample_list_generator(paddle.batch(samples, batch_size=2))
    else:
        reader = fluid.io.PyReader([words, label], capacity=8, iterable=False)
        reader.decorate_sample_list_generator(paddle.batch(samples, batch_size=2))
    return reader, words, label


def run(kind):
    reader, words, label = read_by(kind)
    rows = fluid.layers.cast(words, "float32")
    sums = fluid.layers.sequence_pool(rows, "sum")
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    found = []
    for _ in range(2):
        reader.start()
        try:
            while True:
                a, b = exe.run(fetch_list=[sums, label])
                found.append((a.reshape(-1).tolist(), b.reshape(-1).tolist()))
        except fluid.core.EOFException:
            reader.reset()
    return found


def iterated():
    x = fluid.data("x", [None, 2])
    reader = fluid.io.PyReader([x], capacity=8)
    reader.decorate_sample_generator(
        lambda: ([np.full(2, n, "float32")] for n in range(5)), batch_size=2,
        drop_last=False)
    total = fluid.layers.reduce_sum(x)
    exe = fluid.Executor(fluid.CPUPlace())
    return [float(exe.run(feed=data, fetch_list=[total])[0]) for data in reader()]


def averaged():
    mean = fluid.average.WeightedAverage()
    mean.add(value=1.0, weight=1)
    mean.add(value=np.asarray([4.0]), weight=3)
    return mean.eval()
'''


@pytest.mark.feature("L167")
@pytest.mark.parametrize("kind", ["py_reader", "by data", "PyReader"])
def test_batches_come_until_the_end(kind: str) -> None:
    with migrated(PROGRAM) as names:
        found = names["run"](kind)
    each = [([1.0, 4.0], [10, 20]), ([9.0, 16.0], [30, 40]), ([25.0], [50])]
    assert found == each * 2


def test_batches_are_iterated_over() -> None:
    with migrated(PROGRAM) as names:
        assert names["iterated"]() == [2.0, 10.0, 8.0]
        np.testing.assert_allclose(names["averaged"](), [13 / 4])
