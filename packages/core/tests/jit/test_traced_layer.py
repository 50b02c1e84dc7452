"""TracedLayer and TranslatedLayer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError
from proa.jit import TracedLayer, TranslatedLayer


class Two(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: proa.Tensor) -> tuple[proa.Tensor, proa.Tensor]:
        y = self.fc(x)
        return y, proa.tanh(y)


@pytest.mark.feature("L202")
def test_a_layer_is_traced_once_and_saved(tmp_path: Path):
    layer = Two()
    x = proa.to_tensor(np.random.default_rng(0).normal(size=(4, 3)).astype("float32"))
    outputs, traced = TracedLayer.trace(layer, inputs=[x])
    for got, again, want in zip(outputs, traced([x]), layer(x), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)
        np.testing.assert_allclose(again.numpy(), want.numpy(), rtol=1e-6)
    traced.set_strategy()
    traced.save_inference_model(tmp_path / "both")
    traced.save_inference_model(tmp_path / "one", feed=[0], fetch=[1])
    assert len(proa.jit.load(tmp_path / "both")(x)) == 2
    only = proa.jit.load(tmp_path / "one")(x)
    np.testing.assert_allclose(only.numpy(), layer(x)[1].numpy(), rtol=1e-6)
    with pytest.raises(InvalidArgumentError, match="feed must name all 1"):
        traced.save_inference_model(tmp_path / "none", feed=[])


@pytest.mark.feature("L207")
def test_a_model_is_saved_under_a_files_prefix(tmp_path: Path):
    _, traced = TracedLayer.trace(Two(), inputs=[proa.ones([4, 3])])
    traced.save_inference_model(str(tmp_path / "deep" / "model"))
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["model.proa"]
    assert not (tmp_path / "deep" / "model").exists()


def test_a_translated_layer_takes_other_weights():
    layer = Two()
    x = proa.ones([1, 3])
    _, traced = TracedLayer.trace(layer, [x])
    name = next(n for n, t in layer.named_parameters() if t.ndim == 2)
    other = TranslatedLayer(
        programs={"forward": traced.program},
        persistable_vars={name: proa.zeros([3, 2])},
    )
    np.testing.assert_allclose(other(x)[0].numpy(), [layer.fc.bias.numpy()])
