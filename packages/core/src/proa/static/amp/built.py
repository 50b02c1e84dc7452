"""Mixed precision of programs that static mode builds.

Gradients are recorded in float32 first: then the whole graph, forward and backward,
is rewritten, so that products of the backward pass compute in 16 bits as those of the
forward pass do. Parameters stay float32: they are the master weights, and every run
takes 16-bit copies.
"""

from __future__ import annotations

from proa import _core
from proa.ir import verify
from proa.ir.attributes import row_of
from proa.ir.builder import make_node
from proa.ir.flow import has_flow, outline
from proa.ir.precision import LOW, Rewriter, narrows
from proa.ir.program import Node, Value
from proa.ir.program import Program as Graph
from proa.ir.record import at_once
from proa.static.amp.lists import AutoMixedPrecisionLists
from proa.static.exporting import held_array
from proa.static.program import Program
from proa.static.scope import Scope
from proa.static.variable import ParameterVariable, Variable


class _BuiltRewriter(Rewriter):
    """Also notes roles of casts, and leaves states and what Python computes float32.

    In a guarded program a node of the backward pass follows the nodes around it.
    """

    def __init__(
        self,
        program: Program,
        lists: AutoMixedPrecisionLists,
        low: str,
        level: str,
        guarded: bool,
    ) -> None:
        super().__init__(
            program.graph, lists.classes(level), low, lists.black_varnames, guarded
        )
        self.built = program
        self.role: str | None = None

    def _kind(self, node: Node) -> str:
        row, role = row_of(node.op), self.built.roles.get(node)
        if row.calls_python or row.mutates or role == "optimize":
            return "black"
        if self.guarded and role == "backward":
            node.low = any(v is not None and v.dtype in LOW for v in node.inputs)
        return super()._kind(node)

    def _convert(self, node: Node, kind: str) -> None:
        self.role = self.built.roles.get(node)
        super()._convert(node, kind)

    def _widen_inputs(self, node: Node) -> None:
        self.role = self.built.roles.get(node)
        super()._widen_inputs(node)

    def _cast(self, value: Value, dtype: str) -> Value:
        before = len(self.nodes)
        found = super()._cast(value, dtype)
        if self.role is not None:
            self.built.roles.update((n, self.role) for n in self.nodes[before:])
        return found


def rewrite_built(
    where: str,
    program: Program,
    lists: AutoMixedPrecisionLists,
    low: str,
    level: str,
    guarded: bool,
) -> set[str]:
    """Rewrite a static program in place; its Variables stay float32.

    Returns:
        The names of parameters that are read in 16 bits alone.

    """
    if level == "O0":
        return set()
    graph = program.graph
    _BuiltRewriter(program, lists, low, level, guarded).run()
    makers = {v: n for n in graph.main.nodes for v in n.outputs}
    for variable in list(program.vars.values()):
        value = variable._handle[1]
        if value.dtype in LOW and variable.dtype == "float32":
            _widen(program, variable, value, makers[value])
    program.version += 1
    _verify(graph)
    return {
        name
        for name, value in program.states.items()
        if isinstance(program.vars[name], ParameterVariable) and _is_read_low(value)
    }


def _verify(graph: Graph) -> None:
    """Verify a graph, whose blocks may have nodes of both sorts while it is built."""
    if has_flow(graph):
        graph = graph.copy()
        outline(graph)
    verify(graph)


def _is_read_low(value: Value) -> bool:
    """Whether a float32 value is read by casts to 16 bits alone."""
    own = value.users
    return value.dtype == "float32" and bool(own) and all(map(narrows, own))


def store_built_low(
    where: str, program: Program, names: set[str] | None, dtype: str, scope: Scope
) -> None:
    """Hold a static program's parameters in 16 bits that are read so alone.

    Raises:
        PreconditionNotMetError: If the scope lacks one.
    """
    block = program.graph.main
    narrowed: set[Node] = set()
    for name, value in program.states.items():
        known = program.vars[name]
        if not isinstance(known, ParameterVariable) or not _is_read_low(value):
            continue
        if names is not None and name not in names:
            continue
        held_array(where, scope, name)
        entry = scope.var(name)
        with at_once():
            assert entry.tensor is not None
            entry.tensor = _core.ops.cast(entry.tensor.detach(), dtype=dtype)
        for node in list(value.users):
            block.replace(node.outputs[0], value)
            narrowed.add(node)
        value.dtype = dtype
        attr = known.creation_attr()
        program.register(ParameterVariable(value, program.recorder, attr))
    block.nodes = [n for n in block.nodes if n not in narrowed]
    program.version += 1
    _verify(program.graph)


def _widen(program: Program, variable: Variable, value: Value, maker: Node) -> None:
    """Let a Variable stand for a float32 copy of what is in 16 bits now."""
    node = make_node(program.graph, "cast", [value], {"dtype": "float32"})
    program.graph.main.nodes.append(node)
    if maker in program.roles:
        program.roles[node] = program.roles[maker]
    symbol = _core.symbol(
        list(value.shape), "float32", (program.recorder, node.outputs[0])
    )
    _core.rebind_symbol(variable, symbol)
