"""Ranges of the outputs of all layers, noted in training and kept in the model file."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import proa
from proa.ir.program import Program
from proa.nn import Layer
from proa.runtime import is_symbolic
from proa_slim.quant.fake_quant import InputQuantizer, WeightQuantizer
from proa_slim.quant.model import OUT_THRESHOLD
from proa_slim.quant.pair_layers import QUANTIZED

_RATE = 0.9


def watch_outputs(student: Layer) -> None:
    """Let every layer without sublayers, and every quantized one, note the moving
    average of the greatest magnitude of its output in training.
    """
    for layer in _watched(student).values():
        layer.register_buffer("out_threshold", proa.zeros([1]))
        layer.register_buffer("out_total", proa.zeros([1]))
        layer.register_forward_post_hook(_note)


def _watched(student: Layer) -> dict[str, Layer]:
    found: dict[str, Layer] = {}
    inside: list[str] = []
    for path, layer in student.named_sublayers():
        if any(path.startswith(p) for p in inside):
            continue
        whole = isinstance(layer, QUANTIZED)
        if isinstance(layer, (InputQuantizer, WeightQuantizer)):
            continue
        if whole or not layer.sublayers():
            found[path] = layer
            inside.append(f"{path}.")
    return found


def _note(layer: Any, inputs: object, output: Any) -> None:
    if not layer.training or not isinstance(output, proa.Tensor):
        return
    if is_symbolic(output) or output.dtype not in (proa.float32, proa.float64):
        return
    peak = float(np.abs(output.numpy()).max(initial=0.0))
    state = _RATE * float(layer.out_threshold) + (1 - _RATE) * peak
    total = _RATE * float(layer.out_total) + (1 - _RATE)
    layer.out_threshold.set_value(np.array([state], np.float32))
    layer.out_total.set_value(np.array([total], np.float32))


def note_out_scales(program: Program, student: Layer) -> None:
    """Write what layers noted to the program's metadata."""
    found = {}
    for path, layer in student.named_sublayers():
        total = getattr(layer, "out_total", None)
        if total is not None and float(total) > 0:
            found[path] = float(layer.out_threshold) / float(total)
    program.metadata[OUT_THRESHOLD] = json.dumps(found)
