"""PaddlePaddle's files: pickled state dicts by the safe reader, tensor streams."""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, NotFoundError

RNG = np.random.RandomState(0)
WEIGHT = RNG.randn(3, 2).astype(np.float32)
NAMES = "StructuredToParameterName@@"


def dump(value: Any, path: Path, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(value, protocol=protocol))
    return path


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_state_dicts(protocol: int, tmp_path: Path) -> None:
    state = {
        "weight": WEIGHT, "bias": np.arange(2.0), "fortran": np.asfortranarray(WEIGHT),
        "big": np.arange(3, dtype=">i4"), "none": np.zeros((0, 3), np.int64),
        "flag": np.array(True), NAMES: {"weight": "linear_0.w_0"},
    }  # fmt: skip
    path = dump(state, tmp_path / "net.pdparams", protocol)
    got = proa.load(path, allow_pickle=True)
    assert NAMES not in got
    for name in ("weight", "bias", "fortran", "big", "none", "flag"):
        assert isinstance(got[name], proa.Tensor)
        np.testing.assert_array_equal(got[name].numpy(), state[name])
        assert got[name].numpy().dtype == np.dtype(state[name].dtype).newbyteorder("=")
    loaded = proa.load(path, allow_pickle=True, keep_name_table=True, return_numpy=True)
    assert loaded[NAMES] == {"weight": "linear_0.w_0"}
    assert isinstance(loaded["weight"], np.ndarray)
    net = nn.Linear(3, 2)
    net.set_state_dict(got)
    np.testing.assert_array_equal(net.weight.numpy(), WEIGHT)


# What Python 2 writes by protocol 2, where text and bytes are of one type, of
# {"w": numpy.float32([[1.5, -2.5]]), "rate": numpy.float64(0.25)}.
BITS, RATE = np.float32([1.5, -2.5]).tobytes(), np.float64(0.25).tobytes()
PYTHON_2 = (
    b"\x80\x02}q\x00(U\x01wq\x01cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\n"
    b"ndarray\nq\x03K\x00\x85q\x04U\x01bq\x05\x87q\x06Rq\x07(K\x01K\x01K\x02\x86q\x08"
    b"cnumpy\ndtype\nq\tU\x02f4q\nK\x00K\x01\x87q\x0bRq\x0c(K\x03U\x01<q\rNNN"
    b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x0eb\x89U\x08" + BITS + b"q\x0ftq\x10b"
    b"U\x04rateq\x11cnumpy.core.multiarray\nscalar\nq\x12h\tU\x02f8q\x13K\x00K\x01\x87"
    b"q\x14Rq\x15(K\x03U\x01<q\x16NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x17b"
    b"U\x08" + RATE + b"q\x18\x86q\x19Rq\x1au."
)


def test_a_pickle_of_python_2(tmp_path: Path) -> None:
    (tmp_path / "old.pdparams").write_bytes(PYTHON_2)
    got = proa.load(tmp_path / "old.pdparams", allow_pickle=True)
    assert sorted(got) == ["rate", "w"] and got["rate"] == 0.25
    assert got["w"].dtype == proa.float32
    assert got["w"].tolist() == [[1.5, -2.5]]


@pytest.mark.feature("L212")
def test_optimizer_states(tmp_path: Path) -> None:
    p = proa.create_parameter([2], name="linear_0.b_0")
    state = {
        "linear_0.b_0_moment1_0": np.float32([1, 2]),
        "linear_0.b_0_moment2_0": np.float32([3, 4]),
        "linear_0.b_0_beta1_pow_acc_0": np.float32([0.9**4]),
        "linear_0.b_0_beta2_pow_acc_0": np.float32([0.999**4]),
        "LR_Scheduler": {"last_epoch": 3, "last_lr": 0.0625},
        NAMES: {},
    }
    path = dump(state, tmp_path / "net.pdopt")
    adam = proa.optimizer.Adam(
        proa.optimizer.lr.ExponentialDecay(0.5, 0.5), parameters=[p]
    )
    adam.set_state_dict(proa.load(path, allow_pickle=True))
    again = adam.state_dict()
    assert adam.get_lr() == 0.0625
    assert adam._state["linear_0.b_0"]["step"] == 3
    for key in list(state)[:4]:
        np.testing.assert_allclose(again[key].numpy(), state[key], rtol=1e-6)


