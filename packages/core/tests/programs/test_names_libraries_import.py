"""Names within Paddle's modules that libraries written for it import all the same."""

from __future__ import annotations

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError
from proa.nn.layer.norm import _BatchNormBase
from proa.nn.layer.transformer import (
    _convert_attention_mask,
    _convert_param_attr_to_list,
)
from proa.utils.download import _get_unique_endpoints


def test_batch_norms_are_found_by_their_base() -> None:
    network = nn.Sequential(
        nn.Conv2D(3, 4, 3), nn.BatchNorm2D(4), nn.SyncBatchNorm(4), nn.GroupNorm(2, 4)
    )
    found = [isinstance(layer, _BatchNormBase) for layer in network]
    assert found == [False, True, True, False]


def test_a_mask_becomes_what_is_added_to_scores() -> None:
    want = np.array([[0.0, -1e9], [0.0, 0.0]], np.float32)
    for dtype in ("bool", "int64"):
        mask = proa.to_tensor([[1, 0], [1, 1]]).astype(dtype)
        added = _convert_attention_mask(mask, "float32")
        assert added is not None
        np.testing.assert_array_equal(added.numpy(), want)
    already = _convert_attention_mask(proa.to_tensor(want), "float64")
    assert already is not None and already.dtype == proa.float64
    np.testing.assert_array_equal(already.numpy(), want)
    assert _convert_attention_mask(None, "float32") is None


def test_attributes_are_shared_out_to_parts() -> None:
    own = proa.ParamAttr(learning_rate=0.5)
    assert _convert_param_attr_to_list(own, 2) == [own, own]
    none, named = _convert_param_attr_to_list([False, "weight"], 2)
    assert none is False and named.name == "weight"
    assert isinstance(proa.ParamAttr._to_attr(None), proa.ParamAttr)
    assert proa.ParamAttr._to_attr(False) is False
    with pytest.raises(InvalidArgumentError, match="hold 3 attributes, got 1"):
        _convert_param_attr_to_list([own], 3)


def test_hooks_are_found_by_spectral_norms_of_libraries() -> None:
    layer = nn.Linear(2, 2)
    hook = layer.register_forward_pre_hook(lambda layer, given: None)
    assert len(layer._forward_pre_hooks) == 1
    assert not layer._forward_post_hooks
    hook.remove()
    assert not layer._forward_pre_hooks


def test_one_process_of_each_machine_downloads() -> None:
    ends = ["10.0.0.1:6170", "10.0.0.1:6171", "10.0.0.2:6170"]
    assert _get_unique_endpoints(ends) == {"10.0.0.1:6170", "10.0.0.2:6170"}
