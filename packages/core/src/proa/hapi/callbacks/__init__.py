"""Callbacks of `proa.Model`: hooks around training."""

from proa.hapi.callbacks.base import Callback, CallbackList
from proa.hapi.callbacks.monitor import EarlyStopping, ReduceLROnPlateau
from proa.hapi.callbacks.routine import LRScheduler, ModelCheckpoint, ProgBarLogger
from proa.hapi.callbacks.tensorboard import TensorBoard, VisualDL

__all__ = [
    "Callback", "CallbackList", "EarlyStopping", "LRScheduler", "ModelCheckpoint",
    "ProgBarLogger", "ReduceLROnPlateau", "TensorBoard", "VisualDL",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
