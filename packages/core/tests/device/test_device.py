"""proa.device: what this build computes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import proa
from proa import device
from proa.errors import InvalidArgumentError, UnavailableError


def test_the_cpu_is_the_device() -> None:
    assert device.set_device("cpu") == proa.CPUPlace()
    assert device.get_device() == "cpu"
    assert device.get_available_device() == device.get_all_device_type() == ["cpu"]
    assert device.get_all_custom_device_type() == []
    assert device.get_available_custom_device() == []
    assert device.get_cudnn_version() is None
    device.synchronize()


def test_other_devices_are_not_built_in() -> None:
    assert not device.is_compiled_with_cuda()
    assert not device.is_compiled_with_rocm()
    assert not device.is_compiled_with_xpu()
    assert not device.is_compiled_with_npu()
    assert not device.is_compiled_with_ipu()
    assert not device.is_compiled_with_cinn()


def test_plugged_devices_are_not_built_in() -> None:
    assert not device.is_compiled_with_distribute()
    assert not device.is_compiled_with_custom_device("npu")


@pytest.mark.parametrize(
    "make",
    [
        lambda: device.XPUPlace(0),
        device.IPUPlace,
        lambda: device.CUDAPlace(0),
        lambda: device.set_device("xpu:0"),
    ],
)
def test_unavailable_devices_are_rejected(make: Callable[[], Any]) -> None:
    with pytest.raises(UnavailableError, match="expected an available device"):
        make()
    with pytest.raises(InvalidArgumentError):
        device.set_device("abacus")
