"""Quantization-aware training of static programs."""

import json

import numpy as np
import pytest

import proa
from proa import nn, static
from proa.errors import (
    InvalidArgumentError,
    PreconditionNotMetError,
    UnimplementedError,
)
from proa_slim import QuantConfig, quant

RNG = np.random.default_rng(5)
X = RNG.standard_normal((32, 1, 6, 6)).astype(np.float32)
Y = (X.sum((1, 2, 3)) > 0).astype(np.int64)


@pytest.fixture(autouse=True)
def static_mode():
    proa.enable_static()
    with static.scope_guard(static.Scope()):
        yield
    proa.disable_static()


def built(scope_of_head=""):
    """(main, startup, logits, loss): convolution, norm, pool, dropout, linear."""
    proa.seed(1)
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        x = static.data("x", [None, 1, 6, 6], "float32")
        y = static.data("y", [None], "int64")
        h = static.nn.conv2d(x, 4, 3, padding=1, bias_attr=False)
        h = static.nn.batch_norm(h, act="relu")
        h = nn.functional.dropout(nn.functional.max_pool2d(h, 2), 0.1)
        with static.name_scope(scope_of_head or "head"):
            logits = static.nn.fc(h, 2)
        loss = nn.functional.cross_entropy(logits, y).mean()
    return main, startup, logits, loss


def trained(config, steps=40, **options):
    main, startup, logits, loss = built(**options)
    exe = static.Executor()
    exe.run(startup)
    train = quant.quant_aware(main, None, config)
    test = quant.quant_aware(main, None, config, for_test=True)
    after = static.Program()
    with static.program_guard(train, after):
        proa.optimizer.Adam(0.01).minimize(train.find(loss.name))
    exe.run(after)
    values = [
        float(exe.run(train, {"x": X, "y": Y}, [loss.name])[0]) for _ in range(steps)
    ]
    return exe, train, test, logits, values


CONFIGS = [
    QuantConfig("moving_average"),
    QuantConfig("abs_max", "abs_max"),
    {"weight_quantize_type": "abs_max", "activation_quantize_type": "range_abs_max"},
]


@pytest.mark.parametrize("config", CONFIGS)
def test_a_program_trains_with_rounding_and_converts_to_integers(config, tmp_path):
    exe, _, test, logits, values = trained(config)
    assert values[-1] < 0.7 * values[0]
    (want,) = exe.run(test, {"x": X, "y": Y}, [logits.name])
    int8 = quant.convert(test, None, config)
    ops = [n.op for n in int8.graph.main.nodes]
    assert "conv2d_int8" in ops and "linear_int8" in ops
    assert "fake_quant" not in ops and "batch_norm_infer" not in ops
    (got,) = exe.run(int8, {"x": X, "y": Y}, [logits.name])
    assert got.tobytes() == want.tobytes()  # what was measured is what is exported
    path = tmp_path / "net"
    static.save_inference_model(
        str(path), [int8.find("x")], [int8.find(logits.name)], exe, program=int8
    )
    proa.disable_static()
    try:
        loaded = proa.jit.load(str(path))
        again = loaded(proa.to_tensor(X)).numpy()
    finally:
        proa.enable_static()
    assert again.tobytes() == got.tobytes()


def test_products_without_norm_and_with_bias_convert_to_the_same_bits():
    proa.seed(2)
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        x = static.data("x", [None, 1, 6, 6], "float32")
        h = static.nn.conv2d(x, 6, 3, stride=2, padding=1, act="relu6")
        h = static.nn.conv2d(h, 6, 3, padding=1, groups=6) + h
        h = static.nn.batch_norm(static.nn.fc(h, 8), act="sigmoid")
        y = static.nn.fc(h, 3, activation="softmax") * 2 + 1
        loss = (y - 1).square().mean()
    exe = static.Executor()
    exe.run(startup)
    for kind in ("channel_wise_abs_max", "abs_max"):
        config = {"weight_quantize_type": kind}
        train = quant.quant_aware(main, None, config)
        exe.run(train, {"x": X}, [loss.name])
        test = quant.quant_aware(main, None, config, for_test=True)
        int8 = quant.convert(test, None, config)
        ops = [n.op for n in int8.graph.main.nodes]
        assert sum(op.endswith("_int8") for op in ops) == 4
        assert "batch_norm_infer" not in ops
        want, got = (exe.run(p, {"x": X}, [y.name])[0] for p in (test, int8))
        assert got.tobytes() == want.tobytes()
        exact = exe.run(main.clone(for_test=True), {"x": X}, [y.name])[0]
        np.testing.assert_allclose(got, exact, atol=0.05)


