"""Programs as bytes, without the values that scopes hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from proa.errors import InvalidArgumentError
from proa.ir import from_bytes, to_bytes
from proa.ir.program import Node, Value
from proa.nn.attr import ParamAttr
from proa.nn.sequences import RowSequences
from proa.static.variable import ParameterVariable, Variable

if TYPE_CHECKING:
    from proa.static.program import Program

_KEY = "static"


def to_string(program: Program) -> bytes:
    """The program as bytes, from which `read_into` makes it again.

    What gives learning rates and initial values is Python code and left out.
    """
    graph = program.graph.copy()
    order = {n: [i, k] for i, b in enumerate(program.graph.blocks)
             for k, n in enumerate(b.nodes)}  # fmt: skip
    graph.metadata[_KEY] = json.dumps({
        "variables": [_described(v) for v in program.vars.values()],
        "data": list(program.data),
        "states": list(program.states),
        "draws": [n if type(n) is int else -1 for n in program.draws],
        "roles": [[order[n], role] for n, role in program.roles.items()],
        "counts": [[order[n], counter] for n, counter in program.counts],
        "seed": program.random_seed,
        "lod_levels": program.lod_levels,
        "sequences": _described_sequences(program),
    })  # fmt: skip
    return to_bytes(graph)


def _described_sequences(program: Program) -> list[Any]:
    """[names of levels, of steps and of rows, names of the values] of each."""
    found: dict[int, list[Any]] = {}
    for value, own in program.sequences.items():
        parts = [None if t is None else t.name for t in (own.steps, own.rows)]
        entry = found.setdefault(id(own), [[t.name for t in own.levels], *parts, []])
        entry[-1].append(value.name)
    return list(found.values())


def _described(variable: Variable) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": variable.name,
        "value": variable._handle[1].name,
        "persistable": variable.persistable,
        "stop_gradient": variable.stop_gradient,
    }
    if isinstance(variable, ParameterVariable):
        found["learning_rate"] = variable.optimize_attr["learning_rate"]
        found["need_clip"] = variable.need_clip
    return found


def read_into(clone: Program, data: bytes) -> Program:
    """Make a new program what bytes describe.

    Raises:
        InvalidArgumentError: If they are not what `to_string` gives.
    """
    graph = from_bytes(data)
    try:
        noted = json.loads(graph.metadata.pop(_KEY))
        _fill(clone, graph, noted)
    except (KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
        raise InvalidArgumentError(
            "[Program.parse_from_string] expected the bytes of a static program, got "
            "others"
        ) from error
    return clone


def _fill(clone: Program, graph: Any, noted: Any) -> None:
    clone.graph = clone.recorder.program = graph
    values: dict[str, Value] = {v.name: v for v in graph.main.values()}
    for value in values.values():
        graph.reserve(value.name)
    clone.data = {name: values[name] for name in noted["data"]}
    clone.states = {name: values[name] for name in noted["states"]}
    clone.draws = [int(n) for n in noted["draws"]]
    clone.random_seed = int(noted["seed"])

    def node(place: list[int]) -> Node:
        found: Node = graph.blocks[place[0]].nodes[place[1]]
        return found

    clone.roles = {node(place): str(role) for place, role in noted["roles"]}
    clone.counts = [(node(place), str(name)) for place, name in noted["counts"]]
    for entry in noted["variables"]:
        if entry["value"] not in values:
            continue
        value = values[entry["value"]]
        variable: Variable
        if "learning_rate" in entry:
            attr = ParamAttr(
                learning_rate=float(entry["learning_rate"]),
                need_clip=bool(entry["need_clip"]),
            )
            variable = ParameterVariable(value, clone.recorder, attr)
        else:
            variable = Variable(value, clone.recorder)
        variable.name = str(entry["name"])
        variable.persistable = bool(entry["persistable"])
        variable.stop_gradient = bool(entry["stop_gradient"])
        clone.register(variable)
    clone.lod_levels = {str(k): int(n) for k, n in noted["lod_levels"].items()}
    for levels, steps, rows, names in noted["sequences"]:
        if {*levels, steps, rows} - {None} <= clone.vars.keys():
            parts = [None if n is None else clone.vars[n] for n in (steps, rows)]
            own = RowSequences([clone.vars[n] for n in levels], *parts)
            clone.sequences.update((values[n], own) for n in names if n in values)
