"""Recipes: what `compress` tries, from flags, a file, or by the name of a network."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

from proa.errors import InvalidArgumentError, NotFoundError, UnavailableError
from proa_slim.config import QuantConfig
from proa_slim.quant.analysis import Rest

TARGETS = ("int8", "weights16", "weights8", "weights4", "float32")
#: What a field may have, by its annotation.
_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "float": ((int, float), "a number"),
    "int": (int, "an integer"),
    "bool": (bool, "true or false"),
    "str": (str, "text"),
}
#: What YAML takes for text though it is a number.
_EXPONENT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")
_CALIBRATORS = ("mse", "abs_max", "hist", "avg", "kl", "emd")


@dataclass(frozen=True)
class Recipe:
    """What to try, in this order: prune channels, distil the original model into the
    pruned one, quantize in several ways, train with rounding, leave layers out.

    Args:
        target: ``int8``; ``weights16``, ``weights8``, ``weights4`` for weights alone,
            without calibration; or ``float32`` for pruning alone.
        max_drop: What the metric may lose, in points of percent.
        prune: Share of the multiply-adds to remove first, in [0, 1).
        criterion: That of channels, as for `proa_slim.Pruner`; one without gradients.
        align: Numbers of channels are kept multiples of it.
        epochs: Epochs of distillation after pruning.
        learning_rate: That of Adam then, by a cosine to 0.
        batch_size: Batch size of distillation and calibration.
        calibration: Samples to calibrate on.
        quantize: Settings of `QuantConfig` to try one after the other, until one loses
            at most `max_drop`.
        qat_epochs: If none does: of training with the best setting's rounding in place,
            on the outputs of the original.
        qat_learning_rate: That of Adam then, by a cosine to 0.
        mixed: Whether layers are left out of int8 if that does not do either.
        rest: How their weights are stored, ``float32`` or ``float16``.
        max_milliseconds: What a run of one sample may take by ``proa-infer bench``. As
            many multiply-adds are pruned as it takes, in steps of a tenth.
        threads: Number of threads of timed runs.
        compressed: Whether files are deflate streams, as for `QuantizedModel.save`.

    Raises:
        InvalidArgumentError: If a field is out of its range; it names the field.
    """

    target: str = "int8"
    max_drop: float = 0.5
    prune: float = 0.0
    criterion: str = "l1_norm"
    align: int | None = None
    epochs: int = 4
    learning_rate: float = 1e-3
    batch_size: int = 64
    calibration: int = 512
    quantize: tuple[Mapping[str, Any], ...] = (
        *({"activation": name} for name in _CALIBRATORS),
        {"activation": "mse", "bias_correction": True},
        {"activation": "mse", "round_type": "adaround", "bias_correction": True},
    )
    qat_epochs: int = 0
    qat_learning_rate: float = 1e-4
    mixed: bool = True
    rest: Rest = "float32"
    max_milliseconds: float | None = None
    threads: int = 1
    compressed: bool = False

    def __post_init__(self) -> None:
        self._check_types()
        checks = {
            "target": (self.target in TARGETS, f"one of {', '.join(TARGETS)}"),
            "max_drop": (self.max_drop >= 0, "at least 0"),
            "prune": (0 <= self.prune < 1, "in [0, 1)"),
            "epochs": (self.epochs >= 0, "at least 0"),
            "learning_rate": (self.learning_rate > 0, "positive"),
            "qat_epochs": (self.qat_epochs >= 0, "at least 0"),
            "qat_learning_rate": (self.qat_learning_rate > 0, "positive"),
            "rest": (self.rest in ("float32", "float16"), "float32 or float16"),
            "max_milliseconds": (
                self.max_milliseconds is None or self.max_milliseconds > 0,
                "positive",
            ),
            "batch_size": (self.batch_size > 0, "positive"),
            "calibration": (self.calibration > 0, "positive"),
            "threads": (self.threads > 0, "positive"),
            "quantize": (bool(self.quantize), "at least one setting"),
        }
        for name, (is_valid, expected) in checks.items():
            if not is_valid:
                raise InvalidArgumentError(
                    f"[Recipe] {name} must be {expected}, got {getattr(self, name)!r}"
                )
        if self.target == "float32" and not (self.prune or self.max_milliseconds):
            raise InvalidArgumentError(
                "[Recipe] prune must be positive with target float32, got 0"
            )
        self.configs()

    def _check_types(self) -> None:
        for field in fields(self):
            value, optional = getattr(self, field.name), field.default is None
            kind = _KINDS.get(str(field.type).partition(" ")[0])
            if kind is None or (optional and value is None):
                continue
            wanted, expected = kind
            # True is an integer to Python alone
            is_bool = isinstance(value, bool) and wanted is not bool
            if is_bool or not isinstance(value, wanted):
                raise InvalidArgumentError(
                    f"[Recipe] {field.name} must be {expected}, got {value!r}"
                )
        settings: Any = self.quantize
        if not (
            isinstance(settings, (list, tuple))
            and all(isinstance(setting, Mapping) for setting in settings)
        ):
            raise InvalidArgumentError(
                "[Recipe] quantize must be a list of settings, each with fields of "
                f"QuantConfig, got {settings!r}"
            )

    def configs(self) -> list[QuantConfig]:
        """The settings to try.

        Raises:
            InvalidArgumentError: If a setting has a field that `QuantConfig` has not.
        """
        known = {field.name for field in fields(QuantConfig)}
        found = []
        for setting in self.quantize:
            unknown = sorted(set(setting) - known)
            if unknown:
                raise InvalidArgumentError(
                    f"[Recipe] quantize must have fields of QuantConfig, got "
                    f"{unknown[0]!r}"
                )
            given: dict[str, Any] = {
                k: tuple(v) if isinstance(v, list) else v for k, v in setting.items()
            }
            try:
                found.append(QuantConfig(**given))
            except TypeError as error:
                raise InvalidArgumentError(
                    f"[Recipe] quantize must have fields of QuantConfig, got "
                    f"{dict(setting)}: {error}"
                ) from None
        return found

    def as_dict(self) -> dict[str, Any]:
        """The fields, as a file has them."""
        return {**asdict(self), "quantize": [dict(s) for s in self.quantize]}

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Recipe:
        """A recipe of fields; ``recipe`` names one of `RECIPES` to begin with.

        Raises:
            NotFoundError: If there is no recipe of that name.
            InvalidArgumentError: If a field is unknown or out of its range.
        """
        fields_given = dict(given)
        name = fields_given.pop("recipe", None)
        if name is not None and name not in RECIPES:
            raise NotFoundError(
                f"[Recipe] expected one of {', '.join(RECIPES)}, got {name!r}"
            )
        base = RECIPES[name].as_dict() if name is not None else {}
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(fields_given) - set(known))
        if unknown:
            raise InvalidArgumentError(
                f"[Recipe] expected fields among {', '.join(known)}, got {unknown[0]!r}"
            )
        merged = {**base, **fields_given}
        if isinstance(merged.get("quantize"), list):
            merged["quantize"] = tuple(merged["quantize"])
        return cls(**merged)


#: Recipes by the kind of network.
RECIPES: dict[str, Recipe] = {
    "int8": Recipe(),
    # Depthwise filters: channels in eights, and means corrected first.
    "mobilenet": Recipe(
        prune=0.3,
        align=8,
        quantize=(
            {"activation": "mse", "bias_correction": True},
            {"activation": "hist", "bias_correction": True},
            {"activation": "mse", "round_type": "adaround", "bias_correction": True},
        ),
    ),
    # Wide layers lose more channels for the same drop.
    "resnet": Recipe(
        prune=0.5,
        align=8,
        criterion="geometry_median",
        quantize=(
            {"activation": "abs_max"},
            {"activation": "mse", "bias_correction": True},
        ),
    ),
}


def read_fields(path: str | PathLike[str]) -> dict[str, Any]:
    """The fields of a recipe's file, YAML or JSON.

    Raises:
        NotFoundError: If there is no such file.
        InvalidArgumentError: If it has no fields.
        UnavailableError: If it is YAML and PyYAML is not installed (optuna brings it:
            extra ``proa-slim[search]``).
    """
    source = Path(path)
    if not source.is_file():
        raise NotFoundError(f"[Recipe] expected a file, got {source}")
    text = source.read_text(encoding="utf-8")
    try:
        if source.suffix == ".json":
            content = json.loads(text)
        else:
            content = importlib.import_module("yaml").safe_load(text)
    except ImportError:
        raise UnavailableError(
            "[Recipe] expected PyYAML to be installed for a YAML file: pip install "
            "'proa-slim[search]', or write JSON"
        ) from None
    except Exception as error:
        raise InvalidArgumentError(
            f"[Recipe] expected YAML or JSON in {source}, got: {error}"
        ) from None
    if not isinstance(content, dict):
        raise InvalidArgumentError(
            f"[Recipe] expected fields in {source}, got {type(content).__name__}"
        )
    return {str(key): _numbers(value) for key, value in content.items()}


def _numbers(value: Any) -> Any:
    """The value with numbers for what reads as ``1e-3``, also inside lists."""
    if isinstance(value, str) and _EXPONENT.fullmatch(value):
        return float(value)
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    return value