@pytest.mark.feature("L466")
@pytest.mark.parametrize("kind", ["channel_wise_abs_max", "abs_max"])
def test_transposed_convolutions_and_columns_of_linear_weights_are_rounded(kind):
    proa.seed(2)
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        x = static.data("x", [None, 1, 6, 6], "float32")
        h = static.nn.conv2d_transpose(x, 4, filter_size=3, stride=2, act="relu")
        h = static.nn.conv2d_transpose(
            h, 2, filter_size=4, stride=2, padding=1, groups=2, bias_attr=False
        )
        logits = static.nn.fc(static.nn.batch_norm(h, act="relu"), 2)
        y = static.data("y", [None], "int64")
        loss = nn.functional.cross_entropy(logits, y).mean()
    exe = static.Executor()
    exe.run(startup)
    config = {
        "weight_quantize_type": kind,
        "quantize_op_types": ["conv2d_transpose", "mul"],
    }
    train = quant.quant_aware(main, None, config)
    test = quant.quant_aware(main, None, config, for_test=True)
    after = static.Program()
    with static.program_guard(train, after):
        proa.optimizer.Adam(0.003).minimize(train.find(loss.name))
    exe.run(after)
    feed = {"x": X, "y": Y}
    losses = [float(exe.run(train, feed, [loss.name])[0]) for _ in range(30)]
    assert losses[-1] < 0.7 * losses[0]
    int8 = quant.convert(test, None, config)
    nodes = int8.graph.main.nodes
    assert [n.op for n in nodes].count("conv2d_int8") == 2
    (linear,) = (n for n in nodes if n.op == "linear_int8")
    want, got = (exe.run(p, feed, [logits.name])[0] for p in (test, int8))
    assert got.tobytes() == want.tobytes()
    # Each column of the weight is rounded by its own greatest magnitude, or all by one.
    scope = static.global_scope()
    (name,) = (n for n in test.states if n.startswith("fc") and n.endswith("w_0"))
    weight = np.array(scope.find_var(name).get_tensor())
    axis = 0 if kind.startswith("channel") else None
    step = np.abs(weight).max(axis) / 127
    np.testing.assert_allclose(linear.inputs[1].data, np.rint(weight / step), atol=1)


def test_rounding_is_that_of_dynamic_mode():
    exe, train, test, _, _ = trained(QuantConfig("abs_max"), steps=1)
    fakes = [n for n in train.graph.main.nodes if n.op == "fake_quant"]
    assert len(fakes) == 4  # two inputs, two weights
    scope = static.global_scope()
    weight = next(n for n in test.states if n.startswith("conv2d") and "input" not in n)
    threshold = np.array(scope.find_var(f"{weight}.input_threshold").get_tensor())
    assert threshold[0] == np.abs(X).max()
    rounded = fakes[0].outputs[0].name
    (got,) = exe.run(train, {"x": X, "y": Y}, [rounded])
    step = np.float32(np.abs(X).max() / 127)
    np.testing.assert_allclose(got, np.rint(X / step) * step, rtol=1e-5)


def test_ranges_of_results_are_noted_in_training_and_saved():
    config = QuantConfig("abs_max")
    exe, train, test, logits, _ = trained(config, steps=1)
    int8 = quant.convert(test, None, config)
    found = json.loads(int8.graph.metadata["out_threshold"])
    named = [n for n in ("batch_norm_0", "relu_0", logits.name) if n in train.vars]
    assert logits.name in named and len(found) >= 4
    # abs_max keeps the greatest magnitude of the one batch, before the step.
    scope = static.global_scope()
    state = scope.find_var(f"{logits.name}.output_threshold")
    assert found[logits.name] == np.array(state.get_tensor())[0]
    (h,) = exe.run(test, {"x": X, "y": Y}, [logits.name])
    assert found[logits.name] == pytest.approx(np.abs(h).max(), rel=0.5)


def test_name_scopes_weights_and_kinds_are_skipped():
    def products(config, scope_of_head=""):
        _, _, test, *_ = trained(config, 1, scope_of_head=scope_of_head)
        ops = [n.op for n in quant.convert(test, None, config).graph.main.nodes]
        return {op.removesuffix("_int8") for op in ops if op.endswith("_int8")}

    both = {"conv2d", "linear"}
    assert products({}) == both
    assert products({}, "skip_quant") == {"conv2d"}
    assert products({"not_quant_pattern": ["head"]}) == {"conv2d"}
    assert products({"quantize_op_types": ["mul"]}) == {"linear"}
    assert products(QuantConfig("abs_max", skip=("fc_*",))) == {"conv2d"}


def test_wrong_programs_and_configurations_are_refused():
    main, startup, _, loss = built()
    exe = static.Executor()
    exe.run(startup)
    with pytest.raises(InvalidArgumentError, match="weight_quantize_type must be one"):
        quant.quant_aware(main, None, {"weight_quantize_type": "range_abs_max"})
    with pytest.raises(UnimplementedError, match="weight_bits must be 8, got 4"):
        quant.quant_aware(main, None, {"weight_bits": 4})
    with pytest.raises(UnimplementedError, match="symmetric ranges"):
        quant.quant_aware(main, None, QuantConfig("abs_max", learn_steps=True))
    with pytest.raises(PreconditionNotMetError, match="at least one product"):
        quant.quant_aware(main, None, QuantConfig(skip=("*",)))
    train = quant.quant_aware(main)
    with pytest.raises(PreconditionNotMetError, match=r"quant_aware\(.., for_test"):
        quant.convert(train)
    test = quant.quant_aware(main, for_test=True)
    with pytest.raises(PreconditionNotMetError, match="got untrained ranges"):
        quant.convert(test)
    with static.program_guard(main, startup):
        proa.optimizer.SGD(0.1).minimize(loss)
    with pytest.raises(PreconditionNotMetError, match="before minimize"):
        quant.quant_aware(main)
