"""Accuracy on all of Fashion-MNIST, three seeds: the goals, measured."""

import os

import numpy as np
import pytest
from fashion_network import SEEDS, fine_tune, mobile_net, train_at

import proa
from proa.static import InputSpec
from proa.vision.models import mobilenet_v1
from proa_slim import (
    QAT,
    AnalysisPTQ,
    Distill,
    DistillLoss,
    QuantConfig,
    quant_post_dynamic,
    quant_post_static,
)

pytestmark = pytest.mark.full
SPEC = [InputSpec([None, 1, 28, 28], "float32", "x")]


def calibration(fashion):
    return np.split(fashion.train_x[:1024], 8)


def drops_of(networks, quantize):
    """Points that each network loses by `quantize`."""
    return np.array([f.float_accuracy() - f.accuracy(quantize(f)) for f in networks])


def drops_in_torch(networks, calibrator, per_channel=True):
    """The same with PyTorch's arithmetic, fake quantization and the same weights."""
    oracle = pytest.importorskip("torch_oracle")
    found = []
    for fashion in networks:
        net = oracle.copied(fashion.network)
        net = oracle.quantized(net, calibration(fashion), calibrator, per_channel)
        after = oracle.accuracy(net, np.split(fashion.test_x, 10), fashion.test_y)
        found.append(fashion.float_accuracy() - after)
    return np.array(found)


def shown(drops):
    """Mean and greatest of what seeds lose."""
    mean, greatest = (round(float(x), 2) + 0.0 for x in (drops.mean(), drops.max()))
    return f"{mean:.2f} ({greatest:.2f})"


CALIBRATED = [
    "calibrator", "drop in points: mean (greatest)",
    "PyTorch, same weights",
]  # fmt: skip


@pytest.mark.feature("L467")
@pytest.mark.parametrize(
    ("kind", "limit"),
    [
        ("abs_max", 0.3),
        ("avg", 0.3),
        ("hist", 0.3),
        ("mse", 0.3),
        ("emd", 0.3),
        ("kl", 0.4),
    ],
)
def test_no_calibrator_loses_more_than_its_goal(networks, record_table, kind, limit):
    config = QuantConfig(kind)
    drops = drops_of(
        networks, lambda f: quant_post_static(f.network, SPEC, calibration(f), config)
    )
    peer = drops_in_torch(networks, kind)
    record_table("calibration", CALIBRATED, [[f"`{kind}`", shown(drops), shown(peer)]])
    assert (drops <= limit).all()
    assert drops.mean() <= peer.mean() + 0.15


def test_one_scale_for_a_weight_loses_no_more_than_in_torch(networks, record_table):
    config = QuantConfig("abs_max", "abs_max")
    drops = drops_of(
        networks, lambda f: quant_post_static(f.network, SPEC, calibration(f), config)
    )
    peer = drops_in_torch(networks, "abs_max", per_channel=False)
    name = "`abs_max`, one scale for a weight"
    record_table("calibration", CALIBRATED, [[name, shown(drops), shown(peer)]])
    assert drops.mean() <= peer.mean() + 0.15


@pytest.mark.parametrize("kind", ["abs_max", "hist"])
def test_asymmetric_ranges_lose_no_more(networks, record_table, kind):
    config = QuantConfig(kind, symmetric=False)
    drops = drops_of(
        networks, lambda f: quant_post_static(f.network, SPEC, calibration(f), config)
    )
    name = f"`{kind}`, `symmetric=False`"
    record_table("calibration", CALIBRATED, [[name, shown(drops), ""]])
    assert (drops <= 0.3).all()


CORRECTIONS = {
    "bias correction": {"bias_correction": True},
    "AdaRound": {"round_type": "adaround"},
    "both": {"round_type": "adaround", "bias_correction": True},
}


@pytest.mark.parametrize("name", CORRECTIONS)
def test_corrections_save_weights_with_one_scale(networks, record_table, name):
    config = QuantConfig("abs_max", "abs_max", **CORRECTIONS[name])
    drops = drops_of(
        networks, lambda f: quant_post_static(f.network, SPEC, calibration(f), config)
    )
    record_table(
        "corrections",
        ["`abs_max`, one scale for a weight",
         "drop in points: mean (greatest)"],
        [[name, shown(drops)]],
    )  # fmt: skip
    assert (drops <= 0.3).all()


def file_shares(network, spec, model, folder):
    """Bytes of the model's file, and of a compressed one, over those of the network's
    file.
    """
    before, after = folder / "before.proa", folder / "after.proa"
    proa.jit.save(network, str(before), spec)
    sizes = []
    for compressed in (False, True):
        model.save(after, compressed)
        sizes.append(os.path.getsize(after))
    return [size / os.path.getsize(before) for size in sizes]


def weights_row(name, networks, quantize, folder):
    """Drops, and a row of the table of what weights alone lose."""
    large, images = mobilenet_v1(), [InputSpec([None, 3, 64, 64], "float32", "x")]
    large.eval()
    fashion = networks[0]
    drops = drops_of(networks, lambda f: quantize(f.network, SPEC, calibration(f)))
    small = quantize(fashion.network, SPEC, calibration(fashion))
    noise = np.random.default_rng(0).standard_normal((2, 4, 3, 64, 64))
    pairs = (
        (fashion.network, SPEC, small),
        (large, images, quantize(large, images, [*noise.astype(np.float32)])),
    )
    shares = [share for pair in pairs for share in file_shares(*pair, folder)]
    return drops, shares, [name, shown(drops), *(f"{x:.3f}" for x in shares)]


