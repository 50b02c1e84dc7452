"""A client of HTTP/2 that sends what it likes, and reads frames."""

from __future__ import annotations

import socket

from proa_serving.http2 import frames
from proa_serving.http2.hpack import Decoder, encode
from proa_serving.protocol.generated import open_inference_pb2 as pb

LIVE = "/inference.GRPCInferenceService/ServerLive"
INFER = "/inference.GRPCInferenceService/ModelInfer"
EMPTY = bytes(5)  # an empty message and its prefix


def request(path=LIVE, *more, without=(), **changes):
    """The block of a call's headers; ``changes`` by name, with _ for -."""
    headers = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": path.encode(),
        b":authority": b"x",
        b"te": b"trailers",
        b"content-type": b"application/grpc",
    }
    for name, value in changes.items():
        name = name.replace("pseudo_", ":").replace("_", "-")
        headers[name.encode()] = value
    for name in without:
        del headers[name]
    return encode([*headers.items(), *more])


def headers(number, block=None, flags=frames.END_HEADERS):
    block = request() if block is None else block
    return frames.head(len(block), frames.HEADERS, flags, number) + block


def frame(kind, flags, number, payload=b""):
    return frames.head(len(payload), kind, flags, number) + payload


def data(number, payload=EMPTY, flags=frames.END_STREAM):
    return frame(frames.DATA, flags, number, payload)


def call(number, payload=EMPTY, **options):
    """A whole call of one message."""
    return headers(number, request(**options)) + data(number, payload)


def infer_message(x, name="m"):
    message = pb.ModelInferRequest(model_name=name)
    message.inputs.add(name="x", datatype="FP32", shape=x.shape)
    message.raw_input_contents.append(x.tobytes())
    body = message.SerializeToString()
    return b"\0" + len(body).to_bytes(4, "big") + body


class Peer:
    """A connection; with ``begin`` the preface and the settings are exchanged."""

    def __init__(self, address, *, begin=True, settings=None, tls=None):
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        self._rest = b""
        self._decoder = Decoder(2**16)
        if begin:
            self.send(frames.PREFACE + frames.settings(settings or {}))
            kinds = {self.read()[0] for _ in range(3)}
            assert kinds == {frames.SETTINGS, frames.WINDOW_UPDATE}
            self.send(frames.SETTINGS_ACK)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, *parts):
        self.socket.sendall(b"".join(parts))

    def read(self):
        """Type, flags, stream and payload of the next frame; None at the end."""
        while True:
            if len(self._rest) >= frames.HEAD_BYTES:
                size, kind, flags, number = frames.parse_head(memoryview(self._rest), 0)
                end = frames.HEAD_BYTES + size
                if len(self._rest) >= end:
                    payload = self._rest[frames.HEAD_BYTES : end]
                    self._rest = self._rest[end:]
                    if kind == frames.HEADERS:
                        payload = dict(self._decoder.decode(payload))
                    return kind, flags, number, payload
            try:
                part = self.socket.recv(2**16)
            except ConnectionResetError:
                part = b""
            if not part:
                return None
            self._rest += part

    def until(self, *kinds):
        """The next frame of one of ``kinds``."""
        while (found := self.read()) is not None and found[0] not in kinds:
            pass
        return found

    def status(self, number):
        """The grpc-status of a call, as a number, and its message."""
        while (found := self.read()) is not None:
            kind, flags, stream, payload = found
            if kind == frames.HEADERS and stream == number and flags & 1:
                return int(payload[b"grpc-status"]), payload.get(b"grpc-message", b"")
        return None

    def ping(self):
        """Whether the connection still answers."""
        self.send(frame(frames.PING, 0, 0, b"12345678"))
        found = self.until(frames.PING, frames.GOAWAY)
        return found == (frames.PING, frames.ACK, 0, b"12345678")
