"""Models from files of Proa, ONNX and Paddle, as networks that can be quantized."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any

import proa
from proa.errors import InvalidTypeError, NotFoundError
from proa.ir import file
from proa.ir.program import Program
from proa.jit import TranslatedLayer


def load(source: str | PathLike[str], where: str) -> Program:
    """The graph of a model file: ``.proa``, ``.onnx``, ``PREFIX.pdmodel`` or a folder
    with ``__model__``. Errors name the function `where`.

    Raises:
        NotFoundError: If there is no such file. What readers raise passes.
    """
    path = os.fspath(source)
    if not os.path.exists(path):
        raise NotFoundError(f"[{where}] expected a model file, got {path}")
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


def as_network(network: Any, specs: Sequence[Any]) -> Any:
    """A model that `proa.jit.load` gave as a network that can be quantized; other
    networks as they are.
    """
    loaded = isinstance(network, TranslatedLayer)
    if not loaded or isinstance(network, LoadedNetwork):
        return network
    return LoadedNetwork(of_network(network, specs))


def require_layers(network: Any, where: str, instead: str) -> None:
    """Check that a network is made of Layers.

    Raises:
        InvalidTypeError: If it was loaded from a file; it says what there is instead.
    """
    if isinstance(network, TranslatedLayer):
        raise InvalidTypeError(
            f"[{where}] expected a network of Layers, got a model that was loaded from "
            f"a file; {instead}"
        )


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
        """The specs of the inputs."""
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
