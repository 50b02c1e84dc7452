"""What calibration begins with: a network's graph, and batches of its inputs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import proa
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.ir import file
from proa.ir.passes import optimize
from proa.ir.program import Array, Program

#: An array, a tensor, or a sequence of them (what follows the inputs is ignored).
Batch = Any


def program_of(network: proa.nn.Layer, input_spec: Sequence[Any]) -> Program:
    """The network's graph in evaluation mode, norms folded and products fused."""
    was_training = network.training
    network.eval()
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "network.proa"
            proa.jit.save(network, str(path), list(input_spec))
            program = file.read(path)
    finally:
        if was_training:
            network.train()
    optimize(program, 3)
    return program


def read_batches(calibration: Iterable[Batch], program: Program) -> list[list[Array]]:
    """The inputs of every batch.

    Raises:
        PreconditionNotMetError: If there is no batch.
        InvalidArgumentError: If a batch has fewer arrays than the program has inputs.
    """
    batches = [arrays_of(batch, len(program.main.inputs)) for batch in calibration]
    if not batches:
        raise PreconditionNotMetError(
            "[quant_post_static] calibration must hold at least one batch of real "
            "input, got none"
        )
    return batches


def arrays_of(batch: Batch, count: int) -> list[Array]:
    """The first `count` arrays of a batch."""
    items = list(batch) if isinstance(batch, (list, tuple)) else [batch]
    if len(items) < count:
        raise InvalidArgumentError(
            f"[quant_post_static] a batch must hold {count} arrays, got {len(items)}"
        )
    return [np.asarray(item) for item in items[:count]]
