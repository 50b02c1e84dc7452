"""What runs a model file: us, onnxruntime, OpenVINO and ncnn.

An engine takes the files of a model and returns a function without arguments that runs
it once on given arrays. A package that is missing is an ImportError, a form that an
engine does not have an `Unsupported`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from infer_models import Arrays, Files

Run = Callable[[], list[np.ndarray]]


class Unsupported(Exception):
    """The engine has no such form of the model."""


def _proa(
    files: Files,
    names: list[str],
    arrays: Arrays,
    how: str,
    n: int,
    cache: Path | None = None,
) -> Run:
    from proa_inference import Config, create_predictor

    config = Config(os.fspath(files.proa))
    if cache is not None:
        config.set_optim_cache_dir(cache)
        config.enable_save_optim_model()
    config.disable_glog_info()
    config.set_cpu_math_library_num_threads(n)
    if how == "bf16":
        enable = getattr(config, "enable_bf16", None)
        if enable is None:
            raise Unsupported("proa_inference has no bf16")
        enable()
    predictor = create_predictor(config)
    return lambda: predictor.run(arrays)


def _proa_again(
    files: Files, names: list[str], arrays: Arrays, how: str, n: int
) -> Run:
    """What an earlier load saved."""
    return _proa(files, names, arrays, how, n, files.proa.parent / "saved")


def _onnxruntime(
    files: Files, names: list[str], arrays: Arrays, how: str, n: int
) -> Run:
    import onnxruntime as ort

    if how == "bf16":
        raise Unsupported("onnxruntime computes bf16 models on GPUs")
    options = ort.SessionOptions()
    options.intra_op_num_threads = n
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(
        os.fspath(files.onnx), options, providers=["CPUExecutionProvider"]
    )
    feed = dict(zip(names, arrays, strict=True))
    return lambda: session.run(None, feed)  # type: ignore[no-any-return]


def _openvino(files: Files, names: list[str], arrays: Arrays, how: str, n: int) -> Run:
    import openvino

    core = openvino.Core()
    hints = {
        "INFERENCE_NUM_THREADS": n,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "bf16" if how == "bf16" else "f32",
    }
    model = core.read_model(os.fspath(files.onnx))
    # Sizes that are known are its faster form.
    model.reshape({k: list(a.shape) for k, a in zip(names, arrays, strict=True)})
    request = core.compile_model(model, "CPU", hints).create_infer_request()
    for name, array in zip(names, arrays, strict=True):
        request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
    count = len(model.outputs)

    def run() -> list[np.ndarray]:
        request.infer()
        return [request.get_output_tensor(i).data for i in range(count)]

    return run


def _ncnn(files: Files, names: list[str], arrays: Arrays, how: str, n: int) -> Run:
    import ncnn

    if how == "int8" or len(arrays) > 1 or arrays[0].dtype != np.float32:
        raise Unsupported("ncnn takes images of float32 here")
    if arrays[0].shape[0] != 1:
        raise Unsupported("ncnn has no batch")
    param = _converted(files.onnx, arrays[0].shape)
    net = ncnn.Net()
    net.opt.num_threads = n
    net.opt.use_fp16_storage = net.opt.use_fp16_packed = False
    net.opt.use_fp16_arithmetic = False
    net.opt.use_bf16_storage = how == "bf16"
    if net.load_param(os.fspath(param)) or net.load_model(
        os.fspath(param.with_suffix(".bin"))
    ):
        raise Unsupported("ncnn does not read what pnnx wrote")
    given, wanted = net.input_names()[0], net.output_names()
    x = ncnn.Mat(arrays[0][0])

    def run() -> list[np.ndarray]:
        extractor = net.create_extractor()
        extractor.input(given, x)
        return [np.array(extractor.extract(name)[1]) for name in wanted]

    return run


def _converted(onnx: Path, shape: tuple[int, ...]) -> Path:
    """The model in ncnn's form, by pnnx."""
    param = onnx.with_suffix(".ncnn.param")
    program = shutil.which("pnnx")
    if program is None:
        raise ImportError("the package pnnx")
    if not param.exists():
        sizes = ",".join(map(str, shape))
        command = [program, onnx.name, f"inputshape=[{sizes}]f32", "fp16=0"]
        subprocess.run(command, cwd=onnx.parent, capture_output=True, timeout=600)
    if not param.exists():
        raise Unsupported("pnnx does not convert it")
    return param


#: Ours first; a peer whose package is missing is left out.
ENGINES: dict[str, Callable[[Files, list[str], Arrays, str, int], Run]] = {
    "proa": _proa,
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
    "ncnn": _ncnn,
}
#: Further ways to load, which are not timed otherwise.
LOADS = {**ENGINES, "proa again": _proa_again}


def runner(
    engine: str,
    files: Files,
    names: list[str],
    arrays: Arrays,
    precision: str,
    threads: int,
) -> Run:
    """Load a model and return what runs it on the arrays.

    Args:
        engine: A key of `LOADS`.
        files: The model.
        names: Names of its inputs.
        arrays: Their values.
        precision: "fp32", "int8" or "bf16".
        threads: How many.

    Raises:
        ImportError: If a package is missing.
        Unsupported: If the engine has no such form.
    """
    result: Any = LOADS[engine](files, names, arrays, precision, threads)
    run: Run = result
    return run
