"""A quantized model: its integer program, evaluated as every runtime evaluates it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

import numpy as np

from proa.ir import file
from proa.ir.program import Array, Program
from proa.runtime import Engine, engine_from_bytes


@dataclass(frozen=True)
class LayerReport:
    """What quantization did to one product.

    Attributes:
        name: Of the product's result in the graph.
        op: conv2d or linear, perhaps with an activation.
        input_scale: Real value of one integer step of the input.
        sqnr_db: Signal to quantization noise of the result,
            10 log10(sum y^2 / sum e^2), with all layers before it quantized too.
        max_abs_error: Greatest |y - y_quantized|.
    """

    name: str
    op: str
    input_scale: float
    sqnr_db: float
    max_abs_error: float

    def as_dict(self) -> dict[str, object]:
        """The fields as a dictionary."""
        return asdict(self)


class QuantizedModel:
    """An int8 program with its report. Call it on arrays to evaluate it."""

    def __init__(self, program: Program, report: list[LayerReport]) -> None:
        self.program = program
        self.report = report
        self._engine: Engine | None = None

    def __call__(self, *inputs: Any) -> Any:
        """Run on arrays or tensors; returns an array, or a list of several."""
        if self._engine is None:
            self._engine = engine_from_bytes(file.to_bytes(self.program))
        arrays: list[Array] = [np.asarray(x) for x in inputs]
        outputs = self._engine.run(arrays)
        return outputs[0] if len(outputs) == 1 else outputs

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model file in one step."""
        file.write(self.program, path)

    def summary(self) -> str:
        """The report as a table, the worst layer first."""
        lines = [
            f"{'layer':32} {'op':12} {'scale':>12} {'SQNR dB':>8} {'max error':>12}"
        ]
        for r in sorted(self.report, key=lambda r: r.sqnr_db):
            lines.append(
                f"{r.name:32} {r.op:12} {r.input_scale:12.6g} {r.sqnr_db:8.2f} "
                f"{r.max_abs_error:12.6g}"
            )
        return "\n".join(lines)
