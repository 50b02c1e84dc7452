"""Programs: what statements build, and views, copies and texts of it."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import proa
import proa.nn.functional as F
from proa import nn, optimizer, static
from proa.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
    PreconditionNotMetError,
    UnavailableError,
)

Programs = tuple[static.Program, static.Program]
pytestmark = pytest.mark.usefixtures("static_mode")


def test_operators_on_variables_and_without_arrays_are_recorded(
    static_mode: Programs,
) -> None:
    x = static.data("x", [None, 4])
    y = (x * 2 + paddle_zeros()).sum(axis=1)
    assert isinstance(x, static.Variable) and isinstance(y, proa.Tensor)
    assert x.shape == [-1, 4] and y.shape == [-1] and x.name == "x" and x.is_data
    assert y.block.program is static_mode[0] and not y.persistable
    kinds = [op.type for op in static.default_main_program().global_block().ops]
    assert kinds == ["mul", "full", "add", "sum"]
    array = np.arange(8, dtype="float32").reshape(2, 4)
    found = static.Executor().run(feed={"x": array}, fetch_list=[y])
    np.testing.assert_array_equal(found[0], (array * 2).sum(1))


def paddle_zeros() -> proa.Tensor:
    return proa.zeros([4])


def test_tensors_with_values_compute_at_once() -> None:
    a = proa.to_tensor(np.ones(3, "float32"))
    np.testing.assert_array_equal((a + a).numpy(), [2, 2, 2])
    x = static.data("x", [3])
    (found,) = static.Executor().run(
        feed={"x": np.ones(3, "float32")}, fetch_list=a + x
    )
    np.testing.assert_array_equal(found, [2, 2, 2])


@pytest.mark.feature("L163")
def test_the_mode_and_guards_survive_exceptions() -> None:
    main = static.default_main_program()
    other = static.Program()
    with pytest.raises(ZeroDivisionError), static.program_guard(other):
        assert static.default_main_program() is other
        with static.program_guard(static.Program()), static.name_scope("a"):
            raise ZeroDivisionError
    assert static.default_main_program() is main and not proa.in_dynamic_mode()
    proa.disable_static()
    assert proa.ones([1]).numpy() == 1
    proa.enable_static()
    assert isinstance(proa.ones([1]), static.Variable)
    assert static.default_main_program() is main


def test_programs_do_not_mix(static_mode: Programs) -> None:
    x = static.data("x", [2])
    other = static.Program()
    with (
        static.program_guard(other),
        pytest.raises(InvalidArgumentError, match="'x' of another"),
    ):
        x + 1
    assert static.data("x", [2]) is x
    for shape, dtype in (([3], "float32"), ([2], "int64")):
        with pytest.raises(AlreadyExistsError, match="'x'"):
            static.data("x", shape, dtype)
    with pytest.raises(InvalidTypeError, match="main_program"):
        static.program_guard(3).__enter__()  # type: ignore[arg-type]


def test_a_layer_shares_its_parameters_between_programs(static_mode: Programs) -> None:
    net = nn.Linear(3, 2)
    other = static.Program()
    array = np.ones((1, 3), "float32")
    exe = static.Executor()
    found = []
    for program in (static_mode[0], other):
        with static.program_guard(program, static_mode[1]):
            y = net(static.data("x", [None, 3]))
    exe.run(static_mode[1])
    for program in (static_mode[0], other):
        found += exe.run(program, {"x": array}, [y.name])
    np.testing.assert_array_equal(*found)
    want = array @ net.weight.get_value().numpy()
    np.testing.assert_allclose(found[0], want, rtol=1e-6)


def test_programs_are_built_by_several_threads_at_once() -> None:
    found: dict[int, Any] = {}

    def build(k: int) -> None:
        main = static.Program()
        with static.program_guard(main, static.Program()):
            x = static.data("x", [2])
            for _ in range(30):
                x = x + k
            exe = static.Executor()
            for _ in range(5):
                (found[k],) = exe.run(
                    feed={"x": np.zeros(2, "float32")}, fetch_list=[x]
                )

    threads = [threading.Thread(target=build, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        np.testing.assert_array_equal(found[k], [30 * k, 30 * k])


def test_blocks_and_operators_are_views(static_mode: Programs) -> None:
    main, _ = static_mode
    x = static.data("x", [None, 3])
    with static.name_scope("outer"), static.name_scope("inner"):
        y = F.softmax(x, axis=-1)
    with static.device_guard("cpu"):
        y = proa.matmul(y, static.create_parameter([3, 2], "float32", name="w"))
    loss = y.mean()
    optimizer.SGD(0.1).minimize(loss)
    block = main.global_block()
    assert block is not main.block(0) and block == main.current_block()
    assert main.num_blocks == 1 and block.parent_idx == -1 and block.idx == 0
    softmax, product = block.ops[:2]
    assert softmax.type == "softmax" and softmax.attr("axis") == -1
    assert softmax.attr("op_namescope") == "/outer/inner/"
    assert product.attr("op_device") == "cpu" and softmax.attr("op_device") == ""
    assert product.input_arg_names[1] == "w" and product.idx == 1
    assert product.output(product.output_names[0]) == [y.name]
    assert [op.attr("op_role") for op in block.ops][-1] == "optimize"
    assert block.var("w") is block.vars["w"] and block.has_var("w@GRAD")
    assert [p.name for p in block.all_parameters()] == ["w"]
    assert {v.name for v in main.list_vars()} >= {"x", "w", y.name, loss.name}
    with pytest.raises(NotFoundError):
        block.var("nothing")
    with pytest.raises(NotFoundError):
        product.attr("nothing")
    with pytest.raises(InvalidArgumentError):
        main.block(1)
    assert "persist var w" in main.to_string(True) and "matmul" in str(main)
    with pytest.raises(InvalidTypeError):
        main.to_string(1)  # type: ignore[arg-type]
    result = block.create_var(name="state", shape=[2], dtype="int64", persistable=True)
    assert result.persistable and block.var("state") is result


@pytest.mark.feature("L172")
def test_device_guard_accepts_known_devices() -> None:
    with pytest.warns(UserWarning, match="CPU"), static.device_guard("gpu:1"):
        static.data("x", [1]) + 1
    for wrong in ("tpu", "cpu:1", "gpu:x"):
        with pytest.raises(InvalidArgumentError), static.device_guard(wrong):
            pass
    with pytest.raises(InvalidArgumentError), static.name_scope(""):
        pass


@pytest.mark.feature("L171")
@pytest.mark.feature("L175")
def test_a_clone_for_tests_drops_training(static_mode: Programs) -> None:
    main, startup = static_mode
    x = static.data("x", [None, 4])
    net = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1D(8), nn.Dropout(0.5), nn.AlphaDropout(0.4),
        nn.RReLU(0.1, 0.3), nn.Dropout(0.3, mode="downscale_in_infer"), nn.Linear(8, 2),
    )  # fmt: skip
    out = net(x)
    positive = static.nn.cond(
        out.sum() > 0, lambda: F.dropout(out, 0.5), lambda: -F.dropout(out, 0.5)
    )
    loss = (positive**2).mean()
    optimizer.Adam(0.1).minimize(loss)
    test = main.clone(for_test=True)
    kinds = {op.type for block in test.blocks for op in block.ops}
    assert not kinds & {"dropout", "batch_norm", "adam_", "uniform"}
    assert "batch_norm_infer" in kinds
    assert not test.global_block().has_var(net[0].weight.grad_name)
    assert test.global_block().var(net[0].weight.name).stop_gradient is False
    exe = static.Executor()
    exe.run(startup)
    array = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    before = [p.get_value().numpy() for p in net.state_dict().values()]
    found = [exe.run(test, {"x": array}, [out, positive]) for _ in range(2)]
    np.testing.assert_array_equal(*(f[0] for f in found))
    for p, old in zip(net.state_dict().values(), before, strict=True):
        np.testing.assert_array_equal(p.get_value().numpy(), old)
    w, b, gain, shift, mean, var, w2, b2 = (
        dict(zip(net.state_dict(), before, strict=True))[k]
        for k in ("0.weight", "0.bias", "1.weight", "1.bias", "1._mean", "1._variance",
                  "6.weight", "6.bias")
    )  # fmt: skip
    h = (array @ w + b - mean) / np.sqrt(var + 1e-5) * gain + shift
    h = np.where(h > 0, h, h * 0.2) * 0.7
    want = h @ w2 + b2
    np.testing.assert_allclose(found[0][0], want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[0][1], np.abs(want.sum()) / want.sum() * want,
                               rtol=1e-4, atol=1e-5)  # fmt: skip


def test_a_whole_clone_trains_on(static_mode: Programs) -> None:
    main, startup = static_mode
    w = static.create_parameter([2], "float32", name="w")
    loss = (w * static.data("x", [2])).sum()
    optimizer.Adam(0.1).minimize(loss)
    clone = main.clone()
    exe = static.Executor()
    exe.run(startup)
    feed = {"x": np.ones(2, "float32")}
    first = w.get_value().numpy().copy()
    exe.run(main, feed)
    exe.run(clone, feed)
    # Adam's steps are lr where the gradient is always the same.
    np.testing.assert_allclose(w.get_value().numpy(), first - 0.2, rtol=1e-5)
    again = static.Program.parse_from_string(main.desc.serialize_to_string())
    exe.run(again, feed)
    np.testing.assert_allclose(w.get_value().numpy(), first - 0.3, rtol=1e-5)
    with pytest.raises(InvalidArgumentError):
        static.Program.parse_from_string(b"nothing of the kind")


def test_state_is_saved_and_restored_by_name(static_mode: Programs) -> None:
    main, startup = static_mode
    w = static.create_parameter([2], "float32", name="w")
    optimizer.Momentum(0.1).minimize((w * static.data("x", [2])).sum())
    exe = static.Executor()
    exe.run(startup)
    exe.run(feed={"x": np.ones(2, "float32")})
    state = {k: v.numpy().copy() for k, v in main.state_dict().items()}
    assert sorted(state) == ["w", "w_velocity_0"]
    assert list(main.state_dict("param")) == ["w"]
    assert list(main.state_dict("opt")) == ["w_velocity_0"]
    np.testing.assert_array_equal(state["w_velocity_0"], [1, 1])
    exe.run(feed={"x": np.ones(2, "float32")})
    main.set_state_dict(state)
    for name, value in main.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), state[name])
    with pytest.warns(UserWarning, match="nowhere"):
        main.set_state_dict({"nowhere": np.ones(1)})
    with pytest.raises(InvalidArgumentError, match="shape"):
        main.set_state_dict({"w": np.ones(3)})
    with pytest.raises(InvalidArgumentError, match="mode"):
        main.state_dict("all of it")


def test_seeds_of_programs_repeat_runs(static_mode: Programs) -> None:
    main, startup = static_mode
    w = static.create_parameter([3], "float32")
    noise = proa.rand([3])
    exe = static.Executor()
    startup.random_seed = main.random_seed = 5
    proa.seed(1)
    runs = []
    for _ in range(2):
        exe.run(startup)
        runs.append([w.get_value().numpy(), *exe.run(fetch_list=[noise])])
    np.testing.assert_array_equal(runs[0], runs[1])
    after = proa.get_rng_state()
    assert tuple(after) == (1, 0)  # the default generator is left alone
    main.random_seed = 0
    a, b = (exe.run(fetch_list=[noise])[0] for _ in range(2))
    assert not np.array_equal(a, b)
    with pytest.raises(InvalidTypeError):
        main.random_seed = "5"  # type: ignore[assignment]
    main.global_seed(7)
    try:
        assert static.Program().random_seed == 7
    finally:
        main.global_seed(0)


def test_variables_refuse_what_needs_a_value() -> None:
    x = static.data("x", [2])
    w = static.create_parameter([2], "float32")
    for call in (x.numpy, x.backward, x.gradient, x.clear_gradient):
        with pytest.raises((PreconditionNotMetError, ValueError, TypeError)):
            call()
    with pytest.raises(PreconditionNotMetError, match="startup"):
        w.get_value()
    with pytest.raises(InvalidArgumentError, match="persistable"):
        x.set_value(np.ones(2))
    w.set_value(np.array([1, 2], "float32"))
    np.testing.assert_array_equal(w.get_value().numpy(), [1, 2])
    assert w.is_parameter and w.grad_name == w.name + "@GRAD" and not x.is_parameter
    assert x.lod_level == 0 and "LOD_TENSOR" in x.to_string() and x.type in str(x)


def test_weight_norm_is_a_length_and_a_direction(static_mode: Programs) -> None:
    attr = static.WeightNormParamAttr(dim=1, name="w")
    w = static.create_parameter([3, 2], "float64", attr=attr)
    x = static.data("x", [None, 3], "float64")
    loss = proa.matmul(x, w).sum()
    _, pairs = optimizer.SGD(0.1).minimize(loss)
    assert [p.name for p, _ in pairs] == ["w_v", "w_g"]
    exe = static.Executor()
    exe.run(static_mode[1])
    held = static.global_scope()
    v, g = (np.array(held.find_var(n).get_tensor()).copy() for n in ("w_v", "w_g"))
    np.testing.assert_allclose(g[0], np.sqrt((v**2).sum(0)))
    array = np.random.default_rng(1).normal(size=(4, 3))
    found, dv, dg = exe.run(feed={"x": array}, fetch_list=[w, "w_v@GRAD", "w_g@GRAD"])
    np.testing.assert_allclose(found, v, rtol=1e-12)  # at first it is v itself
    unit, dw = v / np.sqrt((v**2).sum(0)), np.tile(array.sum(0)[:, None], (1, 2))
    np.testing.assert_allclose(dg[0], (dw * unit).sum(0))
    np.testing.assert_allclose(dv, dw - unit * (dw * unit).sum(0), atol=1e-12)


def test_places_are_the_cpu() -> None:
    assert len(static.cpu_places(2)) == 2 and len(static.cpu_places()) >= 1
    for places in (static.cuda_places, static.xpu_places):
        with pytest.raises(UnavailableError):
            places([0])
    with pytest.raises(InvalidArgumentError):
        static.cpu_places(0)


@pytest.mark.feature("L176")
def test_operators_with_one_name_make_distinct_variables() -> None:
    x = static.data("shared_0", [3])
    results = [
        F.relu(x, name="shared"),
        F.softmax(x, name="shared"),
        proa.add(x, x, name="shared"),
        F.relu(x, name="shared"),
        static.create_parameter([3], "float32", name="relu_2"),
        F.relu(x) * 2,
    ]
    names = [v.name for v in results]
    assert len(set(names)) == len(names) and x.name not in names
    array = np.array([-1, 0, 2], "float32")
    found = static.Executor().run(
        feed={"shared_0": array}, fetch_list=[*names[:4], names[5]]
    )
    power = np.exp(array)
    relu = np.maximum(array, 0)
    wants = [relu, power / power.sum(), array * 2, relu, relu * 2]
    for value, want in zip(found, wants, strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-6)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loader_feeds_a_program(num_workers: int) -> None:
    from proa.io import DataLoader, TensorDataset

    x, y = static.data("x", [None, 2]), static.data("y", [None], "int64")
    total = x.sum() + y.astype("float32").sum()
    arrays = [np.arange(8, dtype="float32").reshape(4, 2), np.arange(4)]
    data = TensorDataset([proa.to_tensor(a) for a in arrays])
    loader = DataLoader(
        data, feed_list=[x, y], return_list=False, batch_size=2, num_workers=num_workers
    )
    exe = static.Executor()
    found = [exe.run(feed=batch, fetch_list=[total])[0] for batch in loader()]
    np.testing.assert_array_equal(found, [0 + 1 + 2 + 3 + 0 + 1, 4 + 5 + 6 + 7 + 2 + 3])
    with pytest.raises(InvalidArgumentError, match="for each of"):
        next(iter(DataLoader(data, feed_list=[x], return_list=False)))


def test_a_python_function_is_an_operator_of_a_program(static_mode: Programs) -> None:
    x = static.data("x", [None, 3], "float64")
    w = static.create_parameter([3], "float64", name="w")
    like = static.data("like", [None, 3], "float64")
    y = static.py_func(
        lambda a: np.tanh(a.numpy()), x * w, like,
        lambda a, b, db: db.numpy() * (1 - b.numpy() ** 2),
    )  # fmt: skip
    optimizer.SGD(1.0).minimize(y.sum())
    exe = static.Executor()
    exe.run(static_mode[1])
    before = w.get_value().numpy().copy()
    array = np.random.default_rng(0).normal(size=(2, 3))
    found, after = exe.run(feed={"x": array}, fetch_list=[y, w])
    want = np.tanh(array * before)
    np.testing.assert_allclose(found, want)
    np.testing.assert_allclose(after, before - ((1 - want**2) * array).sum(0))


def test_dropped_programs_are_freed() -> None:
    import gc
    import weakref

    def build() -> Any:
        main = static.Program()
        with static.program_guard(main, static.Program()):
            x = static.data("x", [2, 3])
            loss = nn.Linear(3, 2)(x).sum()
            optimizer.SGD(0.1).minimize(loss)
            static.nn.cond(loss > 0, lambda: x * 2, lambda: x)
        return weakref.ref(main), loss

    found, loss = build()
    gc.collect()
    assert found() is None
    with pytest.raises(PreconditionNotMetError, match="dropped"):
        loss.block  # noqa: B018  (the access is what is tested)


def test_a_copied_layer_has_parameters_of_its_own(static_mode: Programs) -> None:
    import copy

    first = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1D(3))
    second = copy.deepcopy(first)
    x = static.data("x", [None, 3])
    optimizer.SGD(0.1).minimize((second(x) * proa.to_tensor([1.0, 2.0, 3.0])).sum())
    exe = static.Executor()
    exe.run(static_mode[1])
    pairs = list(zip(first.state_dict().values(), second.state_dict().values(),
                     strict=True))  # fmt: skip
    assert len(pairs) == 6 and all(a.name != b.name for a, b in pairs)
    for a, b in pairs:
        np.testing.assert_array_equal(a.get_value().numpy(), b.get_value().numpy())
    start = [a.get_value().numpy() for a, _ in pairs]
    exe.run(feed={"x": np.random.default_rng(0).random((4, 3), dtype="float32")})
    for (a, _), old in zip(pairs, start, strict=True):
        np.testing.assert_array_equal(a.get_value().numpy(), old)
    # In the second, the shift of the normalisation and its statistics moved.
    moved = [not np.array_equal(b.get_value().numpy(), old)
             for (_, b), old in zip(pairs, start, strict=True)]  # fmt: skip
    assert moved[3:] == [True] * 3
