"""HTTP that is broken on purpose."""

from __future__ import annotations

import random

from crowd import crowd
from mutation import mutate

POST = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\n"
JSON = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]}'
RAW = (
    b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],'
    b'"parameters":{"binary_data_size":16}}]}'
)
MESSAGES = (
    b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n",
    POST + b"Content-Length: %d\r\n\r\n" % len(JSON) + JSON,
    POST
    + b"Inference-Header-Content-Length: %d\r\n" % len(RAW)
    + b"Content-Length: %d\r\n\r\n" % (len(RAW) + 16)
    + RAW
    + bytes(16),
    POST + b"Transfer-Encoding: chunked\r\n\r\n4a\r\n" + JSON + b"\r\n0\r\n\r\n",
    POST + b"Content-Length: 200000\r\n\r\n" + bytes(200_000),
    POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n{}",
)
INSERTS = (
    b"\r\n",
    b"\r\n\r\n",
    b"\0",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
    b"Connection: close\r\n",
    b"Content-Encoding: gzip\r\n",
)


def broken(rng):
    """One of the messages with random edits."""
    return mutate(
        rng, rng.choice(MESSAGES), INSERTS, edits=6, reach=400, longest=20,
        truncates=True,
    )  # fmt: skip


def attack(address, seed, count):
    rng = random.Random(seed)
    crowd(rng, address, count, 0.2, lambda: b"".join(broken(rng) for _ in range(3)))
