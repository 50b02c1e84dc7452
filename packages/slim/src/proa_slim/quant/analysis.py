"""Which layers quantization hurts, and which to leave in float32 to meet a target."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import proa
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.ir import file
from proa.ir.program import Program
from proa_slim.config import QuantConfig
from proa_slim.loading import as_network
from proa_slim.quant.model import QuantizedModel
from proa_slim.quant.page import Histogram, histograms, page
from proa_slim.quant.pairs import pairs
from proa_slim.quant.post_training import (
    convert,
    prepare,
    products,
    quantizable_program,
    quantized_layers,
    require_products,
)
from proa_slim.quant.recording import read_batches

#: How weights of layers that are not quantized are stored.
Rest = Literal["float32", "float16"]
#: A metric of a model, the greater the better; the model is called with arrays.
Evaluate = Callable[[QuantizedModel], float]


class AnalysisPTQ:
    """Sensitivity of a network's layers to post-training quantization.

        analysis = AnalysisPTQ(network, spec, batches, accuracy)
        analysis.metric_error_analyse()            # each layer alone
        model = analysis.search(max_drop=0.5)      # some layers stay in float32
        analysis.statistical_analyse()             # report.html

    Each evaluation is written to `save_dir` as soon as it is finished: a stopped
    search is resumed by ``resume=True`` and repeats at most the evaluation that was in
    progress.

    Args:
        network: Is not changed.
        input_spec: As for `proa.jit.save`.
        data_loader: Batches for calibration, as for `quant_post_static`.
        eval_function: Takes a model, which is called with arrays, and returns a number,
            the greater the better. `statistical_analyse` needs none.
        save_dir: Folder of ``analysis.json`` and ``report.html``; made if need be.
        resume: Whether evaluations in `save_dir` count. They must be of this network
            and configuration.
        quant_config: How to quantize; `QuantConfig()` if not given.
        progress: Whether each evaluation writes a line to standard error.

    Raises:
        PreconditionNotMetError: If nothing can be quantized, there is no batch, or
            `resume` finds evaluations of another network or configuration.
    """

    def __init__(
        self,
        network: proa.nn.Layer,
        input_spec: Sequence[Any],
        data_loader: Iterable[Any],
        eval_function: Evaluate | None = None,
        save_dir: str | PathLike[str] = "analysis_results",
        resume: bool = False,
        quant_config: QuantConfig | None = None,
        progress: bool = True,
    ) -> None:
        config = quant_config or QuantConfig()
        network = as_network(network, input_spec)
        self._config = config.by_path(network)
        self._program = quantizable_program(network, input_spec, self._config)
        self._batches = read_batches(data_loader, self._program)
        require_products(self._program, self._config)
        self._evaluate, self._progress = eval_function, progress
        self._folder = Path(save_dir)
        self._folder.mkdir(parents=True, exist_ok=True)
        content = file.to_bytes(self._program) + repr(self._config).encode()
        self._fingerprint = hashlib.sha256(content).hexdigest()
        self._trials: dict[str, float] = self._read() if resume else {}
        self._prepared = prepare(self._program, self._batches, self._config)
        #: Paths of the layers that can be quantized, and what `skip` calls products of
        #: activations (``path:attention``), in order.
        self.layers = quantized_layers(self._program, self._config)

    # -- evaluations -------------------------------------------------------------------
    @property
    def base_metric(self) -> float:
        """The metric of the network in float32."""
        return self._metric(self.layers, "float32")

    @property
    def quant_metric(self) -> float:
        """The metric with all layers quantized."""
        return self._metric([], "all layers in int8")

    def metric_error_analyse(self) -> dict[str, float]:
        """The metric if one layer alone is quantized, the worst layer first.

        Raises:
            PreconditionNotMetError: If there is no eval_function.
            InvalidArgumentError: If it returns a metric that is not finite.
        """
        base = self.base_metric
        found = {}
        for layer in self.layers:
            others = [name for name in self.layers if name != layer]
            found[layer] = self._metric(others, f"{layer!r} alone in int8", base)
        return dict(sorted(found.items(), key=lambda item: item[1]))

    def search(self, max_drop: float, rest: Rest = "float32") -> QuantizedModel:
        """The model with few layers in float32 that loses at most `max_drop`.

        Args:
            max_drop: In units of the metric, below that of the network in float32.
            rest: How the weights of these layers are stored.

        Raises:
            PreconditionNotMetError: If there is no eval_function, or if even one
                quantized layer loses more; it names the layer that loses least.
            InvalidArgumentError: If a metric is not finite.
        """
        return self.get_target_quant_model(self.base_metric - max_drop, rest)

    def get_target_quant_model(
        self, target_metric: float, rest: Rest = "float32"
    ) -> QuantizedModel:
        """The model with few layers in float32 that has at least `target_metric`.

        All layers are quantized first. While the metric is below the target, the layer
        that loses most when it alone is quantized is left in float32 too.

        Raises:
            PreconditionNotMetError: As `search`.
        """
        base = self.base_metric
        if self._metric([], "all layers in int8", base) >= target_metric:
            return self._model([])
        order = list(self.metric_error_analyse())
        for count in range(1, len(order)):
            skipped = order[:count]
            text = f"{count} of {len(order)} layers in {rest}"
            if self._metric(skipped, text, base, rest) >= target_metric:
                return self._model(skipped, rest)
        best = self._metric(order[:-1], "one layer in int8", base)
        raise PreconditionNotMetError(
            f"[AnalysisPTQ] expected a target that some layer meets, got "
            f"{target_metric:.6g}: float32 has {base:.6g}, with {order[-1]!r} alone in "
            f"int8 it is {best:.6g}"
        )

    def _model(self, skipped: Sequence[str], rest: Rest = "float32") -> QuantizedModel:
        config = self._with(skipped, rest)
        scales, weights = self._prepared
        sample = self._batches[0]
        return convert(self._program, scales, config, sample, weights, self._batches)

    def _with(self, skipped: Sequence[str], rest: Rest) -> QuantConfig:
        config = replace(self._config, skip=(*self._config.skip, *skipped))
        if rest == "float32":
            return config
        return replace(config, half=(*config.half, *skipped))

    def _metric(
        self,
        skipped: Sequence[str],
        text: str,
        base: float = math.nan,
        rest: Rest = "float32",
    ) -> float:
        key = json.dumps(sorted(skipped))
        key += "" if rest == "float32" else f" {rest}"
        if key in self._trials:
            return self._trials[key]
        if self._evaluate is None:
            raise PreconditionNotMetError(
                "[AnalysisPTQ] expected an eval_function to measure layers, got none"
            )
        scales, weights = self._prepared
        if len(skipped) == len(self.layers):
            model = QuantizedModel(self._program, [])
        else:
            config = self._with(skipped, rest)
            batches = self._batches
            model = convert(self._program, scales, config, None, weights, batches)
        metric = float(self._evaluate(model))
        if not math.isfinite(metric):
            raise InvalidArgumentError(
                f"[AnalysisPTQ] expected a finite metric, got {metric} with {text}"
            )
        self._trials[key] = metric
        self._write()
        if self._progress:
            drop = "" if math.isnan(base) else f" ({metric - base:+.6g})"
            done, known = len(self._trials), len(self.layers) + 2
            count = f"{done}/{known}" if done <= known else f"{done}"
            print(f"[{count}] {text}: {metric:.6g}{drop}", file=sys.stderr, flush=True)
        return metric

    # -- files -------------------------------------------------------------------------
    @property
    def _state(self) -> Path:
        return self._folder / "analysis.json"

    def _read(self) -> dict[str, float]:
        if not self._state.is_file():
            return {}
        state = json.loads(self._state.read_text(encoding="utf-8"))
        if state["fingerprint"] != self._fingerprint:
            raise PreconditionNotMetError(
                f"[AnalysisPTQ] resume expected evaluations of this network and "
                f"configuration in {self._state}, got those of another"
            )
        return {str(key): float(value) for key, value in state["trials"].items()}

    def _write(self) -> None:
        state = {"fingerprint": self._fingerprint, "trials": self._trials}
        part = self._state.with_suffix(".part")
        part.write_text(json.dumps(state, indent=1), encoding="utf-8")
        os.replace(part, self._state)

    def statistical_analyse(self) -> Path:
        """Write ``report.html``: one page with the layer report, what was evaluated so
        far, and the histograms of every layer's input and weight (of attention: its
        queries and keys) with their thresholds.

        Returns:
            Its path. The page reads no other file.
        """
        model = self._model([])
        drops = {}
        base = self._trials.get(json.dumps(sorted(self.layers)))
        for layer in self.layers:
            others = json.dumps(sorted(x for x in self.layers if x != layer))
            if base is not None and others in self._trials:
                drops[layer] = base - self._trials[others]
        found = self._histograms(self._program)
        path = self._folder / "report.html"
        path.write_text(page(model, drops, found), encoding="utf-8")
        return path

    def _histograms(self, program: Program) -> dict[str, tuple[Histogram, Histogram]]:
        chosen = products(program, self._config) + pairs(program, self._config)
        return histograms(program, chosen, self._batches, self._prepared.scales)
