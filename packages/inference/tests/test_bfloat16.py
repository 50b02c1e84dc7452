"""Models that compute in bfloat16."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import PreconditionNotMetError
from proa.ir import file
from proa.runtime import multiplies_bfloat16
from proa.static import InputSpec
from proa_inference import (
    Config,
    PrecisionType,
    compare_models,
    convert_to_mixed_precision,
    create_predictor,
)
from proa_inference.cli import main
from proa_inference.optimize import optimized_program

RNG = np.random.default_rng(5)
needs_bfloat16 = pytest.mark.skipif(
    not multiplies_bfloat16(), reason="no AVX512_BF16, and no PROA_BF16=emulate"
)


class Network(proa.nn.Layer):
    """Convolutions with norms, a residual, a depthwise one, a product and logarithm."""

    def __init__(self) -> None:
        super().__init__()
        self.first = proa.nn.Conv2D(3, 32, 3, padding=1)
        self.norm = proa.nn.BatchNorm2D(32)
        self.second = proa.nn.Conv2D(32, 32, 3, padding=1)
        self.depthwise = proa.nn.Conv2D(32, 32, 3, padding=1, groups=32)
        self.last = proa.nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        x = proa.nn.functional.relu(self.norm(self.first(x)))
        x = proa.nn.functional.relu(self.second(x) + x)
        x = proa.nn.functional.hardswish(self.depthwise(x))
        logits = self.last(x.mean([2, 3]))
        return {"logits": logits, "energy": proa.exp(logits).sum(-1)}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    proa.seed(2)
    network = Network()
    for _ in range(3):  # statistics
        network(proa.to_tensor(RNG.standard_normal((4, 3, 16, 16)).astype("float32")))
    network.eval()
    path = tmp_path_factory.mktemp("bf16") / "net.proa"
    proa.jit.save(network, path, [InputSpec([None, 3, 16, 16], "float32", "x")])
    return path


def images(count: int) -> np.ndarray:
    return RNG.standard_normal((count, 3, 16, 16)).astype(np.float32)


def narrow(model: Path, keep: tuple[str, ...] = (), threads: int = 1) -> Config:
    config = Config(model)
    config.set_cpu_math_library_num_threads(threads)
    config.enable_bf16(keep)
    return config


@needs_bfloat16
def test_the_whole_graph_computes_in_bfloat16(model: Path) -> None:
    program = optimized_program(narrow(model))
    results = {n.op: n.outputs[0].dtype for n in program.nodes() if n.op != "cast"}
    assert results.pop("exp") == "float32"  # needs more bits
    results.pop("sum")  # of what it gives
    assert set(results.values()) == {"bfloat16"}
    # Weights are held in 16 bits; one cast is of x, one of the logits.
    large = [v for v in program.constants() if v.data is not None and v.data.size > 9]
    assert {v.dtype for v in large} == {"bfloat16"}
    assert [n.op for n in program.nodes()].count("cast") == 2


@needs_bfloat16
def test_results_are_near_float32_with_the_same_names_and_dtypes(model: Path) -> None:
    plain, other = create_predictor(Config(model)), create_predictor(narrow(model))
    x = images(5)
    assert other.get_input_names() == ["x"]
    assert other.get_output_names() == ["logits", "energy"]
    for want, got in zip(plain.run([x]), other.run([x]), strict=True):
        assert got.dtype == np.float32
        assert not np.array_equal(got, want)
        # Six layers, each of which rounds by 2^-9.
        np.testing.assert_allclose(got, want, rtol=0, atol=2**-6 * np.abs(want).max())


@needs_bfloat16
def test_results_are_the_same_for_any_threads_run_and_place_in_a_batch(
    model: Path,
) -> None:
    x = images(6)
    whole = create_predictor(narrow(model)).run([x])
    predictor = create_predictor(narrow(model, threads=2))
    for _ in range(3):
        for want, got in zip(whole, predictor.run([x]), strict=True):
            np.testing.assert_array_equal(got, want)
    for want, got in zip(whole, predictor.clone().run([x[4:5]]), strict=True):
        np.testing.assert_array_equal(got, want[4:5])


class Branches(proa.nn.Layer):
    """The sum of two branches, of which nothing else reads the wide one."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = proa.nn.Conv2D(3, 64, 1)
        self.narrow = proa.nn.Conv2D(3, 8, 3, padding=1)
        self.last = proa.nn.Conv2D(8, 64, 3, padding=1)

    def forward(self, x: Any) -> Any:
        wide, narrow = self.wide(x), proa.nn.functional.relu(self.narrow(x))
        return proa.nn.functional.relu(self.last(narrow) + wide).mean([2, 3])


