"""Post-training quantization: calibrate on real batches, then convert."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import proa
from proa.errors import PreconditionNotMetError
from proa.ir.program import Program
from proa_slim.config import QuantConfig
from proa_slim.loading import as_network
from proa_slim.quant.input_check import warn_of_other_range
from proa_slim.quant.model import QuantizedModel
from proa_slim.quant.pairs import pairs
from proa_slim.quant.post_training import (
    convert,
    prepare,
    products,
    quantizable_program,
    require_products,
)
from proa_slim.quant.recording import read_batches
from proa_slim.quant.speed import LayerSpeed, slow_in_int8


def quant_post_static(
    network: proa.nn.Layer,
    input_spec: Sequence[Any],
    calibration: Iterable[Any],
    config: QuantConfig | None = None,
) -> QuantizedModel:
    """Quantize a trained network to int8 with scales measured on `calibration`.

    Args:
        network: Is not changed. It may be what `proa.jit.load` gave.
        input_spec: As for `proa.jit.save`.
        calibration: Batches of real input: arrays, tensors, or sequences whose first
            items are the inputs. A hundred or so images will do.
        config: How; `QuantConfig()` if not given.

    Raises:
        PreconditionNotMetError: If `calibration` holds no batch, or if no layer can be
            quantized, or would be faster where `config` wants that.
        InvalidArgumentError: If a batch has fewer arrays than the network has inputs,
            or a value that is not finite.
        NotFoundError: If `config.skip` names a layer that the network does not have.
    """
    config = config or QuantConfig()
    network = as_network(network, input_spec)
    # The parameters of the program bear the paths of their layers.
    config = config.by_path(network)
    slow = slow_in_int8(network, input_spec, config) if config.only_faster else {}
    config = replace(config, skip=(*config.skip, *slow))
    program = quantizable_program(network, input_spec, config)
    _require_speed(program, config, slow)
    batches = read_batches(calibration, program)
    require_products(program, config)
    warn_of_other_range(network, batches[0])
    scales, weights = prepare(program, batches, config)
    model = convert(program, scales, config, batches[0], weights, batches)
    model.unquantized.update({path: str(speed) for path, speed in slow.items()})
    return model


def _require_speed(
    program: Program, config: QuantConfig, slow: Mapping[str, LayerSpeed]
) -> None:
    if slow and not (products(program, config) or pairs(program, config)):
        layers = ", ".join(f"{path!r}: {speed}" for path, speed in slow.items())
        raise PreconditionNotMetError(
            f"[quant_post_static] expected a layer that int8 makes faster, got {layers}"
        )
