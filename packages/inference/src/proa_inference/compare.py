"""Two models side by side: their outputs and what they compute on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidArgumentError
from proa.ir import file
from proa.runtime import engine_from_bytes
from proa_inference.config import Config
from proa_inference.observe import observed_outputs
from proa_inference.optimize import lower_precision

Array = NDArray[Any]


@dataclass(frozen=True)
class LayerDifference:
    """How an array of the first model and the same one of the second differ.

    Attributes:
        name: Name of the array; of both, if they differ.
        op: The operators that compute it in each model.
        max_abs: max |a - b|.
        relative: |a - b| / |a| by the Euclidean norm.
        cosine: The cosine of the angle between a and b.
        snr_db: 10 log10(|a|^2 / |a - b|^2), infinite where they are equal.
    """

    name: str
    op: tuple[str, str]
    shape: tuple[int, ...]
    max_abs: float
    relative: float
    cosine: float
    snr_db: float
    is_output: bool


def compare_models(
    first: Config, second: Config, inputs: Sequence[Array]
) -> list[LayerDifference]:
    """Run both models as they were recorded and compare what they compute.

    With the same model twice, the second with `Config.enable_bf16`, this is the report
    of what bfloat16 costs: per output, and per layer.

    Outputs are matched by position. Other arrays are matched by name, as a quantized
    model keeps the names of the one that it was made of; of int8 arrays the models'
    own float32 results are compared.

    Args:
        first: The reference.
        second: With inputs and outputs like it.
        inputs: Arrays for both.

    Raises:
        InvalidArgumentError: If the numbers of outputs differ, or inputs do not fit.
        UnimplementedError: If a model has branches or loops.
    """
    (a, a_outputs), (b, b_outputs) = (_arrays(c, inputs) for c in (first, second))
    if len(a_outputs) != len(b_outputs):
        raise InvalidArgumentError(
            f"[compare_models] expected models with as many outputs, got "
            f"{len(a_outputs)} and {len(b_outputs)}"
        )
    ends = {array.name for array in (*a_outputs, *b_outputs)}
    others = {array.name: array for array in b}
    found = []
    for x in a:
        y = others.get(x.name)
        if y is None or x.name in ends or x.data.shape != y.data.shape:
            continue
        if x.data.dtype.kind == y.data.dtype.kind == "f":
            found.append(_difference(x, y, is_output=False))
    for x, end in zip(a_outputs, b_outputs, strict=True):
        if x.data.shape != end.data.shape:
            raise InvalidArgumentError(
                f"[compare_models] output {x.name!r} must have one shape in both "
                f"models, got {x.data.shape} and {end.data.shape}"
            )
        found.append(_difference(x, end, is_output=True))
    return found


def comparison_table(found: Sequence[LayerDifference]) -> str:
    """The differences, one a line; outputs are marked."""
    lines = [f"{'max abs':>10} {'relative':>10} {'cosine':>9} {'SNR dB':>8}  array"]
    for d in found:
        ops = d.op[0] if d.op[0] == d.op[1] else " | ".join(d.op)
        mark = " (output)" if d.is_output else ""
        lines.append(
            f"{d.max_abs:10.3g} {d.relative:10.3g} {d.cosine:9.6f} {d.snr_db:8.2f}  "
            f"{d.name}{mark} {list(d.shape)} {ops}"
        )
    return "\n".join(lines)


@dataclass(frozen=True)
class _Computed:
    """An array, and the operator that computed it."""

    name: str
    op: str
    data: Array


def _arrays(
    config: Config, inputs: Sequence[Array]
) -> tuple[list[_Computed], list[_Computed]]:
    """Everything that a model computes, and its outputs."""
    program = file.from_bytes(config.content())
    lower_precision(program, config)
    count = len(program.main.outputs)
    kinds = [v.producer.op if v.producer else v.kind for v in program.main.outputs]
    kinds += observed_outputs(program)
    values = program.main.outputs
    results = engine_from_bytes(file.to_bytes(program), 1).run(list(inputs))
    found = [
        _Computed(v.name, kind, widened(result) if v.dtype == "bfloat16" else result)
        for v, kind, result in zip(values, kinds, results, strict=True)
    ]
    return found[count:], found[:count]


def widened(bits: Array) -> Array:
    """The float32 of bfloat16's bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _difference(a: _Computed, b: _Computed, *, is_output: bool) -> LayerDifference:
    x, y = (c.data.astype(np.float64).reshape(-1) for c in (a, b))
    noise, signal = float(np.sum((x - y) ** 2)), float(np.sum(x**2))
    norms = float(np.linalg.norm(x) * np.linalg.norm(y))
    snr = np.inf
    if noise:
        snr = 10 * np.log10(signal / noise) if signal else -np.inf
    return LayerDifference(
        name=a.name if a.name == b.name else f"{a.name} | {b.name}",
        op=(a.op, b.op),
        shape=a.data.shape,
        max_abs=float(np.max(np.abs(x - y), initial=0.0)),
        relative=float(np.sqrt(noise / signal)) if signal else float(noise > 0),
        cosine=float(x @ y) / norms if norms else float(noise == 0),
        snr_db=float(snr),
        is_output=is_output,
    )
