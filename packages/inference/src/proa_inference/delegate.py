"""Engines that run a part of a graph in place of Proa's own.

A delegate says which nodes it takes. The predictor gathers them into parts as large as
their order allows, and gives each as a program of its own.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import proa
from proa.errors import UnavailableError
from proa.ir import Node, Program, file
from proa.ir.attributes import row_of

Array = NDArray[Any]
#: Runs a part: one array for each of the program's inputs and outputs.
PartRunner = Callable[[Sequence[Array]], Sequence[Array]]


class Delegate(Protocol):
    """An engine for parts of a graph."""

    @property
    def name(self) -> str:
        """What profiles and summaries call it."""
        ...

    @property
    def min_nodes(self) -> int:
        """The number of nodes from which on a part is worth handing over."""
        ...

    def takes(self, node: Node) -> bool:
        """Whether it can run this node."""
        ...

    def compile(self, program: Program) -> PartRunner:
        """What runs a part. It is called by one thread at a time, and once more for
        each clone of the predictor.
        """
        ...


class LiteDelegate:
    """Runs what `proa_lite` has operators for. Needs the package proa-lite.

    Args:
        excluded: Operators that it leaves.
        min_nodes: Fewest nodes of a part.
    """

    name = "proa_lite"

    def __init__(self, excluded: Sequence[str] = (), min_nodes: int = 1) -> None:
        self.excluded, self.min_nodes = frozenset(excluded), min_nodes

    def takes(self, node: Node) -> bool:
        """Whether lite has the operator."""
        row = row_of(node.op)
        return bool(row.lite) and row.kind != "flow" and node.op not in self.excluded

    def compile(self, program: Program) -> PartRunner:
        """A predictor of `proa_lite` on the part."""
        lite = _package("proa_lite", "proa-lite")
        predictor = lite.create_predictor(lite.Config(file.to_bytes(program)))

        def run(inputs: Sequence[Array]) -> Sequence[Array]:
            # Its results are in memory of its own until its next run.
            return [np.array(y) for y in predictor.run(list(inputs))]

        return run


class OnnxRuntimeDelegate:
    """Runs in onnxruntime what ONNX can express. Needs ``proa-inference[onnxruntime]``.

    Args:
        operators: Those that it takes; by default those that models mostly consist of.
        min_nodes: Fewest nodes of a part.
        opset_version: Opset of the ONNX models that parts become.
        threads: As of `Config.set_cpu_math_library_num_threads`; None for what that
            says.
    """

    name = "onnxruntime"
    #: Operators that ONNX has as one or a few of its own.
    OPERATORS = frozenset(
        ("add", "avg_pool2d", "clip", "concat", "conv2d", "div", "exp", "flatten",
         "gelu", "layer_norm", "linear", "matmul", "max_pool2d", "mul", "relu",
         "reshape", "sigmoid", "softmax", "sqrt", "sub", "tanh", "transpose")
    )  # fmt: skip

    def __init__(
        self,
        operators: Sequence[str] | None = None,
        min_nodes: int = 1,
        opset_version: int = 17,
        threads: int | None = None,
    ) -> None:
        self.operators = self.OPERATORS if operators is None else frozenset(operators)
        self.min_nodes, self.opset_version = min_nodes, opset_version
        self.threads = threads

    def on(self, threads: int) -> OnnxRuntimeDelegate:
        """The same on so many threads, unless it has a number of its own."""
        result = copy(self)
        result.threads = threads if self.threads is None else self.threads
        return result

    def takes(self, node: Node) -> bool:
        """Whether the operator is among those given."""
        return node.op in self.operators

    def compile(self, program: Program) -> PartRunner:
        """A session of onnxruntime on the part."""
        runtime = _package("onnxruntime", "proa-inference[onnxruntime]")
        from proa.onnx import export

        names = [value.name for value in program.main.inputs]
        # In memory, so that no plain part of an encrypted model is in a file.
        part = io.BytesIO()
        export(program, part, opset_version=self.opset_version)
        options = runtime.SessionOptions()
        # By itself it takes every core of the machine, whatever a container may use.
        options.intra_op_num_threads = self.threads or proa.get_num_threads()
        session = runtime.InferenceSession(
            part.getvalue(), options, providers=["CPUExecutionProvider"]
        )
        given = [i.name for i in session.get_inputs()]

        def run(inputs: Sequence[Array]) -> Sequence[Array]:
            feed = dict(zip(names, inputs, strict=True))
            found: Sequence[Array] = session.run(None, {n: feed[n] for n in given})
            return found

        return run


def _package(name: str, wheel: str) -> Any:
    # By name: the packages of Proa are built and installed apart.
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnavailableError(
            f"[Delegate] expected the package {name} (pip install {wheel!r}), got "
            f"none: {error}"
        ) from None
