"""Slices of symbolic bounds, which NumPy's rules limit, as models of other formats:
what was written is loaded, recorded for every size and saved again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.interop import paddle
from proa.static import InputSpec

pytest.importorskip("onnx")
pytest.importorskip("google.protobuf")

RNG = np.random.default_rng(0)
#: Bounds that follow from a size m of another array, and their own axis's n.
BOUNDS: dict[str, Any] = {
    ":m": lambda n, m: slice(None, m),
    "m:": lambda n, m: slice(m, None),
    "-m:": lambda n, m: slice(-m, None),
    ":-m": lambda n, m: slice(None, -m),
    "m-3:m": lambda n, m: slice(m - 3, m),
    "-m-3:-m": lambda n, m: slice(-m - 3, -m),
    "3-m:": lambda n, m: slice(3 - m, None),
    "m//2-2:m*2": lambda n, m: slice(m // 2 - 2, m * 2),
    "m::-1": lambda n, m: slice(m, None, -1),
    "n-m:": lambda n, m: slice(n - m, None),
    "m//2-n:": lambda n, m: slice(m // 2 - n, None),
    ":n//2-m": lambda n, m: slice(None, n // 2 - m),
}
#: n and m.
SIZES = ((5, 2), (3, 4), (4, 4), (1, 1), (6, 9), (7, 1))


class Sliced(proa.nn.Layer):
    def __init__(self, bounds: Any) -> None:
        super().__init__()
        self.bounds = bounds
        self.factor = self.create_parameter(
            [1], default_initializer=proa.nn.initializer.Constant(2.0)
        )

    def forward(self, x: Any, like: Any) -> Any:
        return (x * self.factor)[:, self.bounds(x.shape[1], like.shape[0])]


def written(layer: Any, kind: str, path: Path, specs: Any) -> Any:
    """What is loaded of a layer that was exported."""
    if kind == "paddle":
        paddle.save(layer, path, specs)
        return paddle.load(path)
    proa.onnx.export(layer, path, specs, opset_version=int(kind[4:]))
    return proa.onnx.load(f"{path}.onnx")


@pytest.mark.parametrize("kind", ["onnx12", "onnx17", "paddle"])
@pytest.mark.parametrize("name", BOUNDS)
def test_an_exported_slice_is_saved_for_every_size(
    name: str, kind: str, tmp_path: Path
) -> None:
    specs = [InputSpec([None, None], name="x"), InputSpec([None, 1], name="like")]
    once = written(Sliced(BOUNDS[name]), kind, tmp_path / "once", specs)
    twice = written(once, kind, tmp_path / "twice", once.input_spec)
    proa.jit.save(twice, tmp_path / "m.proa", twice.input_spec)
    saved = proa.jit.load(tmp_path / "m.proa")
    for n, m in SIZES:
        x = RNG.standard_normal((2, n)).astype(np.float32)
        found = saved(proa.to_tensor(x), proa.zeros([m, 1])).numpy()
        np.testing.assert_array_equal(found, 2 * x[:, BOUNDS[name](n, m)])
