"""`Executor.run`: feeds, fetches, scopes, pruning; and what stands for an Executor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import optimizer, static
from proa.errors import (
    EndOfDataError,
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
    PreconditionNotMetError,
    UnavailableError,
)
from proa.static import executor as executors

Programs = tuple[static.Program, static.Program]
pytestmark = pytest.mark.usefixtures("static_mode")
ONES = np.ones((2, 3), "float32")


def test_feeds_that_do_not_fit_name_the_variable() -> None:
    x = static.data("x", [None, 3])
    y = static.data("label", [None, 1], "int64")
    out = x.sum() + y.astype("float32").sum()
    exe = static.Executor()
    good = {"x": ONES, "label": np.ones((2, 1), "int64")}
    assert exe.run(feed=good, fetch_list=[out])[0] == 8
    for wrong, text in (
        ({"x": ONES}, r"\['label'\] in feed"),
        ({**good, "x": ONES.astype("float64")}, "'x' must be fed float32, got float64"),
        ({**good, "x": np.ones((2, 4), "float32")}, r"'x' must be fed shape \[-1, 3\]"),
        ({**good, "x": np.ones(3, "float32")}, "'x' must be fed shape"),
        ({**good, "label": np.ones((2, 1), "int32")}, "'label' must be fed int64"),
    ):
        with pytest.raises(InvalidArgumentError, match=text):
            exe.run(feed=wrong, fetch_list=[out])
    with pytest.raises(InvalidTypeError, match="feed must be a dict"):
        exe.run(feed=3, fetch_list=[out])  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="'x' must be fed an array"):
        exe.run(feed={**good, "x": x}, fetch_list=[out])
    odd: Any
    for odd in (None, "abc", [[1, 2], [3]], {}, np.array(["a"]), np.array([None])):
        with pytest.raises(
            InvalidArgumentError, match="'x' must be fed an array of numbers, got the"
        ):
            exe.run(feed={**good, "x": odd}, fetch_list=[out])
    assert exe.run(feed={**good, "unused": ONES}, fetch_list=[out])[0] == 8


def test_feeds_are_arrays_tensors_or_lists() -> None:
    x = static.data("x", [None, 3])
    out = x * 2
    exe = static.Executor()
    for fed in (ONES, proa.to_tensor(ONES), ONES.tolist(), np.asfortranarray(ONES)):
        np.testing.assert_array_equal(exe.run(feed={"x": fed}, fetch_list=[out])[0],
                                      ONES * 2)  # fmt: skip
    (split,) = exe.run(feed=[{"x": ONES}, {"x": ONES * 3}], fetch_list=[out])
    np.testing.assert_array_equal(split, np.concatenate([ONES * 2, ONES * 6]))


def test_what_can_be_fetched(static_mode: Programs) -> None:
    x = static.data("x", [None, 3])
    w = static.create_parameter([3, 1], "float32", name="w")
    y = proa.matmul(x, w)
    constant = proa.full([2], 3.0)
    exe = static.Executor()
    exe.run(static_mode[1])
    found = exe.run(
        feed={"x": ONES}, fetch_list=[y, "w", x, constant, y.name], return_numpy=False
    )
    assert all(isinstance(f, proa.Tensor) for f in found)
    np.testing.assert_array_equal(found[2].numpy(), ONES)
    np.testing.assert_array_equal(found[3].numpy(), [3, 3])
    np.testing.assert_allclose(found[0].numpy(), ONES @ found[1].numpy(), rtol=1e-6)
    np.testing.assert_array_equal(found[0].numpy(), found[4].numpy())
    assert exe.run(feed={"x": ONES}) == []
    with pytest.raises(NotFoundError, match="'nowhere'"):
        exe.run(feed={"x": ONES}, fetch_list=["nowhere"])
    with pytest.raises(InvalidTypeError, match="got int"):
        exe.run(feed={"x": ONES}, fetch_list=[3])


def test_scopes_hold_state_of_their_own(static_mode: Programs) -> None:
    w = static.create_global_var([2], 1.0, "float32", persistable=True, name="w")
    proa.assign(w + 1, output=w)
    exe = static.Executor()
    scopes = [static.Scope(), static.Scope()]
    for scope, runs in zip(scopes, (1, 3), strict=True):
        with static.scope_guard(scope):
            assert static.global_scope() is scope
            exe.run(static_mode[1])
            for _ in range(runs):
                exe.run()
    held = [s.find_var("w").get_tensor() for s in scopes]
    np.testing.assert_array_equal(np.array(held[0]), [2, 2])
    np.testing.assert_array_equal(np.array(held[1]), [4, 4])
    held[0].set(np.array([7, 8], "float32"), proa.CPUPlace())
    assert held[0].shape() == [2]
    np.testing.assert_array_equal(exe.run(fetch_list=[w], scope=scopes[0])[0], [8, 9])
    kid = scopes[0].new_scope()
    assert kid.find_var("w") is scopes[0].find_var("w") and not kid.local_var_names()
    assert kid.var("w") is not scopes[0].find_var("w")
    scopes[0].drop_kids()
    scopes[0].erase(["w"])
    assert scopes[0].find_var("w") is None
    with pytest.raises(PreconditionNotMetError, match="startup program"):
        exe.run(fetch_list=[w], scope=scopes[0])
    with pytest.raises(InvalidTypeError):
        static.scope_guard(3).__enter__()  # type: ignore[arg-type]


@pytest.mark.feature("L173")
def test_pruning_runs_the_fetched_task_alone(static_mode: Programs) -> None:
    main, startup = static_mode
    steps: list[Any] = []
    losses = []
    for k in range(2):
        x = static.data(f"x{k}", [3])
        w = static.create_parameter([3], "float32", name=f"w{k}")
        losses.append((x * w).sum())
        steps.append(optimizer.SGD(0.5).minimize(losses[-1]))
    exe = static.Executor()
    exe.run(startup)

    def weights() -> list[Any]:
        held = static.global_scope()
        return [np.array(held.find_var(f"w{k}").get_tensor()).copy() for k in range(2)]

    first = weights()
    fed = {"x0": np.ones(3, "float32")}
    exe.run(feed=fed, fetch_list=[losses[0]], use_prune=True)
    np.testing.assert_array_equal(weights(), first)  # no step was fetched
    exe.run(feed=fed, fetch_list=[losses[0], steps[0]], use_prune=True)
    after = weights()
    np.testing.assert_allclose(after[0], first[0] - 0.5, rtol=1e-6)
    np.testing.assert_array_equal(after[1], first[1])
    with pytest.raises(InvalidArgumentError, match="'x1'"):
        exe.run(feed=fed, fetch_list=[losses[0]])
    compiled = static.CompiledProgram(main, static.BuildStrategy()).with_data_parallel(
        loss_name=losses[0].name, exec_strategy=static.ExecutionStrategy()
    )
    both = {**fed, "x1": np.ones(3, "float32")}
    exe.run(compiled, feed=both, fetch_list=losses)
    np.testing.assert_allclose(weights()[1], first[1] - 0.5, rtol=1e-6)


def test_rates_of_schedulers_are_read_in_each_run(static_mode: Programs) -> None:
    rate = optimizer.lr.PiecewiseDecay([1, 2], [1.0, 0.1, 0.01])
    w = static.create_global_var([1], 0.0, "float32", name="unused")
    w = static.create_parameter(
        [1], "float32", attr=proa.nn.initializer.Constant(0.0), name="w"
    )
    optimizer.SGD(rate).minimize(w.sum())
    exe = static.Executor()
    exe.run(static_mode[1])
    found = []
    for _ in range(3):
        found += exe.run(fetch_list=[w])
        rate.step()
    np.testing.assert_allclose(np.ravel(found), [-1.0, -1.1, -1.11], rtol=1e-6)


def test_plans_are_cached_up_to_a_number_of_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = static.data("x", [None])
    y = x * 2
    exe = static.Executor()
    for n in (1, 2, 3, 2):
        exe.run(feed={"x": np.ones(n, "float32")}, fetch_list=[y])
    assert len(exe._plans) == 3
    y = y + 1  # the program is another one now
    exe.run(feed={"x": np.ones(1, "float32")}, fetch_list=[y])
    assert len(exe._plans) == 4
    monkeypatch.setattr(executors, "_CACHE_BYTES", 1)
    exe.run(feed={"x": np.ones(4, "float32")}, fetch_list=[y])
    assert len(exe._plans) == 1
    exe.close()
    assert not exe._plans


def test_other_executors(
    static_mode: Programs, capsys: pytest.CaptureFixture[str]
) -> None:
    x = static.data("x", [3])
    w = static.create_parameter(
        [3], "float32", attr=proa.nn.initializer.Constant(0.0), name="w"
    )
    loss = (x * w).sum()
    optimizer.SGD(1.0).minimize(loss)
    exe = static.Executor()
    exe.run(static_mode[1])
    batches = [{"x": np.full(3, k, "float32")} for k in range(4)]
    exe.train_from_dataset(
        dataset=batches, fetch_list=[loss], fetch_info=["loss"], print_period=2
    )
    exe.flush()
    np.testing.assert_array_equal(w.get_value().numpy(), [-6, -6, -6])
    assert [line[:14] for line in capsys.readouterr().out.splitlines()] == [
        "step: 2, loss:", "step: 4, loss:",
    ]  # fmt: skip
    with pytest.raises(InvalidTypeError, match="dataset"):
        exe.infer_from_dataset()
    parallel = static.ParallelExecutor(False, loss_name=loss.name)
    (found,) = parallel.run([loss.name], feed=batches[1])
    assert found == -18 and parallel.device_count == 1
    parallel.drop_local_exe_scopes()
    with pytest.raises(UnavailableError):
        static.ParallelExecutor(True)
    with pytest.raises(InvalidTypeError):
        static.CompiledProgram(3)


def _global(name: str, value: float) -> static.Variable:
    return static.create_global_var([2], value, "float32", persistable=True, name=name)


def test_what_is_left_in_state_is_stored(static_mode: Programs) -> None:
    """Data, constants, other states and what is fetched as well, in every run."""
    x = static.data("x", [2])
    data, constant = _global("data", 0.0), _global("constant", 0.0)
    one, other, both = _global("one", 1.0), _global("other", 2.0), _global("both", 0.0)
    proa.assign(x, output=data)
    proa.assign(np.array([5, 6], "float32"), output=constant)
    before = proa.assign(one)
    proa.assign(other, output=one)
    proa.assign(before, output=other)
    more = both + x
    proa.assign(more, output=both)
    exe = static.Executor()
    exe.run(static_mode[1])
    fed = {"x": np.array([3, 4], "float32")}
    for k in range(1, 4):
        result, held = exe.run(feed=fed, fetch_list=[more, both])
        np.testing.assert_array_equal(result, [3 * k, 4 * k])
        np.testing.assert_array_equal(held, result)
        values = [v.get_value().numpy().tolist() for v in (data, constant, one, other)]
        assert values == [[3, 4], [5, 6], [1 + k % 2] * 2, [2 - k % 2] * 2]


def test_state_changes_in_a_branch(static_mode: Programs) -> None:
    x, count = static.data("x", [1]), _global("count", 0.0)

    def add() -> None:
        proa.assign(count + 1, output=count)

    static.nn.cond(x.sum() > 0, add, lambda: None)
    exe = static.Executor()
    exe.run(static_mode[1])
    found = []
    for value in (1, -1, 1):
        exe.run(feed={"x": np.array([value], "float32")})
        found.append(count.get_value().numpy()[0])
    assert found == [1, 1, 2]


def test_an_array_of_a_scope_tensor_is_a_copy_unless_shared(static_mode: Any) -> None:
    _, startup = static_mode
    static.create_global_var([2], 1.0, "float32", persistable=True, name="held")
    static.Executor().run(startup)
    tensor = static.global_scope().find_var("held").get_tensor()
    copied, shared = np.array(tensor), np.asarray(tensor)
    tensor.set(np.full(2, 5, "float32"), None)
    np.testing.assert_array_equal(copied, [1, 1])
    np.testing.assert_array_equal(shared, [5, 5])


def test_a_program_takes_batches_of_a_loader_until_their_end() -> None:
    x, y = static.data("x", [None, 2]), static.data("y", [None, 1], "int64")
    loader = proa.io.DataLoader.from_generator([x, y], capacity=2, iterable=False)
    total = x.sum() + y.astype("float32").sum()
    test = static.default_main_program().clone(for_test=True)
    exe = static.Executor()
    batches = [
        (np.full((n, 2), n, "float32"), np.full((n, 1), 10 * n)) for n in (1, 2, 3)
    ]
    loader.set_batch_generator(lambda: iter(batches))
    wanted = [float(a.sum() + b.sum()) for a, b in batches]
    for program in (static.default_main_program(), test):
        for _ in range(2):  # passes
            loader.start()
            with pytest.raises(PreconditionNotMetError, match=r"reset\(\) before"):
                loader.start()
            found = []
            with pytest.raises(EndOfDataError):
                while True:
                    found.append(exe.run(program, fetch_list=[total])[0].item())
            loader.reset()
            assert found == wanted
    fed = {"x": np.zeros((1, 2), "float32"), "y": np.ones((1, 1), "int64")}
    assert exe.run(feed=fed, fetch_list=[total])[0] == 1.0  # no pass has begun
    with pytest.raises(InvalidArgumentError, match="'x'"):
        exe.run(fetch_list=[total])
    with pytest.raises(PreconditionNotMetError, match="iterable=True"):
        iter(loader)


def test_tensors_with_a_value_are_fetched() -> None:
    given, copy = proa.to_tensor([1.0, 2.0]), proa.assign(np.asarray([3, 4]))
    x = static.data("x", [2])
    exe = static.Executor()
    for _ in range(2):
        found = exe.run(feed={"x": ONES[0, :2]}, fetch_list=[given, x + given, copy])
        assert [f.tolist() for f in found] == [[1.0, 2.0], [2.0, 3.0], [3, 4]]
