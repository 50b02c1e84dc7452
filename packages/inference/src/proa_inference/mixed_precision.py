"""Models whose weights take 16 bits."""

from __future__ import annotations

import math
import os
from collections.abc import Collection

import numpy as np

from proa.errors import InvalidArgumentError
from proa.ir import Program, Value, file
from proa.ir.builder import make_node
from proa.ir.program import Array
from proa_inference.config import Config
from proa_inference.types import PlaceType, PrecisionType

#: Constants of so few elements that are no parameters stay.
_SMALL = 64
_DTYPES = {PrecisionType.Half: "float16", PrecisionType.Bfloat16: "bfloat16"}


def convert_to_mixed_precision(
    model_file: str | os.PathLike[str],
    params_file: str | os.PathLike[str] | None,
    mixed_model_file: str | os.PathLike[str],
    mixed_params_file: str | os.PathLike[str] | None = None,
    mixed_precision: PrecisionType = PrecisionType.Half,
    backend: PlaceType = PlaceType.CPU,
    keep_io_types: bool = True,
    black_list: Collection[str] = (),
) -> None:
    """Write a model with float32 weights in 16 bits, half the size.

    Arithmetic stays float32: a weight is widened when the model is loaded with graph
    passes (float16), or where it is used. Of one weight w the error is at most
    2^-11 |w| in float16 (for 6e-5 <= |w| <= 65504) and 2^-8 |w| in bfloat16.

    Args:
        model_file: As `Config` takes it.
        params_file: Of a Paddle model, or None or empty.
        mixed_model_file: The ``.proa`` file to write.
        mixed_params_file: Has no effect: there is one file.
        mixed_precision: Half or Bfloat16.
        backend: CPU.
        keep_io_types: False lets inputs and outputs of float32 be of 16 bits as well.
        black_list: Operators whose weights stay.

    Raises:
        InvalidArgumentError: If the precision has not 16 bits, the backend is another,
            or a weight is too large for float16.
    """
    if mixed_precision not in _DTYPES or backend is not PlaceType.CPU:
        raise InvalidArgumentError(
            "[convert_to_mixed_precision] expected Half or Bfloat16 on the CPU, got "
            f"{mixed_precision} on {backend}"
        )
    program = file.from_bytes(Config(model_file, params_file or None).content())
    dtype = _DTYPES[mixed_precision]
    _narrow_weights(program, dtype, frozenset(black_list))
    if not keep_io_types:
        _narrow_arguments(program, dtype)
    file.write(program, mixed_model_file)


def _narrow_weights(program: Program, dtype: str, excluded: frozenset[str]) -> None:
    for block in program.blocks:
        nodes = []
        for value in block.constants():
            users = [n for n in value.users if n.block is block]
            large = value.kind == "param" or math.prod(value.shape) > _SMALL
            if (
                value.dtype != "float32"
                or not large
                or value.is_output
                or any(n.op in excluded for n in users)
            ):
                continue
            small = Value(
                value.name, dtype, value.shape, value.kind, _narrowed(value, dtype)
            )
            cast = make_node(program, "cast", [small], {"dtype": "float32"})
            block.replace(value, cast.outputs[0])
            nodes.append(cast)
        block.nodes = [*nodes, *block.nodes]


def _narrowed(value: Value, dtype: str) -> Array:
    assert value.data is not None  # of a parameter
    if dtype == "float16":
        with np.errstate(over="ignore"):
            half = value.data.astype(np.float16)
        if np.any(np.isinf(half) & np.isfinite(value.data)):
            raise InvalidArgumentError(
                "[convert_to_mixed_precision] expected weights of at most 65504, the "
                f"largest of float16, got {np.abs(value.data).max()} in {value.name!r}"
            )
        return half
    bits = np.ascontiguousarray(value.data).view(np.uint32)
    # Round half to even; NaNs keep a bit of their payload.
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    quiet = ((bits >> 16) | 0x40).astype(np.uint16)
    return np.where(np.isnan(value.data), quiet, rounded)


def _narrow_arguments(program: Program, dtype: str) -> None:
    main = program.main
    first = []
    for i, value in enumerate(main.inputs):
        if value.dtype != "float32":
            continue
        small = Value(value.name, dtype, value.shape, "input")
        cast = make_node(program, "cast", [small], {"dtype": "float32"})
        main.replace(value, cast.outputs[0])
        main.inputs[i] = small
        first.append(cast)
    main.nodes = [*first, *main.nodes]
    for i, value in enumerate(main.outputs):
        if value.dtype != "float32":
            continue
        cast = make_node(program, "cast", [value], {"dtype": dtype})
        cast.outputs[0].name, value.name = value.name, cast.outputs[0].name
        main.nodes.append(cast)
        main.outputs[i] = cast.outputs[0]
