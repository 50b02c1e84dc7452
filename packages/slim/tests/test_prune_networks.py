"""Pruned networks train on, are saved, exported and quantized; criteria, targets."""

import json
import os

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import proa
import proa.vision.models as models
from proa import nn
from proa.errors import (
    InvalidArgumentError,
    NotFoundError,
    PreconditionNotMetError,
)
from proa.static import InputSpec
from proa_slim import Pruner, QuantConfig, quant_post_static
from proa_slim.analysis import cost_table, flops, latency_table, model_size
from proa_slim.prune import (
    FilterPruner,
    FPGMFilterPruner,
    L1NormFilterPruner,
    L2NormFilterPruner,
    get_ratios_by_loss,
    load_sensitivities,
    merge_sensitive,
    plot_sensitivities,
    prune_channels,
)

SHAPE = [None, 3, 16, 16]


def small_net():
    proa.seed(5)
    return nn.Sequential(
        nn.Conv2D(3, 16, 3, padding=1, bias_attr=False),
        nn.BatchNorm2D(16),
        nn.ReLU(),
        nn.MaxPool2D(2),
        nn.Conv2D(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2D(2),
        nn.Flatten(),
        nn.Linear(128, 24),
        nn.ReLU(),
        nn.Linear(24, 4),
    )


def step(net, optimizer, seed=0):
    rng = np.random.default_rng(seed)
    x = proa.to_tensor(rng.normal(size=(8, 3, 16, 16)).astype("float32"))
    y = proa.to_tensor(rng.integers(0, 4, 8))
    net.train()
    loss = nn.CrossEntropyLoss()(net(x), y)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    net.eval()
    return float(loss)


@pytest.mark.feature("L477")
def test_a_pruned_network_trains_on_with_its_optimizer_and_its_moments():
    net = small_net()
    adam = proa.optimizer.Adam(0.01, parameters=net.parameters())
    step(net, adam)
    name = net[4].weight.name
    moment = adam.state_dict()[f"{name}_moment1_0"].numpy()
    pruner = L1NormFilterPruner(net, SHAPE, opt=adam)
    plan = pruner.prune_vars({"4.weight": 0.5, "0.weight": 0.25}, axis=0)
    rows, columns = (plan.masks["4.weight"][axis] for axis in (0, 1))
    shrunk = adam.state_dict()[f"{name}_moment1_0"].numpy()
    np.testing.assert_array_equal(shrunk, moment[rows][:, columns])
    losses = [step(net, adam) for _ in range(20)]
    assert losses[-1] < losses[0]
    assert net[4].weight.shape == [16, 12, 3, 3]


def test_a_pruned_network_is_saved_loaded_exported_and_quantized(tmp_path):
    net = small_net().eval()
    spec = [InputSpec(SHAPE, "float32", "x")]
    proa.jit.save(net, str(tmp_path / "whole"), spec)
    plan = prune_channels(net, SHAPE, 0.5)
    x = np.random.default_rng(1).normal(size=(4, 3, 16, 16)).astype("float32")
    want = net(proa.to_tensor(x)).numpy()
    proa.jit.save(net, str(tmp_path / "pruned"), spec)
    loaded = proa.jit.load(str(tmp_path / "pruned"))
    np.testing.assert_allclose(loaded(proa.to_tensor(x)).numpy(), want, rtol=1e-5)
    sizes = [os.path.getsize(tmp_path / f"{n}.proa") for n in ("pruned", "whole")]
    assert sizes[0] < 0.6 * sizes[1]
    assert plan.pruned_size > 0.6 and plan.pruned_flops > 0.5
    clone = small_net()
    prune_channels(clone, SHAPE, 0.5)
    proa.save(net.state_dict(), str(tmp_path / "net.pdparams"))
    clone.set_state_dict(proa.load(str(tmp_path / "net.pdparams")))
    np.testing.assert_array_equal(clone.eval()(proa.to_tensor(x)).numpy(), want)
    int8 = quant_post_static(net, spec, [x], QuantConfig("abs_max"))
    assert np.abs(int8(x) - want).max() < 0.1 * np.abs(want).max()


def test_restore_puts_the_network_back():
    net = small_net()
    x = proa.randn([2, 3, 16, 16])
    want = net.eval()(x).numpy()
    pruner = Pruner(net, SHAPE)
    pruner.prune_vars({"0.weight": 0.5})
    pruner.prune_vars({"4.weight": 0.5})
    assert net[0].weight.shape[0] == 8 and net[4]._in_channels == 8
    pruner.restore()
    np.testing.assert_array_equal(net(x).numpy(), want)
    assert net[0]._out_channels == 16


def test_lazy_pruning_computes_what_removal_computes():
    net = small_net().eval()
    x = proa.randn([2, 3, 16, 16])
    pruner = Pruner(net, SHAPE)
    plan = pruner.prune_vars({"0.weight": 0.5}, 0, apply="lazy")
    assert net[0].weight.shape[0] == 16
    assert int((net[0].weight.numpy() == 0).all((1, 2, 3)).sum()) == 8
    want = net(x).numpy()
    pruner.restore()
    pruner.prune_vars({"0.weight": 0.5}, 0)
    np.testing.assert_allclose(net(x).numpy(), want, rtol=1e-5, atol=1e-6)
    assert plan.contains("0.weight", 0) and plan.contains("4.weight", 1)


# -- criteria: which filters go, against NumPy


def removed_of(pruner, name="0.weight"):
    plan = pruner.prune_vars({name: 0.25}, 0, apply=None)
    return set(np.flatnonzero(~plan.masks[name][0]))


@pytest.mark.feature("L478", how="mechanism")
@pytest.mark.parametrize(
    ("make", "score"),
    [
        (L1NormFilterPruner, lambda w: np.abs(w).sum(1)),
        (L2NormFilterPruner, lambda w: (w**2).sum(1)),
        (
            FPGMFilterPruner,
            lambda w: np.linalg.norm(w[:, None] - w[None], axis=2).sum(1),
        ),
    ],
)
def test_norms_of_filters(make, score):
    net = small_net()
    w = net[0].weight.numpy().reshape(16, -1).astype(np.float64)
    assert removed_of(make(net, SHAPE)) == set(np.argsort(score(w))[:4])
    distances = [FPGMFilterPruner.get_distance_sum(w, i) for i in range(16)]
    np.testing.assert_allclose(distances, cdist(w, w).sum(1), rtol=1e-12)


@pytest.mark.feature("L478", how="mechanism")
def test_scales_of_batch_norms():
    net = small_net()
    gamma = np.random.default_rng(2).normal(size=16).astype("float32")
    net[1].weight.set_value(gamma)
    pruner = Pruner(net, SHAPE, criterion="bn_scale")
    assert removed_of(pruner) == set(np.argsort(np.abs(gamma))[:4])
    with pytest.raises(PreconditionNotMetError, match=r"norm .* '4'"):
        pruner.prune_vars({"4.weight": 0.5})


def test_taylor_needs_gradients_and_takes_their_product_with_weights():
    net = small_net()
    pruner = Pruner(net, SHAPE, criterion="taylor")
    with pytest.raises(PreconditionNotMetError, match=r"backward\(\)"):
        removed_of(pruner)
    net(proa.randn([4, 3, 16, 16])).square().sum().backward()
    w, g = (t.numpy().reshape(16, -1) for t in (net[0].weight, net[0].weight.grad))
    assert removed_of(pruner) == set(np.argsort((w * g).sum(1) ** 2)[:4])


@pytest.mark.feature("L479")
def test_a_criterion_of_ones_own():
    net = small_net()
    seen = []

    def last_first(channels):
        seen.append((channels.name, channels.weight.shape))
        return -np.arange(len(channels.weight), dtype=float)

    assert removed_of(Pruner(net, SHAPE, criterion=last_first)) == {12, 13, 14, 15}
    assert seen == [("0.weight", (16, 27))]
    bad = Pruner(net, SHAPE, criterion=lambda channels: np.full(16, np.nan))
    with pytest.raises(InvalidArgumentError, match=r"16 finite scores .* 0\.weight"):
        removed_of(bad)


def test_random_is_uniform():
    found = removed_of(Pruner(small_net(), SHAPE, criterion="random"))
    assert len(found) == 4


# -- counts


def test_flops_are_those_counted_by_hand():
    net = small_net()
    total, by_weight = flops(net, SHAPE, detail=True)
    want = {
        "0.weight": 16 * 16 * 16 * 27,
        "4.weight": 32 * 8 * 8 * 16 * 9,
        "8.weight": 128 * 24,
        "10.weight": 24 * 4,
    }
    assert by_weight == want and total == sum(want.values())
    assert flops(net, SHAPE, only_conv=True) == want["0.weight"] + want["4.weight"]
    assert model_size(net) == sum(p.size for p in net.parameters())
    rows = cost_table(net, SHAPE)
    assert [row.parameters for row in rows] == [432, 4608, 3072, 96]
    plan = Pruner(net, SHAPE).prune_vars({"0.weight": 0.5})
    assert plan.flops == (total, flops(net, SHAPE))
    assert plan.parameters[0] - plan.parameters[1] == 216 + 4 * 8 + 32 * 8 * 9


def test_latency_is_measured_for_each_operator():
    table = latency_table(small_net(), [InputSpec(SHAPE, "float32", "x")], repeats=3)
    assert sum(row.multiply_adds for row in table) == flops(small_net(), SHAPE)
    assert all(row.seconds > 0 for row in table)


# -- sensitivities and targets


def metric_of(net):
    """Agreement with what the whole network computes."""
    x = proa.to_tensor(
        np.random.default_rng(7).normal(size=(64, 3, 16, 16)).astype("float32")
    )
    want = net.eval()(x).numpy()

    def metric():
        got = net(x).numpy()
        return float(1 / (1 + np.abs(got - want).mean() / np.abs(want).mean()))

    return metric


def test_sensitivities_go_on_after_an_interruption(tmp_path):
    net = small_net()
    path, metric, calls = tmp_path / "sen.json", metric_of(net), []

    def stops_at_third():
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return metric()

    before = {k: v.numpy() for k, v in net.state_dict().items()}
    pruner = L1NormFilterPruner(net, SHAPE, sen_file=path)
    with pytest.raises(KeyboardInterrupt):
        pruner.sensitive(stops_at_third, ratios=(0.25, 0.5))
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    assert sum(len(v) for v in load_sensitivities(path).values()) == 2
    again = []

    def counts():
        again.append(1)
        return metric()

    fresh = L1NormFilterPruner(net, SHAPE, sen_file=path)
    found = fresh.sensitive(counts, ratios=(0.25, 0.5))
    assert len(again) == 4  # 3 groups at 2 ratios, 2 of them known
    assert list(found) == ["0.weight", "4.weight", "8.weight"]
    assert all(0 < loss < 1 for losses in found.values() for loss in losses.values())
    assert load_sensitivities(path) == found
    net[0].weight.set_value(net[0].weight.numpy() + 1)
    with pytest.raises(InvalidArgumentError, match="of another"):
        L1NormFilterPruner(net, SHAPE, sen_file=path).sensitive(counts)


def test_a_metric_that_is_not_finite_names_the_weight_and_is_not_stored(tmp_path):
    net = small_net()
    path, metric = tmp_path / "sen.json", metric_of(net)

    def fails(whole, part):
        return lambda: part if net[4].weight.shape[0] < 32 else whole()

    with pytest.raises(InvalidArgumentError, match="metric other than 0, got nan"):
        L1NormFilterPruner(net, SHAPE, sen_file=path).sensitive(lambda: np.nan)
    assert not path.exists()
    pruner = L1NormFilterPruner(net, SHAPE, sen_file=path)
    wanted = r"got nan without a share of 0\.5 of the channels of '4\.weight'"
    with pytest.raises(InvalidArgumentError, match=wanted):
        pruner.sensitive(fails(metric, np.nan), ratios=(0.5,))
    assert net[4].weight.shape[0] == 32
    assert list(load_sensitivities(path)) == ["0.weight"]
    found = L1NormFilterPruner(net, SHAPE, sen_file=path).sensitive(
        metric, ratios=(0.5,)
    )
    assert all(0 < losses[0.5] < 1 for losses in found.values())


def test_ratios_follow_from_losses():
    losses = {"a": {0.2: 0.01, 0.4: 0.03, 0.6: 0.2}, "b": {0.2: 0.1}, "c": {0.5: 0.0}}
    found = get_ratios_by_loss(losses, 0.02)
    assert found["a"] == pytest.approx(0.3) and found["c"] == 0.5
    assert found["b"] == pytest.approx(0.04)
    merged = merge_sensitive([{"a": {0.2: 0.5}}, {"a": {0.4: 1.0}, "b": {0.1: 0.0}}])
    assert merged == {"a": {0.2: 0.5, 0.4: 1.0}, "b": {0.1: 0.0}}


def test_files_of_sensitivities_are_checked(tmp_path):
    with pytest.raises(NotFoundError, match=r"none\.json"):
        load_sensitivities(tmp_path / "none.json")
    for content in ("[]", "{", json.dumps({"format": "x"})):
        (tmp_path / "bad.json").write_text(content)
        with pytest.raises(InvalidArgumentError, match="`sensitive` wrote"):
            load_sensitivities(tmp_path / "bad.json")


def test_ratios_for_a_target_of_multiply_adds(tmp_path):
    net = small_net()
    pruner = L1NormFilterPruner(net, SHAPE, sen_file=tmp_path / "sen.json")
    pruner.sensitive(metric_of(net), ratios=(0.25, 0.5, 0.75))
    whole = flops(net, SHAPE)
    uniform = pruner.get_uniform_ratios(0.5)
    assert len(set(uniform.values())) == 1
    plan = pruner.sensitive_prune(pruned_flops=0.5)
    left = flops(net, SHAPE) / whole
    assert 0.4 < left <= 0.5 and plan.pruned_flops == pytest.approx(1 - left)
    assert net.eval()(proa.randn([2, 3, 16, 16])).shape == [2, 4]


def test_a_target_that_cannot_be_met_names_the_layer_in_the_way():
    pruner = L1NormFilterPruner(small_net(), SHAPE)
    with pytest.raises(PreconditionNotMetError, match=r"layer '0'") as info:
        pruner.get_uniform_ratios(0.9999)
    assert "at most" in str(info.value)
    for share in (0, 1, -0.5):
        with pytest.raises(InvalidArgumentError, match="pruned_flops"):
            pruner.get_uniform_ratios(share)


def test_ratios_for_a_target_of_time_are_measured(monkeypatch):
    net = small_net()
    pruner = FilterPruner(net, SHAPE)
    # Time in proportion to multiply-adds: on a busy machine no real time is reliable.
    module = "proa_slim.prune.filter_pruner.median_latency"
    monkeypatch.setattr(module, lambda model, specs, repeats: flops(model, specs) / 1e9)
    ratios = pruner.get_ratios_by_latency(0.4)
    assert pruner.prune_groups(ratios).pruned_flops == pytest.approx(0.4, abs=0.1)
    monkeypatch.setattr(module, lambda model, specs, repeats: 1.0)
    with pytest.raises(PreconditionNotMetError, match="the time"):
        FilterPruner(net, SHAPE).get_ratios_by_latency(0.4)


def test_sensitivities_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    plot_sensitivities({"a": {0.2: 0.1, 0.4: 0.3}, "b": {0.5: 0.0}}, tmp_path / "s.svg")
    text = (tmp_path / "s.svg").read_text()
    assert "<svg" in text and text.count("clip-path") >= 2
    with pytest.raises(InvalidArgumentError, match="got none"):
        plot_sensitivities({}, tmp_path / "t.svg")


def test_align_keeps_multiples():
    net = small_net()
    prune_channels(net, SHAPE, 0.4, align=8)
    assert [net[i].weight.shape[0] for i in (0, 4)] == [16, 24]
    assert net[8].weight.shape == [96, 16]


def test_wrong_arguments_are_refused():
    net = small_net()
    pruner = Pruner(net, SHAPE)
    with pytest.raises(NotFoundError, match="conv9"):
        pruner.prune_vars({"conv9": 0.5})
    with pytest.raises(InvalidArgumentError, match=r"axis 0 of 10\.bias"):
        pruner.prune_vars({"10.bias": 0.5}, axis=0)
    for ratio in (1.0, -0.1, float("nan")):
        with pytest.raises(InvalidArgumentError, match="ratio"):
            pruner.prune_vars({"0.weight": ratio})
    with pytest.raises(InvalidArgumentError, match="output of the network"):
        pruner.prune_vars({"10.weight": 0.5}, axis=1)
    with pytest.raises(InvalidArgumentError, match="prune_type"):
        Pruner(net, SHAPE, prune_type="linear")
    with pytest.raises(InvalidArgumentError, match="criterion"):
        prune_channels(net, SHAPE, 0.5, criterion="l3")
    with pytest.raises(InvalidArgumentError, match="apply"):
        pruner.prune_vars({"0.weight": 0.5}, apply="later")


def test_own_names_of_parameters_and_types_of_layers():
    net = small_net()
    conv = [g.name for g in Pruner(net, SHAPE, prune_type="conv").groups]
    linear = [g.name for g in Pruner(net, SHAPE, prune_type="fc").groups]
    assert (conv, linear) == (["0.weight", "4.weight"], ["8.weight"])
    Pruner(net, SHAPE).prune_vars({net[0].weight.name: 0.5}, axis=0)
    assert net[0].weight.shape[0] == 8
    prune_channels(net, SHAPE, 0.5, skip=("0", "8.weight"))
    assert net[0].weight.shape[0] == 8 and net[8].weight.shape[1] == 24
    assert net[4].weight.shape[0] == 16


# -- whole networks

SMALL = ["LeNet", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x0_25"]
OTHERS = sorted({n for n in models.__all__ if n.islower()} - set(SMALL))


def check_zoo(name):
    sizes = {"LeNet": (1, 28), "inception_v3": (3, 160)}
    sizes |= {"alexnet": (3, 224), "googlenet": (3, 224)}
    channels, size = sizes.get(name, (3, 64))
    make = getattr(models, name)
    net = make() if name == "LeNet" else make(num_classes=10)
    shape = [None, channels, size, size]
    parameters = sum(p.size for p in net.parameters())
    plan = prune_channels(net, shape, 0.3)
    assert sum(p.size for p in net.parameters()) < 0.75 * parameters
    whole = {path for path, _ in net.named_sublayers()}
    assert set(plan.skipped) <= whole and all(plan.skipped.values())
    net.train()
    out = net(proa.randn([2, channels, size, size]))
    first = out[0] if isinstance(out, (list, tuple)) else out
    first.sum().backward()
    assert first.shape == [2, 10]


@pytest.mark.parametrize("name", SMALL)
def test_small_networks_of_the_zoo_lose_30_percent_and_train(name):
    check_zoo(name)


@pytest.mark.full
@pytest.mark.feature("L477")
@pytest.mark.parametrize("name", OTHERS)
def test_networks_of_the_zoo_lose_30_percent_and_train(name):
    check_zoo(name)


def test_a_transformer_encoder_loses_heads_and_hidden_units():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 8, 128), 2)
    spec = [InputSpec([None, None, 64], "float32", "x")]
    plan = prune_channels(encoder, spec, 0.3)
    assert encoder.layers[1].self_attn.num_heads == 6
    assert encoder.layers[0].linear1.out_features == 90
    assert set(plan.skipped) == {
        f"layers.{i}.{name}"
        for i in (0, 1)
        for name in ("self_attn.out_proj", "linear2")
    }
    encoder.train()
    encoder(proa.randn([2, 5, 64])).sum().backward()
