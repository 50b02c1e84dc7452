"""Products of two activations in static programs that are trained for int8."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn, static
from proa.errors import PreconditionNotMetError, UnimplementedError
from proa_slim import QuantConfig, quant

RNG = np.random.default_rng(7)
X = RNG.standard_normal((6, 12, 16)).astype(np.float32)
KINDS: Any = ("linear", "attention", "matmul")
CONFIG = QuantConfig("moving_average", ops=KINDS)
KEEP = np.tril(np.ones((12, 12), np.bool_))[None, None]


@pytest.fixture(autouse=True)
def static_mode() -> Iterator[None]:
    proa.enable_static()
    with static.scope_guard(static.Scope()):
        yield
    proa.disable_static()


def encoder(x: Any, dropout: float) -> Any:
    return nn.TransformerEncoderLayer(16, 4, 32, dropout)(x)


def masked(kind: str) -> Any:
    def network(x: Any, dropout: float) -> Any:
        mask = KEEP if kind == "bools" else np.where(KEEP, 0.0, -3.0).astype("float32")
        layer = nn.MultiHeadAttention(16, 4, dropout)
        return layer(x, attn_mask=proa.to_tensor(mask))

    return network


def scores(x: Any, dropout: float) -> Any:
    q, k, v = (nn.Linear(16, 16)(x) for _ in range(3))
    weights = nn.functional.sigmoid(proa.matmul(q, k, transpose_y=True))
    return proa.matmul(weights, v)


def built(network: Any, dropout: float = 0.1) -> tuple[Any, Any, Any, Any]:
    proa.seed(1)
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        x = static.data("x", [None, 12, 16], "float32")
        y = network(x, dropout)
        loss = (y - 1).square().mean()
    return main, startup, y, loss


def trained(network: Any, config: QuantConfig, steps: int = 25) -> tuple[Any, ...]:
    main, startup, y, loss = built(network)
    exe = static.Executor()
    exe.run(startup)
    train = quant.quant_aware(main, None, config)
    test = quant.quant_aware(main, None, config, for_test=True)
    after = static.Program()
    with static.program_guard(train, after):
        proa.optimizer.Adam(0.01).minimize(train.find(loss.name))
    exe.run(after)
    losses = [float(exe.run(train, {"x": X}, [loss.name])[0]) for _ in range(steps)]
    return exe, main, test, y.name, losses


@pytest.mark.parametrize("kind", ["moving_average", "abs_max"])
@pytest.mark.parametrize(
    ("network", "op", "count"),
    [
        (encoder, "attention_int8", 1),
        (masked("bools"), "attention_int8", 1),
        (masked("added"), "attention_int8", 1),
        (scores, "matmul_int8", 2),
    ],
)
def test_what_is_tested_has_the_bits_of_what_is_exported(
    network: Any, op: str, count: int, kind: Any, tmp_path: Path
) -> None:
    config = QuantConfig(kind, ops=KINDS)
    exe, main, test, name, losses = trained(network, config)
    assert losses[-1] < losses[0]
    (want,) = exe.run(test, {"x": X}, [name])
    int8 = quant.convert(test, None, config)
    ops = Counter(node.op for node in int8.graph.main.nodes)
    assert ops[op] == count and ops["attention_int8"] + ops["matmul_int8"] == count
    assert not {"attention", "matmul", "fake_quant", "linear"} & set(ops)
    (got,) = exe.run(int8, {"x": X}, [name])
    assert got.tobytes() == want.tobytes()
    exact = exe.run(main.clone(for_test=True), {"x": X}, [name])[0]
    assert 0 < np.abs(got - exact).max() < 0.1 * np.abs(exact).max()
    path = str(tmp_path / "net")
    data, result = int8.find("x"), int8.find(name)
    static.save_inference_model(path, [data], [result], exe, program=int8)
    proa.disable_static()
    try:
        again = proa.jit.load(path)(proa.to_tensor(X)).numpy()
    finally:
        proa.enable_static()
    assert again.tobytes() == want.tobytes()


def on_grid(x: Any, peak: float) -> Any:
    return np.clip(np.rint(x * (127 / peak)), -127, 127) * (peak / 127)


def test_training_computes_products_of_rounded_operands() -> None:
    main, y = static.Program(), "y"
    with static.program_guard(main, static.Program()):
        a = static.data("a", [2, 3, 5], "float32")
        b = static.data("b", [2, 5, 4], "float32")
        product = proa.matmul(a, b)
        y = product.name
    config = QuantConfig("abs_max", ops=("matmul",))
    train = quant.quant_aware(main, None, config)
    arrays = {
        "a": RNG.standard_normal((2, 3, 5)).astype(np.float32),
        "b": RNG.standard_normal((2, 5, 4)).astype(np.float32),
    }
    exe = static.Executor()
    (found,) = exe.run(train, arrays, [y])
    rounded = [on_grid(x.astype(np.float64), np.abs(x).max()) for x in arrays.values()]
    np.testing.assert_allclose(found, rounded[0] @ rounded[1], rtol=1e-4, atol=1e-5)
    test = quant.quant_aware(main, None, config, for_test=True)
    (found,) = exe.run(test, arrays, [y])
    np.testing.assert_allclose(found, rounded[0] @ rounded[1], rtol=1e-4, atol=1e-5)


def test_training_computes_attention_of_rounded_arrays() -> None:
    main = static.Program()
    with static.program_guard(main, static.Program()):
        data = [static.data(n, [2, 5, 3, 4], "float32") for n in "qkv"]
        y = nn.functional.scaled_dot_product_attention(*data).name
    config = QuantConfig("abs_max", ops=("attention",))
    arrays = {n: RNG.standard_normal((2, 5, 3, 4)).astype(np.float32) for n in "qkv"}
    exe = static.Executor()
    (found,) = exe.run(quant.quant_aware(main, None, config), arrays, [y])
    a, b, c = (on_grid(x.astype(np.float64), np.abs(x).max()) for x in arrays.values())
    p = np.exp(np.einsum("bnhd,bmhd->bhnm", a, b) / 2)
    p = np.rint(255 * p / p.sum(-1, keepdims=True)) / 255
    want = np.einsum("bhnm,bmhe->bnhe", p, c)
    # One weight at the border of two steps may fall to either side.
    np.testing.assert_allclose(found, want, atol=np.abs(c).max() / 255)
    assert np.median(np.abs(found - want)) < 1e-5


def test_only_chosen_products_are_rounded() -> None:
    def kinds(**options: Any) -> Counter[str]:
        main, *_ = built(encoder)
        config = QuantConfig("abs_max", **options)
        result = quant.quant_aware(main, None, config, for_test=True)
        return Counter(node.op for node in result.graph.main.nodes)

    assert kinds()["attention"] == 1 and kinds()["matmul_int8"] == 0
    assert kinds(ops=KINDS)["matmul_int8"] == 2
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static.name_scope("skip_quant"):
        encoder(static.data("x", [None, 12, 16], "float32"), 0.0)
    with pytest.raises(PreconditionNotMetError, match="at least one product"):
        quant.quant_aware(main, None, CONFIG)


def test_causal_attention_is_refused_by_name() -> None:
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [2, 5, 3, 4], "float32")
        y = nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    with pytest.raises(UnimplementedError, match=f"got '{y.name}' with is_causal=True"):
        quant.quant_aware(main, None, CONFIG)
