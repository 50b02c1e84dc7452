"""Distillation: losses, merging of static programs, and a layer for dynamic nets."""

from proa_slim.distill.layer import Distill, DistillLoss
from proa_slim.distill.losses import (
    attention_loss,
    dkd_loss,
    fsp_loss,
    kl_loss,
    l2_loss,
    loss,
    soft_label_loss,
)
from proa_slim.distill.merging import merge
from proa_slim.distill.mutual import DML

__all__ = [
    "DML",
    "Distill",
    "DistillLoss",
    "attention_loss",
    "dkd_loss",
    "fsp_loss",
    "kl_loss",
    "l2_loss",
    "loss",
    "merge",
    "soft_label_loss",
]


def __dir__() -> list[str]:
    return __all__
