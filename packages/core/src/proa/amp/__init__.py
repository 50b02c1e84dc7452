"""Mixed precision: chosen ops in 16 bits, the rest in float32, and scaled losses."""

from proa.amp.autocast import amp_guard, auto_cast
from proa.amp.decorate import amp_decorate, decorate
from proa.amp.scaler import AmpScaler, GradScaler
from proa.amp.support import is_bfloat16_supported, is_float16_supported
from proa.base.public import publish as _publish

__all__ = [
    "AmpScaler", "GradScaler", "amp_decorate", "amp_guard", "auto_cast", "decorate",
    "is_bfloat16_supported", "is_float16_supported",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
