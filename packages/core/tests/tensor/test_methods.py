"""In-place functions, conversions, copies, printing."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import ShapeError, UnavailableError


@pytest.mark.feature("L032")
@pytest.mark.feature("L034", how="figure")
@pytest.mark.parametrize(
    ("name", "args"),
    [("clip_", (-1.0, 1.0)), ("scale_", (2.0, 1.0)), ("add_", (2.0,)),
     ("subtract_", (2.0,)), ("multiply_", (2.0,)), ("ceil_", ()), ("floor_", ()),
     ("exp_", ()), ("reciprocal_", ()), ("round_", ()), ("sqrt_", ()), ("rsqrt_", ()),
     ("tanh_", ()), ("flatten_", ())],
)  # fmt: skip
def test_in_place_functions_reuse_the_memory(
    name: str, args: tuple[float, ...]
) -> None:
    a = np.abs(np.random.RandomState(0).randn(2, 3)).astype(np.float32) + 0.5
    x = proa.to_tensor(a)
    address = x.data_ptr()
    expected = getattr(proa.to_tensor(a), name[:-1])(*args)
    result = getattr(x, name)(*args)
    assert result is x
    assert x.data_ptr() == address
    np.testing.assert_allclose(x.numpy(), expected.numpy(), rtol=1e-6)
    assert not hasattr(proa, name) or name == "tanh_"  # the one Paddle has too


def test_in_place_shapes_and_fills() -> None:
    x = proa.ones([2, 3])
    assert x.reshape_([3, 2]).shape == [3, 2]
    assert x.unsqueeze_(0).shape == [1, 3, 2]
    assert x.squeeze_(0).shape == [3, 2]
    assert x.fill_(4.0).tolist() == [[4, 4]] * 3
    assert x.zero_().sum().item() == 0
    proa.seed(0)
    assert x.uniform_(2.0, 3.0).min().item() >= 2
    x.set_value(np.full((3, 2), 5.0))
    assert x.tolist() == [[5, 5]] * 3
    with pytest.raises(ShapeError, match="shape must be"):
        x.set_value(np.ones((2, 2)))


def test_in_place_functions_take_part_in_gradients() -> None:
    x = proa.to_tensor([1.0, 2.0], stop_gradient=False)
    y = x * 1.0
    y.add_(1.0)
    y.multiply_(proa.to_tensor([2.0, 3.0]))
    y.sum().backward()
    assert x.grad.tolist() == [2, 3]


def test_conversions() -> None:
    x = proa.to_tensor([1.5, 2.5])
    assert x.astype("int32").tolist() == [1, 2]
    assert x.cast(proa.float64).dtype == proa.float64
    assert x.to("float16").dtype == proa.float16
    assert x.to(proa.zeros([1], "int64")).dtype == proa.int64
    assert x.cpu() is x
    assert x.dim() == 1
    assert x.element_size() == 4
    with pytest.raises(UnavailableError, match="expected an available device"):
        x.cuda()
    with pytest.raises(UnavailableError, match="expected an available device"):
        proa.set_device("gpu:0")
    assert proa.get_device() == "cpu"


@pytest.mark.feature("L009")
def test_grad_is_a_tensor_and_can_be_cleared() -> None:
    x = proa.to_tensor([1.0, 2.0], stop_gradient=False)
    (x * x).sum().backward()
    assert isinstance(x.grad, proa.Tensor)
    assert x.gradient().tolist() == [2, 4]
    x.clear_gradient()
    assert x.grad.tolist() == [0, 0]
    x.clear_grad(False)
    assert x.grad is None


def test_copies() -> None:
    x = proa.to_tensor([1.0, 2.0], stop_gradient=False)
    y = copy.deepcopy(x)
    y.set_value(np.zeros(2))
    assert x.tolist() == [1, 2]
    assert not y.stop_gradient
    z = pickle.loads(pickle.dumps(x))
    assert z.tolist() == [1, 2]
    assert not z.stop_gradient


@pytest.mark.feature("L008")
def test_tensors_print_their_kind_and_numbers() -> None:
    text = str(proa.to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    assert text == (
        "Tensor(shape=[2, 3], dtype=float32, place=Place(cpu), stop_gradient=True,\n"
        "       [[1., 2., 3.],\n"
        "        [4., 5., 6.]])"
    )
    assert str(proa.to_tensor(3)).endswith("stop_gradient=True,\n       3)")
    assert "0.10000000" in str(proa.to_tensor([0.1, 0.5]))
    assert "e-10" in str(proa.to_tensor([1e-9, 0.5]))
    assert "nan" in str(proa.to_tensor([float("nan"), 1.0]))
    assert "..." in str(proa.zeros([100, 100]))
    assert "stop_gradient=False" in repr(proa.to_tensor(1.0, stop_gradient=False))


#: As PaddlePaddle 2.x prints them: numbers to the left of equal columns.
PRINTED = [
    ([[1, -2, 300], [4, 50, 6]], "int64",
     "[[ 1 , -2 , 300],\n        [ 4 ,  50,  6 ]]"),
    ([1, 20, 300], "int64", "[1  , 20 , 300]"),
    ([True, False], "bool", "[True , False]"),
    ([1.0, 2.5], "float32", "[1.        , 2.50000000]"),
    ([-0.5, 2.25, 3.0], "float32", "[-0.50000000,  2.25000000,  3.        ]"),
    ([0.1, float("nan"), float("inf")], "float64",
     "[0.10000000, nan       , inf.      ]"),
    ([1 + 2j, 0.5 - 1j], "complex64", "[(1+2j)  , (0.5-1j)]"),
    ([[[1], [2]], [[3], [4]]], "int32",
     "[[[1],\n         [2]],\n\n        [[3],\n         [4]]]"),
    (7, "int32", "7"),
]  # fmt: skip


@pytest.mark.feature("L008")
@pytest.mark.parametrize(("value", "dtype", "text"), PRINTED)
def test_numbers_print_in_columns(value: Any, dtype: str, text: str) -> None:
    head, _, body = str(proa.to_tensor(value, dtype)).partition("\n       ")
    assert head.endswith("stop_gradient=True,")
    assert body == text + ")"


@pytest.mark.feature("L008")
def test_large_tensors_print_their_edges_and_long_rows_wrap() -> None:
    body = str(proa.arange(1200).reshape([40, 30])).partition("\n       ")[2]
    assert body.splitlines()[0] == "[[0   , 1   , 2   , ..., 27  , 28  , 29  ],"
    assert body.splitlines()[3] == "        ...,"
    assert body.splitlines()[-1].endswith("..., 1197, 1198, 1199]])")
    lines = str(proa.arange(60)).splitlines()[1:]
    assert len(lines) == 4 and lines[1].startswith("        18, 19, ")


@pytest.mark.feature("L012")
@pytest.mark.parametrize("shape", [[0], [0, 3], [2, 0]])
def test_empty_tensors_print(shape: list[int]) -> None:
    assert f"shape={shape}" in str(proa.zeros(shape))


def test_print_options() -> None:
    proa.set_printoptions(precision=2)
    try:
        assert "0.12]" in str(proa.to_tensor([0.123]))
    finally:
        proa.set_printoptions(precision=8)


def test_small_functions_of_whole_tensors() -> None:
    x = proa.to_tensor([[1.0, 2.0], [3.0, 4.0]])
    assert [t.tolist() for t in proa.unstack(x, axis=1)] == [[1, 3], [2, 4]]
    assert proa.empty_like(x).shape == [2, 2] and proa.tolist(x) == [[1, 2], [3, 4]]
    assert bool(proa.is_empty(proa.zeros([0, 2]))) and not bool(x.is_empty())
    assert proa.is_tensor(x) and not proa.is_tensor([1]) and x.is_tensor()
    count = proa.zeros([1])
    assert proa.increment(count, 2.0) is count and count.tolist() == [2.0]
    step = proa.zeros([1], "int64")
    assert proa.increment(step) is step and step.tolist() == [1]
    assert step.dtype == "int64"
    assert x.expand(shape=[3, 2, 2], name="e").shape == [3, 2, 2]
    assert x.expand(3, 2, 2).shape == [3, 2, 2] and int(x.numel(name="n")) == 4
    assert x.broadcast_shape is not None


def test_in_place_functions_of_the_module() -> None:
    x = proa.zeros([1, 3])
    address = x.data_ptr()
    assert proa.squeeze_(x, 0) is x and x.shape == [3]
    assert proa.unsqueeze_(x, 1) is x and x.shape == [3, 1]
    assert proa.reshape_(x, [3]) is x and x.shape == [3]
    proa.scatter_(x, proa.to_tensor([0, 2]), proa.to_tensor([1.0, 2.0]))
    assert x.tolist() == [1, 0, 2] and x.data_ptr() == address
    proa.scatter_(x, proa.to_tensor([0, 0]), proa.to_tensor([1.0, 2.0]), False)
    assert x.tolist() == [3, 0, 2]


def test_where_as_a_method_takes_a_condition_by_name() -> None:
    x, y = proa.to_tensor([1.0, 2.0]), proa.to_tensor([8.0, 9.0])
    yes = proa.to_tensor([True, False])
    assert x.where(condition=yes, y=y).tolist() == [1, 9]
    assert yes.where(x, y).tolist() == [1, 9]
    assert yes.where()[0].tolist() == [[0]]


def test_numpy_on_the_left_returns_tensors() -> None:
    x = proa.to_tensor([1.0, 2.0], stop_gradient=False)
    y = np.array([3.0, 4.0], "float32") * x
    assert isinstance(y, proa.Tensor) and not y.stop_gradient
    assert (np.float32(2) ** x).tolist() == [2, 4]
    assert isinstance(np.array([1.0]) > x, proa.Tensor)
    np.testing.assert_allclose(np.sin(x.detach()), np.sin([1, 2]), rtol=1e-6)
    assert x.__div__(2).tolist() == [0.5, 1] and x.__rdiv__(2).tolist() == [2, 1]
    assert proa.to_tensor([3.7]).__long__() == 3
