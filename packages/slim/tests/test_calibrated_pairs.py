"""Products of two activations in calibration: skipped, reported and timed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import proa
from proa import nn
from proa.errors import NotFoundError, PreconditionNotMetError
from proa.static import InputSpec
from proa_slim import (
    QAT,
    AnalysisPTQ,
    MatMul,
    QuantConfig,
    QuantizedAttention,
    QuantizedMatMul,
    layer_speeds,
    quant_post_static,
    slow_in_int8,
)
from proa_slim.quant import speed

SPEC = [InputSpec([None, 12, 16], "float32", "x")]
X = np.random.default_rng(3).standard_normal((6, 12, 16)).astype(np.float32)
KINDS = ("linear", "attention", "matmul")


class Scores(nn.Layer):
    """Attention of a form of its own, with its products as layers."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))
        self.scores, self.mix = MatMul(), MatMul()

    def forward(self, x: Any) -> Any:
        scores = self.scores(self.q(x), self.k(x), transpose_y=True)
        return self.mix(nn.functional.sigmoid(scores), self.v(x))


def encoder() -> nn.Layer:
    proa.seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, 0.0)
    network = nn.TransformerEncoder(layer, 2)
    network.eval()
    return network


def integers(network: nn.Layer, **options: Any) -> Counter[str]:
    config = QuantConfig("abs_max", ops=KINDS, **options)
    model = quant_post_static(network, SPEC, [X], config)
    return Counter(node.op for node in model.program.main.nodes)


@pytest.mark.parametrize(
    ("skip", "attentions", "linears"),
    [
        ((), 2, 12),
        (("layers.0.self_attn",), 1, 8),
        (("layers.0",), 1, 6),
        (("layers.*.self_attn",), 0, 4),
        ((nn.MultiHeadAttention,), 0, 4),
        (("layers.1.self_attn:attention",), 1, 12),
        (("layers.*.self_attn:attention",), 0, 12),
    ],
)
def test_attention_of_skipped_layers_stays_in_float32(
    skip: Any, attentions: int, linears: int
) -> None:
    found = integers(encoder(), skip=skip)
    assert found["attention_int8"] == attentions
    assert found["attention"] == 2 - attentions
    assert found["linear_int8"] == linears


@pytest.mark.parametrize(
    ("skip", "products"),
    [((), 2), (("mix",), 1), ((MatMul,), 0), (("s*",), 1), (("mix:matmul",), 1)],
)
def test_products_of_skipped_layers_stay_in_float32(skip: Any, products: int) -> None:
    found = integers(Scores(), skip=skip)
    assert found["matmul_int8"] == products and found["matmul"] == 2 - products
    assert found["linear_int8"] == 3


def test_training_rounds_no_products_of_skipped_layers() -> None:
    config = QuantConfig(
        "moving_average", ops=KINDS, skip=("layers.1.self_attn:attention",)
    )
    student = QAT(config).quantize(encoder())
    kinds = [type(layer) for layer in student.sublayers()]
    assert kinds.count(QuantizedAttention) == 1
    config = QuantConfig("moving_average", ops=KINDS, skip=("scores:matmul",))
    student = QAT(config).quantize(Scores())
    kinds = [type(layer) for layer in student.sublayers()]
    assert kinds.count(QuantizedMatMul) == 1


def test_products_that_the_network_does_not_have_are_named() -> None:
    with pytest.raises(NotFoundError, match=r"got layers\.7:attention"):
        integers(encoder(), skip=("layers.7:attention",))


def test_attention_of_a_loaded_model_is_skipped_with_its_layers(tmp_path: Path) -> None:
    path = str(tmp_path / "net.proa")
    proa.jit.save(encoder(), path, SPEC)
    loaded = proa.jit.load(path)
    assert integers(loaded)["attention_int8"] == 2
    found = integers(loaded, skip=("layers.0.self_attn",))
    assert found["attention_int8"] == found["attention"] == 1
    found = integers(loaded, skip=("layers.1.self_attn:attention",))
    assert found["attention_int8"] == 1 and found["linear_int8"] == 12


def test_what_stays_in_float32_is_listed() -> None:
    def left(**options: Any) -> dict[str, str]:
        config = QuantConfig("abs_max", **options)
        return quant_post_static(encoder(), SPEC, [X], config).unquantized

    assert left(ops=KINDS) == {}
    first, second = (f"layers.{i}.self_attn:attention" for i in range(2))
    assert left(ops=KINDS, skip=(first,)) == {first: "named in skip"}
    reason = "attention is not among ops"
    assert left() == {first: reason, second: reason}


