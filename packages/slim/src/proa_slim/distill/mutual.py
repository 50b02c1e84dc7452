"""Networks that learn from each other."""

from __future__ import annotations

from collections.abc import Sequence

from proa import Tensor
from proa.errors import InvalidArgumentError
from proa.nn import Layer, LayerList
from proa.nn import functional as F
from proa.optimizer import Optimizer
from proa_slim.distill.losses import kl_loss


class DML(Layer):
    """Deep mutual learning (Zhang et al., 2018): several networks learn at once, each
    from the labels and from the others' probabilities.

        mutual = DML([first, second])
        optimizer = mutual.opt([Adam(..., first.parameters()), ...])
        logits = mutual(x)
        losses = mutual.loss(logits, labels)
        optimizer.minimize(losses)

    Args:
        model: The networks, at least two.
        use_parallel: Kept for callers; one process trains.

    Raises:
        InvalidArgumentError: If there are fewer than two networks.
    """

    def __init__(self, model: Sequence[Layer], use_parallel: bool = False) -> None:
        super().__init__()
        if len(model) < 2:
            raise InvalidArgumentError(
                f"[DML] expected at least two networks, got {len(model)}"
            )
        self.model = LayerList(list(model))

    def forward(self, input: Tensor) -> list[Tensor]:
        """The logits of each network."""
        return [network(input) for network in self.model]

    def opt(self, optimizer: Sequence[Optimizer]) -> _Optimizers:
        """One optimizer of all networks' optimizers.

        Raises:
            InvalidArgumentError: If there is not one for each network.
        """
        given = list(optimizer)
        if len(given) != len(self.model):
            raise InvalidArgumentError(
                f"[DML] expected {len(self.model)} optimizers, got {len(given)}"
            )
        return _Optimizers(given)

    def ce_loss(self, logits: Sequence[Tensor], labels: Tensor) -> list[Tensor]:
        """The mean cross entropy of each network with the labels."""
        return [F.cross_entropy(x, labels).mean() for x in logits]

    def kl_loss(self, logits: Sequence[Tensor]) -> list[Tensor]:
        """For each network, the mean over the others of KL(other || it), which gives
        the others no gradient.
        """
        found = []
        for i, own in enumerate(logits):
            others = [kl_loss(x, own) for j, x in enumerate(logits) if j != i]
            found.append(sum(others[1:], others[0]) / len(others))
        return found

    def loss(self, logits: Sequence[Tensor], labels: Tensor) -> list[Tensor]:
        """`ce_loss` + `kl_loss` of each network."""
        pairs = zip(self.ce_loss(logits, labels), self.kl_loss(logits), strict=True)
        return [a + b for a, b in pairs]


class _Optimizers:
    """Steps all networks.

    Args:
        optimizers: One for each network, in order.
    """

    def __init__(self, optimizers: list[Optimizer]) -> None:
        self._optimizers = optimizers

    def minimize(self, losses: Sequence[Tensor]) -> None:
        """Differentiate each loss and step its network."""
        for value in losses:
            value.backward()
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.clear_grad()

    def get_lr(self) -> float:
        """The learning rate of the first."""
        return float(self._optimizers[0].get_lr())
