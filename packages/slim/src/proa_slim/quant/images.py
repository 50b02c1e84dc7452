"""Rounding what is between quantized convolutions, which keeps images int8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from proa.ir.builder import make_node
from proa.ir.program import Node, Program, Value
from proa_slim.config import QuantConfig
from proa_slim.quant.scales import Scale

_CONVOLUTIONS = ("conv2d", "conv2d_act")


def images_between(chosen: Sequence[Node], config: QuantConfig) -> list[Value]:
    """What convolutions of `chosen` make and others read as an image: as a residual, to
    weight its channels, or for their means.
    """
    if not (config.between and config.symmetric):
        return []
    results = [n.outputs[0] for n in chosen if n.op in _CONVOLUTIONS]
    return [v for v in results if not v.is_output and _readers(v, chosen)]


def _readers(image: Value, chosen: Sequence[Node]) -> list[Node]:
    if len(image.shape) != 4 or image.shape[2:] == (1, 1):
        return []
    return [n for n in image.users if _reads(n, image, chosen)]


def _reads(node: Node, image: Value, chosen: Sequence[Node]) -> bool:
    if node.op == "mul":
        others = [v for v in node.inputs if v is not None and v is not image]
        return any(v.shape[2:] == (1, 1) for v in others)
    if node.op == "adaptive_avg_pool2d":
        return tuple(node.attrs["size"]) == (1, 1)
    return node.op == "conv2d_act" and node in chosen and image in node.inputs[3:]


def round_images(
    program: Program,
    chosen: Sequence[Node],
    scales: Mapping[str, Scale],
    config: QuantConfig,
) -> None:
    """Let all readers of such an image, and products, read it rounded.

    Args:
        program: With rounded inputs of products.
        chosen: Its products that are quantized.
        scales: Scales of images, by name.
        config: Says whether to.
    """
    if not (config.between and config.symmetric):
        return
    nodes: list[Node] = []
    for node in program.main.nodes:
        nodes.append(node)
        image = node.outputs[0]
        readers = _readers(image, chosen)
        if image.name not in scales or not readers or image.is_output:
            continue
        step = np.array([scales[image.name].scale], np.float32)
        scale = program.constant(step, name=f"{image.name}.scale")
        nodes.append(make_node(program, "fake_quant", [image, scale], {}))
        rounded = nodes[-1].outputs[0]
        for later in [n for n in image.users if n.op == "fake_quant"]:
            if later is not nodes[-1]:
                program.main.replace(later.outputs[0], rounded)
        for reader in readers:
            reader.inputs = [rounded if v is image else v for v in reader.inputs]
    program.main.nodes = nodes
