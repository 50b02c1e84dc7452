"""Products of activations: which are quantized, and their integer forms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from proa.ir.builder import make_node
from proa.ir.passes.match import produced_by, rewrite
from proa.ir.program import Node, Program, Value
from proa_slim.config import QuantConfig
from proa_slim.quant.layer_paths import is_in, noted_layers, path_without_weight
from proa_slim.quant.scales import Scale

#: Integer form of each, and how many of its inputs are rounded.
PAIRS = {"matmul": ("matmul_int8", 2), "attention": ("attention_int8", 3)}


def pairs(program: Program, config: QuantConfig) -> list[Node]:
    """The products of float32 activations to quantize, in order, without those of
    skipped layers and ops not chosen.
    """
    return [
        node
        for node, key in pair_keys(program).items()
        if node.op in config.ops and not is_skipped(key, config)
    ]


def is_skipped(key: str, config: QuantConfig) -> bool:
    """Whether ``skip`` has the key of a product of activations, or a layer it is in."""
    path = key.rpartition(":")[0]
    return key in config.skip or is_in(f"{path}.", config.skip)


def pair_keys(program: Program) -> dict[Node, str]:
    """All products of float32 activations that could be quantized, in order, and what
    reports and ``skip`` call them: ``path:attention`` in the layer of a path.
    """
    noted = noted_layers(program)
    return {
        node: f"{path_without_weight(node, noted)}:{node.op}"
        for node in _products_of_activations(program)
    }


def _products_of_activations(program: Program) -> list[Node]:
    return [
        node
        for node in program.main.nodes
        if node.op in PAIRS
        and not node.attrs.get("p")
        and not any(value.users for value in node.outputs[1:])
        and all(
            v is not None and not v.is_constant and v.dtype == "float32"
            for v in operands_of(node)
        )
    ]


def operands_of(node: Node) -> list[Value | None]:
    """The inputs that are rounded."""
    return node.inputs[: PAIRS[node.op][1]]


def round_pairs(
    program: Program,
    chosen: Collection[Node],
    scales: Mapping[str, Scale],
    rounding: Callable[[Program, Value, Scale], list[Node]],
) -> None:
    """Let these products read their operands rounded, where there is a scale."""
    nodes: list[Node] = []
    rounded: dict[Value, Value] = {}
    for node in program.main.nodes:
        for i, value in enumerate(operands_of(node)) if node in chosen else ():
            if value is None or value.name not in scales:
                continue
            if value not in rounded:
                nodes += rounding(program, value, scales[value.name])
                rounded[value] = nodes[-1].outputs[0]
            node.inputs[i] = rounded[value]
        nodes.append(node)
    program.main.nodes = nodes


class Operand(NamedTuple):
    """How an operand is rounded: x is about (q - zero) * step."""

    step: np.float32
    zero: int

    @classmethod
    def of(cls, step: float, offset: float) -> Operand:
        """Of a scale and its offset."""
        single = np.float32(step)
        return cls(single, -round(offset / float(single)))

    def rounding(self) -> tuple[str, dict[str, Any]]:
        """The operator that rounds it, and its attributes."""
        if not self.zero:
            return "quantize", {}
        return "quantize_affine", {"zero_point": self.zero, "low": -127}


def integer_attributes(
    op: str, operands: Sequence[Operand], scale: float = 1.0, causal: bool = False
) -> dict[str, Any]:
    """Attributes of the integer form of `op` with float32 results.

    Args:
        op: A key of `PAIRS`.
        operands: How its operands are rounded.
        scale: That of attention.
        causal: Likewise.
    """
    steps, zeros = [o.step for o in operands], [o.zero for o in operands]
    if op == "matmul":
        attrs: dict[str, Any] = {"scale": float(steps[0] * steps[1])}
        return attrs | {"x_zero": zeros[0], "y_zero": zeros[1], "dtype": "float32"}
    return {
        "scale": float(steps[0] * steps[1] * np.float32(scale)),
        "v_scale": float(steps[2]), "causal": causal, "dtype": "float32",
        "q_zero": zeros[0], "k_zero": zeros[1], "v_zero": zeros[2],
    }  # fmt: skip


def pair_to_integers(program: Program, node: Node) -> list[Node]:
    """Rewrite the product to one of integers, if its operands are fake-quantized;
    returns the nodes that must be before it.
    """
    if node.op not in PAIRS or node.outputs[0].dtype != "float32":
        return []
    nodes: list[Node] = []
    rounded: list[Operand] = []
    for value in operands_of(node):
        fake = _fake(value)
        if fake is None:
            return []
        x, scale, offset = fake
        assert scale.data is not None
        rounded.append(Operand.of(float(scale.data.item()), offset))
        op, how = rounded[-1].rounding()
        nodes.append(make_node(program, op, [x, scale], how))
    op, count = PAIRS[node.op]
    inputs = [*(n.outputs[0] for n in nodes), *node.inputs[count:]]
    given = {k: v for k, v in node.attrs.items() if k in ("scale", "causal")}
    attrs = integer_attributes(node.op, rounded, **given)
    del node.outputs[1:]
    rewrite(node, op, inputs, attrs)
    return nodes


def _fake(value: Value | None) -> tuple[Value | None, Value, float] | None:
    """What a fake quantization rounds, its scale and its offset."""
    shifted = produced_by(value, "add")
    fake = produced_by(value if shifted is None else shifted.inputs[0], "fake_quant")
    scale = None if fake is None else fake.inputs[1]
    if fake is None or scale is None or scale.data is None or scale.data.size != 1:
        return None
    if shifted is None:
        return fake.inputs[0], scale, 0.0
    before, offset = produced_by(fake.inputs[0], "sub"), shifted.inputs[1]
    if before is None or offset is None or offset.data is None:
        return None
    return before.inputs[0], scale, float(offset.data.reshape(()))
