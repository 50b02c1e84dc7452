"""Recorded programs rewritten to compute in 16 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError
from proa.jit import TracedLayer
from proa.schema import ROWS
from proa.static import amp
from proa.static.amp import bf16

LOW = ["float16", "bfloat16"]
X = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")


class Net(nn.Layer):
    """Two layers, of which one is marked."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 5)

    def forward(self, x: proa.Tensor) -> proa.Tensor:
        with amp.fp16_guard():
            y = nn.functional.relu(self.first(x)) * 2.0
        return nn.functional.softmax(self.second(y))


def _program() -> tuple[Net, Any]:
    proa.seed(1)
    net = Net()
    net.eval()
    return net, TracedLayer.trace(net, [proa.to_tensor(X)])[1].program


def _dtypes(program: Any) -> dict[str, list[str]]:
    """Dtypes of the outputs of each op but casts, in order."""
    found: dict[str, list[str]] = {}
    for node in program.main.nodes:
        if node.op != "cast":
            found.setdefault(node.op, []).append(node.outputs[0].dtype)
    return found


def _near(program: Any, net: Net, low: str) -> None:
    """The program gives what the formula gives, to the low dtype's precision."""
    w, b, v, c = (
        p.numpy().astype("float64")
        for layer in (net.first, net.second)
        for p in (layer.weight, layer.bias)
    )
    z = np.exp(np.maximum(X @ w + b, 0) * 2 @ v + c)
    got = TracedLayer(program)([proa.to_tensor(X)])
    assert got.dtype == "float32"
    near = {"float16": 0.01, "bfloat16": 0.06}[low]
    np.testing.assert_allclose(got.numpy(), z / z.sum(1, keepdims=True), rtol=near)


@pytest.mark.feature("L121")
@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("guarded", [True, False])
def test_the_guard_selects_ops_for_16_bits(guarded: bool, low: str) -> None:
    net, program = _program()
    names = amp.cast_model_to_fp16(program, use_fp16_guard=guarded, dest_type=low)
    assert _dtypes(program) == {
        "linear": [low, "float32" if guarded else low],
        "relu": [low],
        "mul": [low],
        "softmax": ["float32"],  # of the black list
    }
    parts = ["first"] if guarded else ["first", "second"]
    assert names == {f"{part}.{p}" for part in parts for p in ("weight", "bias")}
    _near(program, net, low)


