"""Pooling, regions and patches of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import proa
from proa._core import Tensor
from proa.errors import InvalidArgumentError
from proa.nn import functional as F
from proa.nn.nms import box_iou
from proa.nn.sequences import RowSequences
from proa.static.nn.sequence_arguments import sequences_of, with_sequences

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike

__all__ = [
    "adaptive_pool3d", "deformable_conv", "im2sequence", "iou_similarity", "pool3d",
    "roi_align", "roi_pool",
]  # fmt: skip


def pool3d(
    input: Tensor,
    pool_size: Any = -1,
    pool_type: str = "max",
    pool_stride: Any = 1,
    pool_padding: Any = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCDHW",
) -> Tensor:
    """Maxima or means of blocks of volumes; of whole volumes if global_pooling."""
    if global_pooling:
        whole: Tensor = adaptive_pool3d(input, 1, pool_type)
        return whole
    _check_kind(pool_type)
    if pool_type == "max":
        return F.max_pool3d(
            input, pool_size, pool_stride, pool_padding, False, ceil_mode, data_format
        )
    return F.avg_pool3d(
        input, pool_size, pool_stride, pool_padding, ceil_mode, exclusive, None,
        data_format,
    )  # fmt: skip


def _check_kind(pool_type: str) -> None:
    if pool_type not in ("max", "avg"):
        raise InvalidArgumentError(
            f"[pool3d] pool_type must be 'max' or 'avg', got {pool_type!r}"
        )


def adaptive_pool3d(
    input: Tensor,
    pool_size: Any,
    pool_type: str = "max",
    require_index: bool = False,
    name: str | None = None,
) -> Any:
    """Maxima or means of so many blocks in each direction of volumes."""
    _check_kind(pool_type)
    if pool_type == "avg":
        return F.adaptive_avg_pool3d(input, pool_size)
    return F.adaptive_max_pool3d(input, pool_size, require_index)


def deformable_conv(
    input: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    num_filters: int,
    filter_size: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int | None = None,
    deformable_groups: int | None = None,
    im2col_step: int | None = None,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    modulated: bool = True,
    name: str | None = None,
) -> Tensor:
    """`static.nn.deform_conv2d`; without the mask unless modulated."""
    return proa.static.nn.deform_conv2d(
        input, offset, mask if modulated else None, num_filters, filter_size, stride,
        padding, dilation, groups or 1, deformable_groups or 1, im2col_step or 1,
        param_attr, bias_attr, name,
    )  # fmt: skip


def im2sequence(
    input: Tensor,
    filter_size: Any = 1,
    stride: Any = 1,
    padding: Any = 0,
    input_image_size: Any = None,
    out_stride: Any = 1,
    name: str | None = None,
) -> Tensor:
    """Patches of images (n, c, h, w) as rows (.., c * size), a sequence for each image.

    Args:
        filter_size: (height, width) of patches.
        stride: Steps between them.
        padding: Zeros around: up, left, down, right.
        input_image_size: Must be None: images have one size.
        out_stride: Has no meaning then.
    """
    if input_image_size is not None:
        raise InvalidArgumentError(
            "[im2sequence] input_image_size must be None, got images of several sizes"
        )
    width = int(input.shape[1])
    sides = [filter_size] * 2 if isinstance(filter_size, int) else list(filter_size)
    columns = F.unfold(input, sides, stride, padding)  # (n, c * size, patches)
    count = int(columns.shape[2])
    rows = proa.reshape(
        proa.transpose(columns, [0, 2, 1]), [-1, width * sides[0] * sides[1]]
    )
    whole = proa.full([input.shape[0]], count, "int64")
    return with_sequences(rows, RowSequences([whole], None, rows))


def iou_similarity(
    x: Tensor, y: Tensor, box_normalized: bool = True, name: str | None = None
) -> Tensor:
    """Intersection over union (n, m) of boxes (n, 4) and (m, 4)."""
    if not box_normalized:
        ends = proa.assign(proa.to_tensor([0.0, 0.0, 1.0, 1.0]))
        x, y = proa.add(x, ends), proa.add(y, ends)
    return box_iou(x, y)


def _boxes_num(rois: Tensor, rois_num: Tensor | None) -> Tensor:
    """How many boxes each image has: the lengths of sequences unless they are given."""
    if rois_num is not None:
        return rois_num
    return proa.cast(sequences_of("roi_align", rois).lengths, "int32")


def roi_align(
    input: Tensor,
    rois: Tensor,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    name: str | None = None,
    rois_num: Tensor | None = None,
) -> Tensor:
    """`vision.ops.roi_align` without the half pixel's shift; boxes are rows of
    sequences, one for each image, unless their numbers are given.
    """
    size: Sequence[int] = [pooled_height, pooled_width]
    return proa.vision.ops.roi_align(
        input, rois, _boxes_num(rois, rois_num), size, spatial_scale, sampling_ratio,
        aligned=False,
    )  # fmt: skip


def roi_pool(
    input: Tensor,
    rois: Tensor,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    rois_num: Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """`vision.ops.roi_pool`, with boxes as `roi_align` takes them."""
    size: Sequence[int] = [pooled_height, pooled_width]
    numbers = _boxes_num(rois, rois_num)
    return proa.vision.ops.roi_pool(input, rois, numbers, size, spatial_scale)
