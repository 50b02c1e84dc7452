"""Flags of PaddlePaddle: stored ones are reported, unknown ones refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import proa


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    names = ["FLAGS_cudnn_deterministic", "FLAGS_conv_workspace_size_limit",
             "FLAGS_fraction_of_gpu_memory_to_use", "FLAGS_selected_gpus"]  # fmt: skip
    before = proa.get_flags(names)
    yield
    proa.set_flags(before)


#: Public flags with the defaults that PaddlePaddle's guide gives.
DEFAULTS: dict[str, Any] = {
    "allocator_strategy": "auto_growth", "benchmark": False, "cpu_deterministic": False,
    "conv_workspace_size_limit": 512, "cudnn_batchnorm_spatial_persistent": False,
    "cudnn_deterministic": False, "cudnn_exhaustive_search": False,
    "communicator_send_queue_size": 20, "dist_threadpool_size": 0,
    "eager_delete_scope": True, "eager_delete_tensor_gb": 0.0,
    "fast_eager_deletion_mode": True, "fraction_of_cpu_memory_to_use": 1.0,
    "fraction_of_gpu_memory_to_use": 0.92, "initial_cpu_memory_in_mb": 500,
    "max_inplace_grad_add": 0, "memory_fraction_of_eager_deletion": 1.0,
    "paddle_num_threads": 1, "rpc_deadline": 180000, "selected_gpus": "",
    "sort_sum_gradient": False, "sync_nccl_allreduce": True,
    "tracer_profile_fname": "gperf", "use_mkldnn": False, "use_pinned_memory": True,
}  # fmt: skip


@pytest.mark.parametrize("name", DEFAULTS)
def test_public_flags_have_their_defaults(name: str) -> None:
    (got,) = proa.get_flags(f"FLAGS_{name}").values()
    assert got == DEFAULTS[name] and type(got) is type(DEFAULTS[name])


def test_stored_flags_are_reported_in_their_type() -> None:
    given = {
        "FLAGS_cudnn_deterministic": "1",
        "FLAGS_conv_workspace_size_limit": 1024,
        "FLAGS_fraction_of_gpu_memory_to_use": 1,
        "FLAGS_selected_gpus": "0,1",
    }
    proa.set_flags(given)
    assert proa.get_flags(list(given)) == {
        "FLAGS_cudnn_deterministic": True,
        "FLAGS_conv_workspace_size_limit": 1024,
        "FLAGS_fraction_of_gpu_memory_to_use": 1.0,
        "FLAGS_selected_gpus": "0,1",
    }


@pytest.mark.parametrize("value", ["many", 1.5, None, [1], True])
def test_a_value_of_another_type_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"conv_workspace_size_limit.* int, got"):
        proa.set_flags({"FLAGS_conv_workspace_size_limit": value})


def test_unknown_flags_are_refused_with_similar_names() -> None:
    with pytest.raises(ValueError, match="FLAGS_cudnn_deterministic"):
        proa.set_flags({"FLAGS_cudnn_determinstic": True})
    with pytest.raises(ValueError, match="FLAGS_nothing"):
        proa.get_flags("FLAGS_nothing")


def test_the_environment_sets_stored_flags() -> None:
    program = "import proa; print(proa.get_flags('FLAGS_rpc_deadline'))"
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "FLAGS_rpc_deadline": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "{'FLAGS_rpc_deadline': 7}"
