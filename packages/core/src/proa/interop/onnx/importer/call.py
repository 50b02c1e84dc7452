"""What a row of ONNX's table sees of its node."""

from __future__ import annotations

from proa.interop.graph.call import Call as GraphCall


class Call(GraphCall):
    """A node of an ONNX graph that is being computed."""

    __slots__ = ()

    @property
    def opset(self) -> int:
        """The version of its domain that the model was written for."""
        return self.node.version
