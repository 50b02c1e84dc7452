"""Weights stored in 16-bit floating point: half the file, products in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import proa
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.ir.narrow import HalfType, narrow_weights
from proa_slim.config import QuantConfig
from proa_slim.loading import as_network
from proa_slim.quant.layer_paths import is_in
from proa_slim.quant.model import QuantizedModel
from proa_slim.quant.recording import program_of


def half_weights(
    network: proa.nn.Layer,
    input_spec: Sequence[Any],
    dtype: HalfType = "float16",
    skip: tuple[str | type[proa.nn.Layer], ...] = (),
) -> QuantizedModel:
    """The trained network with its weights in float16 or bfloat16.

        half_weights(network, spec).save("net.half.proa")

    Arithmetic stays float32. Of a weight w the error is at most 2^-11 |w| in float16,
    for 6e-5 <= |w| <= 65504, and 2^-8 |w| in bfloat16, whatever its size.

    Args:
        network: Is not changed.
        input_spec: As for `proa.jit.save`.
        dtype: Dtype of the stored weights.
        skip: Layers whose weights stay in float32, as in `QuantConfig`.

    Returns:
        A model without a report.

    Raises:
        InvalidArgumentError: If dtype is neither, or a weight, which the text names, is
            too large for float16.
        NotFoundError: If `skip` names a layer that the network does not have.
        PreconditionNotMetError: If there is no weight to store in 16 bits.
    """
    if dtype not in get_args(HalfType):
        raise InvalidArgumentError(
            f"[half_weights] dtype must be one of {', '.join(get_args(HalfType))}, got "
            f"{dtype!r}"
        )
    network = as_network(network, input_spec)
    skipped = QuantConfig(skip=skip).skipped(network)
    program = program_of(network, input_spec)
    if not narrow_weights(
        program, dtype, "half_weights", chosen=lambda name: not is_in(name, skipped)
    ):
        raise PreconditionNotMetError(
            "[half_weights] expected a float32 weight to store in 16 bits, got none "
            "that skip leaves"
        )
    program.metadata["quantization"] = f"weights {dtype}"
    return QuantizedModel(program, [], dict.fromkeys(skipped, "named in skip"))
