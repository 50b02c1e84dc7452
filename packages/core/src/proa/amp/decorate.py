"""`decorate`: a network and its optimizers made ready for 16-bit parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar, overload

from proa.amp.autocast import check_level, low_dtype
from proa.base.dtype import DTypeLike, as_dtype
from proa.errors import InvalidArgumentError
from proa.nn.layer import Layer
from proa.optimizer import Optimizer

M = TypeVar("M", bound=Layer | Sequence[Layer])
S = TypeVar("S", bound=Optimizer | Sequence[Optimizer])
Excluded: TypeAlias = Layer | type[Layer]


def _float32_layers() -> tuple[type, ...]:
    """Layers whose parameters stay float32."""
    from proa import nn

    return (
        nn.BatchNorm, nn.BatchNorm1D, nn.BatchNorm2D, nn.BatchNorm3D, nn.LayerNorm,
    )  # fmt: skip


def _listed(value: Any, kind: type, where: str) -> list[Any]:
    found = list(value) if isinstance(value, (list, tuple)) else [value]
    for v in found:
        if not isinstance(v, kind):
            raise InvalidArgumentError(
                f"[{where}] expected {kind.__name__}s, got {type(v).__name__}"
            )
    return found


def _save_as(layer: Layer, dtype: Any) -> None:
    """Make the layer's state dict hold floating tensors as ``dtype``."""
    kind = as_dtype(dtype)

    def convert(state: dict[str, Any]) -> None:
        for name, value in state.items():
            if value.dtype.is_floating:
                state[name] = value.astype(kind)

    layer.register_state_dict_hook(convert)


@overload
def decorate(
    models: M,
    optimizers: None = None,
    level: str = "O1",
    dtype: DTypeLike = "float16",
    master_weight: bool | None = None,
    save_dtype: DTypeLike | None = None,
    master_grad: bool = False,
    excluded_layers: Excluded | Sequence[Excluded] | None = None,
) -> M: ...


@overload
def decorate(
    models: M,
    optimizers: S,
    level: str = "O1",
    dtype: DTypeLike = "float16",
    master_weight: bool | None = None,
    save_dtype: DTypeLike | None = None,
    master_grad: bool = False,
    excluded_layers: Excluded | Sequence[Excluded] | None = None,
) -> tuple[M, S]: ...


def decorate(
    models: M,
    optimizers: S | None = None,
    level: str = "O1",
    dtype: DTypeLike = "float16",
    master_weight: bool | None = None,
    save_dtype: DTypeLike | None = None,
    master_grad: bool = False,
    excluded_layers: Excluded | Sequence[Excluded] | None = None,
) -> M | tuple[M, S]:
    """Convert networks to 16-bit parameters (level O2); O1 leaves them as they are.

    Batch and layer norms keep float32 parameters. Optimizers train float32 copies of
    16-bit parameters unless master_weight is False.

    Args:
        models: A Layer or a list of them.
        optimizers: An Optimizer, a list of them or None.
        level: "O0", "O1" or "O2".
        dtype: "float16" or "bfloat16".
        master_weight: Whether optimizers train float32 copies; None means yes.
        save_dtype: The dtype of parameters in state dicts; None keeps their own.
        master_grad: Kept for callers; optimizers' steps always compute in float32.
        excluded_layers: Layers, or their types, that keep float32 parameters.

    Returns:
        models, or (models, optimizers) where optimizers were given.
    """
    check_level("decorate", level)
    low = low_dtype("decorate", dtype)
    layers = _listed(models, Layer, "decorate")
    stepping = [] if optimizers is None else _listed(optimizers, Optimizer, "decorate")
    if level == "O2":
        given = excluded_layers if excluded_layers is not None else ()
        apart: list[Any] = list(given) if isinstance(given, (list, tuple)) else [given]
        types = (*_float32_layers(), *(a for a in apart if isinstance(a, type)))
        single = [a for a in apart if not isinstance(a, type)]
        keep = {id(below) for a in single for below in a.sublayers(include_self=True)}
        for layer in layers:
            for below in layer.sublayers(include_self=True):
                if not isinstance(below, types) and id(below) not in keep:
                    below._convert_own(low)
        for result in stepping:
            result._multi_precision = master_weight is not False
    if save_dtype is not None:
        for layer in layers:
            _save_as(layer, save_dtype)
    return models if optimizers is None else (models, optimizers)


amp_decorate = decorate
