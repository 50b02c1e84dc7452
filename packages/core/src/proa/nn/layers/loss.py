"""Loss layers: each calls the function of its name in `proa.nn.functional`."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor
from proa.errors import InvalidArgumentError
from proa.nn import functional as F
from proa.nn.layer import Layer

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CosineEmbeddingLoss", "CrossEntropyLoss",
    "HingeEmbeddingLoss", "KLDivLoss", "L1Loss", "MSELoss", "MarginRankingLoss",
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

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return F.kl_div(input, label, self.reduction)


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
