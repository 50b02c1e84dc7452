"""How a `Model` runs its network in dynamic mode: at once, on the tape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from proa._core import Tensor
from proa.base.no_tape import NoTape
from proa.hapi.precision import Precision
from proa.nn.layer import Layer
from proa.tensor.creation import to_tensor

#: Losses as numbers, and the network's outputs.
Results = tuple[list[float], list[Any]]


def listed(value: Any) -> list[Any]:
    """None as no values, one as a list of it."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


class Runner(Protocol):
    """What a Model's methods for single batches and for its state are made of."""

    def prepare(self, optimizer: Any, loss: Any, precision: Precision) -> None:
        """Take what `Model.prepare` is given."""

    def running(self) -> AbstractContextManager[object]:
        """A block in which batches are read, run and measured."""

    def train(self, inputs: Any, labels: list[Any], update: bool) -> Results:
        """One step, or with update=False its gradients alone."""

    def update(self) -> None:
        """The step for gradients that were added up."""

    def evaluate(self, inputs: Any, labels: list[Any]) -> Results:
        """Losses and outputs without training."""

    def predict(self, inputs: Any) -> list[Any]:
        """The outputs alone."""

    def network_state(self) -> dict[str, Any]:
        """The network's state dict, of tensors with values."""

    def set_network_state(self, state: Mapping[str, Any]) -> None:
        """Let the network have such a state."""

    def optimizer_state(self) -> dict[str, Any] | None:
        """The optimizer's state dict; None without one."""

    def set_optimizer_state(self, state: Mapping[str, Any]) -> None:
        """Let the optimizer have such a state."""

    def save(self, path: str, inputs: list[Any]) -> None:
        """Write the model file for inference."""


class DynamicRunner:
    """The `Runner` of dynamic mode.

    Args:
        network: The Layer.
    """

    def __init__(self, network: Layer) -> None:
        self._network = network
        self._optimizer: Any = None
        self._loss: Callable[..., Any] | None = None
        self._precision = Precision()

    def prepare(self, optimizer: Any, loss: Any, precision: Precision) -> None:
        precision.convert(self._network, optimizer)
        self._optimizer, self._loss, self._precision = optimizer, loss, precision

    def running(self) -> AbstractContextManager[object]:
        return nullcontext()

    def _losses(self, outputs: list[Any], labels: list[Any]) -> list[Tensor]:
        assert self._loss is not None
        return listed(self._loss(*outputs, *labels))

    def train(self, inputs: Any, labels: list[Any], update: bool) -> Results:
        self._network.train()
        with self._precision.guard():
            outputs = listed(self._network(*tensors(inputs)))
            losses = self._losses(outputs, labels)
        total = losses[0]
        for more in losses[1:]:
            total = total + more
        self._precision.scaler.scale(total).backward()
        if update:
            self.update()
        return [_number(v) for v in losses], [o.detach() for o in outputs]

    def update(self) -> None:
        scaler = self._precision.scaler
        scaler.step(self._optimizer)
        scaler.update()
        self._optimizer.clear_grad()

    def evaluate(self, inputs: Any, labels: list[Any]) -> Results:
        self._network.eval()
        with NoTape(), self._precision.guard():
            outputs = listed(self._network(*tensors(inputs)))
            losses = self._losses(outputs, labels) if self._loss and labels else []
        return [_number(v) for v in losses], outputs

    def predict(self, inputs: Any) -> list[Any]:
        self._network.eval()
        with NoTape(), self._precision.guard():
            return listed(self._network(*tensors(inputs)))

    def network_state(self) -> dict[str, Any]:
        return dict(self._network.state_dict())

    def set_network_state(self, state: Mapping[str, Any]) -> None:
        self._network.set_state_dict(state)

    def optimizer_state(self) -> dict[str, Any] | None:
        return None if self._optimizer is None else dict(self._optimizer.state_dict())

    def set_optimizer_state(self, state: Mapping[str, Any]) -> None:
        self._optimizer.set_state_dict(state)

    def save(self, path: str, inputs: list[Any]) -> None:
        from proa import jit

        jit.save(self._network, path, inputs)


def tensors(value: Any) -> list[Any]:
    """Values as tensors."""
    return [v if isinstance(v, Tensor) else to_tensor(v) for v in listed(value)]


def _number(loss: Tensor) -> float:
    return float(loss.item())
