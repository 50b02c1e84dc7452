"""Models to compress: files of Proa, ONNX and Paddle, and networks."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np

import proa
from proa.errors import NotFoundError
from proa.ir import file
from proa.ir.builder import make_node
from proa.ir.program import Array, Program
from proa.jit import TranslatedLayer
from proa_slim.quant.interpret import interpret
from proa_slim.quant.model import QuantizedModel


def load(source: str | PathLike[str]) -> Program:
    """The graph of a model file: ``.proa``, ``.onnx``, ``PREFIX.pdmodel`` or a folder
    with ``__model__``.

    Raises:
        NotFoundError: If there is no such file. What readers raise passes.
    """
    path = os.fspath(source)
    if not os.path.exists(path):
        raise NotFoundError(f"[compress] expected a model file, got {path}")
    if path.endswith(".onnx"):
        import proa.onnx

        return _of_layer(proa.onnx.load(path))
    if path.endswith(".pdmodel") or os.path.isdir(path):
        import proa.interop.paddle

        return _of_layer(proa.interop.paddle.load(path))
    return file.read(path)


def _of_layer(layer: Any) -> Program:
    return of_network(layer, layer.specs({}))


def of_network(network: Any, specs: Sequence[Any]) -> Program:
    """The graph of a network in evaluation mode."""
    stream = io.BytesIO()
    proa.jit.save(network, stream, list(specs))
    return file.from_bytes(stream.getvalue())


def runner(program: Program) -> QuantizedModel:
    """The program, to be called on arrays, as runtimes run it."""
    return QuantizedModel(program, [])


class _Path:
    """A layer of which only the path is known."""

    def __init__(self, path: str) -> None:
        self.path = path

    def full_name(self) -> str:
        return self.path


class LoadedNetwork(TranslatedLayer):
    """A program that quantization takes for a network: paths of layers are those that
    the names of its weights have.
    """

    def named_sublayers(self) -> Iterator[tuple[str, _Path]]:
        """Paths, and what stands for the layers."""
        known: dict[str, None] = {}
        for name, _ in self.named_parameters():
            parts = name.split(".")[:-1]
            for end in range(1, len(parts) + 1):
                known[".".join(parts[:end])] = None
        yield from ((path, _Path(path)) for path in known)

    def specs(self) -> list[Any]:
        """Of its inputs."""
        return [
            proa.static.InputSpec(
                [None if n < 0 else n for n in v.shape], v.dtype, v.name
            )
            for v in self.program().main.inputs
        ]

    def trained_parameters(self) -> list[Any]:
        """Weights but for the statistics of norms."""
        fixed = set()
        for node in self.program().main.nodes:
            if node.op == "batch_norm_infer":
                fixed |= {v.name for v in node.inputs[1:3] if v is not None}
        return [p for name, p in self.named_parameters() if name not in fixed]


def unfused(program: Program) -> Program:
    """A copy to be trained: products apart from residuals and activations, which passes
    for inference put into them. Names of weights stay.
    """
    made = file.from_bytes(file.to_bytes(program))
    nodes = []
    for node in made.main.nodes:
        nodes.append(node)
        if node.op not in ("conv2d_act", "linear_act"):
            continue
        attrs = dict(node.attrs)
        act = attrs.pop("act", "none")
        bias, residual = ([*node.inputs, None, None][:4])[2:]
        steps = [make_node(made, node.op[:-4], [*node.inputs[:2], bias], attrs)]
        if residual is not None:
            inputs = [steps[-1].outputs[0], residual]
            steps.append(make_node(made, "add", inputs, {}))
        if act != "none":
            steps.append(make_node(made, act, [steps[-1].outputs[0]], {}))
        made.main.replace(node.outputs[0], steps[-1].outputs[0])
        nodes[-1:] = steps
    made.main.nodes = nodes
    return made


def renew_norms(program: Program, batches: Sequence[Sequence[Array]]) -> None:
    """Give the batch norms of a pruned program the statistics of what they read now,
    one after the other.
    """
    for node in [n for n in program.main.nodes if n.op == "batch_norm_infer"]:
        x, mean, variance = node.inputs[:3]
        if x is None or mean is None or variance is None or mean.data is None:
            continue
        sums: list[Array] = []

        def watch(value: Any, array: Array, wanted: Any = x, to: Any = sums) -> None:
            if value is wanted:
                axes = tuple(i for i in range(array.ndim) if i != 1)
                wide = array.astype(np.float64)
                to.append(np.stack([wide.mean(axes), (wide**2).mean(axes)]))

        for batch in batches:
            interpret(program, batch, watch)
        if sums:
            first, second = np.mean(sums, axis=0)
            mean.data = first.astype(np.asarray(mean.data).dtype)
            kind = np.asarray(variance.data).dtype
            variance.data = np.maximum(second - first**2, 0).astype(kind)
