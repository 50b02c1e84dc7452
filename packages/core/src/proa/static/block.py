"""Views of a program's blocks and operators, as programs for Paddle read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from proa.base.dtype import DTypeLike, as_dtype
from proa.errors import InvalidArgumentError, NotFoundError
from proa.ir.attributes import row_of
from proa.ir.printer import format_block, format_node
from proa.ir.program import Node

if TYPE_CHECKING:
    from proa.static.program import Program
    from proa.static.variable import ParameterVariable, Variable


class Operator:
    """One operator of a block.

    Args:
        block: The block.
        node: What it is a view of.
    """

    def __init__(self, block: Block, node: Node) -> None:
        self.block, self.node = block, node

    @property
    def type(self) -> str:
        """The operator's name."""
        return self.node.op

    @property
    def idx(self) -> int:
        """Its place in the block."""
        nodes: list[Node] = self.block.graph_block.nodes
        return nodes.index(self.node)

    def _arrays(self) -> list[tuple[str, list[str]]]:
        arrays = row_of(self.node.op).arrays
        found: dict[str, list[str]] = {a.name: [] for a in arrays}
        for i, value in enumerate(self.node.inputs):
            name = arrays[min(i, len(arrays) - 1)].name if arrays else "inputs"
            if value is not None:
                found.setdefault(name, []).append(value.name)
        return list(found.items())

    @property
    def input_names(self) -> list[str]:
        """Names of the arrays that it takes."""
        return [name for name, _ in self._arrays()]

    @property
    def output_names(self) -> list[str]:
        """Names of the arrays that it gives."""
        names = list(row_of(self.node.op).outputs)
        return names or ["outputs"]

    @property
    def input_arg_names(self) -> list[str]:
        """Names of the Variables that it reads."""
        return [v.name for v in self.node.inputs if v is not None]

    @property
    def output_arg_names(self) -> list[str]:
        """Names of the Variables that it makes."""
        return [v.name for v in self.node.outputs]

    def input(self, name: str) -> list[str]:
        """Names of the Variables that it reads as one of its arrays."""
        known = dict(self._arrays())
        if name not in known:
            raise NotFoundError(
                f"[Operator.input] expected one of {list(known)}, got {name!r}"
            )
        return known[name]

    def output(self, name: str) -> list[str]:
        """Names of the Variables that it makes as one of its outputs."""
        names = self.output_names
        if name not in names:
            raise NotFoundError(
                f"[Operator.output] expected one of {names}, got {name!r}"
            )
        if len(names) == 1:
            return self.output_arg_names
        return [self.node.outputs[names.index(name)].name]

    @property
    def attr_names(self) -> list[str]:
        """Names of its attributes."""
        return [*self.node.attrs, "op_role", "op_namescope", "op_device"]

    def all_attrs(self) -> dict[str, Any]:
        """Its attributes by name."""
        return {name: self.attr(name) for name in self.attr_names}

    def has_attr(self, name: str) -> bool:
        """Whether it has the attribute."""
        return name in self.attr_names

    def attr(self, name: str) -> Any:
        """An attribute.

        Raises:
            NotFoundError: If it has none of that name.
        """
        program = self.block.program
        if name == "op_role":
            return program.roles.get(self.node, "forward")
        if name == "op_namescope":
            return program.scopes.get(self.node, "/")
        if name == "op_device":
            return program.devices.get(self.node, "")
        if name not in self.node.attrs:
            raise NotFoundError(
                f"[Operator.attr] expected one of {self.attr_names}, got {name!r}"
            )
        return self.node.attrs[name]

    def to_string(self, throw_on_error: bool = True) -> str:
        """One line of text."""
        return format_node(self.node)

    def __str__(self) -> str:
        return self.to_string()

    __repr__ = __str__


class Block:
    """One block of a program: the global one, or a body of a branch or loop.

    Args:
        program: The program.
        index: Its number.
    """

    def __init__(self, program: Program, index: int) -> None:
        self.program, self.idx = program, index

    @property
    def graph_block(self) -> Any:
        """What it is a view of."""
        return self.program.graph.blocks[self.idx]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Block)
            and other.program is self.program
            and other.idx == self.idx
        )

    def __hash__(self) -> int:
        return hash((id(self.program), self.idx))

    @property
    def parent_idx(self) -> int:
        """The number of the block around it; -1 for the global one."""
        for i, block in enumerate(self.program.graph.blocks):
            for node in block.nodes:
                if self.idx in _bodies(node):
                    return i
        return -1

    @property
    def ops(self) -> list[Operator]:
        """Its operators, in order."""
        return [Operator(self, node) for node in self.graph_block.nodes]

    @property
    def vars(self) -> dict[str, Variable]:
        """Its Variables by name."""
        if self.idx == 0:
            return dict(self.program.vars)
        names = {v.name for v in self.graph_block.values()}
        return {k: v for k, v in self.program.vars.items() if k in names}

    def var(self, name: str) -> Variable:
        """The Variable of a name.

        Raises:
            NotFoundError: If there is none; a ValueError, too.
        """
        return self.program.find(name, "Block.var")

    def has_var(self, name: str) -> bool:
        """Whether there is a Variable of the name."""
        return name in self.program.vars

    def create_var(
        self,
        name: str | None = None,
        shape: Sequence[int | None] | None = None,
        dtype: DTypeLike = "float32",
        persistable: bool = False,
        stop_gradient: bool = False,
        **kwargs: object,
    ) -> Variable:
        """Another Variable: a persistable one, or one that `assign`, `py_func` or a
        feed gives a value. Without a shape it has that of what is assigned to it.

        Raises:
            InvalidArgumentError: If it is persistable and has no shape.
        """
        if shape is None and persistable:
            raise InvalidArgumentError(
                "[Block.create_var] expected the shape of a persistable Variable, got "
                f"None for {name!r}"
            )
        own = name if name is not None else self.program.graph.new_name("var")
        kind = as_dtype(dtype).name
        add = self.program.add_state if persistable else self.program.add_data
        result = add(own, kind, [-1 if n is None else int(n) for n in shape or ()])
        if shape is None:
            self.program.unshaped.add(result._handle[1])
        result.stop_gradient = stop_gradient
        return result

    def all_parameters(self) -> list[ParameterVariable]:
        """The program's parameters."""
        return self.program.all_parameters()

    def to_string(self, throw_on_error: bool, with_details: bool = False) -> str:
        """The block as text."""
        return format_block(self.graph_block)

    def __str__(self) -> str:
        return self.to_string(True)


def _bodies(node: Node) -> list[int]:
    return [v for k, v in node.attrs.items() if k.endswith("block")]
