"""Programs of static mode lose channels."""

import numpy as np
import pytest

import proa
from proa import static
from proa.errors import InvalidArgumentError, NotFoundError, PreconditionNotMetError
from proa_slim.analysis import flops
from proa_slim.prune import (
    GMPUnstructuredPruner,
    ProgramPruner,
    Pruner,
    UnstructuredPruner,
    sensitivity,
)


@pytest.fixture
def network():
    """(program, startup, image, label, logits, scope) of a small classifier."""
    proa.enable_static()
    try:
        program, startup = static.Program(), static.Program()
        with static.program_guard(program, startup):
            image = static.data("image", [None, 3, 8, 8])
            x = static.nn.conv2d(image, 16, 3, padding=1, act="relu")
            x = static.nn.batch_norm(x, is_test=True)
            logits = static.nn.fc(x, 4)
        scope = static.Scope()
        with static.scope_guard(scope):
            static.Executor().run(startup)
        yield program, image, logits, scope
    finally:
        proa.disable_static()


def weights_of(program):
    return {v.name: tuple(v.shape) for v in program.all_parameters()}


def test_a_program_of_static_mode_computes_what_it_did_without_channels(network):
    program, _, logits, scope = network
    name = next(n for n, shape in weights_of(program).items() if len(shape) == 4)
    before = np.array(scope.find_var(name).get_tensor())
    whole = static.Scope()
    for known in program.states:
        whole.var(known).set(np.array(scope.find_var(known).get_tensor()))
    pruned, plan = ProgramPruner().prune(program, scope, [name], [0.5])
    assert weights_of(program)[name] == (16, 3, 3, 3)
    assert weights_of(pruned)[name] == (8, 3, 3, 3)
    remaining = np.argsort(np.abs(before).reshape(16, -1).sum(1))[8:]
    after = np.array(scope.find_var(name).get_tensor())
    np.testing.assert_array_equal(after, before[np.sort(remaining)])
    assert flops(pruned) == plan.flops[1] < flops(program) == plan.flops[0]
    assert plan.parameters[0] - plan.parameters[1] == 8 * 27 + 8 + 4 * 8 + 8 * 64 * 4
    executor = static.Executor()
    x = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype("float32")
    with static.scope_guard(scope):
        (got,) = executor.run(pruned, {"image": x}, [logits.name])
    assert got.shape == (2, 4)
    # The whole program, with the weights that went set to zero.
    with static.scope_guard(whole):
        for value, axes in plan.masks.items():
            array = np.array(whole.find_var(value).get_tensor())
            for axis, mask in axes.items():
                np.moveaxis(array, axis, 0)[~mask] = 0
            whole.find_var(value).set(array)
        (want,) = executor.run(program, {"image": x}, [logits.name])
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_backward_operators_are_refused(network):
    program, _, logits, scope = network
    with static.program_guard(program, static.Program()):
        loss = proa.mean(proa.square(logits))
        proa.optimizer.SGD(0.1).minimize(loss)
    with pytest.raises(PreconditionNotMetError, match="for_test"):
        ProgramPruner().prune(program, scope)


def test_what_a_program_does_not_have_is_refused(network):
    program, _, _, scope = network
    with pytest.raises(NotFoundError, match="conv9"):
        ProgramPruner().prune(program, scope, ["conv9"], [0.5])
    with pytest.raises(InvalidArgumentError, match="a ratio for each"):
        ProgramPruner().prune(program, scope, ["a", "b"], [0.5])
    with pytest.raises(NotFoundError, match="startup"):
        ProgramPruner().prune(program, static.Scope())


