"""Operators of control flow: nodes that name blocks of their program.

They have no kernel and no gradient; FORMAT.md says what they mean.
"""

from __future__ import annotations

from proa.schema.row import Array, Attribute, Row, graph_row


def _row(name: str, attributes: tuple[str, ...], doc: str) -> Row:
    return graph_row(
        name=name,
        arrays=(Array("inputs", variadic=True),),
        attributes=tuple(Attribute(a, "int") for a in attributes),
        outputs=(),
        kind="flow",
        doc=doc,
    )


#: Rows by name. They have as many outputs as the blocks they name.
FLOW_ROWS: dict[str, Row] = {
    row.name: row
    for row in (
        _row("call", ("block",), "What a block gives."),
        _row(
            "branch",
            ("then_block", "else_block"),
            "What one of two blocks gives, as the first array, a bool, has it.",
        ),
        _row(
            "loop",
            ("cond_block", "body_block", "carried"),
            "What a block gives, again and again while another gives true.",
        ),
    )
}
