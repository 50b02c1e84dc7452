"""A quantized model: its integer program, evaluated as every runtime evaluates it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

import numpy as np

from proa.ir import file
from proa.ir.program import Array, Program
from proa.runtime import Engine, engine_from_bytes

#: The metadata of a model file that has ranges of outputs, by the paths of layers.
OUT_THRESHOLD = "out_threshold"
#: An input this many times beyond what calibration saw was pre-processed otherwise.
_OUT_OF_RANGE = 4.0


@dataclass(frozen=True)
class LayerReport:
    """What quantization did to one product, its operands rounded.

    A signal to quantization noise ratio (SQNR) is 10 log10(sum y^2 / sum e^2) in dB,
    with y the result in float32 and e what quantization changes.

    Attributes:
        name: Name of the product's result in the graph.
        layer: Path of the layer whose weight it reads; of a product of activations,
            that of the layer it is in with its operator: ``path:attention``.
        op: conv2d or linear, perhaps with an activation; attention or matmul.
        input_scale: Real value of one integer step of the input, or of the first
            operand.
        sqnr_db: SQNR of the result, with all layers before it quantized too.
        layer_sqnr_db: SQNR of the result if this layer alone is quantized.
        worst_channel: The output channel with the lowest SQNR, with all layers before
            it quantized too. Those of attention's heads are counted one after another.
        worst_channel_sqnr_db: Its SQNR.
        max_abs_error: Greatest |y - y_quantized|.
    """

    name: str
    layer: str
    op: str
    input_scale: float
    sqnr_db: float
    layer_sqnr_db: float
    worst_channel: int
    worst_channel_sqnr_db: float
    max_abs_error: float

    def as_dict(self) -> dict[str, object]:
        """The fields as a dictionary."""
        return asdict(self)


class QuantizedModel:
    """An int8 program with its report. Call it on arrays to evaluate it.

    Args:
        program: The graph.
        report: One record for each quantized product.
        unquantized: Paths of layers with weights, and keys of products of activations,
            that stay in float32, and why.
        limits: By the names of inputs, the greatest magnitude that calibration saw.
    """

    def __init__(
        self,
        program: Program,
        report: list[LayerReport],
        unquantized: Mapping[str, str] | None = None,
        limits: Mapping[str, float] | None = None,
    ) -> None:
        self.program = program
        self.report = report
        self.unquantized = dict(unquantized or {})
        self._limits = dict(limits or {})
        self._engine: Engine | None = None

    def __call__(self, *inputs: Any) -> Any:
        """Run on arrays or tensors; returns an array, or a list of several.

        Warns once if an input reaches well beyond what calibration saw.
        """
        if self._engine is None:
            self._engine = engine_from_bytes(file.to_bytes(self.program))
        arrays: list[Array] = [np.asarray(x) for x in inputs]
        self._check_range(arrays)
        outputs = self._engine.run(arrays)
        return outputs[0] if len(outputs) == 1 else outputs

    def _check_range(self, arrays: list[Array]) -> None:
        for value, array in zip(self.program.main.inputs, arrays, strict=False):
            limit = self._limits.get(value.name)
            if limit is None or not array.size:
                continue
            peak = float(np.abs(array).max())
            if peak > _OUT_OF_RANGE * limit:
                del self._limits[value.name]
                warnings.warn(
                    f"[QuantizedModel] the input {value.name!r} reaches {peak:.4g}, "
                    f"but was calibrated up to {limit:.4g}: check its pre-processing",
                    stacklevel=3,
                )

    @property
    def out_scales(self) -> dict[str, float]:
        """The greatest magnitudes of layers' outputs, by the layers' paths, and of the
        results of other operators, by their names.
        """
        noted = json.loads(self.program.metadata.get(OUT_THRESHOLD, "{}"))
        return {str(path): float(value) for path, value in noted.items()}

    def save(self, path: str | PathLike[str], compressed: bool = False) -> None:
        """Write the model file in one step.

        Args:
            path: Of the file.
            compressed: Whether the file is a deflate stream, which every runtime of
                Proa reads. It is worth it for small networks, whose graph is a good
                part of the file; loading takes about 11 ms for a megabyte.
        """
        file.write(self.program, path, compressed=compressed)

    def summary(self) -> str:
        """The report as a table, the worst layer first."""
        lines = [
            f"{'layer':24} {'op':12} {'scale':>12} {'SQNR dB':>8} {'alone':>8} "
            f"{'worst channel':>16} {'max error':>12}"
        ]
        for r in sorted(self.report, key=lambda r: r.sqnr_db):
            worst = f"{r.worst_channel_sqnr_db:.2f} ({r.worst_channel})"
            lines.append(
                f"{r.layer:24} {r.op:12} {r.input_scale:12.6g} {r.sqnr_db:8.2f} "
                f"{r.layer_sqnr_db:8.2f} {worst:>16} {r.max_abs_error:12.6g}"
            )
        return "\n".join(lines)
