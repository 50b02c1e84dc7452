"""Models that `proa.jit.load` gives are quantized as the networks of their files."""

import numpy as np
import pytest

import proa
import proa_slim as slim
from proa import nn
from proa.errors import InvalidTypeError, NotFoundError
from proa.static import InputSpec

SPEC = [InputSpec([None, 1, 8, 8], "float32", "x")]
X = np.random.default_rng(0).standard_normal((32, 1, 8, 8)).astype(np.float32)


@pytest.fixture
def pair(tmp_path):
    """A network, and what its file gives."""
    proa.seed(0)
    net = nn.Sequential(
        nn.Conv2D(1, 16, 3), nn.BatchNorm2D(16), nn.ReLU(), nn.Conv2D(16, 16, 3),
        nn.Flatten(), nn.Linear(256, 4),
    )  # fmt: skip
    net(proa.to_tensor(X))
    net.eval()
    path = str(tmp_path / "net.proa")
    proa.jit.save(net, path, SPEC)
    return net, proa.jit.load(path)


METHODS = {
    "int8": lambda net: slim.quant_post_static(net, SPEC, [X]),
    "but one": lambda net: slim.quant_post_static(
        net, SPEC, [X], slim.QuantConfig(skip=("3",))
    ),
    "weights": lambda net: slim.quant_post_dynamic(net, SPEC, weight_bits=8),
    "half": lambda net: slim.half_weights(net, SPEC, skip=("5",)),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_loaded_model_gives_the_bits_of_its_network(pair, name):
    net, loaded = pair
    want, got = (METHODS[name](model)(X) for model in (net, loaded))
    assert got.tobytes() == want.tobytes()
    exact = net(proa.to_tensor(X)).numpy()
    assert 0 < np.abs(got - exact).max() < 0.1 * np.abs(exact).max()


def test_layers_of_a_loaded_model_have_their_paths(pair, tmp_path):
    _, loaded = pair
    speeds = slim.layer_speeds(loaded, SPEC, repeats=2)
    assert [speed.layer for speed in speeds] == ["0", "3", "5"]
    analysis = slim.AnalysisPTQ(
        loaded, SPEC, [X], lambda model: 1.0, tmp_path, progress=False
    )
    assert sorted(analysis.metric_error_analyse()) == ["0", "3", "5"]
    with pytest.raises(NotFoundError, match="got 7; it has 0, 1, 3, 5"):
        slim.quant_post_static(loaded, SPEC, [X], slim.QuantConfig(skip=("7",)))


def test_what_needs_layers_says_what_there_is_instead(pair):
    _, loaded = pair
    with pytest.raises(InvalidTypeError, match=r"Pruner.* loaded .* `prune_file`"):
        slim.Pruner(loaded, [None, 1, 8, 8])
    with pytest.raises(InvalidTypeError, match=r"QAT.* loaded .* `compress` trains"):
        slim.QAT().quantize(loaded, SPEC)
