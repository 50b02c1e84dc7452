"""Paddle programs written message by message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from proa.base.safetensors import Stored
from proa.interop.paddle import write_stream
from proa.interop.paddle.proto import message

#: Data types by their numbers in the format.
CODES = {
    "bool": 0, "int16": 1, "int32": 2, "int64": 3, "float32": 5, "float64": 6,
    "uint8": 20, "int8": 21,
}  # fmt: skip


class Block:
    """A block to which variables and operators are added."""

    def __init__(self, program: ProgramFile, parent: int) -> None:
        self.program = program
        self.desc = program.message.blocks.add()
        self.desc.idx, self.desc.parent_idx = len(program.message.blocks) - 1, parent

    def var(
        self, name: str, shape: Any = None, dtype: str = "float32", kind: int = 7,
        persistable: bool = False,
    ) -> str:  # fmt: skip
        variable = self.desc.vars.add()
        variable.name, variable.type.type = name, kind
        variable.persistable = persistable
        if kind == 7:
            tensor = variable.type.lod_tensor.tensor
            tensor.data_type = CODES[dtype]
            tensor.dims.extend(shape or [])
        return name

    def op(self, kind: str, inputs: Any, outputs: Any, **attrs: Any) -> None:
        op = self.desc.ops.add()
        op.type = kind
        for slots, given in ((op.inputs, inputs), (op.outputs, outputs)):
            for name, arguments in given.items():
                slot = slots.add()
                slot.parameter = name
                names = [arguments] if isinstance(arguments, str) else arguments
                slot.arguments.extend(names)
                for each in names if slots is op.outputs else ():
                    if all(each != v.name for b in self.program.message.blocks
                           for v in b.vars):  # fmt: skip
                        self.var(each)
        for name, value in attrs.items():
            _add(op.attrs.add(), name, value)


def _add(attribute: Any, name: str, value: Any) -> None:
    attribute.name = name
    if isinstance(value, Block):
        attribute.type, attribute.block_idx = 8, value.desc.idx
    elif isinstance(value, bool):
        attribute.type, attribute.b = 6, value
    elif isinstance(value, int):
        attribute.type, attribute.i = 0, value
    elif isinstance(value, float):
        attribute.type, attribute.f = 1, value
    elif isinstance(value, str):
        attribute.type, attribute.s = 2, value
    elif value and isinstance(value[0], float):
        attribute.type = 4
        attribute.floats.extend(value)
    else:
        attribute.type = 3
        attribute.ints.extend(value)


class ProgramFile:
    """A program with feeds, fetches and parameters."""

    def __init__(self) -> None:
        self.message = message("ProgramDesc")
        self.main = Block(self, -1)
        self.main.var("feed", kind=9, persistable=True)
        self.main.var("fetch", kind=10, persistable=True)
        self.arrays: dict[str, Any] = {}
        self.feeds = self.fetches = 0

    def feed(
        self, name: str, shape: Any, dtype: str = "float32", levels: int = 0
    ) -> str:
        self.main.var(name, shape, dtype)
        self.main.desc.vars[-1].type.lod_tensor.lod_level = levels
        self.main.op("feed", {"X": "feed"}, {"Out": name}, col=self.feeds)
        self.feeds += 1
        return name

    def fetch(self, name: str) -> None:
        self.main.op("fetch", {"X": name}, {"Out": "fetch"}, col=self.fetches)
        self.fetches += 1

    def param(self, name: str, array: Any) -> str:
        array = np.asarray(array)
        self.arrays[name] = array
        return self.main.var(name, array.shape, array.dtype.name, persistable=True)

    def program(self) -> bytes:
        data: bytes = self.message.SerializeToString()
        return data

    def streams(self) -> dict[str, bytes]:
        return {
            name: write_stream(Stored(self.arrays[name], self.arrays[name].dtype.name))
            for name in sorted(self.arrays)
        }

    def parameters(self) -> bytes:
        return b"".join(self.streams().values())

    def save(self, prefix: Path) -> Path:
        prefix.with_name(prefix.name + ".pdmodel").write_bytes(self.program())
        prefix.with_name(prefix.name + ".pdiparams").write_bytes(self.parameters())
        return prefix


def linear(weight: Any, bias: Any) -> ProgramFile:
    """x @ weight + bias, as `nn.Linear` is saved."""
    file = ProgramFile()
    file.feed("x", [-1, len(weight)])
    file.param("linear_0.w_0", weight)
    file.param("linear_0.b_0", bias)
    file.main.op(
        "matmul_v2", {"X": "x", "Y": "linear_0.w_0"}, {"Out": "product"},
        trans_x=False, trans_y=False,
    )  # fmt: skip
    file.main.op(
        "elementwise_add", {"X": "product", "Y": "linear_0.b_0"}, {"Out": "y"}, axis=1
    )
    file.fetch("y")
    return file
