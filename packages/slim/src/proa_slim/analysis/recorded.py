"""A live network as a program whose inputs are its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import proa
from proa.errors import InvalidArgumentError
from proa.ir.program import Program, Value
from proa.jit.recording import record
from proa.static import InputSpec


def specs_of(
    inputs: Sequence[Any], dtypes: str | Sequence[str] = "float32"
) -> list[InputSpec]:
    """Specs from specs, from one shape, or from several shapes.

    Raises:
        InvalidArgumentError: If `inputs` is none of these.
    """
    given = list(inputs)
    if given and all(isinstance(n, int) or n is None for n in given):
        given = [given]
    kinds = [dtypes] * len(given) if isinstance(dtypes, str) else list(dtypes)
    if not given or len(kinds) != len(given):
        raise InvalidArgumentError(
            "[inputs] expected a shape or spec for each input, and as many dtypes, got "
            f"{inputs!r} and {dtypes!r}"
        )
    specs = []
    for i, (item, kind) in enumerate(zip(given, kinds, strict=True)):
        if isinstance(item, InputSpec):
            specs.append(item)
        elif isinstance(item, (list, tuple)):
            specs.append(InputSpec(list(item), kind, f"x{i}"))
        elif hasattr(item, "shape"):
            specs.append(InputSpec(list(item.shape), str(item.dtype), f"x{i}"))
        else:
            raise InvalidArgumentError(
                f"[inputs] expected a shape or InputSpec, got {item!r}"
            )
    return specs


class RecordedNetwork:
    """One evaluation of a Layer, recorded.

    Args:
        network: The Layer; its mode is left as it is.
        specs: Specs of its inputs.

    Attributes:
        program: Its inputs are the network's, then parameters and buffers.
        tensors: The parameters and buffers behind those inputs.
    """

    def __init__(self, network: proa.nn.Layer, specs: Sequence[InputSpec]) -> None:
        parts = [network, *network.sublayers()]
        modes = [part.training for part in parts]
        for part in parts:
            part.training = False
        try:
            with proa.no_grad():
                recording = record(
                    network.forward,
                    lambda symbols: (symbols, {}),
                    specs,
                    [True] * len(specs),
                    owner=network,
                )
        finally:
            for part, mode in zip(parts, modes, strict=True):
                part.training = mode
        self.program: Program = recording.program
        self.program.main.outputs = recording.results
        self.tensors: dict[Value, Any] = {
            value: source.tensor for value, source in recording.sources.items()
        }
