"""Layers, losses, branches, loops and functions of sequences in static graphs."""

from proa.base.public import publish as _publish
from proa.jit.control_flow import *  # noqa: F403
from proa.jit.control_flow import __all__ as _control
from proa.static.nn.conv import *  # noqa: F403
from proa.static.nn.conv import __all__ as _conv
from proa.static.nn.crf import *  # noqa: F403
from proa.static.nn.crf import __all__ as _crf
from proa.static.nn.detection import *  # noqa: F403
from proa.static.nn.detection import __all__ as _detection
from proa.static.nn.layers import *  # noqa: F403
from proa.static.nn.layers import __all__ as _layers
from proa.static.nn.loss import *  # noqa: F403
from proa.static.nn.loss import __all__ as _loss
from proa.static.nn.norm import *  # noqa: F403
from proa.static.nn.norm import __all__ as _norm
from proa.static.nn.sequence import *  # noqa: F403
from proa.static.nn.sequence import __all__ as _sequences
from proa.static.nn.sequence_layout import *  # noqa: F403
from proa.static.nn.sequence_layout import __all__ as _layout
from proa.static.python_function import py_func
from proa.static.state import create_parameter

__all__ = [
    *_layers, *_control, *_conv, *_crf, *_detection, *_loss, *_norm, *_sequences,
    *_layout, "create_parameter", "py_func",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
