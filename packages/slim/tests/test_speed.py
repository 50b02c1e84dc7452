"""What int8 makes faster: times by layer, and layers that stay in float32 for it."""

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.static import InputSpec
from proa_slim import (
    QAT,
    QuantConfig,
    layer_speeds,
    quant_post_static,
    slow_in_int8,
)
from proa_slim.quant import speed

SPEC = [InputSpec([None, 16, 24, 24], "float32", "x")]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 16, 24, 24)).astype(np.float32)


def network():
    """A wide product, which int8 makes faster, between two smaller ones."""
    proa.seed(0)
    net = nn.Sequential(
        nn.Conv2D(16, 16, 5, padding=2, groups=16),
        nn.Conv2D(16, 128, 1),
        nn.ReLU(),
        nn.Conv2D(128, 128, 3, padding=1),
    )
    net.eval()
    return net


def test_every_quantized_layer_has_its_times():
    found = {s.layer: s for s in layer_speeds(network(), SPEC, repeats=5)}
    assert list(found) == ["0", "1", "3"]
    assert all(s.float32_us > 0 and s.int8_us > 0 for s in found.values())
    # 85 million multiply-adds, more than all else.
    assert found["3"].float32_us == max(s.float32_us for s in found.values())


def with_times(monkeypatch, times):
    """Let whole networks take so long as a function of the layers in float32 says, and
    layers as `times` says.
    """
    speeds = [speed.LayerSpeed(k, "conv2d", *pair) for k, pair in times.items()]

    def layers(self, skip):
        return [s for s in speeds if s.layer not in skip]

    def whole(self, *skips, export=None):
        return [
            sum(s.float32_us if s.layer in skip else s.int8_us for s in speeds)
            for skip in skips
        ]

    monkeypatch.setattr(speed._Timed, "layers", layers)
    monkeypatch.setattr(speed._Timed, "whole", whole)


def test_layers_that_int8_makes_slower_stay_in_float32(monkeypatch):
    with_times(monkeypatch, {"0": (5.0, 20.0), "1": (9.0, 4.0), "3": (80.0, 30.0)})
    assert list(slow_in_int8(network(), SPEC)) == ["0"]
    model = quant_post_static(network(), SPEC, [X], QuantConfig(only_faster=True))
    assert model.unquantized == {"0": "int8 takes 20 us, float32 5 us"}
    assert [layer.layer for layer in model.report] == ["1", "3"]
    qat = QAT(QuantConfig("moving_average", only_faster=True))
    student = qat.quantize(network(), SPEC)
    assert isinstance(student[0], nn.Conv2D)
    assert not isinstance(student[1], nn.Conv2D)
    with pytest.raises(PreconditionNotMetError, match="expected an input_spec"):
        qat.quantize(network())


def test_a_gain_below_one_percent_leaves_a_layer_in_int8(monkeypatch):
    with_times(monkeypatch, {"0": (5.0, 5.3), "1": (9.0, 4.0), "3": (80.0, 30.0)})
    assert slow_in_int8(network(), SPEC) == {}


def test_a_mix_that_is_slower_than_float32_is_not_chosen(monkeypatch):
    with_times(monkeypatch, {"0": (5.0, 5.3), "1": (9.0, 9.0), "3": (30.0, 30.0)})
    assert list(slow_in_int8(network(), SPEC)) == ["0"]


def test_training_chooses_by_the_models_that_it_exports(monkeypatch):
    with_times(monkeypatch, {"0": (5.0, 9.0), "2": (4.0, 9.0), "4": (80.0, 30.0)})
    proa.seed(0)
    net = nn.Sequential(
        nn.Conv2D(16, 16, 5, padding=2, groups=16), nn.BatchNorm2D(16),
        nn.Conv2D(16, 128, 1), nn.ReLU(), nn.Conv2D(128, 128, 3, padding=1),
    )  # fmt: skip
    timed = {}

    def whole(self, *skips, export=None):
        # Of the models that QAT exports, the one with layer 4 alone in int8 wins.
        timed.update({frozenset(skip): export(skip) for skip in skips if export})
        return [0.0 if set(skip) == {"0", "2"} else 1.0 for skip in skips]

    monkeypatch.setattr(speed._Timed, "whole", whole)
    qat = QAT(QuantConfig("moving_average"))
    assert set(qat.slow_in_int8(net, SPEC)) == {"0", "2"}
    student = QAT(QuantConfig("moving_average", skip=("0", "2"))).quantize(net, SPEC)
    student(proa.to_tensor(X))
    exported = qat.convert(student, SPEC).program
    assert [n.op for n in timed[frozenset("02")].nodes()] == [
        n.op for n in exported.nodes()
    ]
    assert not any(n.op.endswith("int8") for n in timed[frozenset("024")].nodes())


def test_a_network_that_int8_makes_no_faster_is_refused(monkeypatch):
    with_times(monkeypatch, {"0": (5.0, 9.0), "1": (4.0, 9.0), "3": (30.0, 80.0)})
    with pytest.raises(PreconditionNotMetError) as error:
        quant_post_static(network(), SPEC, [X], QuantConfig(only_faster=True))
    assert "'3': int8 takes 80 us, float32 30 us" in str(error.value)


def test_sizes_must_be_known():
    spec = [InputSpec([None, 16, None, 24], "float32", "x")]
    with pytest.raises(InvalidArgumentError, match="input 'x' that are known"):
        layer_speeds(network(), spec)
    with pytest.raises(InvalidArgumentError, match="repeats above 0, got 0"):
        layer_speeds(network(), SPEC, repeats=0)