def test_no_file_says_which_layers_products_were_of(tmp_path: Path) -> None:
    config = QuantConfig("abs_max", ops=KINDS)
    plain = quant_post_static(encoder(), SPEC, [X]).program.metadata
    model = quant_post_static(encoder(), SPEC, [X], config)
    assert set(model.program.metadata) == set(plain)
    assert "layers_of_results" not in plain


# -- the report ------------------------------------------------------------------------
_Real = npt.NDArray[np.float64]


def on_grid(x: _Real) -> _Real:
    step = np.abs(x).max() / 127
    rounded: _Real = np.rint(x / step) * step
    return rounded


def db(signal: _Real, error: _Real) -> float:
    return float(10 * np.log10((signal**2).sum() / (error**2).sum()))


def attention(q: _Real, k: _Real, v: _Real, steps: int = 0) -> _Real:
    """(b, n, heads, e), the weights rounded to that many steps."""
    scores = np.einsum("bnhd,bmhd->bhnm", q, k) * q.shape[-1] ** -0.5
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    p = np.rint(p * steps) / steps if steps else p
    return np.einsum("bhnm,bmhe->bnhe", p, v)


class Attention(nn.Layer):
    """The operator alone."""

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return nn.functional.scaled_dot_product_attention(q, k, v)


def test_the_report_has_attention_with_the_rounding_of_its_weights() -> None:
    rng = np.random.default_rng(4)
    arrays = [rng.standard_normal((3, 10, 2, 8)).astype(np.float32) for _ in "qkv"]
    spec = [InputSpec([None, 10, 2, 8], "float32", name) for name in "qkv"]
    config = QuantConfig("abs_max", ops=("attention",))
    model = quant_post_static(Attention(), spec, [arrays], config)
    wide = [x.astype(np.float64) for x in arrays]
    exact = attention(*wide)
    error = exact - attention(*(on_grid(x) for x in wide), steps=255)
    (row,) = model.report
    assert (row.layer, row.op) == (":attention", "attention")
    assert row.sqnr_db == row.layer_sqnr_db == pytest.approx(db(exact, error), abs=0.1)
    assert row.input_scale == pytest.approx(np.abs(arrays[0]).max() / 127)
    columns, errors = (x.reshape(30, 16) for x in (exact, error))
    channels = [db(columns[:, i], errors[:, i]) for i in range(16)]
    assert row.worst_channel == int(np.argmin(channels))
    assert row.worst_channel_sqnr_db == pytest.approx(min(channels), abs=0.1)
    assert row.max_abs_error == pytest.approx(np.abs(error).max(), rel=0.05)
    # The weights of softmax are most of it.
    unrounded = exact - attention(*(on_grid(x) for x in wide))
    assert db(exact, unrounded) > row.sqnr_db + 1
    assert db(exact, exact - model(*arrays)) == pytest.approx(row.sqnr_db, abs=0.01)


def test_a_product_is_measured_alone_and_with_the_layers_before_it() -> None:
    proa.seed(1)
    network = Scores()
    config = QuantConfig("abs_max", ops=KINDS)
    model = quant_post_static(network, SPEC, [X], config)
    rows = {row.layer: row for row in model.report}
    assert list(rows) == ["q", "k", "scores:matmul", "v", "mix:matmul"]
    wide = X.astype(np.float64)
    q, k, v = (
        wide @ layer.weight.numpy().astype(np.float64) + layer.bias.numpy()
        for layer in (network.q, network.k, network.v)
    )
    scores = q @ k.transpose(0, 2, 1)
    error = scores - on_grid(q) @ on_grid(k).transpose(0, 2, 1)
    first = rows["scores:matmul"]
    assert first.layer_sqnr_db == pytest.approx(db(scores, error), abs=0.05)
    assert first.sqnr_db < first.layer_sqnr_db
    weights = 1 / (1 + np.exp(-scores))
    exact = weights @ v
    error = exact - on_grid(weights) @ on_grid(v)
    last = rows["mix:matmul"]
    assert last.layer_sqnr_db == pytest.approx(db(exact, error), abs=0.05)
    assert last.sqnr_db == pytest.approx(db(exact, exact - model(X)), abs=0.05)
    assert "mix:matmul" in model.summary()


