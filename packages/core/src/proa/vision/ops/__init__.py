"""Operators of detection: regions, boxes, YOLO heads, deformable convolution."""

from proa.base.public import publish as _publish
from proa.vision.ops import anchors, boxes, deform, files, proposals, roi_pooling, yolo
from proa.vision.ops.anchors import *  # noqa: F403
from proa.vision.ops.boxes import *  # noqa: F403
from proa.vision.ops.deform import *  # noqa: F403
from proa.vision.ops.files import *  # noqa: F403
from proa.vision.ops.proposals import *  # noqa: F403
from proa.vision.ops.roi_pooling import *  # noqa: F403
from proa.vision.ops.yolo import *  # noqa: F403

__all__ = [
    name
    for family in (anchors, boxes, deform, files, proposals, roi_pooling, yolo)
    for name in family.__all__
]


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
