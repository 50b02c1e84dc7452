"""Runs exported models: by onnxruntime where it is installed and has the kernels, else
by the reference evaluator of the package `onnx`.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import proa
import proa.onnx

#: Whether the package is installed; the group `onnx-reference` has it.
HAS_RUNTIME = importlib.util.find_spec("onnxruntime") is not None


class NoKernelError(Exception):
    """Neither onnxruntime nor the evaluator can run a node."""


def run_by_runtime(path: Path, arrays: Sequence[Any]) -> list[Any]:
    """The model's outputs by onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error):
            raise NoKernelError(str(error)) from None
        raise
    names = [i.name for i in session.get_inputs()]
    try:
        return list(session.run(None, dict(zip(names, arrays, strict=True))))
    except Exception as error:
        if "not support double" in str(error):
            raise NoKernelError(str(error)) from None
        raise


#: Nodes that the evaluator of onnx 1.23 has not, or has wrong in some case, and the
#: last opset at which it is so.
_UNSOUND = {
    "BatchNormalization": 13, "ConvTranspose": 99, "DequantizeLinear": 18, "GRU": 99,
    "LSTM": 99, "Pad": 99, "QuantizeLinear": 18, "RNN": 99, "ReduceLogSumExp": 99,
    "Scan": 99, "Scatter": 10,
}  # fmt: skip


def run_by_reference(path: Path, arrays: Sequence[Any]) -> list[Any]:
    """The model's outputs by the evaluator of the package `onnx`."""
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(path)
    opset = model.opset_import[0].version
    ops = {n.op_type for n in model.graph.node}
    unsound = {op for op in ops if _UNSOUND.get(op, 0) >= opset}
    if any(a.size == 0 for a in arrays):  # np.average divides by the number of averages
        unsound |= ops & {"GlobalAveragePool"}
    if unsound:
        raise NoKernelError(f"the evaluator is not right about {sorted(unsound)}")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            evaluator = ReferenceEvaluator(str(path))
            feed = dict(zip(evaluator.input_names, arrays, strict=True))
            return list(evaluator.run(None, feed))
        except (RuntimeError, TypeError, ValueError) as error:
            raise NoKernelError(str(error)) from None


def _saturates(path: Path) -> bool:
    """Whether onnxruntime's products of uint8 and int8 saturate: on a CPU without VNNI,
    where it adds pairs of them in 16 bits.
    """
    if not any(n.op_type == "MatMulInteger" for n in onnx.load(path).graph.node):
        return False
    facts = Path("/proc/cpuinfo")
    return not facts.exists() or "vnni" not in facts.read_text()


def run_model(path: Path, arrays: Sequence[Any]) -> list[Any]:
    """The model's outputs."""
    if HAS_RUNTIME and not _saturates(path):
        try:
            return run_by_runtime(path, arrays)
        except NoKernelError:
            pass
    return run_by_reference(path, arrays)


def flat(outputs: Any) -> list[Any]:
    """Tensors out of a nesting of lists and tuples, as arrays."""
    if isinstance(outputs, (list, tuple)):
        return [array for part in outputs for array in flat(part)]
    return [outputs.numpy()]


def with_statistics(network: Any) -> Any:
    """The network, with random statistics in its batch normalisation."""
    rng = np.random.default_rng(0)
    for name, buffer in network.named_buffers():
        if name.endswith("_mean"):
            value = rng.normal(0, 0.1, buffer.shape)
        elif name.endswith("_variance"):
            value = rng.uniform(0.5, 1.5, buffer.shape)
        else:
            continue
        buffer.set_value(value.astype(np.float32))
    return network


def check_layer(
    path: Path,
    layer: Any,
    specs: Sequence[Any],
    calls: Sequence[Sequence[Any]],
    opset: int,
    rtol: float = 1e-5,
) -> None:
    """Export a Layer, and compare what the model gives with what the Layer does: each
    output to `rtol` of its greatest element.
    """
    proa.onnx.export(layer, path, specs, opset_version=opset)
    if hasattr(layer, "eval"):
        layer.eval()
    for arrays in calls:
        want = flat(layer(*(proa.to_tensor(a) for a in arrays)))
        try:
            got = run_model(path, arrays)
        except NoKernelError as error:
            if HAS_RUNTIME:
                raise
            pytest.skip(str(error))
        assert len(got) == len(want)
        for ours, theirs in zip(want, got, strict=True):
            assert theirs.shape == ours.shape
            assert theirs.dtype == ours.dtype
            if ours.dtype.kind == "f" and ours.size:
                atol = rtol * max(float(np.abs(ours).max()), 1e-3)
                np.testing.assert_allclose(theirs, ours, rtol=0, atol=atol)
            else:
                np.testing.assert_array_equal(theirs, ours)
