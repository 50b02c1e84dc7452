"""Parts of a graph that other engines run."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from inference_models import batch, check_mlp, write_loop

import proa
from proa.errors import InvalidArgumentError, UnimplementedError
from proa_inference import Config, OnnxRuntimeDelegate, create_predictor


class NumpyDelegate:
    """Runs relu by NumPy, as a program's own delegate may."""

    name = "numpy"

    def __init__(self, min_nodes=1):
        self.min_nodes, self.compiled = min_nodes, []

    def takes(self, node):
        return node.op == "relu"

    def compile(self, program):
        self.compiled.append([node.op for node in program.main.nodes])
        return lambda arrays: [np.maximum(x, 0) for x in arrays]


def delegated(path, delegate):
    config = Config(path)
    config.switch_ir_optim(False)
    config.add_delegate(delegate)
    return create_predictor(config)


def test_a_delegate_runs_the_nodes_that_it_takes(path):
    delegate = NumpyDelegate()
    predictor = delegated(path, delegate)
    assert delegate.compiled == [["relu"]]
    for n in (1, 5):
        check_mlp(predictor.run([batch(n)]), batch(n))
    steps = [step.op for step in predictor.profile([batch(2)])]
    assert steps == ["linear", "numpy", "linear"]
    assert predictor.get_output_names() == ["y", "hidden"]
    with ThreadPoolExecutor(2) as threads:
        work = [(predictor.clone(), batch(3, seed)) for seed in range(4)]
        for (_, x), found in zip(
            work, threads.map(lambda w: w[0].run([w[1]]), work), strict=True
        ):
            check_mlp(found, x)
    with pytest.raises(InvalidArgumentError, match=r"'x' must be float32"):
        predictor.run([batch(2)[:, :3]])
    with pytest.raises(InvalidArgumentError, match="expected 1 inputs, got 0"):
        predictor.run([])
    assert predictor.try_shrink_memory() > 0
    check_mlp(predictor.run([batch(5)]), batch(5))


def test_small_parts_stay_with_the_engine(path):
    delegate = NumpyDelegate(min_nodes=2)
    check_mlp(delegated(path, delegate).run([batch(2)]), batch(2))
    assert delegate.compiled == []


def test_branches_meet_again_and_constants_may_be_outputs(tmp_path):
    path = tmp_path / "branches.proa"
    weight = proa.to_tensor(np.arange(3, dtype="f4"))

    def branches(x):
        a, b = proa.nn.functional.relu(x), x * 2
        c = proa.nn.functional.relu(b - 1)
        return {"sum": a + c, "same": x, "weight": weight * 2}

    spec = [proa.static.InputSpec([None, 3], "float32", "x")]
    proa.jit.save(branches, path, spec)
    delegate = NumpyDelegate()
    predictor = delegated(path, delegate)
    x = batch(4)[:, :3].copy()
    total, same, twice = predictor.run([x])
    want = np.maximum(x, 0) + np.maximum(2 * x - 1, 0)
    np.testing.assert_allclose(total, want, rtol=1e-6)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(twice, [0, 2, 4])


def test_a_model_with_branches_or_loops_is_refused(tmp_path):
    config = Config(write_loop(tmp_path / "loop.proa"))
    config.add_delegate(NumpyDelegate())
    with pytest.raises(UnimplementedError, match="without branches and loops"):
        create_predictor(config)


@pytest.mark.parametrize("optimize", [True, False])
def test_onnxruntime_runs_what_onnx_has(path, optimize):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    config = Config(path)
    config.switch_ir_optim(optimize)
    config.enable_onnxruntime()
    assert config.onnxruntime_enabled()
    predictor = create_predictor(config)
    check_mlp(predictor.run([batch(3)]), batch(3))
    steps = [step.op for step in predictor.profile([batch(3)])]
    assert "onnxruntime" in steps
    part = delegated(path, OnnxRuntimeDelegate(["relu"]))
    check_mlp(part.run([batch(3)]), batch(3))
    assert [s.op for s in part.profile([batch(3)])] == [
        "linear",
        "onnxruntime",
        "linear",
    ]
    config.disable_onnxruntime()
    assert not config.onnxruntime_enabled()


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_onnxruntime_has_the_threads_of_the_config(path, threads, monkeypatch):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    given, make = [], runtime.InferenceSession

    def spying(model, options, **others):
        given.append(options.intra_op_num_threads)
        return make(model, options, **others)

    monkeypatch.setattr(runtime, "InferenceSession", spying)
    config = Config(path)
    config.enable_onnxruntime()
    config.set_cpu_math_library_num_threads(threads)
    check_mlp(create_predictor(config).run([batch(3)]), batch(3))
    assert set(given) == {threads or proa.get_num_threads()}
