"""A client over HTTP that sends bytes as they are, and the bytes of requests."""

import socket

import numpy as np

from proa_serving.protocol.messages import InferRequest, Tensor
from proa_serving.protocol.rest import HEADER_LENGTH, decode_response, encode_request

WARM = 40  # requests until a model runs on the event loop, and its requests are known


def packed(arrays, *, model="m", binary=True, id="", parameters=None):
    tensors = [Tensor.of(name, value) for name, value in arrays.items()]
    request = InferRequest(
        model, tensors, binary_output=binary, id=id, parameters=parameters or {}
    )
    body, size = encode_request(request, True)
    head = (
        f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\n"
        f"{HEADER_LENGTH}: {size}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def request_of(value, rows=1):
    return packed({"x": np.full((rows, 4), value, np.float32)})


class Wire:
    """A client that sends bytes as they are."""

    def __init__(self, address):
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        self._held = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def answer(self):
        """Status, headers and body."""
        while b"\r\n\r\n" not in self._held:
            self._more()
        head, _, self._held = self._held.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        size = int(headers["content-length"])
        while len(self._held) < size:
            self._more()
        body, self._held = self._held[:size], self._held[size:]
        return int(first.split()[1]), headers, body

    def _more(self):
        part = self.socket.recv(2**20)
        assert part, "the server closed the connection"
        self._held += part

    def infer(self, data):
        self.send(data)
        status, headers, body = self.answer()
        assert status == 200, body
        return decode_response(body, headers[HEADER_LENGTH.lower()])

    def warm(self, data):
        for _ in range(WARM):
            self.infer(data)
