"""A Paddle program as a Layer."""

from __future__ import annotations

from typing import Any

from proa.interop.graph.layer import GraphLayer
from proa.interop.paddle.importer.lod import lengths_name
from proa.interop.paddle.importer.table import PADDLE
from proa.nn.sequences import of_lists
from proa.tensor.lod import LoDTensor


class PaddleGraph(GraphLayer):
    """A Paddle program, see `GraphLayer`.

    In training mode batch normalisation uses and updates statistics of the batch, and
    dropout drops, also where the program was saved for inference.
    """

    table = PADDLE

    def forward(self, *inputs: Any) -> Any:
        """The model's outputs: one, or a tuple of them.

        Args:
            inputs: One for each of `inputs`; a LoDTensor also gives its lengths, which
                are inputs next to the others.
        """
        known = {
            lengths_name(info.name, k): level
            for info, x in zip(self.inputs, inputs, strict=False)
            if isinstance(x, LoDTensor) and x._lengths
            for k, level in enumerate(of_lists(x._lengths).levels)
        }
        rest = [info.name for info in self.inputs[len(inputs) :]]
        if rest and all(name in known for name in rest):
            inputs = (*inputs, *(known[name] for name in rest))
        return super().forward(*inputs)
