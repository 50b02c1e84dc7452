"""NumPy, DLPack, pickling, indexing and conversions of the bare tensor."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import proa
from proa import _core
from proa.errors import InvalidArgumentError, OutOfRangeError
from proa.schema.dtypes import CODES

NAMES = [name for name in CODES if name != "bfloat16"]


def tensor(values: Any, dtype: Any = None) -> Any:
    return _core.from_numpy(np.asarray(values, dtype), True)


@pytest.mark.parametrize("name", NAMES)
def test_arrays_go_through_unchanged(name: str):
    a = np.arange(6).reshape(2, 3).astype(name)
    x = tensor(a)
    assert x.dtype == name and x.dtype == a.dtype and x.shape == [2, 3]
    assert x.numpy().dtype == a.dtype
    np.testing.assert_array_equal(x.numpy(), a)
    assert x.tolist() == a.tolist()


def test_memory_is_shared_in_both_directions_unless_copied():
    a = np.zeros((3, 4), "float32")
    x = _core.from_numpy(a[::-1, 1:], False)
    a[2, 1] = 7
    assert x.numpy()[0, 0] == 7 and np.shares_memory(x.numpy(), a)
    x.numpy()[0, 0] = 8
    assert a[2, 1] == 8
    assert not np.shares_memory(_core.from_numpy(a, True).numpy(), a)
    a.flags.writeable = False
    assert not np.shares_memory(_core.from_numpy(a, False).numpy(), a)
    swapped = np.arange(3, dtype=">i4")
    assert _core.from_numpy(swapped, False).tolist() == [0, 1, 2]


def test_an_array_outlives_its_tensor_and_vice_versa():
    x = tensor(np.arange(1000.0))
    a = x.numpy()
    del x
    _core.empty_cache()
    np.testing.assert_array_equal(a, np.arange(1000.0))
    x = _core.from_numpy(np.arange(5.0), False)
    assert x.tolist() == [0, 1, 2, 3, 4]


def test_bfloat16_travels_as_bits():
    x = _core.ops.cast(tensor([1.5, -2.0], "float32"), dtype="bfloat16")
    assert x.numpy().dtype == np.uint16 and x.tolist() == [1.5, -2.0]
    y = _core.from_numpy(x.numpy(), True, "bfloat16")
    assert y.dtype == "bfloat16" and y.tolist() == [1.5, -2.0]


def test_types_that_tensors_lack_are_named():
    with pytest.raises(TypeError, match="<U1"):
        _core.from_numpy(np.array(["a"]), False)
    with pytest.raises(InvalidArgumentError, match="at most 8 axes"):
        _core.from_numpy(np.zeros((1,) * 9), False)


def test_dlpack_with_numpy():
    x = tensor(np.arange(6.0).reshape(2, 3))
    a = np.from_dlpack(x)
    np.testing.assert_array_equal(a, x.numpy())
    assert a.ctypes.data == x.data_ptr()
    b = np.arange(12.0).reshape(3, 4)[:, ::2]
    y = _core.from_dlpack(b)
    assert np.shares_memory(y.numpy(), b)
    np.testing.assert_array_equal(y.numpy(), b)
    capsule = b.__dlpack__()
    _core.from_dlpack(capsule)
    with pytest.raises(ValueError):
        _core.from_dlpack(capsule)


def test_numpy_functions_take_tensors():
    x = tensor([1.0, 4.0])
    np.testing.assert_array_equal(np.sqrt(np.asarray(x)), [1.0, 2.0])
    assert np.asarray(x, "float32").dtype == np.float32
    y = x * np.array([2.0, 3.0])
    assert y.tolist() == [2.0, 12.0]


def test_numbers():
    assert float(tensor([2.5])) == 2.5 and int(tensor(3)) == 3
    assert [10, 20, 30][tensor(1)] == 20
    assert bool(tensor([1])) and not tensor(0.0)
    assert tensor(2**53 + 1).item() == 2**53 + 1
    assert tensor([[1, 2]]).item(0, 1) == 2
    with pytest.raises(InvalidArgumentError, match="one element"):
        bool(tensor([1, 2]))
    with pytest.raises(TypeError, match="integer tensor"):
        [1, 2][tensor(1.0)]
    with pytest.raises(TypeError, match="must have an axis"):
        len(tensor(1.0))


def test_promotion_of_python_numbers_never_widens():
    f2, i4, b = tensor([1], "float16"), tensor([1], "int32"), tensor([True])
    assert (f2 + 1.5).dtype == "float16" and (i4 + 1).dtype == "int32"
    assert (i4 + 1.5).dtype == "float32" and (b + 1).dtype == "int64"
    assert (i4 / i4).dtype == "float32" and (1 - f2).dtype == "float16"
    assert (tensor([1.0], "float32") * 1j).dtype == "complex64"
    assert (i4 + tensor([1.0], "float64")).dtype == "float64"
    assert (x := tensor([1], "uint8") + tensor([1], "int8")).dtype == "int16", x


def test_slots_reach_their_ops():
    a, b = np.array([7.0, -7.0]), np.array([2.0, 2.0])
    x, y = tensor(a), tensor(b)
    for got, want in [
        (x + y, a + b),
        (x - y, a - b),
        (x * y, a * b),
        (x / y, a / b),
        (x // y, a // b),
        (x % y, a % b),
        (x**2, a**2),
        (2.0**y, 2.0**b),
        (-x, -a),
        (abs(x), abs(a)),
        (x > y, a > b),
        (x != y, a != b),
        (x @ y, a @ b),
        (tensor([1, 2]) & 3, np.array([1, 2])),
        (~tensor([True]), np.array([False])),
    ]:
        np.testing.assert_array_equal(got.numpy(), want)
    assert (x == None) is False  # noqa: E711  (the slot is what is tested)
    with pytest.raises(TypeError):
        x + "a"


KEYS = [
    0,
    -1,
    slice(None),
    slice(1, None),
    slice(None, None, -1),
    slice(-2, None, 2),
    (1, 2),
    (slice(None), 1),
    (Ellipsis, 0),
    (None, 1),
    (slice(None, None, 2), None, slice(3, 0, -2)),
    (Ellipsis, None),
    (1, Ellipsis, slice(0, 0)),
    (),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_basic_indexing_reads_and_writes_as_numpy(key: Any):
    a = np.arange(24.0).reshape(2, 3, 4)
    x = tensor(a)
    np.testing.assert_array_equal(x[key].numpy(), a[key])
    assert np.shares_memory(x[key].numpy(), x.numpy()) or a[key].size == 0
    want = a.copy()
    want[key] = -1.0
    x[key] = -1.0
    np.testing.assert_array_equal(x.numpy(), want)
    value = np.random.default_rng(0).normal(size=a[key].shape)
    want[key] = value
    x[key] = value
    np.testing.assert_array_equal(x.numpy(), want)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_recorded_writes_equal_numpy(key: Any):
    a = np.arange(24.0).reshape(2, 3, 4)
    x = tensor(a)
    x.stop_gradient = False
    y = x * 1.0
    value = np.random.default_rng(0).normal(size=a[key].shape)
    y[key] = value
    want = a.copy()
    want[key] = value
    np.testing.assert_array_equal(y.numpy(), want)


def test_overlapping_assignment_reads_before_it_writes():
    a = np.arange(5.0)
    x = tensor(a)
    x[1:] = x[:-1]
    np.testing.assert_array_equal(x.numpy(), [0, 0, 1, 2, 3])


def test_indices_out_of_range_raise_and_loops_end():
    x = tensor([1.0, 2.0])
    with pytest.raises(OutOfRangeError, match=r"\[-2, 2\), got 2"):
        x[2]
    with pytest.raises(IndexError, match="at most 1"):
        x[0, 0]
    assert [float(v) for v in x] == [1.0, 2.0]


def test_pickles_and_deep_copies():
    x = tensor([[1.0, 2.0]], "float32")
    x.stop_gradient = False
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.tolist() == x.tolist() and not y.stop_gradient
        assert not np.shares_memory(y.numpy(), x.numpy())
    b = _core.ops.cast(x, dtype="bfloat16").detach()
    assert pickle.loads(pickle.dumps(b)).dtype == "bfloat16"
    assert pickle.loads(pickle.dumps(proa.float32)) is proa.float32


def test_wrong_arguments_are_named():
    x = tensor([1.0])
    for call, message in [
        (lambda: _core.ops.silu(x, beta="a"), r"\[silu\] beta .* float, got 'str'"),
        (lambda: _core.ops.silu(x, gamma=1.0), r"\[silu\] .* got 'gamma'"),
        (lambda: _core.ops.silu(), r"\[silu\] x must be"),
        (lambda: _core.ops.add(x, object()), r"\[add\] y must be .* got 'object'"),
        (lambda: _core.ops.silu(x, 1.0, beta=2.0), r"\[silu\] beta is given twice"),
        (lambda: _core.ops.reshape(x, shape="ab"), r"\[reshape\] shape must be a list"),
    ]:
        with pytest.raises(TypeError, match=message):
            call()
    assert _core.ops.silu(x, beta=1.0, name="ignored").shape == [1]
    with pytest.raises(InvalidArgumentError, match=r"\[silu\] the dtype must be"):
        _core.ops.silu(tensor([1]), beta=1.0)


def test_subclasses_keep_their_attributes():
    class Named(proa.Tensor):  # type: ignore[misc,unused-ignore]
        label: str

    x = Named(tensor([1.0]))
    x.label = "mine"
    assert x.label == "mine" and isinstance(x * 2, proa.Tensor)
    assert x.shape == [1] and x[0].item() == 1.0


def test_nan_is_an_error_while_the_flag_is_on():
    x = tensor([-1.0])
    proa.set_flags({"FLAGS_check_nan_inf": True})
    try:
        with pytest.raises(RuntimeError, match=r"\[log\] results must be finite"):
            _core.ops.log(x)
    finally:
        proa.set_flags({"FLAGS_check_nan_inf": False})
    assert np.isnan(_core.ops.log(x).numpy())


def test_symbols_are_recorded_and_shapes_inferred():
    calls = []

    def recorder(op: str, inputs: Any, attrs: Any) -> Any:
        calls.append((op, attrs))
        specs = _core.infer(op, inputs, attrs)
        return [_core.symbol(shape, dtype, object()) for shape, dtype in specs]

    before = _core.set_recorder(recorder)
    try:
        x = _core.symbol([-1, 4], "float32", "input")
        y = _core.ops.silu(x @ np.zeros((4, 3), "float32"), beta=2.0)
        assert y.shape == [-1, 3] and x._handle == "input"
        assert [op for op, _ in calls] == ["matmul", "silu"]
        assert calls[1][1] == {"beta": 2.0}
        with pytest.raises(RuntimeError, match="depend on a tensor"):
            y.numpy()
        x.stop_gradient = False
        _core.ops.mean(_core.ops.silu(x, beta=1.0), axis=[], keepdim=False).backward()
        assert x.grad.shape == [-1, 4] and x.grad._is_symbolic
    finally:
        _core.set_recorder(before)


def test_an_index_of_no_elements_reads_nothing():
    # NumPy gives such an array any strides, here 0.
    index = np.random.default_rng(0).integers(0, 2, size=0)
    for axis in (0, 1):
        shape = [0 if i == axis else n for i, n in enumerate((2, 1))]
        assert (
            _core.ops.gather(tensor(np.ones((2, 1))), tensor(index), axis=axis).shape
            == shape
        )


def test_the_quotient_rounded_down_has_a_signed_zero():
    # As in Python: the sign of a zero is that of the exact quotient.
    x, y = np.meshgrid([0.0, -0.0, 0.5, -0.5, 2.0], [1.0, -1.0, np.inf, -np.inf])
    quotient = (tensor(x) // tensor(y)).numpy()
    with np.errstate(all="ignore"):
        wanted = np.floor_divide(x, y)
    np.testing.assert_array_equal(quotient, wanted)
    np.testing.assert_array_equal(np.signbit(quotient), np.signbit(wanted))


def test_complex_numbers_are_no_real_ones():
    x = tensor([1 + 2j])
    assert complex(x) == 1 + 2j and complex(tensor(2.5)) == 2.5
    for convert in (float, int):
        with pytest.raises(TypeError, match="expected a tensor of real numbers"):
            convert(x)
