"""Networks of Paddle's collections are exported whole, with suppression of boxes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.jit import InputSpec

pytest.importorskip("onnx")
from .collection_networks import Ernie, FasterRCNN, PPOcr, PPYolo
from .exported import check_layer, with_statistics

Arrays = list[Any]


def pictures(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def words(n: int, length: int) -> Arrays:
    rng = np.random.default_rng(0)
    return [rng.integers(0, high, (n, length)) for high in (50, 4, 3)]


def sizes(n: int, *size: int, dtype: str) -> Any:
    return np.tile(np.array([size], dtype), (n, 1))


#: The network, its inputs, and calls of it.
CASES: dict[str, tuple[Callable[[], Any], list[InputSpec], list[Arrays]]] = {
    "PP-YOLO": (
        PPYolo,
        [InputSpec([None, 3, 96, 96], name="image"),
         InputSpec([None, 2], "int32", "size")],
        [[pictures(n, 3, 96, 96, seed=n), sizes(n, 96, 96, dtype="i4")]
         for n in (1, 2)],
    ),
    "Faster R-CNN": (
        FasterRCNN,
        [InputSpec([1, 3, 128, 192], name="image"), InputSpec([1, 2], name="size")],
        [[pictures(1, 3, 128, 192, seed=s), sizes(1, 128, 192, dtype="f4")]
         for s in (0, 1)],
    ),
    "PP-OCR": (
        PPOcr,
        [InputSpec([None, 3, None, None], name="image"),
         InputSpec([None, 3, 32, None], name="lines")],
        [[pictures(1, 3, 64, 96), pictures(2, 3, 32, 100)],
         [pictures(2, 3, 32, 64), pictures(1, 3, 32, 320)]],
    ),
    "ERNIE": (
        Ernie,
        [InputSpec([None, None], "int64", name) for name in ("ids", "kinds", "tasks")],
        [words(2, 9), words(1, 5)],
    ),
}  # fmt: skip


@pytest.mark.feature("L280")
@pytest.mark.parametrize(
    ("name", "opset"),
    [*((name, opset) for name in CASES for opset in (11, 13, 17)), ("ERNIE", 9)],
)
def test_a_network_of_paddles_collections(
    name: str, opset: int, tmp_path: Path
) -> None:
    make, specs, calls = CASES[name]
    proa.seed(1)
    network = with_statistics(make())
    network.eval()
    for arrays in calls:  # there is something to choose
        found = network(*(proa.to_tensor(a) for a in arrays))
        assert all(len(out.numpy()) > 0 for out in found)
    check_layer(tmp_path / "m.onnx", network, specs, calls, opset)
