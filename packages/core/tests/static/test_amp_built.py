"""Mixed precision of programs that static mode builds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import static
from proa.static import amp
from proa.static.amp import bf16

RNG = np.random.default_rng(5)
X = RNG.normal(size=(16, 6)).astype("float32")
W = RNG.normal(size=(6, 2)).astype("float32")
Y = X @ W
Programs = tuple[static.Program, static.Program]


def kinds(program: static.Program, op: str, role: str = "forward") -> list[str]:
    """The dtypes of what operators of a name and role give."""
    return [
        o.node.outputs[0].dtype
        for o in program.global_block().ops
        if o.type == op and o.attr("op_role") == role
    ]


def network(guarded: bool = False) -> tuple[Any, Any]:
    """A prediction of two layers and its loss; the second one may be marked."""
    x, y = static.data("x", [None, 6]), static.data("y", [None, 2])
    h = static.nn.fc(x, 8, activation="tanh", name="one")
    if guarded:
        with amp.fp16_guard():
            out = static.nn.fc(h, 2, name="two")
    else:
        out = static.nn.fc(h, 2, name="two")
    return out, ((out - y) ** 2).mean()


def train(startup: static.Program, loss: Any, steps: int = 40) -> list[float]:
    exe = static.Executor()
    exe.run(startup)
    feed = {"x": X, "y": Y}
    return [float(exe.run(feed=feed, fetch_list=[loss])[0]) for _ in range(steps)]


@pytest.mark.feature("L120")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("level", ["O1", "O2"])
def test_a_program_trains_in_16_bits_with_float32_weights(
    level: str, dtype: str, static_mode: Programs
) -> None:
    proa.seed(1)
    out, loss = network()
    test = static_mode[0].clone(for_test=True)
    result = amp.decorate(
        proa.optimizer.Momentum(0.05), level=level, dtype=dtype, use_fp16_guard=False,
        init_loss_scaling=1024.0,
    )  # fmt: skip
    ops, pairs = result.minimize(loss)
    result.amp_init(proa.CPUPlace(), static.global_scope(), test, use_fp16_test=True)
    main = static_mode[0]
    assert kinds(main, "linear") == kinds(test, "linear") == [dtype] * 2
    backward = kinds(main, "linear_grad_weight", "backward")
    backward += kinds(main, "matmul", "backward")
    assert backward and set(backward) == {dtype}
    # At O1 a sum with a float32 bias is float32, and so is what follows it.
    assert kinds(main, "tanh") == [dtype if level == "O2" else "float32"]
    assert kinds(main, "mean") == ["float32"]
    assert {p.dtype.name for p in main.all_parameters()} == {"float32"}
    assert ops and {g.dtype.name for _, g in pairs} == {"float32"}
    found = train(static_mode[1], loss)
    assert found[-1] < 0.1 * found[0]
    weights = {p.name: p.get_value().numpy() for p in main.all_parameters()}
    (low,) = static.Executor().run(test, feed={"x": X}, fetch_list=[out.name])
    want = np.tanh(X @ weights["one.w_0"] + weights["one.b_0"]) @ weights["two.w_0"]
    tolerance = 2e-2 if dtype == "float16" else 1e-1
    np.testing.assert_allclose(low, want + weights["two.b_0"], atol=tolerance)
    assert low.dtype == np.float32


def test_a_step_in_16_bits_is_near_the_one_in_float32(static_mode: Programs) -> None:
    weights = []
    for low in (True, False):
        main, startup = static.Program(), static.Program()
        with (
            static.program_guard(main, startup),
            static.scope_guard(static.Scope()),
            proa.utils.unique_name.guard(),
        ):
            _, loss = network()
            sgd = proa.optimizer.SGD(0.1)
            (amp.decorate(sgd) if low else sgd).minimize(loss)
            proa.seed(1)
            train(startup, loss, 3)
            held = main.state_dict("param")
            weights.append({k: t.numpy() for k, t in held.items()})
    for name, found in weights[0].items():
        np.testing.assert_allclose(found, weights[1][name], atol=1e-2)
        assert found.dtype == np.float32
    assert (weights[0]["one.w_0"] != weights[1]["one.w_0"]).any()


@pytest.mark.feature("L121")
def test_marked_operators_alone_compute_in_16_bits(static_mode: Programs) -> None:
    _, loss = network(guarded=True)
    result = amp.decorate(
        proa.optimizer.Adam(0.05), use_pure_fp16=True, use_fp16_guard=True
    )
    result.minimize(loss)
    assert kinds(static_mode[0], "linear") == ["float32", "float16"]
    assert kinds(static_mode[0], "tanh") == ["float32"]
    found = train(static_mode[1], loss)
    assert found[-1] < 0.2 * found[0]


@pytest.mark.feature("L122")
def test_lists_and_names_keep_operators_in_float32(static_mode: Programs) -> None:
    _, loss = network()
    lists = amp.CustomOpLists(
        custom_white_list=["tanh"], custom_black_varnames=["two.w_0"]
    )
    amp.decorate(proa.optimizer.SGD(0.1), lists).minimize(loss)
    assert kinds(static_mode[0], "linear") == ["float16", "float32"]
    assert kinds(static_mode[0], "tanh") == ["float16"]
    train(static_mode[1], loss, 2)


def test_the_scale_follows_what_steps_overflow(static_mode: Programs) -> None:
    w = static.create_parameter([2], "float32", name="w")
    factor = static.data("factor", [1])
    result = amp.decorate(
        proa.optimizer.SGD(0.1), init_loss_scaling=8.0, incr_every_n_steps=3,
        decr_every_n_nan_or_inf=2, decr_ratio=0.5,
    )  # fmt: skip
    result.minimize((w * factor).sum())
    test = static_mode[0].clone(for_test=True)
    scale = result.get_loss_scaling()
    exe = static.Executor()
    exe.run(static_mode[1])
    before = w.get_value().numpy()
    scales = []
    for value in (np.inf, np.inf, 1.0, 1.0, 1.0, np.nan, 1.0):
        feed = {"factor": np.array([value], "float32")}
        exe.run(feed=feed)
        scales += exe.run(test, feed=feed, fetch_list=[scale])
    assert np.concatenate(scales).tolist() == [8, 4, 4, 4, 8, 8, 8]
    # Four steps of 0.1; those that are not finite leave the weight.
    np.testing.assert_allclose(w.get_value().numpy(), before - 0.4, rtol=1e-5)
    assert "w" in {p.name for p in test.all_parameters()}


def test_networks_with_norms_train_in_16_bits(static_mode: Programs) -> None:
    image, label = (
        static.data("image", [None, 1, 8, 8]),
        static.data("label", [-1, 1], "int64"),
    )
    x = static.nn.batch_norm(static.nn.conv2d(image, 4, 3), act="relu")
    x = static.nn.fc(proa.nn.functional.dropout(x, 0.2), 2)
    loss = proa.nn.functional.cross_entropy(x, label)
    test = static_mode[0].clone(for_test=True)
    bf16.decorate_bf16(
        proa.optimizer.Adam(0.02), use_pure_bf16=True, use_bf16_guard=False
    ).minimize(loss)
    assert kinds(static_mode[0], "conv2d") == ["bfloat16"]
    labels = RNG.integers(0, 2, (32, 1))
    images = RNG.normal(size=(32, 1, 8, 8)) + labels[:, :, None, None]
    feed = {"image": images.astype("float32"), "label": labels}
    exe = static.Executor()
    exe.run(static_mode[1])
    found = [float(exe.run(feed=feed, fetch_list=[loss])[0]) for _ in range(25)]
    assert np.mean(found[-3:]) < 0.5 * found[0]
    (tested,) = exe.run(test, feed=feed, fetch_list=[loss.name])
    assert tested < found[0]
    mean = static_mode[0].find("batch_norm_0.w_1").get_value()
    assert mean.dtype == "float32" and mean.numpy().any()


def _with_flow(dtype: str | None) -> tuple[Any, Any, list[float]]:
    """A network with a branch and a loop, its bodies' dtypes, and losses of a step each
    for inputs of either sign.
    """
    proa.seed(3)
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static.scope_guard(static.Scope()):
        x, y = static.data("x", [None, 6]), static.data("y", [None, 2])
        w = static.create_parameter([6, 6], "float32")
        h = static.nn.cond(
            x.sum() > 0, lambda: proa.matmul(x, w), lambda: proa.matmul(x, w * 2.0)
        )
        zero = proa.zeros([1], "int64")
        h = static.nn.while_loop(
            lambda i, _: i < 3, lambda i, h: [i + 1, proa.tanh(proa.matmul(h, w))],
            [zero, h],
        )[1]  # fmt: skip
        out = static.nn.fc(h, 2)
        loss = ((out - y) ** 2).mean()
        step: Any = proa.optimizer.SGD(0.1)
        if dtype is not None:
            step = amp.decorate(step, dtype=dtype, use_dynamic_loss_scaling=False,
                                init_loss_scaling=1.0)  # fmt: skip
        step.minimize(loss)
        exe = static.Executor()
        exe.run(startup)
        losses = [
            float(exe.run(main, {"x": sign * X, "y": Y}, [loss])[0])
            for sign in (1, -1) * 5
        ]
    found = {
        n.outputs[0].dtype
        for block in main.graph.blocks[1:]
        for n in block.nodes
        if n.op == "matmul" or n.op == "linear"
    }
    return main, found, losses


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_bodies_of_branches_and_loops_compute_in_16_bits(
    dtype: str, static_mode: Programs
) -> None:
    _, wide, want = _with_flow(None)
    main, low, found = _with_flow(dtype)
    assert (wide, low) == ({"float32"}, {dtype})
    for block in main.graph.blocks[1:]:  # what a branch or loop gives stays float32
        assert not {v.dtype for v in block.outputs} & {"float16", "bfloat16"}
    np.testing.assert_allclose(found, want, rtol=0.05)
    assert found[-1] < found[1]


@pytest.mark.parametrize("guarded", [False, True])
def test_a_program_for_inference_stores_weights_in_16_bits(
    guarded: bool, static_mode: Programs
) -> None:
    out, _ = network(guarded)
    part = static.normalize_program(static_mode[0], "x", [out])
    exe = static.Executor()
    exe.run(static_mode[1])
    (want,) = exe.run(part, feed={"x": X}, fetch_list=[out.name])
    names = amp.cast_model_to_fp16(part, use_fp16_guard=guarded)
    one = {"one.w_0", "one.b_0"}
    assert names == ({"two.w_0", "two.b_0"} | (set() if guarded else one))
    amp.cast_parameters_to_fp16(None, part, to_fp16_var_names=names)
    held = static.global_scope()
    for name in names:
        tensor = held.find_var(name).get_tensor().value
        assert tensor.dtype == part.find(name).dtype == "float16"
    (found,) = exe.run(part, feed={"x": X}, fetch_list=[out.name])
    assert found.dtype == np.float32 and (found != want).any()
    np.testing.assert_allclose(found, want, atol=2e-2)
    again = static.normalize_program(part, "x", out.name)
    (same,) = exe.run(again, feed={"x": X}, fetch_list=[out.name])
    np.testing.assert_array_equal(same, found)


def test_a_program_is_rewritten_to_bfloat16_by_its_list(static_mode: Programs) -> None:
    network()
    part = static_mode[0].clone(for_test=True)
    bf16.rewrite_program_bf16(part)
    assert kinds(part, "linear") == ["bfloat16"] * 2
