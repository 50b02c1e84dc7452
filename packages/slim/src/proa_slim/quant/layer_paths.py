"""Paths of the layers that operators of a graph are of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import proa
from proa.base.observers import observing_layers
from proa.ir.program import Node, Program, Value
from proa.ir.record import current_recorder
from proa_slim.loading import LoadedNetwork

#: The metadata of a program in memory that has the paths of the layers of operators
#: without weights, by the names of the operators' results.
_NOTED = "layers_of_results"


def layer_path(node: Node) -> str:
    """Path of the layer whose weight the product reads."""
    weight = node.inputs[1]
    return "" if weight is None else weight.name.rpartition(".")[0]


def is_in(name: str, paths: Iterable[object]) -> bool:
    """Whether a parameter is of a layer of these paths, or of one in it."""
    return any(name.startswith(f"{path}.") for path in paths)


@contextmanager
def watching_layers(network: proa.nn.Layer) -> Iterator[dict[Value, str]]:
    """While open, the path of the innermost layer that makes a value of a recorded
    graph's main block; none of a model that was loaded from a file.
    """
    loaded = isinstance(network, LoadedNetwork)
    named = [] if loaded else network.named_sublayers()
    paths = {id(layer): path for path, layer in named}
    found: dict[Value, str] = {}

    @contextmanager
    def observe(layer: Any) -> Iterator[None]:
        path, recorder = paths.get(id(layer)), current_recorder()
        if path is None or recorder is None:
            yield
            return
        start = len(recorder.program.main.nodes)
        yield
        for node in recorder.program.main.nodes[start:]:
            for value in node.outputs:
                found.setdefault(value, path)

    with observing_layers(observe):
        yield found


def note_layers(
    program: Program, found: Mapping[Value, str], ops: Iterable[str]
) -> None:
    """Note in the program the paths of layers of the results of `ops`."""
    paths = {
        value.name: path
        for value, path in found.items()
        if value.producer is not None and value.producer.op in ops
    }
    if paths:
        program.metadata[_NOTED] = json.dumps(paths)


def forget_layers(program: Program) -> None:
    """Remove what `note_layers` noted, which is not for files."""
    program.metadata.pop(_NOTED, None)


def noted_layers(program: Program) -> dict[str, str]:
    """Paths by the names of results."""
    noted = json.loads(program.metadata.get(_NOTED, "{}"))
    return {str(name): str(path) for name, path in noted.items()}


def path_without_weight(node: Node, noted: Mapping[str, str]) -> str:
    """Path of the layer that an operator without weights is of.

    1. The noted path of its result, or of what moves the axes of that.
    2. In a model from a file, the path that all layers have in common whose products
       the operator reads: ``attn`` of ``attn.q`` and ``attn.k``.
    """
    value = node.outputs[0]
    after = [reader.outputs[0] for reader in value.users]
    for result in (value, *after):
        if result.name in noted:
            return noted[result.name]
    return "" if noted else _common_path(node)


def _common_path(node: Node) -> str:
    above: set[tuple[str, ...]] = set()
    left, seen = [value for value in node.inputs[:3] if value is not None], set()
    while left:
        value = left.pop()
        before = value.producer
        if before is None or before in seen:
            continue
        seen.add(before)
        weight = before.inputs[1] if len(before.inputs) > 1 else None
        if weight is not None and weight.is_constant and "." in weight.name:
            above.add(tuple(layer_path(before).split(".")[:-1]))
        else:
            left += [x for x in before.inputs if x is not None]
    common: list[str] = []
    for parts in zip(*above, strict=False):
        if len({*parts}) > 1:
            break
        common.append(parts[0])
    return ".".join(common)
