"""Mixed precision of a `Model`: what ``amp_configs`` says."""

from __future__ import annotations

from typing import Any

from proa.amp import GradScaler, auto_cast, decorate
from proa.amp.autocast import check_level
from proa.errors import InvalidArgumentError

_SCALING = (
    "init_loss_scaling", "incr_ratio", "decr_ratio", "incr_every_n_steps",
    "decr_every_n_nan_or_inf", "use_dynamic_loss_scaling",
)  # fmt: skip
_CASTING = ("custom_white_list", "custom_black_list", "dtype")
_IGNORED = ("use_fp16_guard", "use_pure_fp16")


class Precision:
    """How a model computes.

    Args:
        configs: None, a level ("O0", "O1" or "O2"), or a dict of ``level`` ("O1" if it
            is left out), arguments of GradScaler, custom_white_list, custom_black_list
            and dtype ("float16" or "bfloat16").

    Attributes:
        level: "O0", "O1" or "O2".
        scales: Whether losses are scaled.
        scaling: What was given of the arguments of GradScaler.
        casting: What was given of lists and dtype.
    """

    def __init__(self, configs: Any = None) -> None:
        given: dict[str, Any] = {"level": "O0" if configs is None else configs}
        if isinstance(configs, dict):
            given = {"level": "O1", **configs}
        known = {"level", *_SCALING, *_CASTING, *_IGNORED}
        if set(given) - known:
            raise InvalidArgumentError(
                f"[Model.prepare] amp_configs must have keys among {sorted(known)}, "
                f"got {sorted(given)}"
            )
        self.level = given["level"]
        check_level("Model.prepare", self.level)
        self.casting = {k: given[k] for k in _CASTING if k in given}
        self.guard()  # checks what is cast
        self.scaling = {k: given[k] for k in _SCALING if k in given}
        # bfloat16 has the range of float32: scaled losses would only cost time.
        self.scales = self.level != "O0" and self.dtype == "float16"
        self.scaler = GradScaler(self.scales, **self.scaling)

    @property
    def dtype(self) -> str:
        """The dtype of 16 bits."""
        return str(self.casting.get("dtype", "float16"))

    def guard(self) -> auto_cast:
        """The block that a forward pass and its loss run in."""
        return auto_cast(self.level != "O0", level=self.level, **self.casting)

    def convert(self, network: Any, optimizer: Any) -> None:
        """At O2 make the network's parameters 16-bit ones."""
        if self.level != "O2":
            return
        decorate(network, optimizer, "O2", self.dtype)
