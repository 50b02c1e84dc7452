"""Transposed convolutions as convolutions, which have integer operators.

Row s * q + r of the result reads rows r, r + s, .. of the kernel alone, for a stride s.
So one convolution with stride 1 gives the rows of all r as channels of their own, and
moving these to their places gives the result (Shi et al., 2016, "Is the deconvolution
layer the same as a convolutional layer?"). Elements are those of the transposed
convolution, each summed over the same products.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import proa
from proa.ir.builder import make_node
from proa.ir.passes.match import produced_by, rewrite
from proa.ir.program import Array, Block, Node, Program, Value
from proa.nn import functional as F
from proa.runtime import call_operator


@dataclass(frozen=True)
class Rows:
    """How rows and columns of the result are laid out among channels.

    Attributes:
        stride: (sh, sw) of the transposed convolution.
        groups: Its number of groups.
        kernel: (kh, kw) of the convolution, ceil(size / stride).
        size: (h, w) of the convolution's result.
        first: (top, left) rows and columns of the whole result that padding removes.
        out: (channels, h, w) of the result.
    """

    stride: tuple[int, int]
    groups: int
    kernel: tuple[int, int]
    size: tuple[int, int]
    first: tuple[int, int]
    out: tuple[int, int, int]

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of the convolution."""
        high, wide = (k - 1 for k in self.kernel)
        return {
            "stride": [1, 1],
            "padding": [high, high, wide, wide],
            "dilation": [1, 1],
            "groups": self.groups,
        }

    def kernels(self, weight: Any) -> Any:
        """(C, O / groups, KH, KW) to (O * sh * sw, C / groups, kh, kw)."""
        (sh, sw), (kh, kw) = self.stride, self.kernel
        channels, each, high, wide = weight.shape
        ends = [0, kw * sw - wide, 0, kh * sh - high]
        padded = F.pad(weight, ends) if any(ends) else weight
        parts = [self.groups, channels // self.groups, each, kh, sh, kw, sw]
        split = padded.reshape(parts).flip([3, 5]).transpose([0, 2, 4, 6, 1, 3, 5])
        whole = self.groups * each * sh * sw
        return split.reshape([whole, channels // self.groups, kh, kw])

    def repeated(self, vector: Array) -> Array:
        """Numbers of O channels for the channels of the convolution."""
        each = np.broadcast_to(vector, (self.out[0],))
        return np.repeat(each, self.stride[0] * self.stride[1])

    def placing(self) -> list[tuple[str, dict[str, Any]]]:
        """Operators from the convolution's result to that of the transposed one."""
        (sh, sw), (high, wide) = self.stride, self.size
        channels, rows, columns = self.out
        top, left = self.first
        split = [0, channels, sh, sw, high, wide]
        cut = {"axes": [2, 3], "starts": [top, left], "steps": [1, 1]}
        return [
            ("reshape", {"shape": split}),
            ("transpose", {"perm": [0, 1, 4, 2, 5, 3]}),
            ("reshape", {"shape": [0, channels, high * sh, wide * sw]}),
            ("slice", {**cut, "ends": [top + rows, left + columns]}),
        ]

    def convolution(self, node: Node, arrays: Sequence[Any]) -> tuple[Node, list[Any]]:
        """The node of the convolution, and its inputs for those of the other."""
        x, weight, *rest = arrays
        inputs = [x, self.kernels(weight)]
        if rest and rest[0] is not None:
            count = self.stride[0] * self.stride[1]
            inputs.append(rest[0].reshape([-1, 1]).expand([-1, count]).flatten())
        return Node("conv2d", list(node.inputs), list(node.outputs), self.attrs), inputs

    def placed(self, results: Sequence[Any]) -> Sequence[Any]:
        """Results of the convolution as those of the transposed one."""
        for op, attrs in self.placing():
            results = call_operator(op, results[0], **attrs)
        return results


def rows_of(node: Node) -> Rows | None:
    """The layout of a conv2d_transpose; None if it is dilated, has symbolic sizes, or
    output padding beyond what its kernel reaches.
    """
    if node.op != "conv2d_transpose":
        return None
    x, weight, y = node.inputs[0], node.inputs[1], node.outputs[0]
    assert x is not None and weight is not None
    attrs: Mapping[str, Any] = node.attrs
    stride = tuple(attrs.get("stride", [1, 1]))
    top, _, left, _ = attrs.get("padding", [0, 0, 0, 0])
    sizes = (*x.shape[2:], *y.shape[2:])
    if -1 in sizes or list(attrs.get("dilation", [1, 1])) != [1, 1]:
        return None
    kernel = tuple(-(-k // s) for k, s in zip(weight.shape[2:], stride, strict=True))
    size = tuple(n + k - 1 for n, k in zip(x.shape[2:], kernel, strict=True))
    first, groups = (top, left), int(attrs.get("groups", 1))
    found = Rows(stride, groups, kernel, size, first, tuple(y.shape[1:]))  # type: ignore[arg-type]
    reached = zip(first, y.shape[2:], size, stride, strict=True)
    return found if all(a + n <= q * s for a, n, q, s in reached) else None


def transposed_as_convolutions(program: Program, skip: Collection[str] = ()) -> None:
    """Rewrite conv2d_transpose with a constant weight to conv2d.

    1. conv2d_transpose(x, w, b) -> placing(conv2d(x, kernels(w), repeated(b))).
    2. With fake_quant(w, scale, axis=1) also the scale is repeated.

    Args:
        program: Rewritten in place.
        skip: Paths of layers that stay what they are.
    """
    for block in program.blocks:
        for node in list(block.nodes):
            rows = rows_of(node)
            if rows is not None:
                _rewritten(program, block, node, rows, skip)


def _rewritten(
    program: Program, block: Block, node: Node, rows: Rows, skip: Collection[str]
) -> None:
    fake = produced_by(node.inputs[1], "fake_quant")
    weight = node.inputs[1] if fake is None else fake.inputs[0]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if weight is None or weight.data is None or weight.dtype != "float32":
        return
    if any(weight.name.startswith(f"{path}.") for path in skip):
        return
    if bias is not None and bias.data is None:
        return
    at = block.nodes.index(node)
    result = rows.kernels(proa.to_tensor(np.asarray(weight.data))).numpy()
    kernels = program.constant(np.ascontiguousarray(result), name=weight.name)
    kernels.kind = "param"
    before: list[Node] = []
    if fake is not None:
        scale = fake.inputs[1]
        if scale is None or scale.data is None or rows.groups > 1 < scale.data.size:
            return
        steps, axis = np.asarray(scale.data), -1
        if steps.size > 1:
            steps, axis = rows.repeated(steps), 0
        constant = program.constant(steps, name=scale.name)
        before.append(
            make_node(program, "fake_quant", [kernels, constant], {"axis": axis})
        )
        kernels = before[-1].outputs[0]
    inputs: list[Value | None] = [node.inputs[0], kernels]
    if bias is not None:
        whole = rows.repeated(np.asarray(bias.data))
        inputs.append(program.constant(whole, name=bias.name))
    before.append(make_node(program, "conv2d", inputs, rows.attrs))
    *placing, (last, attrs) = rows.placing()
    for op, options in placing:
        before.append(make_node(program, op, before[-1].outputs[:1], options))
    rewrite(node, last, list(before[-1].outputs[:1]), attrs)
    block.nodes[at:at] = before
