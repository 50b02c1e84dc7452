"""Answers over HTTP for requests that repeat one but for their numbers."""

from __future__ import annotations

from collections.abc import Sequence

from proa_serving.http.body import Buffer
from proa_serving.http.messages import Reply
from proa_serving.models.fast_path import FastPath, RepeatedAnswers
from proa_serving.protocol.errors import ServingError
from proa_serving.protocol.messages import Array, InferRequest, InferResponse
from proa_serving.protocol.rest import BINARY_TYPE, HEADER_LENGTH, encode_response

_LENGTH = HEADER_LENGTH.lower()
_ID = b'"id":"'


def encode_reply(response: InferResponse, request: InferRequest) -> Reply:
    """The answer with its outputs as ``request`` wants them."""
    text, raw = encode_response(response, request)
    if not raw:
        return Reply([text])
    return Reply(
        [text, *raw], content_type=BINARY_TYPE, headers=f"{_LENGTH}: {len(text)}\r\n"
    )


class HttpFastPath(RepeatedAnswers):
    """What the native transport calls with the raw inputs of a request.

    Args:
        path: Runs the model.
        request: Like the one that was answered, all raw.
        given: Its id, if those that follow have one, of as many bytes.
    """

    __slots__ = ("_given", "_head", "_tail")

    def __init__(self, path: FastPath, request: InferRequest, given: bytes) -> None:
        super().__init__(path, request)
        self._given = given
        # Before the id, and between it and the outputs; the first alone without one.
        self._head = self._tail = b""

    def __call__(
        self, data: bytes | memoryview, given: bytes
    ) -> Sequence[Buffer | Array] | None:
        """The parts of the answer; None where the request goes the long way."""
        try:
            arrays = self.path.run(data)
        except ServingError as error:
            return Reply.of_error(error).encode(close=False, body=True)
        if arrays is None:
            return None
        shapes = self._raw_shapes(arrays)
        if shapes is None:
            return self._encode(arrays, given)
        if shapes != self._known_shapes:
            self._known_shapes = shapes
            head, text, *_ = self._encode(arrays, self._given)
            whole = bytes(head) + bytes(text)
            # Quotes are escaped within strings, so nothing else can look like it.
            at = whole.index(_ID) + len(_ID) if given else len(whole)
            self._head, self._tail = whole[:at], whole[at + len(given) :]
        if given:
            return [self._head + given + self._tail, *arrays]
        return [self._head, *arrays]

    def _encode(self, arrays: Sequence[Array], given: bytes) -> list[Buffer]:
        response = self._response(arrays, given.decode())
        return encode_reply(response, self._request).encode(close=False, body=True)
