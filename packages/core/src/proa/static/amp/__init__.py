"""Mixed precision of recorded programs: lists of operators, a guard, and the rewriting.

`proa.amp` has what training needs: autocast and scaled losses, recorded by `to_static`
as they are. Here a program that was recorded in float32 is rewritten, and an optimizer
says what the step that it takes is to be recorded in.
"""

from proa.static.amp import bf16
from proa.static.amp.decorator import decorate
from proa.static.amp.guard import fp16_guard
from proa.static.amp.lists import AutoMixedPrecisionLists, CustomOpLists
from proa.static.amp.rewrite import cast_model_to_fp16, cast_parameters_to_fp16

__all__ = [
    "AutoMixedPrecisionLists", "CustomOpLists", "bf16", "cast_model_to_fp16",
    "cast_parameters_to_fp16", "decorate", "fp16_guard",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
