"""The high-level interface: `Model`, its callbacks, `summary`."""

from __future__ import annotations

from proa.hapi import callbacks
from proa.hapi.model import Model
from proa.hapi.summary import summary

__all__ = ["Model", "callbacks", "summary"]