class Solved(nn.Layer):
    """The inverse of a product; it has a kernel for 32 and 64 bits alone."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, x: proa.Tensor) -> proa.Tensor:
        square = self.fc(x) + 3.0 * proa.eye(4)
        return proa.linalg.inv(square) * 2.0


@pytest.mark.feature("L126")
@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("white", [None, {"inverse"}])
def test_an_operator_without_a_16_bit_kernel_stays_in_float32(low: str, white: Any):
    assert low not in ROWS["inverse"].dtypes
    proa.seed(2)
    net = Solved()
    program = TracedLayer.trace(net, [proa.to_tensor(X)])[1].program
    lists = amp.CustomOpLists(white)
    amp.cast_model_to_fp16(program, lists, use_fp16_guard=False, dest_type=low)
    kinds = _dtypes(program)
    assert kinds["linear"] == [low] and kinds["inverse"] == ["float32"]
    w, b = (p.numpy().astype("float64") for p in (net.fc.weight, net.fc.bias))
    want = 2 * np.linalg.inv(X @ w + b + 3 * np.eye(4))
    got = TracedLayer(program)([proa.to_tensor(X)]).astype("float32").numpy()
    np.testing.assert_allclose(got, want, atol=0.1 * np.abs(want).max())


@pytest.mark.feature("L121")
def test_without_a_mark_nothing_is_rewritten() -> None:
    layer = nn.Linear(6, 2)
    _, traced = TracedLayer.trace(layer, [proa.to_tensor(X)])
    before = str(traced.program)
    assert amp.cast_model_to_fp16(traced.program) == set()
    assert str(traced.program) == before


@pytest.mark.parametrize("low", LOW)
def test_parameters_read_in_16_bits_are_held_so(low: str, tmp_path: Any) -> None:
    net, program = _program()
    before = sum(v.data.nbytes for v in program.main.constants() if v.kind == "param")
    names = amp.cast_model_to_fp16(program, use_fp16_guard=False, dest_type=low)
    amp.cast_parameters_to_fp16(None, program, None, names, low)
    held = [v for v in program.main.constants() if v.kind == "param"]
    assert {v.dtype for v in held} == {low}
    assert sum(v.data.nbytes for v in held) * 2 == before
    _near(program, net, low)
    TracedLayer(program).save_inference_model(tmp_path / "low")
    again = proa.jit.load(tmp_path / "low")(proa.to_tensor(X))
    want = TracedLayer(program)([proa.to_tensor(X)])
    np.testing.assert_array_equal(again.numpy(), want.numpy())


def test_a_parameter_that_is_read_in_float32_too_stays() -> None:
    class Shared(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(6, 6)

        def forward(self, x: proa.Tensor) -> proa.Tensor:
            with amp.fp16_guard():
                low = self.fc(x)
            return low + proa.matmul(x, self.fc.weight)

    _, traced = TracedLayer.trace(Shared(), [proa.to_tensor(X)])
    names = amp.cast_model_to_fp16(traced.program)
    assert names == {"fc.bias"}
    amp.cast_parameters_to_fp16(None, traced.program)
    kinds = {v.name: v.dtype for v in traced.program.main.constants()}
    assert kinds == {"fc.bias": "float16", "fc.weight": "float32"}


@pytest.mark.feature("L124")
def test_custom_lists_move_operators_and_values() -> None:
    assert amp.CustomOpLists is amp.AutoMixedPrecisionLists
    lists = amp.CustomOpLists({"softmax"}, {"matmul_v2"}, {"relu_0"})
    assert "softmax" in lists.white_list and "linear" in lists.black_list
    assert "relu" in lists.gray_list and lists.black_varnames == {"relu_0"}
    _, program = _program()
    amp.cast_model_to_fp16(program, lists, use_fp16_guard=False)
    kinds = _dtypes(program)
    assert kinds["linear"] == ["float32"] * 2 and kinds["softmax"] == ["float16"]
    assert kinds["relu"] == ["float32"]
    with pytest.raises(InvalidArgumentError, match="must not share operators"):
        amp.CustomOpLists({"exp"}, {"exp"})


def test_level_1_rewrites_the_white_list_and_what_follows() -> None:
    class Sums(nn.Layer):
        def forward(self, x: proa.Tensor) -> proa.Tensor:
            return proa.matmul(x + 1.0, x, transpose_y=True) * 0.5

    for level, want in (("O1", "float32"), ("O2", "float16")):
        _, traced = TracedLayer.trace(Sums(), [proa.to_tensor(X)])
        amp.cast_model_to_fp16(traced.program, None, False, level=level)
        kinds = _dtypes(traced.program)
        assert kinds["add"] == [want] and kinds["mul"] == ["float16"], level
    before = str(traced.program)
    amp.cast_model_to_fp16(traced.program, None, False, level="O0")
    assert str(traced.program) == before


def test_bfloat16_has_names_of_its_own() -> None:
    net, program = _program()
    names = bf16.cast_model_to_bf16(program)
    assert names == {"first.weight", "first.bias"}
    bf16.cast_parameters_to_bf16(None, program, None, names)
    _near(program, net, "bfloat16")
    lists = bf16.AutoMixedPrecisionListsBF16(custom_fp32_list={"relu"})
    _, program = _program()
    bf16.rewrite_program_bf16(program, lists)
    kinds = _dtypes(program)
    assert kinds["relu"] == ["float32"] and kinds["linear"] == ["bfloat16"] * 2
    with bf16.bf16_guard():
        assert (proa.ones([1]) * 2).dtype == "float32"  # eagerly it means nothing
    bits = bf16.convert_float_to_uint16([1.0, -2.0, 1.00390625, np.inf])
    assert bits.tolist() == [0x3F80, 0xC000, 0x3F80, 0x7F80]  # ties go to the even


def test_an_argument_that_is_not_a_program_is_rejected() -> None:
    with pytest.raises(InvalidArgumentError, match="must be a static or recorded Prog"):
        amp.cast_model_to_fp16(nn.Linear(2, 2))
    _, program = _program()
    with pytest.raises(InvalidArgumentError, match="dtype must be float16 or bfloat16"):
        amp.cast_model_to_fp16(program, dest_type="float32")
    with pytest.raises(InvalidArgumentError, match="level must be one of"):
        amp.cast_model_to_fp16(program, level="O3")
