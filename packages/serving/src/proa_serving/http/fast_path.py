"""Answers over HTTP for requests that repeat one but for their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proa_serving.http.answers import Answers
from proa_serving.http.arrivals import HttpLane
from proa_serving.http.body import Buffer
from proa_serving.http.messages import Reply
from proa_serving.models.fast_path import FastPath, RepeatedAnswers
from proa_serving.models.waiting import Answered, WaitingRun
from proa_serving.protocol.errors import ServingError
from proa_serving.protocol.messages import Array, InferRequest, InferResponse
from proa_serving.protocol.rest import BINARY_TYPE, HEADER_LENGTH, encode_response
from proa_serving.transport.owner import Owner

_LENGTH = HEADER_LENGTH.lower()
_ID = b'"id":"'
Part = Buffer | Array
_Texts = tuple[list[tuple[int, ...]], bytes, bytes]


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

    __slots__ = ("_given", "_lane", "_texts")

    def __init__(self, path: FastPath, request: InferRequest, given: bytes) -> None:
        super().__init__(path, request)
        self._given = given
        self._lane: HttpLane | None = None
        # Shapes of outputs, and what is before them: up to the id, and after it; the
        # first alone without one. Replaced as a whole, as threads share it.
        self._texts: _Texts | None = None

    def is_quick(self) -> bool:
        """As :meth:`FastPath.is_quick`."""
        return self.path.is_quick()

    def lane(self, owner: Owner[Answers]) -> HttpLane:
        """Where the native transport puts requests that wait for a worker."""
        if self._lane is None or not self._lane.open:
            self._lane = HttpLane(owner, self)
        return self._lane

    def __call__(self, data: Buffer, given: bytes) -> Sequence[Part] | None:
        """The parts of the answer; None where the request goes another way."""
        try:
            arrays = self.path.run(data)
        except ServingError as error:
            return Reply.of_error(error).encode(close=False, body=True)
        return None if arrays is None else self.encode(arrays, given)

    def run_later(self, data: Buffer, answered: Answered) -> WaitingRun | None:
        """As :meth:`FastPath.run_later`."""
        return self.path.run_later(data, answered)

    def encode_outputs(
        self, outputs: Mapping[str, Array], given: bytes
    ) -> Sequence[Part]:
        """The parts of the answer with those outputs of the model that are wanted."""
        texts = self._texts
        if texts is None or given:
            return self.encode(self.path.wanted(outputs), given)
        parts: list[Part] = [texts[1]]
        wanted = zip(self.path.outputs, self._dtypes, texts[0], strict=True)
        for held, dtype, shape in wanted:
            array = outputs[held.name]
            if array.dtype is not dtype or array.shape != shape:
                break
            if not array.flags.c_contiguous:
                break
            parts.append(array)
        else:
            return parts
        return self.encode(self.path.wanted(outputs), given)

    def encode(self, arrays: Sequence[Array], given: bytes) -> Sequence[Part]:
        """The parts of the answer; on any thread."""
        shapes = self._raw_shapes(arrays)
        if shapes is None:
            return self._encode(arrays, given)
        texts = self._texts
        if texts is None or shapes != texts[0]:
            head, text, *_ = self._encode(arrays, self._given)
            whole = bytes(head) + bytes(text)
            # Quotes are escaped within strings, so nothing else can look like it.
            at = whole.index(_ID) + len(_ID) if given else len(whole)
            texts = self._texts = shapes, whole[:at], whole[at + len(given) :]
        _, before, after = texts
        return [before + given + after if given else before, *arrays]

    def reply(self, result: Mapping[str, Array] | ServingError, given: bytes) -> Reply:
        """The answer with the outputs of the model, before it is encoded."""
        if isinstance(result, ServingError):
            return Reply.of_error(result)
        response = self._response(self.path.wanted(result), given.decode())
        return encode_reply(response, self._request)

    def _encode(self, arrays: Sequence[Array], given: bytes) -> list[Buffer]:
        response = self._response(arrays, given.decode())
        return encode_reply(response, self._request).encode(close=False, body=True)
