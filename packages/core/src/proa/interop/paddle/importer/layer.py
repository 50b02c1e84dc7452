"""A Paddle program as a Layer."""

from __future__ import annotations

from proa.interop.graph.layer import GraphLayer
from proa.interop.paddle.importer.table import PADDLE


class PaddleGraph(GraphLayer):
    """A Paddle program, see `GraphLayer`.

    In training mode batch normalisation uses and updates statistics of the batch, and
    dropout drops, also where the program was saved for inference.
    """

    table = PADDLE
