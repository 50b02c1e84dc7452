"""The model's message: what `Written` says, in the classes of the package `onnx`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.graph import Body, Graph, OnnxNode, element_type
from proa.interop.onnx.exporter.lower import Written

#: Constants of more bytes in all than this have a file of their own: a message
#: has at most 2 GB.
LARGEST = 2**31 - 2**24
#: Constants of fewer bytes are in the model always.
_SMALL = 1024


class _Writer:
    def __init__(self, graph: Graph) -> None:
        import onnx.helper

        self.helper, self.onnx = onnx.helper, onnx
        self.renamed = graph.renamed

    def name(self, name: str) -> str:
        return self.renamed.get(name, name)

    def info(self, ref: Ref, named_dims: bool = False) -> Any:
        name = self.name(ref.name)
        assert ref.shape is not None
        shape = [
            n if n >= 0 else f"{name}_dim_{i}" if named_dims else None
            for i, n in enumerate(ref.shape)
        ]
        return self.helper.make_tensor_value_info(name, element_type(ref.dtype), shape)

    def node(self, node: OnnxNode) -> Any:
        attrs = {
            key: self.body(value, node.outputs[0]) if isinstance(value, Body) else value
            for key, value in node.attrs.items()
        }
        inputs, outputs = (
            [self.name(n) for n in of] for of in (node.inputs, node.outputs)
        )
        return self.helper.make_node(node.op, inputs, outputs, outputs[0], **attrs)

    def body(self, body: Body, name: str) -> Any:
        return self.helper.make_graph(
            [self.node(n) for n in body.nodes],
            f"{self.name(name)}/body",
            [self.info(r) for r in body.inputs],
            [self.info(r) for r in body.outputs],
        )

    def tensor(self, ref: Ref) -> Any:
        """The message of a constant, without its elements if they are many."""
        assert ref.data is not None
        tensor = self.onnx.TensorProto()
        tensor.name, tensor.data_type = self.name(ref.name), element_type(ref.dtype)
        tensor.dims.extend(ref.data.shape)
        if is_small(ref):
            tensor.raw_data = ref.data.tobytes()
        return tensor


def model_of(written: Written, name: str, producer: str) -> tuple[Any, list[Ref]]:
    """The model's message without the elements of large constants, and the constants in
    the order of its initializers.
    """
    graph = written.graph
    writer = _Writer(graph)
    reads = {ref.name for ref in written.outputs}
    reads = reads.union(*(node.reads() for node in graph.nodes()))
    constants = [ref for n, ref in graph.initializers.items() if n in reads]
    proto = writer.helper.make_graph(
        [writer.node(n) for n in graph.nodes()],
        name,
        [writer.info(r, named_dims=True) for r in written.inputs],
        [writer.info(r) for r in written.outputs],
        [writer.tensor(r) for r in constants],
    )
    opsets = [writer.helper.make_opsetid("", graph.opset)]
    model = writer.helper.make_model(
        proto,
        opset_imports=opsets,
        ir_version=writer.helper.find_min_ir_version_for(opsets),
        producer_name="proa",
        producer_version=producer,
    )
    return model, constants


def is_small(ref: Ref) -> bool:
    """Whether a constant's elements are in the model always."""
    return ref.data is not None and ref.data.nbytes < _SMALL


def fill(
    model: Any, constants: Sequence[Ref], data_name: str
) -> list[bytes | memoryview]:
    """Put the elements of large constants into the model. If they are too many, let it
    refer to the file `data_name`, whose content is returned.
    """
    tensors = [
        (tensor, ref.data)
        for tensor, ref in zip(model.graph.initializer, constants, strict=True)
        if ref.data is not None and not is_small(ref)
    ]
    content: list[bytes | memoryview] = []
    if sum(data.nbytes for _, data in tensors) <= LARGEST:
        for tensor, data in tensors:
            tensor.raw_data = data.tobytes()
        return content
    end = 0
    for tensor, data in tensors:
        gap = -end % 4096  # so that it can be mapped
        content += [
            b"\0" * gap,
            np.ascontiguousarray(data).reshape(-1).view(np.uint8).data,
        ]
        about = {"location": data_name, "offset": end + gap, "length": data.nbytes}
        for key, value in about.items():
            tensor.external_data.add(key=key, value=str(value))
        tensor.data_location = 1  # EXTERNAL
        end += gap + data.nbytes
    return content


def name_output_dims(model: Any) -> None:
    """Give symbolic dimensions of outputs the names that follow from the inputs'. The
    elements of large constants do not matter.
    """
    from onnx import shape_inference

    found = shape_inference.infer_shapes(model, data_prop=True)
    known = {info.name: info for info in found.graph.output}
    for output in model.graph.output:
        dims = output.type.tensor_type.shape.dim
        inferred = known[output.name].type.tensor_type.shape.dim
        for dim, other in zip(dims, inferred, strict=False):
            own = other.dim_param.startswith("unk__")  # names that say nothing
            if not dim.HasField("dim_value") and other.dim_param and not own:
                dim.dim_param = other.dim_param
