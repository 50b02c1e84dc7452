"""A Layer recorded once on example inputs, as Paddle's `TracedLayer` has it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from proa.errors import InvalidArgumentError
from proa.ir import Program, from_bytes, to_bytes, write
from proa.jit.input_spec import InputSpec
from proa.jit.save_load import export, file_of
from proa.jit.translated_layer import TranslatedLayer

if TYPE_CHECKING:
    from proa._core import Tensor

R = TypeVar("R")


class TracedLayer:
    """A recorded program that is called like the Layer. Made by `TracedLayer.trace`.

    Args:
        program: The recorded program.
        parameters: Tensors by name that replace the program's, or none.
        feed_names: Names of its inputs; None takes the program's.
        fetch_names: Names of its outputs; None takes the program's.
    """

    def __init__(
        self,
        program: Program,
        parameters: Mapping[str, Tensor] | None = None,
        feed_names: Sequence[str] | None = None,
        fetch_names: Sequence[str] | None = None,
    ) -> None:
        self.program = program
        self._run = TranslatedLayer(program, parameters)
        self.feed_names = list(feed_names or (v.name for v in program.main.inputs))
        self.fetch_names = list(fetch_names or (v.name for v in program.main.outputs))

    @staticmethod
    def trace(
        layer: Callable[..., R], inputs: Sequence[Tensor]
    ) -> tuple[R, TracedLayer]:
        """The Layer's outputs on ``inputs``, and the Layer recorded on their shapes."""
        specs = [InputSpec.from_tensor(t) for t in inputs]
        traced = TracedLayer(export(layer, specs).program)
        return traced(list(inputs)), traced

    def set_strategy(
        self, build_strategy: object = None, exec_strategy: object = None
    ) -> None:
        """Accepted for Paddle's sake; there is one engine."""

    def __call__(self, inputs: Sequence[Tensor]) -> Any:
        """Run the program on a list with one tensor for each input."""
        return self._run(*inputs)

    def save_inference_model(
        self,
        path: str | os.PathLike[str],
        feed: Sequence[int] | None = None,
        fetch: Sequence[int] | None = None,
        **keywords: object,
    ) -> None:
        """Write the program as one model file.

        Args:
            path: The file; `.proa` is added if it does not end so.
            feed: Numbers of the inputs to keep: all, as none can be left out.
            fetch: Numbers of the outputs to keep; None keeps all.
        """
        count = len(self.feed_names)
        if feed is not None and sorted(feed) != list(range(count)):
            raise InvalidArgumentError(
                f"[TracedLayer] feed must name all {count} inputs, got {list(feed)}"
            )
        program = from_bytes(to_bytes(self.program))
        if fetch is not None:
            outputs = program.main.outputs
            program.main.outputs = [outputs[i] for i in fetch]
            program.metadata.pop("outputs", None)
        write(program, file_of(path))
