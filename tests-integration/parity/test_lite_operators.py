"""Operators that proa_lite got later: its bits are those of core, slim and NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.ir import Program, write
from proa.ir.builder import make_node
from proa.ir.program import Block, Node, Value
from proa.static import InputSpec
from proa_slim import quant_post_dynamic

proa_lite = pytest.importorskip("proa_lite")
convert = pytest.importorskip("proa_lite.convert").convert

RNG = np.random.default_rng(5)


def lite(path: Path, *arrays: Any) -> list[Any]:
    predictor = proa_lite.create_predictor(proa_lite.Config(path))
    return list(predictor.run(list(arrays)))


class Sums(nn.Layer):
    """Running sums along an axis, from one end and from the other."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: Any) -> Any:
        back = proa.flip(proa.cumsum(proa.flip(x, [self.axis]), self.axis), [self.axis])
        return proa.cumsum(x, self.axis), back


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_running_sums_have_the_bits_of_core(
    tmp_path: Path, axis: int, dtype: str
) -> None:
    x = (RNG.standard_normal((3, 5, 37)) * 100).astype(dtype)
    net, path = Sums(axis), tmp_path / "sums.proa"
    proa.jit.save(net, path, [InputSpec([None, 5, 37], dtype, "x")])
    wanted = [t.numpy() for t in net(proa.to_tensor(x))]
    for found, want in zip(lite(path, x), wanted, strict=True):
        assert found.tobytes() == want.tobytes()
    exact = np.cumsum(x.astype("float64"), axis)
    np.testing.assert_allclose(wanted[0], exact, rtol=1e-5, atol=1e-3)


def test_gradients_of_running_sums_come_from_the_end(tmp_path: Path) -> None:
    x = RNG.standard_normal((4, 9)).astype("float32")
    program = Program()
    value = Value("x", "float32", (-1, 9), "input")
    node = make_node(program, "cumsum", [value], {"axis": 1, "reverse": True})
    program.main.inputs, program.main.nodes = [value], [node]
    program.main.outputs = list(node.outputs)
    write(program, tmp_path / "reverse.proa")
    (found,) = lite(tmp_path / "reverse.proa", x)
    want = np.cumsum(x[:, ::-1].astype("float64"), 1)[:, ::-1]
    np.testing.assert_array_equal(found, want.astype("float32"))


def called_twice() -> Program:
    """``f(f(x)) + 1`` with ``f(x) = tanh(x) * 3``, as a block that calls others."""
    program = Program()
    x = Value("x", "float32", (-1, 4), "input")
    given = Value("given", "float32", (-1, 4), "input")
    three = program.constant(np.float32(3), "float32")
    one = program.constant(np.float32(1), "float32")
    bent = make_node(program, "tanh", [given], {})
    tripled = make_node(program, "mul", [bent.outputs[0], three], {})
    after = Value("after", "float32", (-1, 4), "input")
    added = make_node(program, "add", [after, one], {})
    program.blocks.append(Block([given], [bent, tripled], list(tripled.outputs)))
    program.blocks.append(Block([after], [added], list(added.outputs)))
    calls, read = [], x
    for index in (1, 1, 2):
        call = Node("call", [read], [], {"block": index})
        read = Value(program.new_name("call"), "float32", (-1, 4), "node", None, call)
        call.outputs.append(read)
        calls.append(call)
    program.main.inputs, program.main.nodes = [x], calls
    program.main.outputs = [read]
    return program


def test_functions_are_written_out_by_the_converter(tmp_path: Path) -> None:
    write(called_twice(), tmp_path / "calls.proa")
    x = RNG.standard_normal((3, 4)).astype("float32")
    want = proa.jit.load(str(tmp_path / "calls.proa"))(proa.to_tensor(x)).numpy()
    exact = 3 * np.tanh(3 * np.tanh(x.astype("float64"))) + 1
    np.testing.assert_allclose(want, exact, rtol=1e-6)
    convert(tmp_path / "calls.proa", tmp_path / "lite.proa", level=1)
    (found,) = lite(tmp_path / "lite.proa", x)
    assert found.tobytes() == want.tobytes()


def test_a_file_with_functions_is_refused_by_name(tmp_path: Path) -> None:
    write(called_twice(), tmp_path / "calls.proa")
    with pytest.raises(proa_lite.UnimplementedError, match="call"):
        proa_lite.create_predictor(proa_lite.Config(tmp_path / "calls.proa"))


def leaves(given: Any) -> list[Any]:
    """The tensors in nested lists and tuples."""
    if isinstance(given, (list, tuple)):
        return [leaf for part in given for leaf in leaves(part)]
    return [given]


def linear() -> Any:
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 40))


#: Operator: network, shape of its input, how its weights are stored.
QUANTIZED: dict[str, tuple[Any, list[int], Any, dict[str, Any]]] = {
    "linear_dynamic": (linear, [64], 8, {"products": "int8"}),
    "linear_weight_only": (linear, [64], 8, {}),
    "linear_weight_only, 4 bits": (linear, [64], 4, {}),
    "recurrent_int8": (lambda: nn.LSTM(24, 48), [9, 24], 8, {"products": "int8"}),
    "recurrent_int8, gru": (lambda: nn.GRU(24, 48), [9, 24], 8, {"products": "int8"}),
}


@pytest.mark.parametrize("name", QUANTIZED)
@pytest.mark.parametrize("rows", [1, 3, 17])
def test_quantized_operators_have_the_bits_of_slim(
    tmp_path: Path, name: str, rows: int
) -> None:
    make, shape, bits, options = QUANTIZED[name]
    proa.seed(3)
    spec = [InputSpec([None, *shape], "float32", "x")]
    model = quant_post_dynamic(make(), spec, bits, **options)
    model.save(tmp_path / "model.proa")
    convert(tmp_path / "model.proa", tmp_path / "lite.proa")
    program = proa.ir.read(tmp_path / "lite.proa")
    assert name.partition(",")[0] in [n.op for n in program.main.nodes]
    x = RNG.standard_normal((rows, *shape)).astype("float32")
    core = proa.jit.load(str(tmp_path / "lite.proa"))
    wanted = leaves(core(proa.to_tensor(x)))
    for found, want in zip(lite(tmp_path / "lite.proa", x), wanted, strict=True):
        assert found.tobytes() == want.numpy().tobytes()
    given = model(x)
    first = given[0] if isinstance(given, (list, tuple)) else given
    (found, *_) = lite(tmp_path / "lite.proa", x)
    if options:  # the operators are those of slim's own graph
        assert found.tobytes() == first.tobytes()
    else:
        np.testing.assert_allclose(found, first, rtol=1e-6, atol=1e-6)
