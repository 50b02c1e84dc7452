"""Networks published for Paddle train and are exported with proa in its place.

Their sources come from the wheel of PaddleClas, which `nox -s test-full` installs
without what it depends on; `import paddle` gives proa there.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import proa
from proa import nn

from .published import as_paddle, check_learning_and_export

#: Where in `ppcls.arch.backbone` a network is; its name; edge of its images.
NETWORKS = [
    ("legendary_models.esnet", "ESNet_x0_25", 64),
    ("legendary_models.mobilenet_v1", "MobileNetV1_x0_25", 64),
    ("legendary_models.mobilenet_v3", "MobileNetV3_small_x0_35", 64),
    ("legendary_models.pp_hgnet_v2", "PPHGNetV2_B0", 64),
    ("legendary_models.pp_lcnet", "PPLCNet_x0_25", 64),
    ("legendary_models.resnet", "ResNet18", 64),
    ("model_zoo.cswin_transformer", "CSWinTransformer_tiny_224", 224),
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


@pytest.fixture(scope="module")
def published() -> Iterator[None]:
    backbone = "ppcls.arch.backbone"
    packages = ["ppcls", "ppcls.arch", backbone, "ppcls.utils", f"{backbone}.base"]
    packages += [f"{backbone}.{kind}" for kind in ("legendary_models", "model_zoo")]
    # Logging and downloads, which want further packages, and are not called here.
    helpers = ("config", "download", "logger", "save_load")
    absent = [f"ppcls.utils.{name}" for name in helpers]
    with as_paddle("paddleclas", packages, absent):
        yield


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
    check_learning_and_export(
        network,
        images,
        lambda logits: nn.functional.cross_entropy(logits, labels),
        optimizer,
        4,
        tmp_path / "network",
    )
