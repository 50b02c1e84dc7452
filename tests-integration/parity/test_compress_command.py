"""`proa slim compress`: times by proa-infer, files of ONNX, one file for runtimes."""

import json

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import PreconditionNotMetError, UnimplementedError


@pytest.fixture(scope="module")
def network():
    proa.seed(0)
    net = nn.Sequential(
        nn.Conv2D(1, 16, 3, padding=1), nn.BatchNorm2D(16), nn.ReLU(), nn.Flatten(),
        nn.Linear(1024, 4),
    )  # fmt: skip
    net.eval()
    return net


SPEC = [proa.static.InputSpec([None, 1, 8, 8], "float32", "image")]


@pytest.mark.parametrize("kind", ["proa", "onnx", "pdmodel"])
def test_a_file_is_compressed_timed_and_run(network, kind, tmp_path, capsys):
    import proa_inference
    from proa_slim.cli import main

    model = tmp_path / f"net.{kind}"
    if kind == "onnx":
        pytest.importorskip("onnx")
        proa.onnx.export(network, str(tmp_path / "net"), SPEC)
    elif kind == "pdmodel":
        proa.interop.paddle.save(network, str(tmp_path / "net"), SPEC)
    else:
        proa.jit.save(network, str(model), SPEC)
    x = np.random.default_rng(0).standard_normal((300, 1, 8, 8)).astype("float32")
    np.savez(tmp_path / "data.npz", image=x)
    arguments = ["compress", str(model), "--data", str(tmp_path / "data.npz")]
    out = tmp_path / "small"
    assert main([*arguments, "--max-drop", "5", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "agreement" in printed and " ms, before " in printed
    report = json.loads((out / "report.json").read_text())
    assert all(tried["milliseconds"] > 0 for tried in report["tried"])
    config = proa_inference.Config(str(out / "model.proa"))
    (small,) = proa_inference.create_predictor(config).run([x[150:]])
    whole = network(proa.to_tensor(x[150:])).numpy()
    agreement = 100 * (small.argmax(1) == whole.argmax(1)).mean()
    chosen = report["tried"][report["chosen"]]
    assert chosen["metric"] == pytest.approx(agreement)
    assert agreement >= 95


def test_a_paddle_model_is_pruned_until_it_is_fast_enough(network, tmp_path):
    import proa_slim

    proa.interop.paddle.save(network, str(tmp_path / "net"), SPEC)
    x = np.random.default_rng(0).standard_normal((300, 1, 8, 8)).astype("float32")
    np.savez(tmp_path / "data.npz", image=x)
    model, data = tmp_path / "net.pdmodel", tmp_path / "data.npz"
    fields = {"target": "float32", "max_drop": 90, "epochs": 1}
    with pytest.raises(proa.errors.PreconditionNotMetError, match="in 1e-06 ms, got"):
        proa_slim.compress(
            model, data, {**fields, "max_milliseconds": 1e-6}, tmp_path, progress=False
        )
    recipe = {**fields, "prune": 0.5, "max_milliseconds": 1e3}
    found = proa_slim.compress(model, data, recipe, tmp_path, progress=False)
    assert found.chosen.multiply_adds <= found.tried[0].multiply_adds / 2
    assert 0 < found.chosen.milliseconds <= 1e3


def test_auto_compression_exports_its_model_as_onnx(network, tmp_path):
    onnx, ort = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    from proa_slim.auto_compression import AutoCompression

    proa.jit.save(network, str(tmp_path / "net.proa"), SPEC)
    x = np.random.default_rng(0).standard_normal((600, 1, 8, 8)).astype("float32")
    compression = AutoCompression(
        tmp_path / "net.proa", [x], save_dir=tmp_path / "small", config={"max_drop": 5}
    )
    with pytest.raises(PreconditionNotMetError, match="made, got none"):
        compression.export_onnx()
    found = compression.compress()
    with pytest.raises(UnimplementedError, match="onnxruntime, got 'tensorrt'"):
        compression.export_onnx(deploy_backend="tensorrt")
    path = compression.export_onnx()
    assert path == tmp_path / "small" / "ONNX" / "quant_model.onnx"
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    (theirs,) = session.run(None, {"image": x})
    own = proa.jit.load(str(found.path))(proa.to_tensor(x)).numpy()
    assert (theirs.argmax(1) == own.argmax(1)).mean() >= 0.995
    kinds = {node.op_type for node in onnx.load(path).graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= kinds
