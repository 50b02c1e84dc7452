"""save and load: what may be saved, and where to."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, NotFoundError


@pytest.mark.feature("L216")
def test_a_lone_tensor(tmp_path: Path) -> None:
    proa.save(proa.to_tensor([1.5, 2.5]), tmp_path / "x")
    got = proa.load(tmp_path / "x")
    assert isinstance(got, proa.Tensor)
    assert got.tolist() == [1.5, 2.5]


@pytest.mark.feature("L217")
@pytest.mark.parametrize(
    "make",
    [
        lambda t: [t, t + 1],
        lambda t: (t, t + 1),
        lambda t: {"a": t, "b": t + 1},
        lambda t: {"a": [t, (t, {"deep": [t, None, 3]})], "empty": [], "none": {}},
    ],
)
def test_nested_tensors(make: Any, tmp_path: Path) -> None:
    value = make(proa.to_tensor([1, 2]))
    proa.save(value, tmp_path / "x")

    def plain(v: Any) -> Any:
        if isinstance(v, dict):
            return {k: plain(w) for k, w in v.items()}
        if isinstance(v, (list, tuple)):
            return type(v)(map(plain, v))
        return ("tensor", v.tolist()) if isinstance(v, proa.Tensor) else v

    assert plain(proa.load(tmp_path / "x")) == plain(value)


@pytest.mark.feature("L212")
@pytest.mark.feature("L218")
def test_a_layer_is_saved_by_its_state(tmp_path: Path) -> None:
    net, other = nn.Linear(3, 2), nn.Linear(3, 2)
    proa.save(net, tmp_path / "net")
    other.set_state_dict(proa.load(tmp_path / "net"))
    np.testing.assert_array_equal(other.weight.numpy(), net.weight.numpy())


@pytest.mark.feature("L219")
def test_a_program(tmp_path: Path) -> None:
    net = nn.Linear(3, 2)
    spec = [proa.static.InputSpec([None, 3], "float32")]
    proa.jit.save(net, str(tmp_path / "net"), spec)
    program = proa.load(tmp_path / "net.proa")
    assert type(program).__name__ == "Program"
    proa.save(program, tmp_path / "again.proa")
    x = proa.ones([4, 3])
    loaded = proa.jit.load(str(tmp_path / "again.proa"))
    np.testing.assert_array_equal(loaded(x).numpy(), net(x).numpy())
    again = proa.load(io.BytesIO((tmp_path / "again.proa").read_bytes()))
    assert str(again) == str(program)


@pytest.mark.feature("L214")
@pytest.mark.parametrize("name", ["plain", "with.suffix", "dir/deep.pdparams"])
@pytest.mark.parametrize("kind", [str, Path])
def test_names_are_taken_as_they_are(name: str, kind: Any, tmp_path: Path) -> None:
    path = tmp_path / name
    proa.save({"a": 1}, kind(path))
    assert path.is_file()
    assert proa.load(kind(path)) == {"a": 1}


@pytest.mark.parametrize("size", [3, 100_000])
def test_file_objects(size: int, tmp_path: Path) -> None:
    value = {"x": proa.arange(size), "n": 3}
    memory = io.BytesIO()
    proa.save(value, memory)
    memory.seek(0)
    assert (proa.load(memory)["x"] == value["x"]).all()
    with (tmp_path / "x").open("wb") as file:
        proa.save(value, file)
    assert proa.load(tmp_path / "x")["n"] == 3
    with (tmp_path / "x").open("rb") as file:
        assert proa.load(file, return_numpy=True)["x"].tolist() == list(range(size))
    memory = io.BytesIO()
    proa.save(value["x"], memory, use_binary_format=True)
    memory.seek(0)
    assert (proa.load(memory) == value["x"]).all()


@pytest.mark.feature("L215")
def test_options_go_by_keywords(tmp_path: Path) -> None:
    for protocol in (2, 3, 4):
        proa.save({"a": proa.ones([2])}, tmp_path / "x", protocol=protocol)
    assert isinstance(proa.load(tmp_path / "x", return_numpy=True)["a"], np.ndarray)
    assert not hasattr(proa, "SaveLoadConfig")
    with pytest.raises(InvalidArgumentError, match="protocol must be one of"):
        proa.save({}, tmp_path / "x", protocol=1)
    with pytest.raises(NotFoundError, match="no such file"):
        proa.load(tmp_path / "nothing")


def test_what_is_loaded_from_a_large_file_has_memory_of_its_own(tmp_path: Path) -> None:
    x = proa.arange(3_000_000)
    proa.save({"x": x, "low": proa.ones([5]).astype("bfloat16")}, tmp_path / "x")
    got = proa.load(tmp_path / "x")
    arrays = proa.load(tmp_path / "x", return_numpy=True)
    (tmp_path / "x").unlink()
    got["x"][0] = 7
    arrays["x"][0] = 8
    assert got["x"][:2].tolist() == [7, 1]
    assert arrays["x"][-1] == 2_999_999
    assert got["low"].dtype == proa.bfloat16


@pytest.mark.full
def test_a_file_beyond_4_gigabytes(tmp_path: Path) -> None:
    size = 2**32 + 4097
    array = np.zeros(size, np.uint8)
    array[-1] = 9
    proa.save({"x": array, "y": proa.ones([3])}, tmp_path / "x")
    assert (tmp_path / "x").stat().st_size > size
    del array
    got = proa.load(tmp_path / "x")
    assert got["y"].tolist() == [1, 1, 1]
    assert (got["x"].shape, got["x"][-1]) == ((size,), 9)
