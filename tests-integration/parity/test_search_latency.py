"""Latency tables of search spaces, measured by proa-infer."""

import json

import pytest

import proa
from proa.errors import InvalidArgumentError, NotFoundError, PreconditionNotMetError
from proa_slim.analysis import TableLatencyPredictor
from proa_slim.search import Block, ChoiceSpace, LatencyTable, Search, bench


def build(arch):
    return [
        Block("conv", 1, 16),
        Block("conv", 16, 16, arch["kernel"]),
        None if arch["second"] is None else Block("conv", 16, 16),
        Block("head", 16, 2),
    ]


SPACE = ChoiceSpace({"kernel": [1, 7], "second": [None, 3]}, build)
SHAPE = [None, 1, 24, 24]


def test_a_table_has_the_blocks_of_a_space_and_sums_them(tmp_path):
    path = tmp_path / "latency.json"
    table = LatencyTable(path, runs=20)
    times = table.measure(SPACE, SHAPE)
    assert sorted(times) == sorted(
        f"{block} @ 24"
        for block in (
            Block("conv", 1, 16), Block("conv", 16, 16, 1), Block("conv", 16, 16, 7),
            Block("conv", 16, 16), Block("head", 16, 2),
        )
    )  # fmt: skip
    assert all(value > 0 for value in times.values())
    chosen = [Block("conv", 1, 16), Block("conv", 16, 16, 7), Block("head", 16, 2)]
    expected = sum(times[f"{block} @ 24"] for block in chosen)
    assert table.predict(SPACE, [1, 0], SHAPE) == pytest.approx(expected)
    # 49 times the products: the table tells these apart.
    assert table.predict(SPACE, [1, 0], SHAPE) > table.predict(SPACE, [0, 0], SHAPE)
    again = LatencyTable(path)
    assert again.times == times


def test_a_search_keeps_to_a_time(tmp_path):
    table = LatencyTable(runs=20)
    table.measure(SPACE, SHAPE)
    limit = table.predict(SPACE, [0, 1], SHAPE)

    def fast(tokens):
        return table.predict(SPACE, tokens, SHAPE) <= limit

    found = Search(SPACE, "random", constraint=fast)
    found.run(lambda trial: 0.0, 4, progress=False)
    assert all(fast(record.tokens) for record in found.trials)


def test_bad_files_and_shapes_are_refused(tmp_path):
    path = tmp_path / "latency.json"
    path.write_text("{}")
    with pytest.raises(InvalidArgumentError, match="of measured times"):
        LatencyTable(path)
    content = {"format": "proa-latency-1", "cpu": "6502", "threads": 1}
    path.write_text(json.dumps({**content, "milliseconds": {}}))
    with pytest.raises(InvalidArgumentError, match="got those of '6502' with 1"):
        LatencyTable(path)
    with pytest.raises(InvalidArgumentError, match="square images"):
        LatencyTable().predict(SPACE, [0, 0], [None, 1, 24, 25])
    (tmp_path / "model.proa").write_bytes(b"nothing")
    with pytest.raises(PreconditionNotMetError, match="a model that runs, got"):
        bench(tmp_path / "model.proa")


def test_a_file_takes_as_long_as_its_operators(tmp_path):
    proa.seed(0)
    net = proa.nn.Sequential(*(proa.nn.Linear(512, n) for n in (512, 512, 8)))
    spec = [proa.static.InputSpec([None, 512], "float32", "x")]
    proa.jit.save(net, str(tmp_path / "net.proa"), spec)
    predictor = TableLatencyPredictor(tmp_path / "operators.json", runs=200)
    found = predictor.predict(tmp_path / "net.proa")
    wide = "float32[1, 512], float32[512, 512], float32[512]"
    narrow = "float32[1, 512], float32[512, 8], float32[8]"
    assert set(predictor.times) == {f"linear({wide})", f"linear({narrow})"}
    times = [predictor.op_predictor("linear", key) for key in (wide, wide, narrow)]
    assert found == pytest.approx(sum(times))
    # A table continues, and has other shapes by themselves.
    again = TableLatencyPredictor(tmp_path / "operators.json")
    assert again.predict(tmp_path / "net.proa", threads=1) == found
    assert again.predict(tmp_path / "net.proa", input_shape=[512, 512]) > found
    assert len(again.times) == 4
    with pytest.raises(InvalidArgumentError, match="threads=1, of which"):
        again.predict(tmp_path / "net.proa", threads=4)
    with pytest.raises(NotFoundError, match="operator of the table"):
        again.op_predictor("linear", "x")
    with pytest.raises(NotFoundError, match="expected a model file"):
        again.predict(tmp_path / "no.proa")