def test_large_parameters_that_were_cut(tmp_path: Path) -> None:
    state = {
        "w@@.0": WEIGHT.ravel()[:4], "w@@.1": WEIGHT.ravel()[4:], "b": np.ones(2),
        "UnpackBigParamInfor@@": {
            "w": {"OriginShape": (3, 2), "slices": ["w@@.0", "w@@.1"]}
        },
    }  # fmt: skip
    got = proa.load(dump(state, tmp_path / "x", 2), allow_pickle=True)
    assert sorted(got) == ["b", "w"]
    np.testing.assert_array_equal(got["w"].numpy(), WEIGHT)


@pytest.mark.feature("L217")
def test_tensors_in_other_structures(tmp_path: Path) -> None:
    low = np.array([0x3F80, 0x4000], np.uint16)  # 1 and 2 in bfloat16
    value = {"list": [("a", WEIGHT), 3, "text"], "pair": ("b", low), "n": None}
    got = proa.load(dump(value, tmp_path / "x"), allow_pickle=True)
    np.testing.assert_array_equal(got["list"][0].numpy(), WEIGHT)
    assert got["list"][0].name == "a"
    assert got["list"][1:] == [3, "text"]
    assert got["pair"].dtype == proa.bfloat16
    assert got["pair"].astype("float32").tolist() == [1, 2]
    lone = proa.load(dump(("t", WEIGHT), tmp_path / "y"), allow_pickle=True)
    np.testing.assert_array_equal(lone.numpy(), WEIGHT)


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("echo evil > /tmp/should_not_exist",)


@pytest.mark.parametrize(
    "value",
    [
        Evil(),
        {"w": Evil()},
        np.array([Evil()], object),
        {"w": np.array([(1, 2)], [("a", "i4"), ("b", "i4")])},
        np.array(["text"]),
        {1.5: 2},
        Path("x"),
        {"f": len},
        bytearray(b"x"),
        {1, 2},
    ],
    ids=lambda v: type(v).__name__,
)
@pytest.mark.parametrize("protocol", [2, 4])
def test_anything_else_is_refused(value: Any, protocol: int, tmp_path: Path) -> None:
    path = dump(value, tmp_path / "x", protocol)
    with pytest.raises(InvalidArgumentError, match="pickle must hold"):
        proa.load(path, allow_pickle=True)


def test_pickles_are_not_read_unasked(tmp_path: Path) -> None:
    path = dump({"w": WEIGHT}, tmp_path / "x")
    with pytest.raises(InvalidArgumentError, match="allow_pickle=True"):
        proa.load(path)


@pytest.mark.fuzz
def test_damaged_pickles_are_rejected(tmp_path: Path) -> None:
    whole = pickle.dumps({"w": WEIGHT, "b": [1, ("n", WEIGHT)]}, protocol=2)
    random = np.random.RandomState(0)
    path = tmp_path / "x"
    for i in range(400):
        data = bytearray(whole)
        if i < len(whole):
            data = data[: max(i, 4)]
        else:
            data[random.randint(2, len(data))] ^= 1 << random.randint(0, 8)
        path.write_bytes(bytes(data))
        with contextlib.suppress(InvalidArgumentError):
            proa.load(path, allow_pickle=True)


# -- tensor streams ------------------------------------------------------------------


@pytest.mark.feature("L220")
def test_the_documented_bytes_of_a_tensor(tmp_path: Path) -> None:
    data = bytes(16) + bytes.fromhex("04000000 08051002 0000803f 0000803f")
    (tmp_path / "x").write_bytes(data)
    assert proa.load(tmp_path / "x").tolist() == [1, 1]
    proa.save(proa.ones([2]), tmp_path / "y", use_binary_format=True)
    assert (tmp_path / "y").read_bytes() == data


