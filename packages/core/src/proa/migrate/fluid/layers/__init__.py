"""`paddle.fluid.layers`: what has no equal in 2.x."""

from proa.base.public import publish as _publish
from proa.migrate.fluid.layers.beams import *  # noqa: F403
from proa.migrate.fluid.layers.beams import __all__ as _beams
from proa.migrate.fluid.layers.cells import *  # noqa: F403
from proa.migrate.fluid.layers.cells import __all__ as _cells
from proa.migrate.fluid.layers.detection.anchors import *  # noqa: F403
from proa.migrate.fluid.layers.detection.anchors import __all__ as _anchors
from proa.migrate.fluid.layers.detection.matching import *  # noqa: F403
from proa.migrate.fluid.layers.detection.matching import __all__ as _matching
from proa.migrate.fluid.layers.detection.outputs import *  # noqa: F403
from proa.migrate.fluid.layers.detection.outputs import __all__ as _outputs
from proa.migrate.fluid.layers.detection.proposals import *  # noqa: F403
from proa.migrate.fluid.layers.detection.proposals import __all__ as _proposals
from proa.migrate.fluid.layers.filling import *  # noqa: F403
from proa.migrate.fluid.layers.filling import __all__ as _filling
from proa.migrate.fluid.layers.flow import IfElse, Switch, While
from proa.migrate.fluid.layers.images import *  # noqa: F403
from proa.migrate.fluid.layers.images import __all__ as _images
from proa.migrate.fluid.layers.labels import *  # noqa: F403
from proa.migrate.fluid.layers.labels import __all__ as _labels
from proa.migrate.fluid.layers.losses import *  # noqa: F403
from proa.migrate.fluid.layers.losses import __all__ as _losses
from proa.migrate.fluid.layers.recurrence import DynamicRNN, StaticRNN
from proa.migrate.fluid.layers.recurrent import *  # noqa: F403
from proa.migrate.fluid.layers.recurrent import __all__ as _recurrent
from proa.migrate.fluid.layers.sampling import *  # noqa: F403
from proa.migrate.fluid.layers.sampling import __all__ as _sampling
from proa.migrate.fluid.layers.values import *  # noqa: F403
from proa.migrate.fluid.layers.values import __all__ as _values
from proa.migrate.fluid.py_reader import (
    create_py_reader_by_data,
    double_buffer,
    py_reader,
    read_file,
)
from proa.migrate.fluid.schedules import (
    cosine_decay,
    exponential_decay,
    inverse_time_decay,
    linear_lr_warmup,
    natural_exp_decay,
    noam_decay,
    piecewise_decay,
    polynomial_decay,
)

__all__ = [
    *_anchors, *_beams, *_cells, *_filling, *_images, *_labels, *_losses, *_matching,
    *_outputs, *_proposals, *_recurrent, *_sampling, *_values,
    "create_py_reader_by_data", "double_buffer", "py_reader", "read_file",
    "DynamicRNN", "IfElse", "StaticRNN", "Switch", "While", "cosine_decay",
    "exponential_decay", "inverse_time_decay", "linear_lr_warmup", "natural_exp_decay",
    "noam_decay", "piecewise_decay", "polynomial_decay",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