WEIGHTS = [
    "stored as", "drop in points: mean (greatest)",
    "file of this network of 94 KB", "compressed", "file of MobileNetV1, 17 MB",
    "compressed, too",
]  # fmt: skip


@pytest.mark.feature("L471", how="figure")
@pytest.mark.parametrize(
    ("bits", "limit", "share"), [(16, 0.0, 0.52), (8, 0.1, 0.28), (4, 0.8, 0.17)]
)
def test_weights_alone_lose_no_more_than_their_goals(
    networks, record_table, tmp_path, bits, limit, share
):
    drops, shares, row = weights_row(
        f"weights of {bits} bits",
        networks,
        lambda net, spec, _: quant_post_dynamic(net, spec, bits),
        tmp_path,
    )
    record_table("weights", WEIGHTS, [row])
    assert (drops <= limit + 1e-9).all()
    # The graph of the small network has 9 to 13 KB, whatever its weights have.
    assert shares[1] <= share and shares[2] <= share and shares[3] <= share


def test_gptq_loses_no_more_than_plain_rounding_may(networks, record_table, tmp_path):
    drops, _, row = weights_row(
        "weights of 4 bits, GPTQ",
        networks,
        lambda net, spec, x: quant_post_dynamic(net, spec, 4, calibration=x),
        tmp_path,
    )
    record_table("weights", WEIGHTS, [row])
    assert (drops <= 0.8).all()


def test_files_of_int8_networks_are_a_quarter(networks, record_table, tmp_path):
    config = QuantConfig("abs_max")
    _, shares, row = weights_row(
        "int8 with calibration",
        networks,
        lambda net, spec, x: quant_post_static(net, spec, x, config),
        tmp_path,
    )
    record_table("weights", WEIGHTS, [row])
    assert max(shares[1:]) <= 0.28


def trained_on(fashion, qat, rate):
    """The int8 model after an epoch with rounding; it computes as its student did."""
    student = qat.quantize(fashion.network, SPEC)
    fine_tune(student, fashion.train_x, fashion.train_y, rate)
    model = qat.convert(student, SPEC)
    x = fashion.test_x[:500]
    assert model(x).tobytes() == student(proa.to_tensor(x)).numpy().tobytes()
    return model


# Norms are frozen for the second half of the epoch.
TRAINED = {
    "`QAT`, moving average": (
        QuantConfig("moving_average", freeze_bn_delay=230), 2e-3,
    ),
    "`QAT`, `learn_steps=True`, a quarter of the learning rate": (
        QuantConfig("moving_average", freeze_bn_delay=230, learn_steps=True), 5e-4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAINED)
def test_training_with_rounding_is_no_worse_than_float32_or_calibration(
    networks, record_table, name
):
    config, rate = TRAINED[name]
    during = drops_of(networks, lambda f: trained_on(f, QAT(config), rate))
    plain = QuantConfig("abs_max")
    after = drops_of(
        networks, lambda f: quant_post_static(f.network, SPEC, calibration(f), plain)
    )
    record_table(
        "training",
        ["one epoch more", "points above float32: mean (least)"],
        [[label, f"{-drops.mean():+.2f} ({-drops.max():+.2f})"] for label, drops in
         ((name, during), ("after training alone, `abs_max`", after))],
    )  # fmt: skip
    assert during.mean() <= 0.1
    assert during.mean() <= after.mean()


def student_accuracy(fashion, seed, distilled):
    """Accuracy of a network of half the width after one epoch, alone or distilled."""
    proa.seed(100 + seed)
    student = mobile_net(2)
    rate = proa.optimizer.lr.OneCycleLR(6e-3, len(fashion.train_x) // 128)
    learner, loss_of = student, None
    if distilled:
        # Chosen on 5,000 training images that students had not seen: a student that
        # still underfits gains nothing by a temperature above 1 or by hints.
        term = DistillLoss("kl", weight=0.9, options={"temperature": 1.0})
        learner = Distill([term], student, fashion.network)

        def loss_of(images, labels):
            logits, _, loss = learner(images)
            return 0.1 * proa.nn.functional.cross_entropy(logits, labels).mean() + loss

    train_at(rate, learner, fashion.train_x, fashion.train_y, 1, loss_of)
    return fashion.accuracy(lambda x: student(proa.to_tensor(x)).numpy())


def test_a_student_of_half_the_width_gains_by_distillation(networks, record_table):
    alone, distilled = np.transpose([
        [student_accuracy(fashion, seed, d) for d in (False, True)]
        for seed, fashion in zip(SEEDS, networks, strict=True)
    ])  # fmt: skip
    gains = distilled - alone
    record_table(
        "distillation",
        ["student of half the width, one epoch", "accuracy: mean", "gain: mean",
         "gain by seed"],
        [
            ["alone", f"{alone.mean():.2f}", "", ""],
            ["`kl` at temperature 1, 0.9 of the loss", f"{distilled.mean():.2f}",
             f"{gains.mean():+.2f}", ", ".join(f"{gain:+.2f}" for gain in gains)],
        ],
    )  # fmt: skip
    assert gains.mean() >= 0.3


def test_a_search_meets_the_drop_with_few_layers_in_float(fashion, tmp_path):
    analysis = AnalysisPTQ(
        fashion.network,
        SPEC,
        calibration(fashion),
        fashion.accuracy,
        tmp_path,
        quant_config=QuantConfig("abs_max", "abs_max"),
    )
    model = analysis.search(max_drop=0.1)
    assert fashion.float_accuracy() - fashion.accuracy(model) <= 0.1
    assert len(model.unquantized) <= 3
