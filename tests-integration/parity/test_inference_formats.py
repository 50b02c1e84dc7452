"""The predictor of proa_inference reads models of ONNX and of PaddlePaddle."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
import proa.nn.functional as F
from proa.errors import InvalidArgumentError, NotFoundError
from proa_inference import Config, create_predictor

pytest.importorskip("onnx")
pytest.importorskip("google.protobuf")
X = np.random.default_rng(0).standard_normal((3, 6)).astype(np.float32)


class Net(proa.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = proa.nn.Linear(6, 8), proa.nn.Linear(8, 3)

    def forward(self, image: Any) -> Any:
        hidden = F.relu(self.first(image))
        return {"score": F.softmax(self.second(hidden)), "hidden": hidden}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Net, Path]:
    folder = tmp_path_factory.mktemp("models")
    network = Net()
    spec = [proa.static.InputSpec([None, 6], "float32", "image")]
    proa.onnx.export(network, folder / "net", spec, opset_version=13)
    proa.jit.save(network, folder / "pd", spec, format="paddle")
    (folder / "old").mkdir()
    shutil.copy(folder / "pd.pdmodel", folder / "old" / "__model__")
    shutil.copy(folder / "pd.pdiparams", folder / "old" / "__params__")
    shutil.copy(folder / "pd.pdiparams", folder / "weights")
    return network, folder


def buffer(*parts: Path) -> Config:
    config, given = Config(), []
    for part in parts:
        content = part.read_bytes()
        given += [content, len(content)]
    config.set_model_buffer(*given)
    assert config.model_from_memory()
    return config


def configs(folder: Path) -> dict[str, Config]:
    split = Config()
    split.set_prog_file(folder / "pd.pdmodel")
    split.set_params_file(folder / "weights")
    return {
        "onnx": Config(folder / "net.onnx"),
        "onnx bytes": buffer(folder / "net.onnx"),
        "prefix": Config(folder / "pd"),
        "program": Config(folder / "pd.pdmodel"),
        "two files": Config(str(folder / "pd.pdmodel"), str(folder / "weights")),
        "files one by one": split,
        "folder": Config(folder / "old"),
        "paddle bytes": buffer(folder / "pd.pdmodel", folder / "pd.pdiparams"),
    }


def test_a_config_loads_models_of_other_formats(models: tuple[Net, Path]) -> None:
    network, folder = models
    want = network(proa.to_tensor(X))
    for name, config in configs(folder).items():
        predictor = create_predictor(config)
        assert predictor.get_input_names() == ["image"], name
        assert predictor.get_output_names() == ["score", "hidden"], name
        for n in (1, 3):
            score, hidden = predictor.run([X[:n]])
            np.testing.assert_allclose(score, want["score"].numpy()[:n], rtol=1e-4)
            np.testing.assert_allclose(hidden, want["hidden"].numpy()[:n], 1e-4, 1e-6)
    assert configs(folder)["folder"].model_dir() == str(folder / "old")
    assert configs(folder)["two files"].params_file() == str(folder / "weights")


def test_damaged_models_of_other_formats_are_typed_errors(
    models: tuple[Net, Path], tmp_path: Path
) -> None:
    _, folder = models
    (tmp_path / "half.onnx").write_bytes((folder / "net.onnx").read_bytes()[:99])
    (tmp_path / "half.pdmodel").write_bytes((folder / "pd.pdmodel").read_bytes()[:99])
    for name in ("half.onnx", "half.pdmodel"):
        with pytest.raises(InvalidArgumentError):
            create_predictor(Config(tmp_path / name))
    with pytest.raises(NotFoundError, match="must be a file"):
        Config(tmp_path)
    with pytest.raises(NotFoundError, match="params must be a file"):
        Config(folder / "pd.pdmodel", tmp_path / "none")
    with pytest.raises(InvalidArgumentError, match="expected the size"):
        Config().set_model_buffer(b"abc", 4)
