"""Functions of sequences for programs in the style of static graphs."""

from __future__ import annotations

from proa.static.nn.sequence import *  # noqa: F403
from proa.static.nn.sequence import __all__ as __all__
from proa.static.nn.sequence_layout import *  # noqa: F403
from proa.static.nn.sequence_layout import __all__ as _layout

__all__ += _layout
