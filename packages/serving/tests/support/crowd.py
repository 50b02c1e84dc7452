"""Clients that come, send what they should not, and leave or stay."""

from __future__ import annotations

import contextlib
import socket


def crowd(rng, address, count, timeout, make):
    """Connect ``count`` times, and send what ``make`` gives; some wait for an answer.

    At most ten stay connected meanwhile, and none at the end.
    """
    host, port = address.split(":")
    held = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            client = socket.create_connection((host, int(port)), timeout=timeout)
            held.append(client)
            client.sendall(make())
            if rng.randrange(2):
                client.recv(1000)
            if rng.randrange(2):
                held.pop().close()
        if len(held) > 10:
            held.pop(0).close()
    for client in held:
        client.close()
