"""What Paddle Inference offers for other devices and engines than this one.

Programs name these methods. What would select a device raises, so that nobody waits for
a GPU in vain; queries say no.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Protocol, TypeVar

from proa.errors import UnimplementedError

_T = TypeVar("_T")


class Refusal(Protocol):
    """Whatever it is called with, it raises."""

    def __call__(self, *arguments: object, **options: object) -> NoReturn: ...


def refused(name: str, what: str) -> Refusal:
    """A method or function `name` that raises, as there is no `what` here."""

    def refuse(*arguments: object, **options: object) -> NoReturn:
        raise UnimplementedError(
            f"[{name}] expected a predictor on the CPU, got a call for {what}"
        )

    refuse.__name__ = name.rpartition(".")[2]
    refuse.__doc__ = f"Raises an UnimplementedError: there is no {what} here."
    return refuse


def _answer(value: _T, what: str) -> Callable[[object], _T]:
    def answer(_: object) -> _T:
        return value

    answer.__doc__ = f"{value!r}: there is no {what} here."
    return answer


def _refused(name: str, what: str) -> Refusal:
    return refused(f"Config.{name}", what)


_INT8 = "int8 arithmetic for a model in float32, which proa_slim quantizes,"
_MIXED = "arithmetic in 16 bits of a GPU"


class Devices:
    """Methods of a Config that concern other devices and engines."""

    enable_use_gpu = _refused("enable_use_gpu", "GPU")
    enable_gpu_multi_stream = _refused("enable_gpu_multi_stream", "GPU")
    enable_cudnn = _refused("enable_cudnn", "cuDNN")
    exp_enable_use_cutlass = _refused("exp_enable_use_cutlass", "CUTLASS")
    use_gpu = _answer(False, "GPU")
    cudnn_enabled = _answer(False, "cuDNN")
    thread_local_stream_enabled = _answer(False, "GPU")
    gpu_device_id = _answer(0, "GPU")
    memory_pool_init_size_mb = _answer(0, "GPU")
    fraction_of_gpu_memory_for_pool = _answer(0.0, "GPU")

    enable_xpu = _refused("enable_xpu", "XPU")
    set_xpu_device_id = _refused("set_xpu_device_id", "XPU")
    set_xpu_config = _refused("set_xpu_config", "XPU")
    xpu_config = _refused("xpu_config", "XPU")
    use_xpu = _answer(False, "XPU")
    xpu_device_id = _answer(0, "XPU")

    enable_ipu = _refused("enable_ipu", "IPU")
    set_ipu_config = _refused("set_ipu_config", "IPU")
    set_ipu_custom_info = _refused("set_ipu_custom_info", "IPU")
    load_ipu_config = _refused("load_ipu_config", "IPU")

    enable_custom_device = _refused("enable_custom_device", "custom device")
    enable_opencl = _refused("enable_opencl", "OpenCL")
    use_opencl = _answer(False, "OpenCL")
    enable_dlnne = _refused("enable_dlnne", "DLNNE")
    nnadapter = _refused("nnadapter", "NNAdapter")
    set_dist_config = _refused("set_dist_config", "model on several machines")
    dist_config = _refused("dist_config", "model on several machines")
    to_native_config = _refused("to_native_config", "second engine")

    enable_tensorrt_engine = _refused("enable_tensorrt_engine", "TensorRT")
    enable_tensorrt_memory_optim = _refused("enable_tensorrt_memory_optim", "TensorRT")
    set_trt_dynamic_shape_info = _refused("set_trt_dynamic_shape_info", "TensorRT")
    mark_trt_engine_outputs = _refused("mark_trt_engine_outputs", "TensorRT")
    enable_tensorrt_varseqlen = _refused("enable_tensorrt_varseqlen", "TensorRT")
    enable_tuned_tensorrt_dynamic_shape = _refused(
        "enable_tuned_tensorrt_dynamic_shape", "TensorRT"
    )
    collect_shape_range_info = _refused("collect_shape_range_info", "TensorRT")
    exp_disable_tensorrt_ops = _refused("exp_disable_tensorrt_ops", "TensorRT")
    enable_tensorrt_dla = _refused("enable_tensorrt_dla", "TensorRT")
    enable_tensorrt_inspector = _refused("enable_tensorrt_inspector", "TensorRT")
    enable_tensorrt_explicit_quantization = _refused(
        "enable_tensorrt_explicit_quantization", "TensorRT"
    )
    set_tensorrt_optimization_level = _refused(
        "set_tensorrt_optimization_level", "TensorRT"
    )
    tensorrt_precision_mode = _refused("tensorrt_precision_mode", "TensorRT")
    tensorrt_optimization_level = _answer(0, "TensorRT")
    tensorrt_engine_enabled = _answer(False, "TensorRT")
    tensorrt_dynamic_shape_enabled = _answer(False, "TensorRT")
    tensorrt_varseqlen_enabled = _answer(False, "TensorRT")
    tensorrt_dla_enabled = _answer(False, "TensorRT")
    tensorrt_inspector_enabled = _answer(False, "TensorRT")
    tensorrt_explicit_quantization_enabled = _answer(False, "TensorRT")
    tuned_tensorrt_dynamic_shape = _answer(False, "TensorRT")
    trt_allow_build_at_runtime = _answer(False, "TensorRT")
    shape_range_info_collected = _answer(False, "TensorRT")
    shape_range_info_path = _answer("", "TensorRT")

    enable_quantizer = _refused("enable_quantizer", _INT8)
    quantizer_config = _refused("quantizer_config", _INT8)
    exp_enable_mixed_precision_ops = _refused("exp_enable_mixed_precision_ops", _MIXED)
    enable_low_precision_io = _refused("enable_low_precision_io", _MIXED)

    def disable_gpu(self) -> None:
        """The predictor runs on the CPU; this changes nothing."""


class XpuConfig:
    """Settings of an XPU, which there is not: to make one raises UnimplementedError."""

    __init__ = refused("XpuConfig", "XPU")


class InternalUtils:
    """Settings of TensorRT by name; each raises UnimplementedError."""

    set_transformer_posid = staticmethod(
        refused("InternalUtils.set_transformer_posid", "TensorRT")
    )
    set_transformer_maskid = staticmethod(
        refused("InternalUtils.set_transformer_maskid", "TensorRT")
    )
    disable_tensorrt_half_ops = staticmethod(
        refused("InternalUtils.disable_tensorrt_half_ops", "TensorRT")
    )


def get_trt_compile_version() -> tuple[int, int, int]:
    """(0, 0, 0): built without TensorRT."""
    return 0, 0, 0


def get_trt_runtime_version() -> tuple[int, int, int]:
    """(0, 0, 0): runs without TensorRT."""
    return 0, 0, 0
