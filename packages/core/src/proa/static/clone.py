"""Copies of static programs: whole ones, and ones for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa.ir.attributes import draws, row_of
from proa.ir.builder import make_node
from proa.ir.flow import is_flow
from proa.ir.program import Node, Value
from proa.ir.program import Program as Graph
from proa.static.sequences import copied_sequences
from proa.static.variable import ParameterVariable, Variable

if TYPE_CHECKING:
    from proa.static.program import Program


def copy_into(clone: Program, program: Program, for_test: bool) -> Program:
    """Make a new program what `Program.clone` gives."""
    values: dict[Value, Value] = {}
    nodes: dict[Node, Node] = {}
    graph = program.graph.copy(values, nodes)
    for node, copied in nodes.items():
        copied.low = node.low
    clone.graph = clone.recorder.program = graph
    clone.random_seed = program.random_seed
    clone.initializations = list(program.initializations)
    clone.draws = list(program.draws)
    clone.data = {name: values[v] for name, v in program.data.items()}
    clone.states = {name: values[v] for name, v in program.states.items()}
    for old, new in ((program.scopes, clone.scopes), (program.devices, clone.devices)):
        new.update((nodes[n], text) for n, text in old.items() if n in nodes)
    removed: dict[Value, Value] = {}
    if for_test:
        removed = _take_out(program, graph, nodes, values)
        removed |= _as_tested(program, graph, values)
    else:
        clone.roles = {nodes[n]: role for n, role in program.roles.items()}
        clone.rates = [(nodes[n], rate, alike) for n, rate, alike in program.rates]
        clone.counts = [(nodes[n], counter) for n, counter in program.counts]
    clone.symbolic_shapes = {
        nodes[n]: shape
        for n, shape in program.symbolic_shapes.items()
        if nodes[n].block is not None
    }
    if clone.symbolic_shapes or any(type(n) is not int for n in clone.draws):
        clone.origins = {**values}
        clone.origins.update(
            (v, values[own]) for v, own in program.origins.items() if own in values
        )
    defined = set(graph.main.values()) | set(graph.main.inputs)
    for name, variable in program.vars.items():
        value = values.get(variable._handle[1])
        while value in removed:
            value = removed[value]
        if value is None or (value not in defined and not value.is_constant):
            if name not in clone.states:
                continue
            value = clone.states[name]  # what updated it was taken out
        _copy_variable(clone, name, variable, value)
    clone.lod_levels = dict(program.lod_levels)
    clone.gradient_clips = dict(program.gradient_clips)
    clone.readers = [r for r in program.readers if r.feeds_tests or not for_test]
    clone.sequences = copied_sequences(program, clone, values)
    return clone


def stepping_on(program: Program, gradients: list[str]) -> Program:
    """A copy of a program that takes its step with gradients that it is fed by name."""
    clone = program.clone()
    block = clone.graph.main
    for name in gradients:
        value = clone.vars[name]._handle[1]
        fed = Value(name, value.dtype, value.shape, "input")
        block.inputs.append(fed)
        for one in _as_wide(value):
            block.replace(one, fed)
        clone.data[name] = fed
    return clone


def _as_wide(value: Value) -> list[Value]:
    """A float32 value, and what else is cast to float32 from where it is cast from."""
    maker = value.producer
    source = maker.inputs[0] if maker is not None and maker.op == "cast" else None
    if source is None:
        return [value]
    casts = [n for n in source.users if n.op == "cast"]
    return [n.outputs[0] for n in casts if n.outputs[0].dtype == value.dtype]


def _copy_variable(clone: Program, name: str, variable: Variable, value: Value) -> None:
    new_variable: Variable
    if isinstance(variable, ParameterVariable):
        new_variable = ParameterVariable(
            value, clone.recorder, variable.creation_attr()
        )
    else:
        new_variable = Variable(value, clone.recorder)
        new_variable.persistable = variable.persistable
    new_variable.stop_gradient = variable.stop_gradient
    new_variable.name = name
    clone.register(new_variable)


def _take_out(
    program: Program, graph: Graph, nodes: dict[Node, Node], values: dict[Value, Value]
) -> dict[Value, Value]:
    """Remove what has a role; states that it updated -> what they were before."""
    gone = {nodes[n] for n in program.roles if n in nodes}
    replaced: dict[Value, Value] = {}
    for node in graph.main.nodes:
        if node in gone and row_of(node.op).mutates:
            for result, name in zip(node.outputs, row_of(node.op).inplace, strict=True):
                replaced[result] = _changed(node, name)
    graph.main.nodes = [n for n in graph.main.nodes if n not in gone]
    for result, before in replaced.items():
        while before in replaced:
            before = replaced[before]
        graph.main.replace(result, before)
    return replaced


def _changed(node: Node, name: str) -> Value:
    names = [a.name for a in row_of(node.op).arrays]
    value = node.inputs[names.index(name)]
    assert value is not None
    return value


def _as_tested(
    program: Program, graph: Graph, values: dict[Value, Value]
) -> dict[Value, Value]:
    """Let layers do what they do after training; values -> what stands for them."""
    replaced: dict[Value, Value] = {}

    def replace(block: Any, old: Value, new: Value) -> None:
        replaced[old] = new
        block.replace(old, new)

    for trained, tested in program.tested.items():
        replace(graph.main, values[trained], values[tested])
    for block in graph.blocks:
        for node in list(block.nodes):
            if node.op == "batch_norm":
                _test_batch_norm(graph, block, node, replace)
            elif node.op == "dropout" and node.inputs[0] is not None:
                _test_dropout(graph, block, node, replace)
            elif draws(node.op, node.attrs) and row_of(node.op).draw_rate:
                node.attrs[row_of(node.op).draw_rate] = 0.0
    replacements = set(replaced.values())
    for value in list(replaced):
        _remove_unused(value, replacements)
    return replaced


def _remove_unused(value: Value | None, replacements: set[Value]) -> None:
    """Remove what makes a value that nothing reads now, and what only that read."""
    if value is None or value in replacements or value.producer is None:
        return
    node, block = value.producer, value.producer.block
    if block is None or any(v.users or v.is_output for v in node.outputs):
        return
    if is_flow(node) or row_of(node.op).effect:
        return
    block.nodes.remove(node)
    for read in node.inputs:
        _remove_unused(read, replacements)


def _put(graph: Graph, block: Any, at: Node, node: Node) -> None:
    block.nodes[block.nodes.index(at)] = node


def _test_dropout(graph: Graph, block: Any, node: Node, replace: Any) -> None:
    x = node.inputs[0]
    if node.attrs["upscale"]:
        block.nodes.remove(node)
        replace(block, node.outputs[0], x)
        return
    attrs = {"scale": 1.0 - node.attrs["p"], "bias": 0.0}
    result = make_node(graph, "scale", [x], attrs)
    _put(graph, block, node, result)
    replace(block, node.outputs[0], result.outputs[0])
    result.outputs[0].name = node.outputs[0].name


def _test_batch_norm(graph: Graph, block: Any, node: Node, replace: Any) -> None:
    y, *batch = node.outputs
    updates = [v.only_user for v in batch]
    if any(u is None or u.op != "sgd_" or u.inputs[1] is not v
           for u, v in zip(updates, batch, strict=True)):  # fmt: skip
        return  # statistics that something else reads: of a user's own making
    running = []
    for update in updates:
        assert update is not None
        before = update.inputs[0]
        running.append(before)
        block.nodes.remove(update)
        replace(block, update.outputs[0], before)
    x, scale, bias = node.inputs
    inputs = [x, *running, scale, bias]
    epsilon = {"epsilon": node.attrs["epsilon"]}
    result = make_node(graph, "batch_norm_infer", inputs, epsilon)
    _put(graph, block, node, result)
    replace(block, y, result.outputs[0])
    result.outputs[0].name = y.name
