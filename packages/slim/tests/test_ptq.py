"""`PTQ`: a network is called on calibration data, then saved in int8."""

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.static import InputSpec
from proa_slim import PTQ, QuantConfig, quant_post_static

SPEC = [InputSpec([None, 3, 8, 8], "float32", "x")]
X = np.random.default_rng(0).standard_normal((4, 8, 3, 8, 8)).astype(np.float32)


def network():
    proa.seed(0)
    net = nn.Sequential(
        nn.Conv2D(3, 8, 3, padding=1), nn.BatchNorm2D(8), nn.ReLU(), nn.Flatten(),
        nn.Linear(512, 4),
    )  # fmt: skip
    net.train()
    net(proa.to_tensor(X[0]))
    net.eval()
    return net


@pytest.mark.parametrize(
    ("activation", "weight", "config"),
    [
        ("KLQuantizer", "PerChannelAbsmaxQuantizer", QuantConfig("kl")),
        ("HistQuantizer", "AbsmaxQuantizer", QuantConfig("hist", "abs_max")),
        ("AbsmaxQuantizer", "AbsmaxQuantizer", QuantConfig("abs_max", "abs_max")),
    ],
)
def test_it_gives_the_model_of_quant_post_static(tmp_path, activation, weight, config):
    net = network()
    ptq = PTQ(activation, weight)
    watched = ptq.quantize(net)
    for batch in X:
        given = proa.to_tensor(batch)
        np.testing.assert_array_equal(watched(given).numpy(), net(given).numpy())
    path = tmp_path / "net.proa"
    model = ptq.save_quantized_model(watched, path, SPEC)
    want = quant_post_static(net, SPEC, list(X), config)
    assert model(X[1]).tobytes() == want(X[1]).tobytes()
    loaded = proa.jit.load(str(path))
    assert loaded(proa.to_tensor(X[1])).numpy().tobytes() == want(X[1]).tobytes()
    with pytest.raises(PreconditionNotMetError, match="was not saved yet"):
        ptq.save_quantized_model(watched, path, SPEC)


def test_norms_that_follow_products_are_named():
    assert PTQ().find_conv_bn_names(network()) == [["0", "1"]]


def test_a_network_that_was_never_called_is_refused(tmp_path):
    ptq = PTQ()
    watched = ptq.quantize(network(), inplace=True)
    with pytest.raises(PreconditionNotMetError, match="never called"):
        ptq.save_quantized_model(watched, tmp_path / "net.proa", SPEC)
    with pytest.raises(InvalidArgumentError, match="one of KLQuantizer, Hist"):
        PTQ("MeanQuantizer")
