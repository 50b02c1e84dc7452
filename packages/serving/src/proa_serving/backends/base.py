"""The contract between the server and what runs a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from proa_serving.protocol.messages import Array, TensorSpec

# Runs once per call: arrays by input name in, arrays by output name out. One thread
# alone calls an instance. Inputs may be read-only; outputs must stay valid and
# unchanged after the next call. It may have a method `stop`: called from another thread
# it ends the call in progress, which then raises.
Instance = Callable[[dict[str, Array]], Mapping[str, Array]]


@dataclass(frozen=True)
class BackendOptions:
    """How a model should be loaded.

    Args:
        threads: Threads that each instance may use for its mathematics.
        parameters: What the model's configuration says for its backend.
    """

    threads: int = 1
    parameters: Mapping[str, str] = field(default_factory=dict)


class Model(Protocol):
    """A loaded model. Its instances share what they can.

    Where a model has the attribute `runs_apart` and it is true, requests are not put
    together in one run: what becomes of one row may depend on others.
    """

    @property
    def inputs(self) -> Sequence[TensorSpec]: ...

    @property
    def outputs(self) -> Sequence[TensorSpec]: ...

    @property
    def platform(self) -> str:
        """What runs it, for its metadata."""
        ...

    def instance(self) -> Instance:
        """A new callable for one thread."""
        ...


class Backend(Protocol):
    """Loads the model files of one suffix."""

    def load(self, path: Path, options: BackendOptions) -> Model:
        """Load ``path``.

        Raises:
            ModelLoadError: If the file cannot be used.
        """
        ...
