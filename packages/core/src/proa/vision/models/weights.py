"""Weights for ready-made networks: from a local file, never from the network."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from proa.errors import InvalidArgumentError, UnavailableError
from proa.interop.saving import load
from proa.nn import Layer

Network = TypeVar("Network", bound=Layer)


def with_weights(network: Network, pretrained: Any, name: str) -> Network:
    """The network, with the weights of the file ``pretrained`` if it is a path.

    Args:
        network: The network to fill.
        pretrained: False, or the path of a state dict: of ``proa.save``, a safetensors
            file, or a ``.pdparams`` of PaddlePaddle (read without running code).
        name: The function that is called, for messages.

    Raises:
        UnavailableError: If pretrained is True: nothing is ever downloaded.
        NotFoundError: If the path names no file.
        InvalidArgumentError: If names or shapes in the file are not the network's.
    """
    if pretrained is False or pretrained is None:
        return network
    if not isinstance(pretrained, (str, os.PathLike)):
        raise UnavailableError(
            f"[{name}] pretrained must be False or the path of a local file, got "
            f"{pretrained!r}: no weights come with this package and nothing is "
            "downloaded"
        )
    state = load(os.fspath(pretrained), allow_pickle=True)
    own = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    given = {key: tuple(value.shape) for key, value in state.items()}
    if own != given:
        wrong = sorted(
            key for key in own.keys() | given.keys() if own.get(key) != given.get(key)
        )
        raise InvalidArgumentError(
            f"[{name}] {pretrained} must hold the names and shapes of the network, "
            f"got a difference in {len(wrong)} of {len(own)}, first {wrong[0]}: "
            f"{given.get(wrong[0])} instead of {own.get(wrong[0])}"
        )
    network.set_state_dict(state)
    return network
