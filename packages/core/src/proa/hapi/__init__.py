"""The high-level interface: `Model`, its callbacks, `summary` and `flops`."""

from proa.hapi import callbacks
from proa.hapi.checkpoint import latest_checkpoint
from proa.hapi.flops import flops
from proa.hapi.model import Model
from proa.hapi.summary import summary

__all__ = ["Model", "callbacks", "flops", "latest_checkpoint", "summary"]


def __dir__() -> list[str]:
    return __all__
