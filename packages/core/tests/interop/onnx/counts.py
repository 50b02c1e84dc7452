"""How many of ONNX's own cases pass here, and how many in onnxruntime.

    cd packages && python -m core.tests.interop.onnx.counts

Both compute the same models with the same inputs, within the suite's tolerances.
What NumPy cannot hand to onnxruntime (bfloat16, floats of 8 bits and integers below) is
given to it as initializers, and such results are cast to float32 by the model.
"""

from __future__ import annotations

import collections
import warnings
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

from .test_backend import _backend, _cases, _failure, _opset

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")


def is_native(kind: int) -> bool:
    """Whether NumPy and onnxruntime have such elements in common."""
    return helper.tensor_dtype_to_np_dtype(kind).isbuiltin == 1


def _array(value: Any) -> Any:
    """What the suite gives as what onnxruntime takes."""
    if isinstance(value, list):
        return [_array(item) for item in value]
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


class OnnxruntimeRep:
    """A model in onnxruntime, as `ProaBackend` prepares one here."""

    def __init__(self, model: ModelProto) -> None:
        self.model = ModelProto.FromString(model.SerializeToString())
        self.wide: dict[int, int] = {}
        for at, info in enumerate(self.model.graph.output):
            kind = info.type.tensor_type.elem_type
            if info.type.HasField("tensor_type") and not is_native(kind):
                self._widen(at, info, kind)

    def _widen(self, at: int, info: Any, kind: int) -> None:
        """Cast an output to float32 at the end of the model."""
        self.wide[at], name = kind, info.name
        info.name += "_wide"
        info.type.tensor_type.elem_type = TensorProto.FLOAT
        node = helper.make_node("Cast", [name], [info.name], to=TensorProto.FLOAT)
        self.model.graph.node.append(node)

    def run(self, inputs: Any) -> list[Any]:
        """The model's outputs as arrays."""
        feed = {}
        for info, value in zip(list(self.model.graph.input), inputs, strict=False):
            array, kind = _array(value), info.type.tensor_type.elem_type
            if info.type.HasField("tensor_type") and not is_native(kind):
                tensor = numpy_helper.from_array(array, info.name)
                self.model.graph.initializer.append(tensor)
                self.model.graph.input.remove(info)
            else:
                feed[info.name] = array
        session = onnxruntime.InferenceSession(
            self.model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        found = list(session.run(None, feed))
        for at, kind in self.wide.items():
            found[at] = found[at].astype(helper.tensor_dtype_to_np_dtype(kind))
        return found


class OnnxruntimeBackend:
    """Prepares models for onnxruntime."""

    @staticmethod
    def prepare(model: ModelProto) -> OnnxruntimeRep:
        return OnnxruntimeRep(model)


def main() -> None:
    """Print a table."""
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(4)
    ours = _backend()
    counts: dict[str, collections.Counter[str]] = {}
    alone = []
    for kind in KINDS:
        for case in _cases(kind):
            if "gradient_of" in case.name:
                continue
            own = _failure(ours, case) is None
            theirs = _failure(OnnxruntimeBackend, case) is None
            groups = [kind]
            if kind == "node":
                opset = _opset(case)
                groups += [
                    f"core, opset <= {n}" for n in (17, 21) if (opset or 99) <= n
                ]
            for group in groups:
                counter = counts.setdefault(group, collections.Counter())
                counter.update(cases=1, proa=own, onnxruntime=theirs)
            if theirs and not own:
                alone.append(case.name)
    for group, counter in counts.items():
        print(f"{group:20}", *(f"{n:5}" for n in counter.values()))
    print(f"onnxruntime {onnxruntime.__version__} alone passes", *alone)


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        main()