def test_each_product_is_analysed_alone(tmp_path: Path) -> None:
    seen = []

    def evaluate(model: Any) -> float:
        ops = Counter(node.op for node in model.program.main.nodes)
        seen.append((ops["attention_int8"], ops["linear_int8"]))
        return float(-ops["attention_int8"])

    config = QuantConfig("abs_max", ops=("linear", "attention"))
    analysis = AnalysisPTQ(
        encoder(), SPEC, [X], evaluate, tmp_path, quant_config=config, progress=False
    )
    keys = [f"layers.{i}.self_attn:attention" for i in range(2)]
    assert [layer for layer in analysis.layers if ":" in layer] == keys
    drops = analysis.metric_error_analyse()
    assert list(drops)[:2] == keys and seen.count((1, 0)) == 2
    model = analysis.search(max_drop=0.0)
    assert set(model.unquantized) == set(keys)
    page = analysis.statistical_analyse().read_text()
    assert keys[0] in page and page.count("<svg") >= 2 * len(analysis.layers)


# -- speed -----------------------------------------------------------------------------
def test_products_of_activations_have_their_times() -> None:
    for symmetric in (True, False):
        config = QuantConfig("abs_max", ops=KINDS, symmetric=symmetric)
        found = {s.layer: s for s in layer_speeds(encoder(), SPEC, config, repeats=3)}
        pairs = [s for s in found.values() if ":" in s.layer]
        assert [s.layer for s in pairs] == [
            f"layers.{i}.self_attn:attention" for i in range(2)
        ]
        assert all(s.op == "attention" for s in pairs)
        assert all(s.float32_us > 0 and s.int8_us > 0 for s in found.values())
        assert len(found) == 14
    found = {s.layer: s for s in layer_speeds(Scores(), SPEC, config, repeats=3)}
    assert set(found) == {"q", "k", "v", "scores:matmul", "mix:matmul"}


def with_times(
    monkeypatch: pytest.MonkeyPatch, times: dict[str, tuple[float, float]]
) -> None:
    """Let layers take so long in float32 and int8, and networks their sums."""
    speeds = [speed.LayerSpeed(k, "attention", *pair) for k, pair in times.items()]

    def layers(self: Any, skip: Any) -> list[speed.LayerSpeed]:
        return [s for s in speeds if s.layer not in skip]

    def whole(self: Any, *skips: Any, export: Any = None) -> list[float]:
        return [
            sum(s.float32_us if s.layer in skip else s.int8_us for s in speeds)
            for skip in skips
        ]

    monkeypatch.setattr(speed._Timed, "layers", layers)
    monkeypatch.setattr(speed._Timed, "whole", whole)


def test_attention_that_int8_makes_slower_stays_in_float32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = (f"layers.{i}.self_attn:attention" for i in range(2))
    with_times(monkeypatch, {first: (5.0, 20.0), second: (9.0, 4.0)})
    config = QuantConfig("abs_max", ops=KINDS, only_faster=True)
    assert list(slow_in_int8(encoder(), SPEC, config)) == [first]
    model = quant_post_static(encoder(), SPEC, [X], config)
    ops = Counter(node.op for node in model.program.main.nodes)
    assert ops["attention_int8"] == ops["attention"] == 1
    assert model.unquantized == {first: "int8 takes 20 us, float32 5 us"}
    trained = QuantConfig("moving_average", ops=KINDS, only_faster=True)
    student = QAT(trained).quantize(encoder(), SPEC)
    kinds = [type(layer) for layer in student.sublayers()]
    assert kinds.count(QuantizedAttention) == 1


def test_attention_alone_is_reason_enough_for_int8(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = (f"layers.{i}.self_attn:attention" for i in range(2))
    config = QuantConfig("abs_max", ops=("attention",), only_faster=True)
    with_times(monkeypatch, {first: (9.0, 4.0), second: (5.0, 20.0)})
    model = quant_post_static(encoder(), SPEC, [X], config)
    assert [row.layer for row in model.report] == [first]
    with_times(monkeypatch, {first: (4.0, 9.0), second: (5.0, 20.0)})
    with pytest.raises(PreconditionNotMetError, match="takes 20 us, float32 5 us"):
        quant_post_static(encoder(), SPEC, [X], config)
