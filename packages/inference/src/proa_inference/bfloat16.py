"""Settings of a Config that let a float32 model compute in bfloat16."""

from __future__ import annotations

from collections.abc import Iterable

from proa.errors import PreconditionNotMetError
from proa.runtime import multiplies_bfloat16
from proa.schema import ROWS


class Bfloat16:
    """Methods of a Config that concern bfloat16."""

    _bf16 = False
    #: Operators, or names of arrays, that stay in float32.
    _float32: frozenset[str] = frozenset()
    #: The operators that may compute in bfloat16; None for all.
    _bf16_only: frozenset[str] | None = None

    def enable_bf16(self, keep: Iterable[str] = ()) -> None:
        """Compute in bfloat16, with sums in float32; inputs and outputs stay float32.

        Weights are converted and packed when the model is loaded. Operators that have
        no bfloat16 kernel, or need more bits (logarithms, exponentials, powers),
        compute in float32; so does what no product comes before.

        Args:
            keep: Operators, or names of arrays, that stay in float32.

        Raises:
            PreconditionNotMetError: If the CPU cannot multiply bfloat16.
        """
        require_bfloat16("Config.enable_bf16")
        self._bf16 = True
        self._float32 = frozenset(keep)

    def enable_mkldnn_bfloat16(self) -> None:
        """As `enable_bf16`; what `set_bfloat16_op` said holds."""
        require_bfloat16("Config.enable_mkldnn_bfloat16")
        self._bf16 = True

    def set_bfloat16_op(self, ops: Iterable[str]) -> None:
        """Let these operators alone compute in bfloat16."""
        self._bf16_only = frozenset(ops)

    def exp_disable_mixed_precision_ops(self, ops: Iterable[str]) -> None:
        """Let these operators stay in float32."""
        self._float32 = frozenset(ops)

    def bf16_enabled(self) -> bool:
        """True after `enable_bf16`."""
        return self._bf16

    mkldnn_bfloat16_enabled = bf16_enabled

    def bf16_exceptions(self) -> frozenset[str]:
        """The operators, and names of arrays, that stay in float32 by the settings."""
        if self._bf16_only is None:
            return self._float32
        return self._float32 | (ROWS.keys() - self._bf16_only)


def require_bfloat16(where: str) -> None:
    """Raise PreconditionNotMetError unless products of bfloat16 are fast here."""
    if not multiplies_bfloat16():
        raise PreconditionNotMetError(
            f"[{where}] expected a CPU with AVX512_BF16 (and neither PROA_BF16=off "
            "nor a PROA_ISA below avx512), got one that widens bfloat16 to float32, "
            "which is slower than float32; PROA_BF16=emulate in the environment "
            "emulates it for tests"
        )
