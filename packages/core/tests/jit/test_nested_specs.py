"""Arguments that are lists and dictionaries of tensors, described by `InputSpec`s."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError
from proa.jit import InputSpec, to_static

RNG = np.random.default_rng(0)


class Detector(nn.Layer):
    """Takes its inputs as one dictionary, as the networks of PaddleDetection do."""

    def forward(self, inputs: dict[str, Any]) -> dict[str, Any]:
        boxes = inputs["image"].mean([2, 3]) * inputs["scale"]
        return {"boxes": boxes, "sizes": [boxes - part for part in inputs["parts"]]}


def specs() -> list[Any]:
    return [
        {
            "image": InputSpec([None, 3, 4, 4]),
            "scale": InputSpec([None, 1], name="factor"),
            "parts": [InputSpec([3]), InputSpec([None, 3])],
        }
    ]


def arrays(n: int) -> dict[str, Any]:
    image, scale = RNG.standard_normal((n, 3, 4, 4)), RNG.standard_normal((n, 1))
    parts = [RNG.standard_normal(3), RNG.standard_normal((n, 3))]
    return {
        "scale": scale.astype(np.float32),
        "parts": [part.astype(np.float32) for part in parts],
        "image": image.astype(np.float32),
    }


def tensors(given: Any) -> Any:
    if isinstance(given, dict):
        return {key: tensors(part) for key, part in given.items()}
    if isinstance(given, list):
        return [tensors(part) for part in given]
    return proa.to_tensor(given)


def want(given: dict[str, Any]) -> list[Any]:
    boxes = given["image"].mean((2, 3)) * given["scale"]
    return [boxes, *[boxes - part for part in given["parts"]]]


def test_one_trace_serves_dictionaries_in_any_order() -> None:
    layer = to_static(Detector(), input_spec=specs())
    layer.eval()
    for n in (1, 3):
        given = arrays(n)
        with proa.no_grad():
            got = layer(tensors(given))
        for one, other in zip([got["boxes"], *got["sizes"]], want(given), strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)
    assert len(layer.forward._cache) == 1


def test_a_model_takes_the_parts_one_after_another(tmp_path: Path) -> None:
    proa.jit.save(Detector(), str(tmp_path / "m"), specs())
    loaded = proa.jit.load(str(tmp_path / "m"))
    given = arrays(2)
    got = loaded(*tensors([given["image"], given["scale"], *given["parts"]]))
    for one, other in zip([got["boxes"], *got["sizes"]], want(given), strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)
    names = [value.name for value in loaded.program().main.inputs]
    assert names[:2] == ["image", "factor"]


def test_a_call_that_is_built_otherwise_is_refused() -> None:
    layer = to_static(Detector(), input_spec=specs())
    given = tensors(arrays(2))
    given["more"] = given["scale"]
    with pytest.raises(InvalidArgumentError, match="got 'more', which it lacks"):
        layer(given)


def test_what_is_no_tensor_may_be_among_specs() -> None:
    def power(x: Any, exponent: int) -> Any:
        return x**exponent

    f = to_static(power, input_spec=[InputSpec([None]), 3])
    x = np.array([1.0, -2.0], np.float32)
    np.testing.assert_array_equal(f(proa.to_tensor(x), 3).numpy(), x**3)
