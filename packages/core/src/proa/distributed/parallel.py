"""The queries of a program for many processes, answered for a single one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from proa._core import Tensor
from proa.errors import InvalidTypeError, UnimplementedError
from proa.nn.layer import Layer

if TYPE_CHECKING:
    from proa.distributed.collective import Group

__all__ = [
    "DataParallel", "ParallelEnv", "get_rank", "get_world_size", "init_parallel_env",
    "is_initialized",
]  # fmt: skip

_started = False


def get_rank(group: Group | None = None) -> int:
    """Number of this process among those that train together: 0."""
    return 0


def get_world_size(group: Group | None = None) -> int:
    """How many processes train together: 1."""
    return 1


def check_alone(where: str) -> None:
    """Raise if a launcher started several processes, which would not exchange a thing.

    Raises:
        UnimplementedError: If the environment (``PADDLE_TRAINERS_NUM``) names more
            than one.
    """
    processes = os.environ.get("PADDLE_TRAINERS_NUM", "1")
    if processes != "1":
        raise UnimplementedError(
            f"[{where}] one process can train, got PADDLE_TRAINERS_NUM={processes}"
        )


def init_parallel_env() -> None:
    """Begin to train with the processes that a launcher started; here with one.

    Raises:
        UnimplementedError: If the environment (``PADDLE_TRAINERS_NUM``) names more
            than one: their gradients would silently not be summed.
    """
    global _started
    check_alone("init_parallel_env")
    _started = True


def is_initialized() -> bool:
    """Whether `init_parallel_env` was called."""
    return _started


class ParallelEnv:
    """The place of this process among those that train together: the only one."""

    @property
    def rank(self) -> int:
        return get_rank()

    @property
    def world_size(self) -> int:
        return get_world_size()

    @property
    def device_id(self) -> int:
        return 0

    @property
    def device_type(self) -> str:
        return "cpu"

    @property
    def current_endpoint(self) -> str:
        return ""

    @property
    def trainer_endpoints(self) -> list[str]:
        return []

    @property
    def nrings(self) -> int:
        return 1

    local_rank = rank
    nranks = world_size
    dev_id = device_id


class DataParallel(Layer):
    """A layer whose gradients are summed over processes; with one, the layer itself.

    Args:
        layers: What is trained.
        strategy: Unused, as are the sizes of buffers: there is nothing to send.
        find_unused_parameters: Unused likewise.

    Raises:
        InvalidTypeError: If ``layers`` is no Layer.
    """

    def __init__(
        self,
        layers: Layer,
        strategy: object = None,
        comm_buffer_size: int = 25,
        last_comm_buffer_size: float = 1,
        find_unused_parameters: bool = False,
        group: Group | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(layers, Layer):
            raise InvalidTypeError(
                "[DataParallel] layers must be a Layer, got " + type(layers).__name__
            )
        self._layers = layers
        self.find_unused_parameters = find_unused_parameters

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self._layers(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Sum gradients of several backward passes before they are exchanged."""
        yield

    def init_reducer(self) -> None:
        """Prepare the exchange of gradients: with one process there is none."""

    def scale_loss(self, loss: Tensor) -> Tensor:
        """The loss as it is: gradients are means over the processes already."""
        return loss

    def apply_collective_grads(self) -> None:
        """Exchange the gradients; with one process they are complete."""

    # Files hold the names of the wrapped layer, so that they load without the wrapper.
    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """That of the wrapped layer."""
        state: dict[str, Tensor] = self._layers.state_dict(*args, **kwargs)
        return state

    def set_state_dict(self, *args: Any, **kwargs: Any) -> tuple[list[str], list[str]]:
        """Set that of the wrapped layer."""
        return self._layers.set_state_dict(*args, **kwargs)

    set_dict = load_dict = set_state_dict
