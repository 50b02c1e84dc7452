"""The tree of the API: where names are, what star imports give, modes, sequences."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.nn import functional as F
from proa.static import InputSpec

MODULES = [
    info.name
    for info in pkgutil.walk_packages(proa.__path__, "proa.")
    if "._" not in info.name
]
AREAS = ["amp", "autograd", "device", "distribution", "hapi", "hub", "io", "jit",
         "linalg", "metric", "nn", "nn.functional", "nn.initializer", "optimizer",
         "optimizer.lr", "profiler", "static", "text", "utils", "vision",
         "vision.transforms"]  # fmt: skip


@pytest.mark.feature("L225")
def test_every_module_can_be_imported_first() -> None:
    """A cycle of imports shows when the wrong module comes first."""
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    for loaded in [m for m in sys.modules if m.startswith('proa')"
        " and '_core' not in m]:\n"
        "        del sys.modules[loaded]\n"
        "    importlib.import_module(name)\n"
    )
    names = [f"proa.{area}" for area in AREAS]
    names += ["proa.static", "proa.nn.layer.conv", "proa.jit.trace", "proa.ir.record"]
    subprocess.run([sys.executable, "-c", program, *names], check=True, timeout=300)


@pytest.mark.feature("L226")
@pytest.mark.parametrize("area", AREAS)
def test_areas_hang_below_the_root(area: str) -> None:
    module: Any = proa
    for part in area.split("."):
        module = getattr(module, part)
    assert module is importlib.import_module(f"proa.{area}")
    assert module.__all__
    assert all(hasattr(module, name) for name in module.__all__)


@pytest.mark.feature("L229")
@pytest.mark.parametrize("name", MODULES)
def test_star_imports_give_public_names_alone(name: str) -> None:
    module = importlib.import_module(name)
    if not hasattr(module, "__all__"):
        return
    assert len(set(module.__all__)) == len(module.__all__)
    assert not [n for n in module.__all__ if n.startswith("_") and n != "__version__"]
    given: dict[str, Any] = {}
    exec(f"from {name} import *", given)
    given.pop("__builtins__")
    assert set(given) == set(module.__all__)


@pytest.mark.feature("L229")
@pytest.mark.parametrize("layers", ["loss", "conv"])
def test_modules_of_layers_hide_their_imports(layers: str) -> None:
    given: dict[str, Any] = {}
    exec(f"from proa.nn.layer.{layers} import *", given)
    given.pop("__builtins__")
    assert given
    assert all(isinstance(v, type) and issubclass(v, nn.Layer) for v in given.values())


X = np.random.RandomState(0).randn(2, 4, 6, 6).astype(np.float32)
# Each call with its sequence as a list and as a tuple gives the same.
SEQUENCES: dict[str, Callable[[Any, Any], Any]] = {
    "reshape": lambda x, of: proa.reshape(x, of([4, 2, 36])),
    "transpose": lambda x, of: proa.transpose(x, of([0, 2, 3, 1])),
    "sum": lambda x, of: proa.sum(x, axis=of([1, 2])),
    "mean": lambda x, of: proa.mean(x, axis=of([-1])),
    "max": lambda x, of: proa.max(x, axis=of([2, 3])),
    "concat": lambda x, of: proa.concat(of([x, x]), axis=1),
    "stack": lambda x, of: proa.stack(of([x, x])),
    "split": lambda x, of: proa.split(x, of([1, 3]), axis=1)[1],
    "tile": lambda x, of: proa.tile(x, of([1, 2, 1, 1])),
    "expand": lambda x, of: proa.expand(x, of([3, 2, 4, 6, 6])),
    "flip": lambda x, of: proa.flip(x, axis=of([2, 3])),
    "roll": lambda x, of: proa.roll(x, of([1, 2]), of([2, 3])),
    "squeeze": lambda x, of: proa.squeeze(x.unsqueeze(0), axis=of([0])),
    "unsqueeze": lambda x, of: proa.unsqueeze(x, axis=of([0, 3])),
    "slice": lambda x, of: proa.slice(x, of([1, 2]), of([0, 1]), of([2, 5])),
    "norm": lambda x, of: proa.norm(x, axis=of([2, 3])),
    "zeros": lambda x, of: proa.zeros(of([2, 3])),
    "full": lambda x, of: proa.full(of([2, 3]), 1.5),
    "to_tensor": lambda x, of: proa.to_tensor(of([1.0, 2.0])),
    "add_n": lambda x, of: proa.add_n(of([x, x])),
    "meshgrid": lambda x, of: proa.meshgrid(of([x[0, 0, 0], x[0, 0, 1]]))[0],
    "pad": lambda x, of: F.pad(x, of([1, 2, 0, 1])),
    "conv2d": lambda x, of: F.conv2d(
        x, x[:, :, :3, :3], stride=of([1, 2]), padding=of([1, 0]), dilation=of([1, 1])
    ),
    "max_pool2d": lambda x, of: F.max_pool2d(x, of([2, 3]), of([1, 2]), of([1, 0])),
    "avg_pool2d": lambda x, of: F.avg_pool2d(x, of([2, 3]), of([1, 2])),
    "adaptive_avg_pool2d": lambda x, of: F.adaptive_avg_pool2d(x, of([2, 3])),
    "interpolate": lambda x, of: F.interpolate(x, size=of([3, 8])),
    "layer_norm": lambda x, of: F.layer_norm(x, of([6, 6])),
    "Conv2D": lambda x, of: (
        nn.Conv2D(4, 3, of([3, 1]), of([1, 2]), of([1, 0]))(x).shape
    ),
    "LayerNorm": lambda x, of: nn.LayerNorm(of([6, 6]))(x),
    "InputSpec": lambda x, of: InputSpec(of([None, 3])).shape,
}


@pytest.mark.feature("L230")
@pytest.mark.parametrize("name", list(SEQUENCES))
def test_lists_and_tuples_are_taken_alike(name: str) -> None:
    x = proa.to_tensor(X)
    one, other = (SEQUENCES[name](x, of) for of in (list, tuple))
    np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.feature("L230")
def test_no_parameter_is_for_lists_or_for_tuples_alone() -> None:
    found = []
    for area in ("", *(f".{name}" for name in AREAS)):
        module = importlib.import_module(f"proa{area}")
        for name in module.__all__:
            try:
                parameters = inspect.signature(getattr(module, name)).parameters
            except (TypeError, ValueError):  # not callable, or C without one
                continue
            for p in parameters.values():
                if re.match(r"(list|tuple)\b[^|]*( \| None)?$", str(p.annotation)):
                    found.append(f"{name}({p.name})")
    assert set(found) <= {"set_rng_state(state)"}  # what get_rng_state gave


# Layers with the shape of their input, the first dimension being the batch.
LAYERS: dict[str, tuple[Callable[[], Any], list[int]]] = {
    "Linear": (lambda: nn.Linear(6, 3), [4, 6]),
    "Conv1D": (lambda: nn.Conv1D(4, 3, 3), [2, 4, 9]),
    "Conv2D": (lambda: nn.Conv2D(4, 3, 3, padding=1), [2, 4, 6, 6]),
    "Conv2DTranspose": (lambda: nn.Conv2DTranspose(4, 3, 3, 2), [2, 4, 5, 5]),
    "MaxPool2D": (lambda: nn.MaxPool2D(2), [2, 4, 6, 6]),
    "AvgPool2D": (lambda: nn.AvgPool2D(2), [2, 4, 6, 6]),
    "AdaptiveAvgPool2D": (lambda: nn.AdaptiveAvgPool2D(2), [2, 4, 6, 6]),
    "BatchNorm2D": (lambda: nn.BatchNorm2D(4), [2, 4, 6, 6]),
    "LayerNorm": (lambda: nn.LayerNorm(6), [2, 5, 6]),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), [2, 4, 6, 6]),
    "InstanceNorm2D": (lambda: nn.InstanceNorm2D(4), [2, 4, 6, 6]),
    "ReLU": (nn.ReLU, [2, 5]),
    "GELU": (nn.GELU, [2, 5]),
    "Hardswish": (nn.Hardswish, [2, 5]),
    "Softmax": (nn.Softmax, [2, 5]),
    "PReLU": (nn.PReLU, [2, 5]),
    "Dropout": (nn.Dropout, [2, 5]),
    "Flatten": (nn.Flatten, [2, 3, 4]),
    "Upsample": (lambda: nn.Upsample(scale_factor=2), [2, 3, 4, 4]),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), [2, 4, 3, 3]),
    "Pad2D": (lambda: nn.Pad2D(1), [2, 3, 4, 4]),
    "LSTM": (lambda: nn.LSTM(5, 4), [2, 6, 5]),
    "GRU": (lambda: nn.GRU(5, 4, direction="bidirect"), [2, 6, 5]),
    "MultiHeadAttention": (lambda: nn.MultiHeadAttention(8, 2), [2, 5, 8]),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16), [2, 5, 8],
    ),
    "Sequential": (lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU()), [3, 4]),
}  # fmt: skip


def first(value: Any) -> np.ndarray:
    return (value[0] if isinstance(value, (list, tuple)) else value).numpy()


@pytest.mark.feature("L228")
@pytest.mark.parametrize("name", list(LAYERS))
def test_layers_compute_the_same_in_both_modes(name: str) -> None:
    make, shape = LAYERS[name]
    proa.seed(0)
    layer = make()
    layer.eval()
    x = proa.randn(shape)
    with proa.no_grad():
        want = first(layer(x))
        spec = [InputSpec([None, *shape[1:]], "float32")]
        recorded = proa.jit.to_static(layer, input_spec=spec)
        got = first(recorded(x))
        larger = first(recorded(proa.concat([x, x])))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert larger.shape[0] == 2 * shape[0]
