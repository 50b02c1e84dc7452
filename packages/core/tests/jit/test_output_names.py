"""What a function returns by name is called so in the file and its exports."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import proa
import proa.nn.functional as F
from proa.errors import InvalidArgumentError
from proa.ir import read
from proa.ir.passes import optimize
from proa.jit import InputSpec

SPEC = [InputSpec([None, 3], "float32", "image")]
X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)


class Head(NamedTuple):
    logits: proa.Tensor
    feature: proa.Tensor


class Detector(proa.nn.Layer):
    """Outputs that are computed, that are one array twice, an input and a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = proa.nn.Linear(3, 4)

    def forward(self, image):
        hidden = F.relu(self.fc(image))
        score = F.softmax(hidden)
        head = Head(hidden + 1, (hidden * 2).reshape([-1, 4]))
        return {
            "score": score, "hidden": hidden, "same": hidden, "image": image,
            "heads": [head], 7: score * 2, "weight": self.fc.weight,
        }  # fmt: skip


NAMES = [
    "score", "hidden", "same", "image", "heads.0.logits", "heads.0.feature", "7",
    "weight",
]  # fmt: skip


def wanted(layer: Detector) -> list[np.ndarray]:
    hidden = np.maximum(X @ layer.fc.weight.numpy() + layer.fc.bias.numpy(), 0)
    score = np.exp(hidden) / np.exp(hidden).sum(1, keepdims=True)
    first = [score, hidden, hidden, X, hidden + 1, hidden * 2, score * 2]
    return [*first, layer.fc.weight.numpy()]


def names_of(path: Path) -> list[str]:
    return [value.name for value in read(path).main.outputs]


def test_keys_of_a_dictionary_name_the_outputs_of_the_file(tmp_path: Path) -> None:
    layer, path = Detector(), tmp_path / "net.proa"
    proa.jit.save(layer, path, SPEC)
    assert names_of(path) == NAMES
    assert [value.name for value in read(path).main.inputs] == ["image"]
    loaded = proa.jit.load(path)(proa.to_tensor(X))
    assert list(loaded) == list(layer(proa.to_tensor(X)))
    np.testing.assert_allclose(loaded["score"].numpy(), wanted(layer)[0], rtol=1e-6)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_passes_keep_the_names(tmp_path: Path, level: int) -> None:
    layer, path = Detector(), tmp_path / "net.proa"
    proa.jit.save(layer, path, SPEC)
    program = read(path)
    optimize(program, level)
    assert [value.name for value in program.main.outputs] == NAMES
    proa.ir.write(program, tmp_path / "fused.proa")
    engine = proa.runtime.load_engine(tmp_path / "fused.proa")
    assert [name for name, _, _ in engine.outputs] == NAMES
    for got, want in zip(engine.run([X]), wanted(layer), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_names_may_be_given(tmp_path: Path) -> None:
    path = tmp_path / "pair.proa"
    names = ["total", "x"]
    proa.jit.save(lambda x: (x + 1, x * 2), path, SPEC, output_names=names)
    assert names_of(path) == names
    again = tmp_path / "again.proa"
    proa.jit.save(proa.jit.load(path), again, SPEC)
    assert names_of(again) == names
    for wrong in (["one"], ["a", "a"], ["a", ""]):
        with pytest.raises(InvalidArgumentError, match="names"):
            proa.jit.save(lambda x: (x + 1, x * 2), path, SPEC, output_names=wrong)
    assert names_of(path) == names


def test_lists_of_dictionaries_have_names_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "lists.proa"
    proa.jit.save(lambda x: ({"a": x + 1}, {"b": x * 2}), path, SPEC)
    assert names_of(path) == ["a", "b"]
    proa.jit.save(lambda x: ({"a": x + 1}, {"a": x * 2}, x - 1, x), path, SPEC)
    first, second, third, fourth = names_of(path)
    assert (first, second) == ("0.a", "1.a")
    assert len({first, second, third, fourth}) == 4


def test_a_key_wins_over_the_name_of_an_operator(tmp_path: Path) -> None:
    path = tmp_path / "key.proa"
    proa.jit.save(lambda x: ({"add_1": x + 1}, (x + 2) + 3), path, SPEC)
    first, second = names_of(path)
    assert first == "add_1"
    assert second != "add_1"


def test_onnx_has_the_names(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    layer = Detector()
    proa.onnx.export(layer, tmp_path / "net", SPEC, opset_version=13)
    graph = onnx.load(tmp_path / "net.onnx").graph
    # An input and an output of one name would be one array there.
    names = [name if name != "image" else "image_1" for name in NAMES]
    assert [output.name for output in graph.output] == names
    proa.onnx.export(
        lambda x: x + 1, tmp_path / "one", SPEC, opset_version=13, output_names=["y"]
    )
    graph = onnx.load(tmp_path / "one.onnx").graph
    assert [output.name for output in graph.output] == ["y"]


def test_paddle_files_have_the_names(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    layer = Detector()
    proa.jit.save(layer, tmp_path / "net", SPEC, format="paddle")
    program = proa.interop.paddle.load(tmp_path / "net")
    outputs = program(proa.to_tensor(X))
    np.testing.assert_allclose(outputs[0].numpy(), wanted(layer)[0], rtol=1e-6)
    text = (tmp_path / "net.pdmodel").read_bytes()
    for name in ("score", "hidden", "same", "heads.0.logits"):
        assert name.encode() in text
