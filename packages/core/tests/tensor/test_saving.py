"""save and load: safetensors files that other readers open; damage is rejected."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import Error, InvalidArgumentError, NotFoundError

safetensors_numpy = pytest.importorskip("safetensors.numpy")


def state() -> dict[str, Any]:
    return {
        "w": proa.to_tensor(np.arange(6.0, dtype=np.float32).reshape(2, 3)),
        "inner": {"b": proa.to_tensor([1, 2]), "list": [proa.ones([1]), 3, "text"]},
        "lr": 0.5, "epoch": 3, "none": None, "flag": True, "pair": (1, 2.5),
        "scalar": proa.to_tensor(2.5), "empty": proa.zeros([0, 3]),
    }  # fmt: skip


def test_saved_objects_are_loaded_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state.pdparams"
    proa.save(state(), path)
    got = proa.load(path)
    assert list(got) == list(state())
    np.testing.assert_array_equal(got["w"].numpy(), state()["w"].numpy())
    assert got["inner"]["b"].dtype == proa.int64
    assert got["inner"]["list"][1:] == [3, "text"]
    assert got["lr"] == 0.5
    assert got["none"] is None
    assert got["flag"] is True
    assert got["pair"] == (1, 2.5)
    assert got["scalar"].shape == []
    assert got["empty"].shape == [0, 3]
    assert isinstance(proa.load(path, return_numpy=True)["w"], np.ndarray)
    assert os.listdir(path.parent) == ["state.pdparams"]


@pytest.mark.parametrize(
    "dtype",
    ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16",
     "float32", "float64", "complex64"],
)  # fmt: skip
def test_every_dtype_round_trips(tmp_path: Path, dtype: str) -> None:
    x = proa.to_tensor([0.0, 1.0, 3.0]).astype(dtype)
    proa.save({"x": x}, tmp_path / "x")
    y = proa.load(tmp_path / "x")["x"]
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.numpy(), x.numpy())


def test_other_readers_open_our_files_and_we_theirs(tmp_path: Path) -> None:
    a = {
        "p": np.random.RandomState(0).randn(3, 2).astype(np.float32),
        "q": np.arange(4),
    }
    proa.save({k: proa.to_tensor(v) for k, v in a.items()}, tmp_path / "ours")
    theirs = safetensors_numpy.load_file(tmp_path / "ours")
    safetensors_numpy.save_file(a, tmp_path / "theirs")
    ours = proa.load(tmp_path / "theirs")
    for name, array in a.items():
        np.testing.assert_array_equal(theirs[name], array)
        np.testing.assert_array_equal(ours[name].numpy(), array)


def test_names_that_would_clash_do_not(tmp_path: Path) -> None:
    given = {"a.b": proa.ones([1]), "a": {"b": proa.zeros([1])}}
    proa.save(given, tmp_path / "x")
    got = proa.load(tmp_path / "x")
    assert got["a.b"].item() == 1
    assert got["a"]["b"].item() == 0


def test_objects_are_refused_and_leave_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    proa.save({"a": 1}, path)
    with pytest.raises(InvalidArgumentError, match="got object at 'bad'"):
        proa.save({"ok": 1, "bad": object()}, path)
    assert proa.load(path) == {"a": 1}
    assert os.listdir(tmp_path) == ["x"]


def test_missing_and_foreign_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such file"):
        proa.load(tmp_path / "nothing")
    for content, text in [
        (b"", "at least 8 bytes"),
        (b"hello world, this is text", "fit into the file"),
        (pickle.dumps({"a": 1}), "pickle"),
        ((5).to_bytes(8, "little") + b"[1,2]", "JSON object"),
        ((5).to_bytes(8, "little") + b"{nope", "must be JSON"),
    ]:
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(InvalidArgumentError, match=text):
            proa.load(tmp_path / "x")


def test_damage_never_gets_through(tmp_path: Path) -> None:
    path = tmp_path / "x"
    proa.save(state(), path)
    whole = path.read_bytes()
    for cut in range(0, len(whole), 7):
        path.write_bytes(whole[:cut])
        with pytest.raises(InvalidArgumentError):
            proa.load(path)
    random = np.random.RandomState(0)
    header = 8 + int.from_bytes(whole[:8], "little")
    for _ in range(300):
        data = bytearray(whole)
        data[random.randint(0, header)] ^= 1 << random.randint(0, 8)
        path.write_bytes(bytes(data))
        with contextlib.suppress(Error):
            proa.load(path)  # a changed name or number may still be a file


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
        {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]},
        {"dtype": "F32", "shape": [1]},
        {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 0]},
        {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]},
        [1, 2],
    ],
)
def test_false_headers_are_rejected(tmp_path: Path, entry: Any) -> None:
    text = json.dumps({"x": entry}).encode()
    data = len(text).to_bytes(8, "little") + text + b"\0" * 4
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(InvalidArgumentError, match="safetensors"):
        proa.load(tmp_path / "x")