def test_sensitivities_of_a_program_leave_it_as_it_was(network, tmp_path):
    program, _, logits, scope = network
    names = [n for n, shape in weights_of(program).items() if len(shape) == 4]
    before = {n: np.array(scope.find_var(n).get_tensor()) for n in program.states}
    x = np.random.default_rng(0).normal(size=(8, 3, 8, 8)).astype("float32")
    executor, calls = static.Executor(), []

    def closeness(given, base):
        calls.append(weights_of(given)[names[0]])
        with static.scope_guard(scope):
            (y,) = executor.run(given, {"image": x}, [logits.name])
        return base - float(np.abs(y - whole).mean())

    with static.scope_guard(scope):
        (whole,) = executor.run(program, {"image": x}, [logits.name])
    path = tmp_path / "found.json"
    found = sensitivity(
        program, None, names, closeness, path, [0.25, 0.5], [10.0], scope=scope
    )
    assert calls == [(16, 3, 3, 3), (12, 3, 3, 3), (8, 3, 3, 3)]
    assert 0 < found[names[0]][0.25] < found[names[0]][0.5] < 1
    for name, array in before.items():
        np.testing.assert_array_equal(
            np.array(scope.find_var(name).get_tensor()), array
        )
    again = sensitivity(
        program, None, names, closeness, path, [0.25, 0.5], [10.0], scope=scope
    )
    assert again == found and len(calls) == 3
    with pytest.raises(InvalidArgumentError, match="expected param_names"):
        sensitivity(program, None, names)
    with pytest.raises(InvalidArgumentError, match="metric other than 0, got nan"):
        sensitivity(program, None, names, lambda given: np.nan, scope=scope)

    def fails(given):
        return 1.0 if given is program else np.inf

    with pytest.raises(InvalidArgumentError, match=f"got inf without .* {names[0]!r}"):
        sensitivity(program, None, names, fails, scope=scope)
    for name, array in before.items():
        np.testing.assert_array_equal(
            np.array(scope.find_var(name).get_tensor()), array
        )


def arrays_of(program, scope):
    return {n: np.array(scope.find_var(n).get_tensor()) for n in program.states}


def outputs(program, scope, logits):
    x = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype("float32")
    with static.scope_guard(scope):
        return static.Executor().run(program, {"image": x}, [logits.name])[0]


def test_the_pruner_of_programs_has_the_arguments_of_paddleslim(network):
    program, _, logits, scope = network
    name = next(n for n, shape in weights_of(program).items() if len(shape) == 4)
    before = arrays_of(program, scope)
    copy = static.Scope()
    for known, array in before.items():
        copy.var(known).set(array)
    lazy, saved, shapes = Pruner("l2_norm").prune(
        program, copy, [name], [0.25], place=None, lazy=True, param_backup=True,
        param_shape_backup=True,
    )  # fmt: skip
    assert weights_of(lazy) == weights_of(program)
    # The four filters of the smallest norm are zero, the others as they were.
    order = np.argsort(np.sqrt((before[name] ** 2).sum((1, 2, 3))))
    expected = before[name].copy()
    expected[order[:4]] = 0
    np.testing.assert_array_equal(arrays_of(program, copy)[name], expected)
    small, no_arrays, no_shapes = Pruner("l2_norm").prune(
        program, scope, [name], [0.25]
    )
    assert no_arrays is None and no_shapes is None
    assert weights_of(small)[name] == (12, 3, 3, 3)
    np.testing.assert_array_equal(
        arrays_of(program, scope)[name], before[name][np.sort(order[4:])]
    )
    want = outputs(lazy, copy, logits)
    np.testing.assert_allclose(outputs(small, scope, logits), want, 1e-4, 1e-5)
    # What was saved restores all that changed.
    assert name in saved and len(saved) > 1
    assert shapes == {n: before[n].shape for n in saved}
    for known, array in saved.items():
        copy.var(known).set(array)
    for known, array in before.items():
        np.testing.assert_array_equal(arrays_of(program, copy)[known], array)


def test_the_graph_alone_is_pruned_so_that_it_can_be_counted(network):
    program, _, _, scope = network
    name = next(n for n, shape in weights_of(program).items() if len(shape) == 4)
    before = arrays_of(program, scope)
    small, _, _ = Pruner().prune(program, scope, [name], 0.5, only_graph=True)
    assert weights_of(small)[name] == (8, 3, 3, 3)
    # 3 x 3 x 3 x 8 products at 64 positions, then 8 x 64 inputs of 4 outputs.
    assert flops(small) == 27 * 8 * 64 + 8 * 64 * 4
    for known, array in arrays_of(program, scope).items():
        np.testing.assert_array_equal(array, before[known])