@pytest.mark.feature("L220")
@pytest.mark.parametrize(
    "dtype",
    ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16",
     "float32", "float64", "complex64", "complex128"],
)  # fmt: skip
def test_every_dtype_round_trips_through_a_stream(dtype: str, tmp_path: Path) -> None:
    x = proa.to_tensor([[0.0, 1.0, 3.0]]).astype(dtype)
    proa.save(x, tmp_path / "x", use_binary_format=True)
    y = proa.load(tmp_path / "x")
    assert (y.dtype, y.shape) == (x.dtype, [1, 3])
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    with pytest.raises(InvalidArgumentError, match="expects a Tensor"):
        proa.save({"x": x}, tmp_path / "x", use_binary_format=True)


def test_streams_with_levels_of_detail_and_packed_sizes() -> None:
    from proa.interop.paddle import read_stream

    levels = struct.pack("<IQQ2Q", 0, 1, 16, 0, 3)
    data = levels + struct.pack("<Ii", 0, 6) + b"\x08\x05\x12\x02\x01\x03"
    tensor, end = read_stream(data + np.float32([1, 2, 3]).tobytes() + b"more")
    assert tensor.array.tolist() == [[1, 2, 3]]
    assert end == len(data) + 12


def variable(name: str, kind: int = 7, persistable: bool = True) -> bytes:
    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    body = field(1, name.encode()) + field(2, bytes([8, kind]))
    body += bytes([3 << 3, persistable])
    return field(3, body)


def program(*variables: bytes) -> bytes:
    block = b"\x08\x00\x10\x00" + b"".join(variables)
    return (
        bytes([1 << 3 | 2])
        + bytes([len(block) % 128 | 128, len(block) // 128])
        + (block)
    )


def stream(array: np.ndarray) -> bytes:
    from proa.base.safetensors import Stored
    from proa.interop.paddle import write_stream

    return write_stream(Stored(array, array.dtype.name))


@pytest.mark.feature("L213")
@pytest.mark.feature("L214")
def test_parameters_of_saved_models(tmp_path: Path) -> None:
    a, b = WEIGHT, np.arange(4)
    apart = tmp_path / "apart"
    apart.mkdir()
    (apart / "fc.w_0").write_bytes(stream(a))
    (apart / "fc.b_0").write_bytes(stream(b))
    (apart / "__model__").write_bytes(b"anything")
    model = program(
        variable("fc.w_0"), variable("feed", 9), variable("x", persistable=False),
        variable("fc.b_0"),
    )  # fmt: skip
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "__model__").write_bytes(model)
    (whole / "__params__").write_bytes(stream(b) + stream(a))  # sorted by name
    (tmp_path / "net.pdmodel").write_bytes(model)
    (tmp_path / "net.pdiparams").write_bytes(stream(b) + stream(a))
    for path in (apart, whole, tmp_path / "net"):
        got = proa.load(path)
        assert sorted(got) == ["fc.b_0", "fc.w_0"]
        np.testing.assert_array_equal(got["fc.w_0"].numpy(), a)
        np.testing.assert_array_equal(got["fc.b_0"].numpy(), b)
    (whole / "__params__").write_bytes(stream(b) + stream(a) + b"?")
    with pytest.raises(InvalidArgumentError, match="1 bytes more"):
        proa.load(whole)
    (whole / "__model__").write_bytes(b"\x0a\xff")
    with pytest.raises(InvalidArgumentError, match="no ProgramDesc"):
        proa.load(whole)
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match="expected parameter files"):
        proa.load(tmp_path / "empty")


@pytest.mark.fuzz
def test_damaged_streams_are_rejected(tmp_path: Path) -> None:
    whole = stream(WEIGHT)
    path = tmp_path / "x"
    for cut in range(4, len(whole)):
        path.write_bytes(whole[:cut])
        with pytest.raises(InvalidArgumentError):
            proa.load(path)
    path.write_bytes(whole + b"x")
    with pytest.raises(InvalidArgumentError, match="1 bytes after it"):
        proa.load(path)
    random = np.random.RandomState(0)
    for _ in range(300):
        data = bytearray(whole)
        data[random.randint(4, 30)] ^= 1 << random.randint(0, 8)
        path.write_bytes(bytes(data))
        with contextlib.suppress(InvalidArgumentError):
            proa.load(path)
