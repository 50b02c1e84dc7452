"""Names that programs for Paddle import besides the parts they use."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import proa
from proa import nn
from proa.base.version import installed_version
from proa.errors import UnavailableError


def test_framework_exports_the_names_programs_use() -> None:
    attr = proa.framework.ParamAttr(initializer=nn.initializer.Constant(2.0))
    np.testing.assert_array_equal(
        nn.Linear(2, 2, attr).weight.numpy(), np.full(4, 2.0).reshape(2, 2)
    )
    assert proa.framework.get_default_dtype() == "float32"
    assert proa.framework.load is proa.load


def test_the_version_has_three_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    parts = [proa.version.major, proa.version.minor, proa.version.patch]
    assert proa.__version__.startswith(parts[0])
    assert proa.version.full_version == proa.__version__
    assert not proa.version.cuda() and not proa.version.cudnn()
    proa.version.show()
    assert f"major: {parts[0]}" in capsys.readouterr().out


def test_no_device_but_the_cpu() -> None:
    compiled_with = [proa.is_compiled_with_cuda(), proa.is_compiled_with_npu(),
             proa.is_compiled_with_rocm(), proa.is_compiled_with_xpu()]  # fmt: skip
    assert compiled_with == [False] * 4
    assert proa.get_cudnn_version() is None
    proa.set_cuda_rng_state(proa.get_cuda_rng_state())
    with pytest.raises(UnavailableError, match="set_rng_state"):
        proa.set_cuda_rng_state([(1, 2)])


def test_layers_have_a_name_to_pass_on() -> None:
    class Pool(nn.AdaptiveAvgPool2D):
        def forward(self, x: proa.Tensor) -> proa.Tensor:
            return proa.mean(x, axis=[2, 3], keepdim=True, name=self._name)

    assert Pool(1)(proa.ones([1, 2, 3, 3])).shape == [1, 2, 1, 1]


def test_the_version_is_that_of_the_folder_of_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_version.cache_clear()
    try:
        monkeypatch.setattr(sys, "path", [str(tmp_path / "none"), str(tmp_path)])
        assert installed_version() == "0+source"
        for name in ("proa_slim-7.0", "proa-1.2.3+light", "proa.dist-info"):
            folder = tmp_path / f"{name}.dist-info"
            folder.mkdir()
            fields = f"Name: {name.split('-')[0]}\nVersion: {name.partition('-')[2]}\n"
            (folder / "METADATA").write_text(f"Metadata-Version: 2.1\n{fields}")
        installed_version.cache_clear()
        assert installed_version() == metadata.version("proa") == "1.2.3+light"
    finally:
        installed_version.cache_clear()
