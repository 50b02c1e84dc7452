"""Models whose weights take 16 bits."""

from __future__ import annotations

import os
from collections.abc import Collection

from proa.errors import InvalidArgumentError
from proa.ir import Program, Value, file, narrow_weights
from proa.ir.builder import make_node
from proa.ir.narrow import HalfType
from proa.ir.passes import optimize
from proa.ir.precision import compute_in_bfloat16
from proa_inference.config import Config
from proa_inference.types import PlaceType, PrecisionType

_DTYPES: dict[PrecisionType, HalfType] = {
    PrecisionType.Half: "float16",
    PrecisionType.Bfloat16: "bfloat16",
}


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

    In bfloat16 the model also computes, as after `Config.enable_bf16`, on any CPU: on
    one without AVX512_BF16 it takes longer than in float32. In float16 arithmetic stays
    float32: a weight is widened when the model is loaded with graph passes, or where
    it is used. Of one weight w the error is at most 2^-11 |w| in float16 (for
    6e-5 <= |w| <= 65504) and 2^-9 |w| in bfloat16.

    Args:
        model_file: As `Config` takes it.
        params_file: Weights of a Paddle model, or None or empty.
        mixed_model_file: The ``.proa`` file to write.
        mixed_params_file: Has no effect: there is one file.
        mixed_precision: Half or Bfloat16.
        backend: CPU.
        keep_io_types: False lets inputs and outputs of float32 be of 16 bits as well.
        black_list: Operators whose weights stay (bfloat16: that compute in float32).

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
    if not keep_io_types:
        _narrow_arguments(program, dtype)
    if mixed_precision is PrecisionType.Bfloat16:
        optimize(program, 3)
        compute_in_bfloat16(program, black_list)
    else:
        narrow_weights(program, dtype, "convert_to_mixed_precision", black_list)
    file.write(program, mixed_model_file)


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
