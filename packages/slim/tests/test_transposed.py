"""Transposed convolutions in int8, by convolutions."""

import numpy as np
import pytest

import proa
from proa import nn
from proa.static import InputSpec
from proa_slim import QAT, QuantConfig, quant_post_static
from proa_slim.quant.post_training import program_of, quantizable_program

RNG = np.random.default_rng(6)
SPEC = [InputSpec([None, 4, 5, 7], "float32", "x")]
X = RNG.standard_normal((6, 4, 5, 7)).astype(np.float32)

#: Arguments after the channels: kernel, stride, padding, output padding, groups.
GEOMETRIES = [
    ((3, 3), (2, 2), 1, 1, 1),
    ((2, 2), (2, 2), 0, 0, 1),
    ((4, 4), (2, 2), 1, 0, 2),
    ((3, 2), (1, 3), 0, 0, 4),
    ((5, 4), (3, 2), 2, 1, 1),
    ((3, 3), (1, 1), 1, 0, 1),
]


def layer(geometry, bias=True):
    kernel, stride, padding, output_padding, groups = geometry
    return nn.Conv2DTranspose(
        4, 8, kernel, stride, padding, output_padding, groups=groups,
        bias_attr=None if bias else False,
    )  # fmt: skip


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_the_convolution_computes_what_the_transposed_one_computes(geometry):
    proa.seed(1)
    net = layer(geometry)
    net.bias.set_value(RNG.standard_normal(8).astype(np.float32))
    program = quantizable_program(net, SPEC, QuantConfig())
    ops = [node.op for node in program.main.nodes]
    assert "conv2d" in ops and "conv2d_transpose" not in ops
    from proa_slim.quant.model import QuantizedModel

    got = QuantizedModel(program, [])(X)
    np.testing.assert_allclose(
        got, net(proa.to_tensor(X)).numpy(), rtol=1e-4, atol=1e-5
    )


def test_symbolic_sizes_dilation_and_skipped_layers_stay():
    net = nn.Sequential(layer(GEOMETRIES[0]))
    config = QuantConfig()
    for spec in ([None, 4, None, 7], [None, 4, 5, 7]):
        spec = [InputSpec(spec, "float32", "x")]
        skip = () if None in spec[0].shape[1:] or -1 in spec[0].shape[1:] else ("0",)
        program = quantizable_program(net, spec, QuantConfig(skip=skip))
        assert [n.op for n in program.main.nodes] == ["conv2d_transpose"]
    dilated = nn.Conv2DTranspose(4, 8, 3, dilation=2)
    program = quantizable_program(dilated, SPEC, config)
    assert [n.op for n in program.main.nodes] == ["conv2d_transpose"]
    assert "conv2d_transpose" in [n.op for n in program_of(net, SPEC).main.nodes]


def decoder():
    proa.seed(2)
    return nn.Sequential(
        nn.Conv2D(4, 6, 3, padding=1), nn.ReLU(),
        nn.Conv2DTranspose(6, 4, 3, 2, 1, 1), nn.BatchNorm2D(4), nn.ReLU(),
        nn.Conv2DTranspose(4, 4, 4, 2, 1, groups=2), nn.BatchNorm2D(4), nn.Tanh(),
        nn.Conv2D(4, 2, 1),
    )  # fmt: skip


def test_a_decoder_is_calibrated_and_stays_in_integers():
    net = decoder()
    net(proa.to_tensor(X))
    net.eval()
    model = quant_post_static(net, SPEC, [X], QuantConfig("abs_max"))
    ops = [node.op for node in model.program.main.nodes]
    assert ops.count("conv2d_int8") == 4 and "conv2d_transpose" not in ops
    assert not model.unquantized
    kinds = {n.outputs[0].dtype for n in model.program.main.nodes if n.op == "relu"}
    assert kinds <= {"int8"}
    assert {record.layer for record in model.report} == {"0", "2", "5", "8"}
    want = net(proa.to_tensor(X)).numpy()
    assert np.abs(model(X) - want).max() < 0.08 * np.abs(want).max()


@pytest.mark.parametrize(
    "config", [QuantConfig("moving_average"), QuantConfig("abs_max", "abs_max")]
)
def test_a_trained_decoder_evaluates_to_the_bits_of_the_exported_model(config):
    net = decoder()
    student = QAT(config).quantize(net, SPEC)
    adam = proa.optimizer.Adam(1e-2, parameters=student.parameters())
    losses = []
    for _ in range(12):
        loss = (student(proa.to_tensor(X)) - 0.5).square().mean()
        loss.backward()
        adam.step()
        adam.clear_grad()
        losses.append(float(loss))
    assert losses[-1] < 0.8 * losses[0]
    student.eval()
    model = QAT(config).convert(student, SPEC)
    ops = [node.op for node in model.program.main.nodes]
    assert ops.count("conv2d_int8") == 4 and "conv2d_transpose" not in ops
    x = RNG.standard_normal((3, 4, 5, 7)).astype(np.float32)
    np.testing.assert_array_equal(model(x), student(proa.to_tensor(x)).numpy())
