"""A model and its int8 form side by side, layer by layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import proa
import proa_slim as slim
from proa import nn
from proa_inference import Config, compare_models
from proa_inference.cli import main


@pytest.mark.feature("L553")
def test_an_int8_model_is_compared_with_the_original(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proa.seed(0)
    network = nn.Sequential(
        nn.Conv2D(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2D(2, 2), nn.Flatten(),
        nn.Linear(8 * 16, 10),
    )  # fmt: skip
    network.eval()
    spec = [proa.static.InputSpec([None, 1, 8, 8], "float32", "image")]
    rng = np.random.default_rng(0)
    batches = [rng.standard_normal((8, 1, 8, 8), np.float32) for _ in range(4)]
    exact, small = tmp_path / "exact.proa", tmp_path / "int8.proa"
    proa.jit.save(network, exact, spec)
    model = slim.quant_post_static(network, spec, batches)
    model.save(small)

    found = compare_models(Config(exact), Config(small), [batches[0]])
    (end,) = [d for d in found if d.is_output]
    want = network(proa.to_tensor(batches[0])).numpy()
    noise = model(batches[0]) - want
    ratio = 10 * np.log10((want**2).sum() / (noise**2).sum())
    assert end.snr_db == pytest.approx(ratio, abs=0.1)
    assert end.op[0] != end.op[1]
    assert 15 < end.snr_db < 60

    weights = {"image": batches[1]}
    np.savez(tmp_path / "in.npz", **weights)
    command = ["compare", str(exact), str(small), "--input", str(tmp_path / "in.npz")]
    assert main(command) == 0
    assert "(output)" in capsys.readouterr().out
