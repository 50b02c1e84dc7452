"""Weights in 16-bit floating point."""

import os

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, NotFoundError, PreconditionNotMetError
from proa.static import InputSpec
from proa_slim import QAT, QuantConfig, half_weights, quant_post_static

SPEC = [InputSpec([None, 64], "float32", "x")]
X = np.random.default_rng(3).standard_normal((4, 64)).astype(np.float32)


def built():
    proa.seed(4)
    return nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 256)).eval()


def to_bfloat16(array):
    """Rounded to 8 bits of mantissa, halves to even, by float arithmetic."""
    mantissa, exponent = np.frexp(array.astype(np.float64))
    return np.ldexp(np.rint(np.ldexp(mantissa, 8)), exponent - 8).astype(np.float32)


ROUND = {
    "float16": lambda w: w.astype(np.float16).astype(np.float32),
    "bfloat16": to_bfloat16,
}


@pytest.mark.feature("L475")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_float32_network_is_saved_with_weights_of_16_bits(dtype, tmp_path):
    network = built()
    model = half_weights(network, SPEC, dtype)
    weights = [v for v in model.program.constants() if v.name.endswith("weight")]
    assert [v.dtype for v in weights] == [dtype, dtype]
    model.save(tmp_path / "half.proa")
    proa.jit.save(network, str(tmp_path / "whole"), SPEC)
    sizes = [os.path.getsize(tmp_path / f"{n}.proa") for n in ("half", "whole")]
    assert sizes[0] <= 0.52 * sizes[1]
    rounded = [ROUND[dtype](p.numpy()) for p in network.parameters()]
    h = np.maximum(X @ rounded[0] + rounded[1], 0)
    want = h @ rounded[2] + rounded[3]
    np.testing.assert_allclose(model(X), want, rtol=1e-4, atol=1e-5)
    loaded = proa.jit.load(str(tmp_path / "half.proa"))
    np.testing.assert_array_equal(loaded(proa.to_tensor(X)).numpy(), model(X))


def test_skipped_layers_keep_float32():
    model = half_weights(built(), SPEC, skip=("2",))
    kinds = {v.name: v.dtype for v in model.program.constants()}
    assert kinds["0.weight"] == "float16" and kinds["2.weight"] == "float32"
    assert model.unquantized == {"2": "named in skip"}
    with pytest.raises(NotFoundError, match="head"):
        half_weights(built(), SPEC, skip=("head",))
    with pytest.raises(PreconditionNotMetError, match="got none that skip leaves"):
        half_weights(built(), SPEC, skip=(nn.Linear,))


def test_what_float16_cannot_hold_is_refused_by_name():
    network = built()
    network[2].weight.set_value(np.full((512, 256), 1e5, np.float32))
    with pytest.raises(InvalidArgumentError, match=r"got 100000\.0 in '2\.weight'"):
        half_weights(network, SPEC)
    assert half_weights(network, SPEC, "bfloat16")(X).shape == (4, 256)
    with pytest.raises(InvalidArgumentError, match="dtype must be one of float16"):
        half_weights(network, SPEC, "float8")


def test_layers_of_a_list_keep_16_bits_in_calibration_and_training():
    proa.seed(4)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)).eval()
    config = QuantConfig("abs_max", half=("2",))
    model = quant_post_static(network, SPEC, [X], config)
    student = QAT(config).quantize(network)
    student(proa.to_tensor(X))
    trained = QAT(config).convert(student.eval(), SPEC)
    assert model.unquantized == {"2": "named in half"}
    want = ROUND["float16"](network[2].weight.numpy())
    for result in (model, trained):
        (weight,) = (v for v in result.program.constants() if v.name == "2.weight")
        assert weight.dtype == "float16"
        np.testing.assert_array_equal(weight.data.astype(np.float32), want)
        ops = [node.op for node in result.program.main.nodes]
        assert ops.count("linear_int8") == 1
    exact = network(proa.to_tensor(X)).numpy()
    assert np.abs(model(X) - exact).max() < 0.05 * np.abs(exact).max()
    with pytest.raises(NotFoundError, match=r"half must name layers .* got head"):
        quant_post_static(network, SPEC, [X], QuantConfig(half=("head",)))
