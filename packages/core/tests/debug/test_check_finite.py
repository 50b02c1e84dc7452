"""FLAGS_check_nan_inf: what is found, how it is named, and what is left out."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

import proa
from proa import _core, nn
from proa.errors import Error, InvalidArgumentError, PreconditionNotMetError
from proa.profiler import Profiler

from ..processes import run_python


@pytest.fixture(autouse=True)
def checked() -> Iterator[None]:
    before = proa.get_flags([
        "FLAGS_check_nan_inf", "FLAGS_check_nan_inf_level",
        "FLAGS_check_nan_inf_skip_ops", "FLAGS_check_nan_inf_skip_layers",
    ])  # fmt: skip
    proa.set_flags({"FLAGS_check_nan_inf": True})
    yield
    proa.set_flags(before)


@pytest.mark.feature("L271")
def test_the_error_names_op_output_and_counts():
    x = proa.to_tensor(np.array([-1.0, 0.0, 1.0, np.e, 1.0], "float32"))
    with pytest.raises(PreconditionNotMetError) as caught:
        proa.log(x)
    text = str(caught.value)
    assert "[log]" in text and "log.y" in text and "float32 of shape (5,)" in text
    assert "1 NaN and 1 infinite among 5" in text and "other 3 are in [0, 1]" in text


@pytest.mark.feature("L271")
def test_a_parameter_that_an_optimizer_spoils_is_named():
    w = proa.create_parameter([2], "float32", name="spoiled", is_bias=True)  # zeros
    (w * 3e38).sum().backward()
    sgd = proa.optimizer.SGD(learning_rate=3e38, parameters=[w])
    with pytest.raises(Error, match=r"\(spoiled\)"):
        sgd.step()


@pytest.mark.feature("L271")
def test_a_failed_backward_names_the_forward_op_and_its_line():
    x = proa.to_tensor([4.0, 0.0], stop_gradient=False)
    y = proa.sqrt(x)  # made here
    with pytest.raises(Error, match=r"backward of sqrt, called at .*# made here"):
        y.sum().backward()


def _conv_step() -> proa.Tensor:
    """Forward and backward whose results are channels-last, flat and scalar."""
    proa.seed(0)
    net = nn.Sequential(nn.Conv2D(3, 8, 3), nn.BatchNorm2D(8), nn.ReLU())
    loss = net(proa.randn([4, 3, 10, 10])).mean()
    loss.backward()
    return loss


def _kernels_and_peak() -> tuple[Counter[str], int]:
    _conv_step()
    gc.collect()  # what earlier tests left must not go meanwhile
    before = _core.memory_stats()["allocated"]
    _core.reset_peak()
    with Profiler(on_trace_ready=lambda p: None) as p:
        _conv_step()
    peak = _core.memory_stats()["peak"] - before
    events = p.profiler_result.events
    return Counter(e.name for e in events if e.kind == "kernel"), peak


@pytest.mark.feature("L272", how="mechanism")
def test_the_search_runs_no_kernel_and_takes_no_memory():
    searched = _kernels_and_peak()
    proa.set_flags({"FLAGS_check_nan_inf": False})
    assert searched == _kernels_and_peak()


@pytest.mark.feature("L272", how="mechanism")
def test_each_result_is_scanned_once_in_place():
    def searched(run) -> int:
        before = _core.searched_elements()
        run()
        return _core.searched_elements() - before

    x, y = proa.ones([300, 200]), proa.zeros([200])
    x.stop_gradient = False
    assert searched(lambda: x * 2.0) == 60_000
    assert searched(lambda: proa.transpose(x, [1, 0])) == 0  # no elements of its own
    z = proa.tanh(x) + y
    assert searched(z.sum) == 1
    # The sum's gradient is a view, those of the addition and tanh one array at most.
    assert searched(lambda: z.sum().backward()) <= 1 + 2 * 60_000
    proa.set_flags({"FLAGS_check_nan_inf": False})
    assert searched(lambda: x * 2.0) == 0


@pytest.mark.feature("L273")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("size", [1, 5, 2049, 200_001])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_bad_element_is_found_in_every_dtype_and_place(dtype, size, bad):
    for at in {0, size // 2, size - 1}:
        a = np.ones(size, "float32")
        proa.scale(proa.to_tensor(a).astype(dtype), 1.0)
        a[at] = bad
        proa.set_flags({"FLAGS_check_nan_inf": False})
        x = proa.to_tensor(a).astype(dtype)
        proa.set_flags({"FLAGS_check_nan_inf": True})
        with pytest.raises(Error, match=f"among {size} elements"):
            proa.tanh(x) if np.isnan(bad) else proa.exp(proa.abs(x))


def test_the_largest_finite_numbers_are_no_infinities():
    for dtype in ("float16", "float32", "float64"):
        largest = np.finfo(dtype).max
        proa.abs(proa.to_tensor(np.array([largest, -largest], dtype)))


def test_complex_results_are_searched():
    with pytest.raises(Error, match="complex64"):
        proa.to_tensor(np.array([1 + 1j], "complex64")) * float("inf")


@pytest.mark.feature("L273")
@pytest.mark.parametrize("skipped", ["log", "log:y", "exp,log", ["log"], "forward"])
def test_ops_outputs_and_roles_can_be_left_out(skipped):
    proa.set_flags({"FLAGS_check_nan_inf_skip_ops": skipped})
    assert np.isinf(proa.log(proa.zeros([1])).item())
    if skipped != "forward":
        with pytest.raises(Error, match=r"\[rsqrt\]"):
            proa.rsqrt(proa.zeros([1]))


def test_the_backward_can_be_left_out():
    proa.set_flags({"FLAGS_check_nan_inf_skip_ops": "backward"})
    x = proa.zeros([1])
    x.stop_gradient = False
    proa.sqrt(x).backward()
    assert np.isinf(x.grad.item())


class _Log(nn.Layer):
    def forward(self, x: proa.Tensor) -> proa.Tensor:
        return proa.log(x)


def test_layers_can_be_left_out_with_their_backward():
    x = proa.zeros([1])
    x.stop_gradient = False
    with pytest.raises(Error, match=r"\[log\]"):
        _Log()(x)
    one = _Log()
    for name in ("_Log", one.full_name()):
        proa.set_flags({"FLAGS_check_nan_inf_skip_layers": name})
        proa.exp(one(x)).backward()
        x.clear_grad()
    with pytest.raises(Error, match=r"\[log\]"):
        proa.log(x)  # outside of the Layer


def test_a_layer_that_fails_does_not_stop_the_search():
    class Fails(nn.Layer):
        def forward(self, x: proa.Tensor) -> proa.Tensor:
            raise KeyError("no")

    proa.set_flags({"FLAGS_check_nan_inf_skip_layers": ["Fails"]})
    with pytest.raises(KeyError):
        Fails()(proa.zeros([1]))
    with pytest.raises(Error, match=r"\[log\]"):
        proa.log(proa.zeros([1]))


@pytest.mark.feature("L271")
def test_recorded_and_loaded_programs_are_searched(tmp_path):
    spec = [proa.jit.InputSpec([None], "float32")]
    layer = proa.jit.to_static(_Log(), input_spec=spec)
    path = str(tmp_path / "log")
    proa.jit.save(layer, path, input_spec=spec)
    for run in (layer, proa.jit.load(path)):
        with proa.no_grad(), pytest.raises(Error, match=r"\[log\]"):
            run(proa.zeros([1]))


def test_level_1_warns_and_continues(capfd):
    proa.set_flags({"FLAGS_check_nan_inf_level": 1})
    assert np.isinf(proa.log(proa.zeros([1])).item())
    assert "[log] results must be finite, got 0 NaN and 1 inf" in capfd.readouterr().err


def test_requested_infinities_are_not_errors():
    assert np.isinf(proa.full([2], float("-inf")).numpy()).all()


@pytest.mark.feature("L273")
@pytest.mark.parametrize(
    "variables",
    [
        {"FLAGS_check_nan_inf": "1", "PADDLE_INF_NAN_SKIP_OP": "log"},
        {"FLAGS_check_nan_inf": "1", "PADDLE_INF_NAN_SKIP_VAR": "log:y"},
        {"FLAGS_check_nan_inf": "1", "FLAGS_check_nan_inf_skip_ops": "log"},
    ],
)
def test_the_environment_sets_the_flags(variables):
    code = """
        import proa
        proa.log(proa.zeros([1]))
        try:
            proa.rsqrt(proa.zeros([1]))
        except RuntimeError as error:
            assert "[rsqrt]" in str(error)
        else:
            raise SystemExit("nothing was found")
    """
    run(code, variables)


@pytest.mark.feature("L273")
@pytest.mark.parametrize("role", ["forward", "backward"])
def test_the_environment_leaves_a_role_out(role):
    code = f"""
        import proa
        x = proa.zeros([1])
        x.stop_gradient = False
        found = []
        try:
            y = proa.log(x)
        except RuntimeError:
            found.append("forward")
        y = proa.sqrt(x)
        try:
            y.backward()
        except RuntimeError:
            found.append("backward")
        assert found == [r for r in ("forward", "backward") if r != {role!r}], found
    """
    run(code, {"FLAGS_check_nan_inf": "1", "PADDLE_INF_NAN_SKIP_ROLE": role})


def run(code, variables):
    done = run_python(code, **variables)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"FLAGS_nothing": 1}, "expected a public flag .*got 'FLAGS_nothing'"),
        ({"FLAGS_check_nan_inf": "maybe"}, "must be a bool, got 'maybe'"),
        ({"FLAGS_call_stack_level": 9}, "an int of 0 to 2, got 9"),
        ({"FLAGS_check_nan_inf_skip_ops": "nope"}, "got 'nope'"),
        ({"FLAGS_check_nan_inf_skip_ops": "log:z"}, "one of .*'y'.*, got log:z"),
        ({"FLAGS_check_nan_inf_skip_ops": 3}, "to be a list of names, .*got 3"),
    ],
)
def test_a_bad_flag_changes_nothing(flags, message):
    before = proa.get_flags("FLAGS_check_nan_inf_level")
    with pytest.raises(InvalidArgumentError, match=message):
        proa.set_flags({"FLAGS_check_nan_inf_level": 1, **flags})
    assert proa.get_flags("FLAGS_check_nan_inf_level") == before
    with pytest.raises(Error, match=r"\[log\]"):
        proa.log(proa.zeros([1]))