def test_arguments_of_paddleslim_without_meaning_are_refused(network):
    program, _, _, scope = network
    with pytest.raises(InvalidArgumentError, match="must be 'default_idx_selector'"):
        Pruner(idx_selector="optimal_threshold")
    with pytest.raises(InvalidArgumentError, match="lazy or only_graph"):
        Pruner().prune(program, scope, [], [], lazy=True, only_graph=True)
    with pytest.raises(NotFoundError, match="conv9"):
        Pruner().prune(program, scope, ["conv9"], [0.5])


def trained_program():
    """A program with a step of training, its loss, and a scope it started in."""
    program, startup = static.Program(), static.Program()
    with static.program_guard(program, startup):
        image = static.data("image", [None, 3, 8, 8])
        x = static.nn.conv2d(image, 16, 1, act="relu")
        x = static.nn.conv2d(x, 8, 3, act="relu")
        loss = proa.mean(proa.square(static.nn.fc(x, 4) - 1.0))
        proa.optimizer.SGD(0.05).minimize(loss)
    scope = static.Scope()
    with static.scope_guard(scope):
        static.Executor().run(startup)
    return program, loss, scope


def run_steps(program, loss, scope, pruner, count):
    """Losses of runs, each followed by a step of the pruner."""
    image = np.random.default_rng(0).normal(size=(4, 3, 8, 8)).astype("float32")
    executor, losses = static.Executor(), []
    with static.scope_guard(scope):
        for _ in range(count):
            losses += executor.run(program, {"image": image}, [loss])
            pruner.step()
    return [float(x) for x in losses]


def test_single_weights_of_a_program_stay_zero_while_it_trains():
    proa.enable_static()
    try:
        program, loss, scope = trained_program()
        before = arrays_of(program, scope)
        names = [v.name for v in program.all_parameters() if len(v.shape) > 1]
        pruner = UnstructuredPruner(program, "ratio", ratio=0.5, scope=scope)
        pruner.step()
        sizes = np.concatenate([np.abs(before[n]).ravel() for n in names])
        limit = np.sort(sizes)[sizes.size // 2]
        for name in names:
            want = np.where(np.abs(before[name]) >= limit, before[name], 0)
            np.testing.assert_array_equal(arrays_of(program, scope)[name], want)
        pruner.set_static_masks()
        losses = run_steps(program, loss, scope, pruner, 5)
        assert losses[-1] < losses[0]
        for name in names:
            nonzero = arrays_of(program, scope)[name] != 0
            np.testing.assert_array_equal(nonzero, pruner.masks[name])
        shares = UnstructuredPruner.sparse_by_layer(program, scope)
        one = next(n for n in names if pruner.masks[n].shape == (16, 3, 1, 1))
        assert shares[one] == (~pruner.masks[one]).mean()
        assert UnstructuredPruner.total_sparse_conv1x1(program, scope) == shares[one]
        assert 0.4 < UnstructuredPruner.total_sparse(program, scope) <= 0.5
        with pytest.raises(NotFoundError, match=r"\[UnstructuredPruner\].*startup"):
            UnstructuredPruner(program, "ratio", scope=static.Scope()).step()
    finally:
        proa.disable_static()


def test_single_weights_of_a_program_go_gradually():
    proa.enable_static()
    try:
        program, loss, scope = trained_program()
        configs = {"pruning_iterations": 4, "pruning_steps": 4}
        pruner = GMPUnstructuredPruner(program, 0.8, configs=configs, scope=scope)
        weights = [v.name for v in program.all_parameters() if len(v.shape) > 1]
        shares = []
        for _ in range(4):
            run_steps(program, loss, scope, pruner, 1)
            arrays = [arrays_of(program, scope)[name].ravel() for name in weights]
            shares.append(float((np.concatenate(arrays) == 0).mean()))
        want = [0.8 - 0.8 * (1 - k / 4) ** 3 for k in range(1, 5)]
        np.testing.assert_allclose(shares, want, atol=2e-3)
    finally:
        proa.disable_static()
