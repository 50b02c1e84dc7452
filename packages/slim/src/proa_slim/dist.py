"""Distillation under the names of PaddleSlim; `proa_slim.distill` documents it."""

from proa_slim.distill import DML, loss, merge
from proa_slim.distill import dkd_loss as dkd
from proa_slim.distill import fsp_loss as fsp
from proa_slim.distill import l2_loss as l2
from proa_slim.distill import soft_label_loss as soft_label

__all__ = ["DML", "dkd", "fsp", "l2", "loss", "merge", "soft_label"]


def __dir__() -> list[str]:
    return __all__
