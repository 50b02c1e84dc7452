"""Inference programs: the part of a static program that fetches follow from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proa.errors import InvalidArgumentError, InvalidTypeError, PreconditionNotMetError
from proa.ir.flow import has_flow, outline
from proa.ir.program import Program as Graph
from proa.ir.program import Value
from proa.ir.record import to_array
from proa.static.compiled_program import CompiledProgram
from proa.static.mode import default_main_program
from proa.static.program import Program
from proa.static.scope import Scope
from proa.static.sequences import companion_names
from proa.static.variable import Variable

#: What is fed or fetched: Variables, or their names.
Variables = Variable | str | Sequence[Variable | str]


def chosen_program(where: str, program: object) -> Program:
    """A Program or that of a CompiledProgram; for None the one that is built.

    Raises:
        InvalidTypeError: If it is something else.
    """
    if program is None:
        return default_main_program()
    found = program.program if isinstance(program, CompiledProgram) else program
    if not isinstance(found, Program):
        raise InvalidTypeError(
            f"[static.{where}] program must be a static.Program, got "
            f"{type(program).__name__}"
        )
    return found


def _names(where: str, what: str, given: Any) -> list[str]:
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    for one in listed:
        if not isinstance(one, (Variable, str)):
            raise InvalidTypeError(
                f"[static.{where}] {what} must be Variables or their names, got "
                f"{type(one).__name__}"
            )
    return [one if isinstance(one, str) else one.name for one in listed]


def pruned(where: str, program: Program, feeds: Any, fetches: Any) -> Program:
    """A copy for tests with what the fetches follow from, and nothing else.

    Its graph has the feeds as first inputs, in their order, and the fetches as outputs.

    Raises:
        InvalidTypeError: If feeds or fetches are neither Variables nor names.
        NotFoundError: If a name is not in the program.
        InvalidArgumentError: If the fetches need data that is not among the feeds.
    """
    fed = _names(where, "feed_vars", feeds)
    levels = program.lod_levels
    companions = [n for f in fed for n in companion_names(f, levels.get(f, 0))]
    named = _names(where, "fetch_vars", fetches)
    part = program.clone(for_test=True)
    block = part.graph.main
    fed += [name for name in companions if name not in fed]
    given = [part.find(name, f"static.{where}")._handle[1] for name in fed]
    wanted = [part.find(name, f"static.{where}")._handle[1] for name in named]
    needed, needed_nodes = set(wanted), []
    for node in reversed(block.nodes):
        if not needed.isdisjoint(node.outputs) and not set(given) & set(node.outputs):
            needed.update(v for v in node.inputs if v is not None)
            needed_nodes.append(node)
    missing = [n for n, v in part.data.items() if v in needed and v not in given]
    if missing:
        raise InvalidArgumentError(
            f"[static.{where}] feed_vars must have all data that fetch_vars depend "
            f"on, got {fed} without {missing}"
        )
    fed = [n for n in fed if n not in companions or part.data[n] in needed]
    given = [part.find(name, f"static.{where}")._handle[1] for name in fed]
    states = {n: v for n, v in part.states.items() if v in needed}
    for value in given:
        value.kind = "input"
    block.nodes = needed_nodes[::-1]
    block.inputs = [*given, *(v for v in states.values() if v not in given)]
    block.outputs = wanted
    part.data, part.states = dict(zip(fed, given, strict=True)), states
    held = needed | set(given)
    part.vars = {n: v for n, v in part.vars.items() if v._handle[1] in held}
    part.initializations, part.version = [], part.version + 1
    return part


def normalize_program(
    program: Program, feed_vars: Variables, fetch_vars: Variables, **kwargs: object
) -> Program:
    """A copy of a program pruned for inference: what fetch_vars follow from.

    Gradients and steps are left out; layers do what they do after training.

    Args:
        program: The program.
        feed_vars: The Variables that runs are fed, or their names; one that is computed
            in the program cuts off what comes before it.
        fetch_vars: The Variables that runs fetch, or their names.
        kwargs: Kept for callers.

    Raises:
        InvalidTypeError: If an argument is of another kind.
        NotFoundError: If a name is not in the program.
        InvalidArgumentError: If fetch_vars need data that is not among feed_vars.
    """
    where = "normalize_program"
    if program is None:
        raise InvalidTypeError(
            f"[static.{where}] program must be a static.Program, got NoneType"
        )
    return pruned(where, chosen_program(where, program), feed_vars, fetch_vars)


def held_array(where: str, scope: Scope, name: str) -> Any:
    """The array that a scope holds.

    Raises:
        PreconditionNotMetError: If it holds none.
    """
    found = scope.find_var(name)
    if found is None or found.tensor is None:
        raise PreconditionNotMetError(
            f"[static.{where}] expected {name!r} in the scope, as the startup program "
            "leaves it there, got nothing"
        )
    return to_array(found.tensor)


def graph_with_values(where: str, part: Program, scope: Scope) -> Graph:
    """The graph of a pruned program with a scope's values in place of states.

    Raises:
        PreconditionNotMetError: If the scope lacks one.
    """
    graph = part.graph.copy()
    block = graph.main
    for value in [v for v in block.inputs if v.name in part.states]:
        array = held_array(where, scope, value.name).copy()
        held = Value(value.name, value.dtype, array.shape, "param", array)
        block.inputs.remove(value)
        block.replace(value, held)
    if has_flow(graph):
        outline(graph)
    return graph
