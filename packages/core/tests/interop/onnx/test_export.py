"""What `proa.onnx.export` writes and what it refuses."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.cli import main
from proa.errors import InvalidArgumentError, UnimplementedError
from proa.interop.onnx.exporter import proto
from proa.jit import InputSpec

onnx = pytest.importorskip("onnx")
from .exported import check_layer, run_model  # noqa: E402

pytestmark = pytest.mark.feature("L281", how="mechanism")
OPSETS = (9, 11, 13, 17, 21)


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


class Function(nn.Layer):
    """A function as a Layer."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *xs: Any) -> Any:
        return self.function(*xs)


def names_of_dims(info: Any) -> list[str | int]:
    dims = info.type.tensor_type.shape.dim
    return [d.dim_param or d.dim_value for d in dims]


# -- the file --------------------------------------------------------------------------
def test_names_axes_and_opset_are_in_the_model(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    spec = InputSpec([None, 4], "float32", "data")
    proa.onnx.export(net, tmp_path / "net", [spec], opset_version=13)
    model = onnx.load(tmp_path / "net.onnx")
    assert model.opset_import[0].version == 13
    assert [i.name for i in model.graph.input] == ["data"]
    assert names_of_dims(model.graph.input[0]) == ["data_dim_0", 4]
    assert names_of_dims(model.graph.output[0]) == ["data_dim_0", 3]
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    assert sorted(weights) == ["0.bias", "0.weight"]
    np.testing.assert_array_equal(weights["0.weight"], net[0].weight.numpy())
    assert model.producer_name == "proa"
    onnx.checker.check_model(model, full_check=True)


def test_the_default_opset_is_9_as_of_paddle(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    proa.onnx.export(nn.Linear(4, 3), str(path), [InputSpec([2, 4])])
    assert onnx.load(path).opset_import[0].version == 9
    (got,) = run_model(path, [normal(2, 4)])
    assert got.shape == (2, 3)


def test_a_model_is_written_to_an_open_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, x = nn.Linear(40, 50), normal(3, 40)
    found = io.BytesIO()
    proa.onnx.export(net, found, [InputSpec([None, 40])], 13)
    (tmp_path / "net.onnx").write_bytes(found.getvalue())
    (got,) = run_model(tmp_path / "net.onnx", [x])
    expected = x @ net.weight.numpy() + net.bias.numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(proto, "LARGEST", 1000)
    with pytest.raises(InvalidArgumentError, match="expected a path for a model with"):
        proa.onnx.export(net, io.BytesIO(), [InputSpec([None, 40])], 13)


def test_the_layers_mode_is_as_before(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    proa.onnx.export(net, tmp_path / "net", [InputSpec([2, 4])])
    assert net.training
    assert [n.op_type for n in onnx.load(tmp_path / "net.onnx").graph.node] == ["Gemm"]


def test_large_constants_are_in_a_file_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proto, "LARGEST", 10_000)
    net = nn.Sequential(nn.Linear(40, 50), nn.Linear(50, 60), nn.Linear(60, 2))
    path, x = tmp_path / "net.onnx", normal(3, 40)
    check_layer(path, net, [InputSpec([None, 40])], [[x]], 13)
    assert (tmp_path / "net.onnx.data").stat().st_size >= 4 * (40 * 50 + 50 * 60)
    apart = {
        t.name
        for t in onnx.load(path, load_external_data=False).graph.initializer
        if t.data_location == onnx.TensorProto.EXTERNAL
    }
    assert apart == {"0.weight", "1.weight"}
    again = proa.onnx.load(path)
    np.testing.assert_allclose(
        again(proa.to_tensor(x)).numpy(), net(proa.to_tensor(x)).numpy(), rtol=1e-5
    )


def test_a_file_that_cannot_be_written_leaves_no_other(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").mkdir()
    with pytest.raises(InvalidArgumentError, match="a directory"):
        proa.onnx.export(nn.Linear(2, 2), tmp_path / "net", [InputSpec([2, 2])])
    assert [p.name for p in tmp_path.iterdir()] == ["net.onnx"]


# -- what is refused -------------------------------------------------------------------
def test_all_that_an_opset_cannot_express_is_named_at_once(tmp_path: Path) -> None:
    def both(x: Any, y: Any) -> Any:
        return x & y, proa.linalg.cholesky(proa.cast(x, "float32")), proa.tril(x)

    specs = [InputSpec([None, None], "int32"), InputSpec([None, None], "int32")]
    path = tmp_path / "m.onnx"
    with pytest.raises(UnimplementedError) as info:
        proa.onnx.export(Function(both), path, specs, opset_version=11)
    lines = str(info.value).splitlines()
    assert "opset 11 cannot express 3" in lines[0]
    assert sorted(line.strip() for line in lines[1:4]) == [
        "bitwise_and: from opset 18 on",
        "cholesky: ONNX has no operators for it",
        "tril: from opset 14 on",
    ]
    assert not path.exists()


def test_complex_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnimplementedError, match="no operators for complex64"):
        proa.onnx.export(
            Function(proa.fft.fft), tmp_path / "m", [InputSpec([8])], opset_version=17
        )


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_bfloat16_needs_opset_13(opset: int, tmp_path: Path) -> None:
    w = proa.to_tensor(normal(4, 3)).astype("bfloat16")

    def function(x: Any) -> Any:
        y = proa.matmul(x.astype("bfloat16"), w)
        return nn.functional.softmax(proa.floor(y * 8) / 8).astype("float32")

    specs, path = [InputSpec([None, 4])], tmp_path / "m.onnx"
    check_layer(path, Function(function), specs, [[normal(2, 4)]], opset, rtol=1e-2)
    with pytest.raises(UnimplementedError, match="cast: from opset 13 on"):
        proa.onnx.export(Function(function), path, specs, opset_version=9)


def test_without_the_package_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['onnx'] = None\n"
        "import proa.onnx\n"
        "try: proa.onnx.export(proa.nn.Linear(2, 2), 'm', [])\n"
        "except proa.errors.UnavailableError as e: print(e)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pip install 'proa[onnx]'" in found.stdout


@pytest.mark.parametrize("opset", [8, 22, "13"])
def test_other_opsets_are_refused(opset: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="opset_version must be 9 to 21"):
        proa.onnx.export(nn.Linear(2, 2), tmp_path / "m", [InputSpec([1, 2])], opset)


def test_unknown_configs_and_missing_shapes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="got \\['verbos'\\]"):
        proa.onnx.export(
            nn.Linear(2, 2), tmp_path / "m", [InputSpec([1, 2])], verbos=True
        )
    with pytest.raises(InvalidArgumentError, match="expected input_spec"):
        proa.onnx.export(nn.Linear(2, 2), tmp_path / "m")


# -- sizes, control flow, random numbers -----------------------------------------------
@pytest.mark.parametrize("opset", OPSETS)
def test_sizes_are_computed_from_symbolic_dimensions(
    opset: int, tmp_path: Path
) -> None:
    def function(x: Any, y: Any) -> Any:
        n, m = x.shape[0], y.shape[1]
        rows = x.reshape([n * 2, -1])
        joined = proa.concat([rows.flatten(), y.flatten()])
        wide = proa.expand(y[:, :, None], [y.shape[0], m, n])
        padded = proa.zeros([n, m + 1]) + x[:, :1]
        return rows, joined, wide, padded

    specs = [InputSpec([None, 4], name="x"), InputSpec([None, None], name="y")]
    calls = [[normal(3, 4), normal(2, 5)], [normal(1, 4), normal(6, 1)]]
    check_layer(tmp_path / "m.onnx", Function(function), specs, calls, opset)


@pytest.mark.parametrize("opset", OPSETS)
def test_branches_and_loops_are_exported(opset: int, tmp_path: Path) -> None:
    def function(x: Any, n: Any) -> Any:
        if x.sum() > 0:
            y = x * 2 if x.max() > 100 else x + 1
        else:
            y = x - 1
        i = proa.zeros([1], "int64")
        total = y * 0
        while i < n:
            total = total + y * proa.cast(i, "float32")
            i = i + 1
        return total, i, y.reshape([x.shape[0], -1])

    specs = [InputSpec([None, 4], name="x"), InputSpec([1], "int64", "n")]
    up, down = np.abs(normal(3, 4)), -np.abs(normal(2, 4))
    calls = [[x, np.array([n])] for x in (up, down, up * 1e3) for n in (0, 1, 5)]
    check_layer(tmp_path / "m.onnx", Function(function), specs, calls, opset)


@pytest.mark.parametrize("opset", [9, 15])
def test_random_numbers_have_the_distribution(opset: int, tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        dropped = nn.functional.dropout(x, 0.25)
        return (
            proa.uniform([4000], min=-1.0, max=3.0), proa.normal(2.0, 3.0, [4000]),
            proa.randint(-2, 3, [4000]), proa.randperm(50), dropped,
            proa.bernoulli(x * 0 + 0.3),
        )  # fmt: skip

    path = tmp_path / "m.onnx"
    specs = [InputSpec([4000], name="x")]
    proa.onnx.export(Function(function), path, specs, opset_version=opset)
    uniform, gaussian, integers, order, dropped, hits = run_model(
        path, [np.ones(4000, np.float32)]
    )
    assert -1 <= uniform.min() < -0.9 < 2.9 < uniform.max() < 3
    assert abs(gaussian.mean() - 2) < 0.25
    assert abs(gaussian.std() - 3) < 0.2
    assert sorted(set(integers.tolist())) == [-2, -1, 0, 1, 2]
    assert sorted(order.tolist()) == list(range(50))
    assert abs((dropped == 0).mean() - 0.25) < 0.04
    np.testing.assert_allclose(dropped[dropped != 0], 1 / 0.75, rtol=1e-6)
    assert abs(hits.mean() - 0.3) < 0.04


# -- what is recorded already ----------------------------------------------------------
def test_a_saved_model_is_exported_with_the_weights_it_has_now(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    spec = [InputSpec([None, 4])]
    proa.jit.save(net, tmp_path / "net.proa", spec)
    loaded = proa.jit.load(tmp_path / "net.proa")
    loaded.set_state_dict({"0.bias": proa.to_tensor(np.array([1, 2, 3], np.float32))})
    path, x = tmp_path / "net.onnx", normal(5, 4)
    proa.onnx.export(loaded, path, opset_version=11)
    (got,) = run_model(path, [x])
    want = np.tanh(x @ net[0].weight.numpy() + np.array([1, 2, 3], np.float32))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    with pytest.raises(InvalidArgumentError, match="recorded already"):
        proa.onnx.export(loaded, path, [InputSpec([2, 4])])


def test_the_command_exports_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "net.proa", tmp_path / "net.onnx"
    net = nn.Linear(4, 3)
    proa.jit.save(net, source, [InputSpec([None, 4])])
    assert main(["export", str(source), str(target), "--opset", "17"]) == 0
    (got,) = run_model(target, [normal(2, 4)])
    np.testing.assert_allclose(
        got, net(proa.to_tensor(normal(2, 4))).numpy(), rtol=1e-5, atol=1e-6
    )
    assert main(["export", str(source), str(target), "--opset", "5"]) == 1
    assert "opset_version must be 9 to 21" in capsys.readouterr().err


def test_an_exported_model_is_loaded_and_trained_again(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2D(1, 4, 3), nn.BatchNorm2D(4), nn.ReLU(), nn.Flatten())
    x = normal(2, 1, 6, 6)
    path = tmp_path / "net.onnx"
    check_layer(path, net, [InputSpec([None, 1, 6, 6])], [[x]], 13)
    again = proa.onnx.load(path)
    t = proa.to_tensor(x)
    np.testing.assert_allclose(again(t).numpy(), net(t).numpy(), rtol=1e-5, atol=1e-6)
    (again(t) ** 2).mean().backward()
    assert all(p.grad is not None for p in again.parameters())


@pytest.mark.parametrize(
    ("axes", "keepdim", "kind"),
    [([2, 3], True, "GlobalAveragePool"), ([-1, -2], True, "GlobalAveragePool"),
     ([2, 3], False, "ReduceMean"), ([1, 2], True, "ReduceMean")],
)  # fmt: skip
@pytest.mark.parametrize("opset", [9, 21])
def test_a_mean_of_images_is_a_pooling(
    axes: list[int], keepdim: bool, kind: str, opset: int, tmp_path: Path
) -> None:
    layer = Function(lambda x: x.mean(axes, keepdim))
    specs, path = [InputSpec([None, 3, 5, 7])], tmp_path / "m.onnx"
    check_layer(path, layer, specs, [[normal(2, 3, 5, 7)]], opset)
    assert [n.op_type for n in onnx.load(path).graph.node] == [kind]
