"""proa_lite runs parts of a model inside the predictor of proa_inference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import proa
from proa_inference import Config, create_predictor

pytest.importorskip("proa_lite")

#: A partial sum of i of k products with random signs is y sqrt(i / k) for outputs of
#: root mean square y. Rounding adds an error uniform in u times that, u = 2^-24, at
#: each step: u y sqrt(k / 6) in all, by its standard deviation. Six of them a side.
ROUNDING = 6 * np.sqrt(2) * 2.0**-24 * np.sqrt(2048 / 6)


@pytest.mark.feature("L574")
@pytest.mark.parametrize("optimize", [True, False], ids=["passes", "plain"])
def test_resnet50_runs_in_lite_as_part_of_a_predictor(
    tmp_path: Path, optimize: bool
) -> None:
    proa.seed(3)
    network, path = proa.vision.models.resnet50(), tmp_path / "resnet50.proa"
    spec = [proa.static.InputSpec([None, 3, 64, 64], "float32", "image")]
    proa.jit.save(network, path, spec)
    config = Config(path)
    config.switch_ir_optim(optimize)
    plain = create_predictor(config)
    config.enable_lite_engine(ops_filter=["flatten", "linear", "linear_act"])
    assert config.lite_engine_enabled()
    predictor = create_predictor(config)
    for batch in (1, 2):
        x = np.random.default_rng(batch).standard_normal((batch, 3, 64, 64))
        image = x.astype(np.float32)
        (want,), (got,) = plain.run([image]), predictor.run([image])
        # Both round the same sums of 2048 products, each in its own order.
        atol = ROUNDING * float(np.sqrt(np.mean(want**2)))
        np.testing.assert_allclose(got, want, rtol=0, atol=atol)
    steps = [step.op for step in predictor.profile([image])]
    assert "proa_lite" in steps
    assert len(steps) < 5
