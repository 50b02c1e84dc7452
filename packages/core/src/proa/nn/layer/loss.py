"""Loss layers: each calls the function of its name in `proa.nn.functional`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from proa._core import Tensor
from proa.errors import InvalidArgumentError
from proa.nn import functional as F
from proa.nn.layer.base import Layer
from proa.nn.schemes import Uniform

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss",
    "CrossEntropyLoss", "HSigmoidLoss", "HingeEmbeddingLoss",
    "KLDivLoss", "L1Loss", "MSELoss", "MarginRankingLoss",
    "NLLLoss", "SmoothL1Loss",
]  # fmt: skip


class _Loss(Layer):
    _reductions: tuple[str, ...] = ("mean", "sum", "none")

    def __init__(self, reduction: str) -> None:
        super().__init__()
        if reduction not in self._reductions:
            raise InvalidArgumentError(
                f"[{type(self).__name__}] reduction must be one of "
                f"{self._reductions}, got {reduction!r}"
            )
        self.reduction = reduction


class CrossEntropyLoss(_Loss):
    """-log of the probability given to the label; see `functional.cross_entropy`."""

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        soft_label: bool = False,
        axis: int = -1,
        use_softmax: bool = True,
        label_smoothing: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__(reduction)
        self.weight, self.ignore_index = weight, ignore_index
        self.soft_label, self.axis = soft_label, axis
        self.use_softmax, self.label_smoothing = use_softmax, label_smoothing

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(
            input, label, self.weight, self.ignore_index, self.reduction,
            self.soft_label, self.axis, self.use_softmax, self.label_smoothing,
        )  # fmt: skip


class MSELoss(_Loss):
    """(input - label) ** 2."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.mse_loss(input, label, self.reduction)


class L1Loss(_Loss):
    """|input - label|."""

    def __init__(self, reduction: str = "mean", name: str | None = None) -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.l1_loss(input, label, self.reduction)


class SmoothL1Loss(_Loss):
    """Quadratic near 0, linear beyond delta."""

    def __init__(
        self, reduction: str = "mean", delta: float = 1.0, name: str | None = None
    ) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, label, self.reduction, self.delta)


class NLLLoss(_Loss):
    """-input at the label, input being log-probabilities with classes on axis 1."""

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__(reduction)
        self._weight, self._ignore_index = weight, ignore_index

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.nll_loss(
            input, label, self._weight, self._ignore_index, self.reduction
        )


class BCELoss(_Loss):
    """Binary cross-entropy of probabilities."""

    def __init__(
        self,
        weight: Tensor | None = None,
        reduction: str = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__(reduction)
        self.weight = weight

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, label, self.weight, self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross-entropy of sigmoid(logit)."""

    def __init__(
        self,
        weight: Tensor | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(reduction)
        self.weight, self.pos_weight = weight, pos_weight

    def forward(self, logit: Tensor, label: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            logit, label, self.weight, self.reduction, self.pos_weight
        )


class KLDivLoss(_Loss):
    """label * (log(label) - input), input being log-probabilities."""

    _reductions = ("mean", "sum", "none", "batchmean")

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.kl_div(input, label, self.reduction, log_target=self.log_target)


class MarginRankingLoss(_Loss):
    """max(0, -label * (input - other) + margin)."""

    def __init__(
        self, margin: float = 0.0, reduction: str = "mean", name: str | None = None
    ) -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input: Tensor, other: Tensor, label: Tensor) -> Tensor:
        return F.margin_ranking_loss(input, other, label, self.margin, self.reduction)


class HingeEmbeddingLoss(_Loss):
    """input where label is 1, max(0, margin - input) where it is -1."""

    def __init__(
        self, margin: float = 1.0, reduction: str = "mean", name: str | None = None
    ) -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, label, self.margin, self.reduction)


class CosineEmbeddingLoss(_Loss):
    """1 - cos where label is 1, max(0, cos - margin) where it is -1."""

    def __init__(
        self, margin: float = 0.0, reduction: str = "mean", name: str | None = None
    ) -> None:
        super().__init__(reduction)
        self.margin: Any = margin

    def forward(self, input1: Tensor, input2: Tensor, label: Tensor) -> Tensor:
        return F.cosine_embedding_loss(
            input1, input2, label, self.margin, self.reduction
        )


class CTCLoss(_Loss):
    """Connectionist temporal classification; see `functional.ctc_loss`."""

    def __init__(self, blank: int = 0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.blank = blank

    def forward(
        self,
        log_probs: Tensor,
        labels: Tensor,
        input_lengths: Tensor,
        label_lengths: Tensor,
        norm_by_times: bool = False,
    ) -> Tensor:
        return F.ctc_loss(
            log_probs, labels, input_lengths, label_lengths, self.blank,
            self.reduction, norm_by_times,
        )  # fmt: skip


class HSigmoidLoss(Layer):
    """Hierarchical sigmoid; see `functional.hsigmoid_loss`.

    Args:
        feature_size: Length of the input.
        num_classes: Leaves of the default tree; rows of the weight if is_custom.
        weight_attr: How the weight (inner nodes, feature_size) is made.
        bias_attr: How the bias (inner nodes, 1) is made; False for none.
        is_custom: Whether forward is given the paths of a tree of one's own.
        is_sparse: Kept for callers; gradients are dense.
    """

    def __init__(
        self,
        feature_size: int,
        num_classes: int,
        weight_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
        is_custom: bool = False,
        is_sparse: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if num_classes < 2 and not is_custom:
            raise InvalidArgumentError(
                f"[HSigmoidLoss] num_classes must be at least 2, got {num_classes}"
            )
        if feature_size < 1:
            raise InvalidArgumentError(
                f"[HSigmoidLoss] feature_size must be at least 1, got {feature_size}"
            )
        self._num_classes, self._is_custom = num_classes, is_custom
        nodes = num_classes if is_custom else num_classes - 1
        limit = 1.0 / math.sqrt(feature_size)
        init = Uniform(-limit, limit)
        self.weight = self.create_parameter(
            [nodes, feature_size], attr=weight_attr, default_initializer=init
        )
        self.bias = self.create_parameter(
            [nodes, 1], attr=bias_attr, is_bias=True, default_initializer=init
        )

    def forward(
        self,
        input: Tensor,
        label: Tensor,
        path_table: Tensor | None = None,
        path_code: Tensor | None = None,
    ) -> Tensor:
        if self._is_custom and path_table is None:
            raise InvalidArgumentError(
                "[HSigmoidLoss] expected path_table and path_code, got None"
            )
        return F.hsigmoid_loss(
            input, label, self._num_classes, self.weight, self.bias, path_table,
            path_code,
        )  # fmt: skip
