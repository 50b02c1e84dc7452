"""HTTP/2 that is broken on purpose."""

from __future__ import annotations

import random

import numpy as np
from crowd import crowd
from http2_peer import EMPTY, INFER, call, data, frame, headers, infer_message
from http2_peer import request as block
from mutation import mutate

from proa_serving.http2 import frames

X = np.ones((2, 4), np.float32)
START = frames.PREFACE + frames.settings({frames.INITIAL_WINDOW_SIZE: 100})
INDEXED = b"\x83\x86\x44\x01/\x40\x02te\x08trailers"
PARTS = (
    call(1),
    headers(1, block(INFER)) + data(1, infer_message(X)),
    headers(3, block(INFER)) + data(3, infer_message(np.ones((9000, 4), np.float32))),
    headers(5, INDEXED),
    frame(frames.HEADERS, 0, 7, block()) + frame(frames.CONTINUATION, 4, 7, b""),
    frame(frames.WINDOW_UPDATE, 0, 0, b"\0\0\1\0"),
    frame(frames.RST_STREAM, 0, 1, b"\0\0\0\x08"),
    frame(frames.PING, 0, 0, bytes(8)),
    frame(frames.SETTINGS, 0, 0, b"\0\4\0\0\0\0"),
    frame(frames.DATA, frames.PADDED, 1, b"\3" + EMPTY + bytes(3)),
)


SHORT_PARTS = [part[:40] for part in PARTS]


def broken(rng, sent):
    """The bytes with random edits."""
    return mutate(
        rng, sent, SHORT_PARTS, edits=5, reach=300, longest=12, truncates=False
    )


def attack(address, seed, count):
    rng = random.Random(seed)

    def make():
        parts = [rng.choice(PARTS) for _ in range(rng.randrange(1, 6))]
        which = rng.randrange(-1, len(parts))
        sent = [broken(rng, p) if at == which else p for at, p in enumerate(parts)]
        start = broken(rng, START) if rng.randrange(8) == 0 else START
        return b"".join([start, *sent])

    crowd(rng, address, count, 0.1, make)
