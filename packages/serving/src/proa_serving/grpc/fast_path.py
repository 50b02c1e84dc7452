"""Answers over gRPC for calls that repeat one but for their numbers."""

from __future__ import annotations

from collections.abc import Sequence

from proa_serving.models.fast_path import FastPath, RepeatedAnswers
from proa_serving.protocol import rpc_bytes
from proa_serving.protocol.messages import Array, InferRequest
from proa_serving.protocol.tensors import Buffer


class GrpcFastPath(RepeatedAnswers):
    """The message that answers raw inputs.

    Args:
        path: Runs the model.
        request: Like the one that was answered.
    """

    __slots__ = ("_heads", "_known_shapes")

    def __init__(self, path: FastPath, request: InferRequest) -> None:
        super().__init__(path, request)
        self._known_shapes: list[tuple[int, ...]] | None = None
        self._heads: list[Buffer] = []  # what is before each output

    def __call__(self, data: bytes) -> list[Buffer] | None:
        """The parts of the message; None where the call goes the long way.

        Raises:
            ServingError: If the model failed.
        """
        arrays = self.path.run(data)
        if arrays is None:
            return None
        shapes = self._raw_shapes(arrays)
        if shapes is None or not all(array.size for array in arrays):
            return self._encode(arrays)
        if shapes != self._known_shapes:
            self._known_shapes = shapes
            head, *parts = self._encode(arrays)
            parts[0] = bytes(head) + bytes(parts[0])
            self._heads = parts[::2]
        found: list[Buffer] = []
        for head, array in zip(self._heads, arrays, strict=True):
            found += (head, array.data.cast("B"))
        return found

    def _encode(self, arrays: Sequence[Array]) -> list[Buffer]:
        return rpc_bytes.encode_response(self._response(arrays), self._request)