def convolved(layer: Any, x: np.ndarray) -> np.ndarray:
    """What a convolution of stride 1 gives in float64."""
    w, b = (p.numpy().astype(np.float64) for p in (layer.weight, layer.bias))
    size = w.shape[2]
    edge = [(0, 0), (0, 0), (size // 2, size // 2), (size // 2, size // 2)]
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(x, edge), (size, size), axis=(2, 3)
    )
    return np.einsum("ncijpq,ocpq->noij", windows, w, optimize=True) + b[:, None, None]


@needs_bfloat16
def test_a_sum_takes_over_the_memory_of_what_it_adds(tmp_path: Path) -> None:
    network = Branches()
    network.eval()
    path = tmp_path / "branches.proa"
    proa.jit.save(network, path, [InputSpec([None, 3, 60, 60], "float32", "x")])
    nodes = optimized_program(narrow(path)).nodes()
    assert max(len(n.inputs) for n in nodes if n.op == "conv2d_act") == 4
    x = RNG.standard_normal((8, 3, 60, 60)).astype(np.float32)
    predictors = [create_predictor(narrow(path, threads=n)) for n in (1, 2)]
    one, two = (p.run([x])[0] for p in predictors)
    np.testing.assert_array_equal(one, two)
    (alone,) = predictors[0].clone().run([x[1:2]])
    np.testing.assert_array_equal(alone, one[1:2])
    first = np.maximum(convolved(network.narrow, x), 0)
    want = np.maximum(convolved(network.last, first) + convolved(network.wide, x), 0)
    want = want.mean((2, 3))
    np.testing.assert_allclose(one, want, rtol=0, atol=2**-6 * np.abs(want).max())
    # One array of 64 channels, and not two; what a task needs is less than half of it.
    held = 2 * 64 * x[:, 0].size
    assert held < predictors[0].memory()["arena"] < 1.8 * held


class Scaled(proa.nn.Layer):
    """Convolutions whose results are scaled and shifted after their activation."""

    def __init__(self) -> None:
        super().__init__()
        self.first = proa.nn.Conv2D(3, 32, 3, padding=1)
        self.second = proa.nn.Conv2D(32, 32, 1)
        self.third = proa.nn.Conv2D(32, 8, 3, padding=1)

    def forward(self, x: Any) -> Any:
        relu = proa.nn.functional.relu
        y = relu(self.first(x) * 0.75 + 0.125) * 1.5 + 0.25
        return self.third(relu(self.second(y) * 1.25 + 0.5) * 0.5 + 2.0)


@needs_bfloat16
def test_convolutions_that_end_with_a_scale_multiply_in_bfloat16(
    tmp_path: Path,
) -> None:
    network = Scaled()
    network.eval()
    path = tmp_path / "scaled.proa"
    proa.jit.save(network, path, [InputSpec([None, 3, 12, 12], "float32", "x")])
    kinds = {n.op for n in optimized_program(Config(os.fspath(path))).nodes()}
    assert "conv2d_norm" in kinds
    nodes = list(optimized_program(narrow(path)).nodes())
    products = [n for n in nodes if n.op.startswith("conv2d")]
    assert [n.outputs[0].dtype for n in products] == ["bfloat16"] * 3
    # Weights take in the scale before the second, but not the one before padding.
    (scale,) = (n for n in nodes if n.op == "scale")
    assert (scale.attrs["scale"], scale.attrs["bias"]) == (0.5, 2.0)
    x = RNG.standard_normal((2, 3, 12, 12)).astype(np.float32)
    (found,) = create_predictor(narrow(path)).run([x])
    middle = np.maximum(convolved(network.first, x) * 0.75 + 0.125, 0) * 1.5 + 0.25
    middle = np.maximum(convolved(network.second, middle) * 1.25 + 0.5, 0) * 0.5 + 2
    want = convolved(network.third, middle)
    np.testing.assert_allclose(found, want, rtol=0, atol=2**-6 * np.abs(want).max())
    # What is named stays as it is.
    named = narrow(path)
    named.enable_bf16(keep=["conv2d_norm"])
    left = [n for n in optimized_program(named).nodes() if n.op == "conv2d_norm"]
    assert left and all(n.outputs[0].dtype == "float32" for n in left)


class Words(proa.nn.Layer):
    """An embedding, a layer of `make`, and a product."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.words = proa.nn.Embedding(50, 32)
        self.middle = make()
        self.last = proa.nn.Linear(32, 5)

    def forward(self, ids: Any) -> Any:
        y = self.middle(self.words(ids))
        return self.last(y[0] if isinstance(y, tuple) else y)


@needs_bfloat16
@pytest.mark.parametrize(
    ("make", "op"),
    [
        (lambda: proa.nn.GRU(32, 32), "recurrent"),
        (lambda: proa.nn.LSTM(32, 32), "recurrent"),
        (lambda: proa.nn.TransformerEncoderLayer(32, 4, 64), "attention"),
    ],
)
def test_sequences_compute_in_bfloat16(make: Any, op: str, tmp_path: Path) -> None:
    network = Words(make)
    network.eval()
    path = tmp_path / "words.proa"
    proa.jit.save(network, path, [InputSpec([None, 7], "int64", "ids")])
    results = {
        n.op: n.outputs[0].dtype for n in optimized_program(narrow(path)).nodes()
    }
    assert results["embedding"] == results[op] == results["linear"] == "bfloat16"
    ids = RNG.integers(0, 50, (3, 7))
    (want,), (got,) = (
        create_predictor(c).run([ids]) for c in (Config(path), narrow(path))
    )
    np.testing.assert_allclose(got, want, rtol=0, atol=2**-5 * np.abs(want).max())


class Gated(proa.nn.Layer):
    """A convolution and a GRU over its columns."""

    def __init__(self) -> None:
        super().__init__()
        self.columns = proa.nn.Conv2D(3, 32, 3, stride=2, padding=1)
        self.gru = proa.nn.GRU(32, 64)

    def forward(self, x: Any) -> Any:
        y = proa.nn.functional.relu(self.columns(x)).mean(2)
        return self.gru(y.transpose([0, 2, 1]))[0]


class First(proa.nn.Layer):
    """The first result of a network with several."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Any) -> Any:
        y = self.network(x)
        return y[0] if isinstance(y, (tuple, list)) else y


@needs_bfloat16
@pytest.mark.feature("L557", how="mechanism")
@pytest.mark.parametrize(
    "name", ["gru", "resnet50", "googlenet", "mobilenet_v1", "mobilenet_v2"]
)
def test_networks_of_the_zoo_compute_in_bfloat16(name: str, tmp_path: Path) -> None:
    proa.seed(1)
    zoo = proa.vision.models
    network = Gated() if name == "gru" else First(getattr(zoo, name)(num_classes=50))
    side = 224 if name == "googlenet" else 96  # its two side classifiers fit that alone
    x = np.random.default_rng(0).standard_normal((2, 3, side, side))
    x = x.astype(np.float32)
    network.train()
    with proa.no_grad():
        for _ in range(8):  # statistics
            network(proa.to_tensor(x))
    network.eval()
    path = tmp_path / "net.proa"
    proa.jit.save(network, path, [InputSpec([None, 3, side, side], "float32", "x")])
    program = optimized_program(narrow(path))
    results = [(n.op, n.outputs[0].dtype) for n in program.nodes()]
    products = [
        d for op, d in results if op.startswith(("conv2d", "linear", "recurrent"))
    ]
    assert set(products) == {"bfloat16"} and len(products) >= 2
    assert ("recurrent", "bfloat16") in results or name != "gru"
    (want,), (got,) = (
        create_predictor(c).run([x]) for c in (Config(path), narrow(path))
    )
    error = np.linalg.norm(got - want) / np.linalg.norm(want)
    assert 0 < error < 0.05


@needs_bfloat16
def test_operators_and_arrays_stay_in_float32_if_they_are_named(model: Path) -> None:
    def dtypes(config: Config) -> dict[str, str]:
        program = optimized_program(config)
        return {n.op: n.outputs[0].dtype for n in program.nodes()}

    found = dtypes(narrow(model, ("linear",)))
    assert found["linear"] == "float32"
    assert found["conv2d_act"] == "bfloat16"
    alone = Config(model)
    alone.set_bfloat16_op({"linear"})
    alone.enable_mkldnn_bfloat16()
    assert alone.mkldnn_bfloat16_enabled()
    found = dtypes(alone)
    assert found["linear"] == "bfloat16"
    assert found["conv2d_act"] == "float32"
    program = file.from_bytes(Config(model).content())
    first = next(n.outputs[0].name for n in program.nodes() if n.op == "conv2d")
    plain = narrow(model, (first,))
    plain.switch_ir_optim(False)
    results = {
        v.name: v.dtype for n in optimized_program(plain).nodes() for v in n.outputs
    }
    assert results[first] == "float32"
    assert "bfloat16" in results.values()


@needs_bfloat16
def test_a_report_says_what_each_layer_loses(model: Path) -> None:
    found = compare_models(Config(model), narrow(model), [images(2)])
    layers = [d for d in found if not d.is_output]
    assert len(layers) > 6
    assert all(d.shape for d in layers)
    convolutions = [d for d in found if d.op[0] == "conv2d"]
    assert len(convolutions) == 3
    assert all(0 < d.relative < 2**-6 for d in convolutions)
    assert [d.is_output for d in found[-2:]] == [True, True]


@needs_bfloat16
def test_the_command_line_optimizes_and_compares(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "narrow.proa"
    assert main(["optimize", str(model), str(written), "--bf16"]) == 0
    assert written.stat().st_size < 0.7 * model.stat().st_size
    x = images(3)
    for want, got in zip(
        create_predictor(narrow(model)).run([x]),
        create_predictor(Config(written)).run([x]),
        strict=True,
    ):
        np.testing.assert_array_equal(got, want)
    capsys.readouterr()
    assert main(["compare", str(model), str(model), "--bf16", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 < max(d["relative"] for d in found) < 0.1


def test_a_converted_model_computes_in_bfloat16_on_any_cpu(
    model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "half.proa"
    convert_to_mixed_precision(
        model, None, path, mixed_precision=PrecisionType.Bfloat16, black_list=["linear"]
    )
    program = file.read(path)
    results = {n.op: n.outputs[0].dtype for n in program.nodes()}
    assert results["conv2d_act"] == "bfloat16"
    assert results["linear"] == "float32"
    x = images(3)
    want, got = (create_predictor(Config(p)).run([x])[0] for p in (model, path))
    np.testing.assert_allclose(got, want, rtol=0, atol=2**-6 * np.abs(want).max())


def _in_a_process(code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("setting", [{"PROA_BF16": "off"}, {"PROA_ISA": "avx2"}])
def test_a_cpu_that_widens_is_refused_with_a_reason(setting: dict[str, str]) -> None:
    built = proa._core.build_info()["built_isas"]
    if "PROA_ISA" in setting and "avx2" not in built:
        pytest.skip("kernels of AVX2 are not built: wheels have them")
    code = "from proa_inference import Config; Config().enable_bf16()"
    done = _in_a_process(code, **setting)
    assert PreconditionNotMetError.__name__ in done.stderr
    assert "expected a CPU with AVX512_BF16" in done.stderr


def test_c_takes_a_model_in_bfloat16_alone(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "half.proa"
    convert_to_mixed_precision(
        model, None, path, mixed_precision=PrecisionType.Bfloat16
    )
    code = f"""
import ctypes, pathlib, proa_inference
folder = pathlib.Path(proa_inference.__file__).parent / "lib"
c = ctypes.CDLL(str(folder / "libproa_inference.so"))
c.proa_config_create.restype = ctypes.c_void_p
c.proa_last_error.restype = ctypes.c_char_p
config, predictor = ctypes.c_void_p(c.proa_config_create()), ctypes.c_void_p()
enabled = c.proa_config_enable_bf16(config)
print(enabled, c.proa_config_bf16(config))
if enabled:
    print(c.proa_last_error().decode())
    raise SystemExit
for path in ({str(model)!r}, {str(path)!r}):
    c.proa_config_set_model(config, path.encode())
    print(c.proa_predictor_create(config, ctypes.byref(predictor)))
    print(c.proa_last_error().decode() if not predictor else "made")
"""
    refused = _in_a_process(code, PROA_BF16="off").stdout
    assert refused.startswith("3 0\n[proa_config_enable_bf16] expected a CPU with")
    if multiplies_bfloat16():
        lines = _in_a_process(code).stdout.splitlines()
        assert lines[:2] == ["0 1", "1"]
        assert "expected a model that computes in bfloat16" in lines[2]
        assert lines[3:] == ["0", "made"]


@pytest.mark.skipif(
    "avx512f" not in (Path("/proc/cpuinfo").read_text() if os.name == "posix" else "")
    or "PROA_BF16" in os.environ,
    reason="the emulation needs AVX-512; or this is the run with it",
)
def test_all_of_it_with_the_emulation() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env={**os.environ, "PROA_BF16": "emulate"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
