"""Detection in 1.x."""

from proa.migrate.fluid.layers.detection.anchors import *  # noqa: F403
from proa.migrate.fluid.layers.detection.anchors import __all__ as _anchors
from proa.migrate.fluid.layers.detection.matching import *  # noqa: F403
from proa.migrate.fluid.layers.detection.matching import __all__ as _matching
from proa.migrate.fluid.layers.detection.outputs import *  # noqa: F403
from proa.migrate.fluid.layers.detection.outputs import __all__ as _outputs
from proa.migrate.fluid.layers.detection.proposals import *  # noqa: F403
from proa.migrate.fluid.layers.detection.proposals import __all__ as _proposals

__all__ = [*_anchors, *_matching, *_outputs, *_proposals]
