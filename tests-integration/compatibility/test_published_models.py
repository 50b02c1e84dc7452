"""Networks published for Paddle train and are exported with proa in its place.

Their sources come from the wheel of PaddleClas, which `nox -s test-full` installs
without what it depends on; `import paddle` gives proa there.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.static import InputSpec

#: Where in `ppcls.arch.backbone` a network is; its name; edge of its images.
NETWORKS = [
    ("legendary_models.esnet", "ESNet_x0_25", 64),
    ("legendary_models.mobilenet_v1", "MobileNetV1_x0_25", 64),
    ("legendary_models.mobilenet_v3", "MobileNetV3_small_x0_35", 64),
    ("legendary_models.pp_hgnet_v2", "PPHGNetV2_B0", 64),
    ("legendary_models.pp_lcnet", "PPLCNet_x0_25", 64),
    ("legendary_models.resnet", "ResNet18", 64),
    ("model_zoo.densenet", "DenseNet121", 64),
    ("model_zoo.efficientnet", "EfficientNetB0_small", 64),
    ("model_zoo.ghostnet", "GhostNet_x0_5", 64),
    ("model_zoo.hardnet", "HarDNet39_ds", 64),
    ("model_zoo.micronet", "MicroNet_M0", 64),
    ("model_zoo.mobilevit", "MobileViT_XXS", 64),
    ("model_zoo.pvt_v2", "PVT_V2_B0", 64),
    ("model_zoo.rednet", "RedNet26", 64),
    ("model_zoo.regnet", "RegNetX_200MF", 64),
    ("model_zoo.rexnet", "ReXNet_1_0", 64),
    ("model_zoo.se_resnet_vd", "SE_ResNet18_vd", 64),
    ("model_zoo.shufflenet_v2", "ShuffleNetV2_x0_25", 64),
    ("model_zoo.squeezenet", "SqueezeNet1_0", 64),
    ("model_zoo.van", "VAN_B0", 64),
]


class _Paddle(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `paddle` and its submodules: they are proa's."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] != "paddle":
            return None
        return importlib.util.spec_from_loader(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return importlib.import_module("proa" + spec.name.removeprefix("paddle"))

    def exec_module(self, module: ModuleType) -> None:
        pass


def _package(name: str, folder: Path) -> ModuleType:
    """A package whose own __init__.py, which imports everything, is left out."""
    module = ModuleType(name)
    module.__path__ = [str(folder.joinpath(*name.split(".")))]
    return module


@pytest.fixture(scope="module")
def published() -> Iterator[None]:
    found = importlib.util.find_spec("paddleclas")
    assert found is not None and found.submodule_search_locations, (
        "paddleclas is needed"
    )
    folder = Path(found.submodule_search_locations[0])
    before, finder = dict(sys.modules), _Paddle()
    backbone = "ppcls.arch.backbone"
    packages = ["ppcls", "ppcls.arch", backbone, "ppcls.utils", f"{backbone}.base"]
    packages += [f"{backbone}.{kind}" for kind in ("legendary_models", "model_zoo")]
    for name in packages:
        sys.modules[name] = _package(name, folder)
    # Logging and downloads, which want further packages, and are not called here.
    for name in ("config", "download", "logger", "save_load"):
        helper: Any = ModuleType(f"ppcls.utils.{name}")
        helper.__getattr__ = lambda _: lambda *args, **kwargs: None
        sys.modules[helper.__name__] = helper
    sys.meta_path.insert(0, finder)
    yield
    sys.meta_path.remove(finder)
    for name in set(sys.modules) - set(before):
        if name.partition(".")[0] in ("paddle", "ppcls"):
            del sys.modules[name]


@pytest.mark.full
@pytest.mark.parametrize(("module", "name", "edge"), NETWORKS)
def test_a_published_network_trains_and_is_exported(
    published: None, module: str, name: str, edge: int, tmp_path: Path
) -> None:
    proa.seed(1)
    make = getattr(importlib.import_module(f"ppcls.arch.backbone.{module}"), name)
    network = make(pretrained=False, class_num=10)
    images = proa.randn([4, 3, edge, edge])
    labels = proa.to_tensor(np.arange(4))
    optimizer = proa.optimizer.Momentum(
        0.01, parameters=network.parameters(), weight_decay=1e-4
    )
    losses = []
    for _ in range(4):
        loss = nn.functional.cross_entropy(network(images), labels)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
    assert np.isfinite(losses).all()
    assert min(losses[1:]) < losses[0]
    network.eval()
    path = tmp_path / "network"
    spec = [InputSpec([None, 3, edge, edge], "float32")]
    proa.jit.save(network, str(path), spec)
    with proa.no_grad():
        want = network(images).numpy()
    got = proa.jit.load(str(path))(images).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
