"""decorate: what is converted, float32 copies, state dicts."""

from __future__ import annotations

from typing import Any

import pytest

import proa
from proa import amp, nn, optimizer
from proa.errors import InvalidArgumentError


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2D(1, 2, 3), nn.BatchNorm2D(2), nn.Flatten(), nn.Linear(8, 3)
    )


def kinds(net: Any) -> list[str]:
    short = {"float32": "f", "bfloat16": "b", "float16": "h"}
    return [short[p.dtype.name] for p in net.parameters()]


def test_level_o2_converts_all_but_norms() -> None:
    net = network()
    assert amp.decorate(net, level="O2", dtype="bfloat16") is net
    assert "".join(kinds(net)) == "bbffbb"
    assert net[1]._mean.dtype.name == "float32"
    other = amp.amp_decorate([network(), network()], level="O2")
    assert ["".join(kinds(n)) for n in other] == ["hhffhh"] * 2
    assert "".join(kinds(amp.decorate(network(), level="O1"))) == "ffffff"


def test_layers_may_stay_out() -> None:
    net = network()
    amp.decorate(net, level="O2", excluded_layers=[nn.Linear])
    assert "".join(kinds(net)) == "hhffff"
    net = network()
    amp.decorate(net, level="O2", excluded_layers=net[0])
    assert "".join(kinds(net)) == "ffffhh"


@pytest.mark.parametrize("master", [None, True, False])
def test_optimizers_train_float32_copies_by_default(master: bool | None) -> None:
    net = network()
    momentum = optimizer.Momentum(parameters=net.parameters())
    net, (same,) = amp.decorate(
        net, [momentum], level="O2", dtype="bfloat16", master_weight=master
    )
    assert same is momentum
    with amp.auto_cast(level="O2", dtype="bfloat16"):
        net(proa.ones([2, 1, 4, 4])).sum().backward()
    momentum.step()
    assert ("master_weights" in momentum.state_dict()) == (master is not False)


def test_state_dicts_may_have_another_dtype() -> None:
    net = network()
    amp.decorate(net, level="O2", dtype="bfloat16", save_dtype="float32")
    assert {v.dtype.name for v in net.state_dict().values()} == {"float32"}
    assert "".join(kinds(net)) == "bbffbb"
    state = {k: v * 0 + 2 for k, v in net.state_dict().items()}
    net.set_state_dict(state)
    assert net[3].weight.astype("float32").numpy().tolist() == [[2.0] * 3] * 8
    assert "".join(kinds(net)) == "bbffbb"


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(InvalidArgumentError, match="expected Layers"):
        amp.decorate(3)
    with pytest.raises(InvalidArgumentError, match="expected Optimizers"):
        amp.decorate(network(), 3)
    with pytest.raises(InvalidArgumentError, match="level must be"):
        amp.decorate(network(), level="O9")
