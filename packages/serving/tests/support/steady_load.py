"""Clients that send requests until they are stopped, and count how they ended."""

from __future__ import annotations

import threading
import time
from collections import Counter

import numpy as np
import small_models

from proa_serving.client import ClientPool, Retry
from proa_serving.protocol.errors import ServingError

X = np.ones((1, 4), np.float32)


class SteadyLoad:
    """Threads that call ``model`` again and again; a context manager.

    Every answer is compared with what NumPy computes. ``found`` counts answers as "ok"
    and errors by the name of their type.

    Args:
        make: Makes the client of each thread.
        threads: How many there are.
        model: The model's name, one of ``small_models.write_linear``.
        scales: What the model may multiply by, as it is replaced.
        pause: Seconds after an error, so that refusals do not fill the machine.
    """

    def __init__(self, make, *, threads=4, model="m", scales=(1.0,), pause=0.005):
        self.found = Counter()
        self.late = []  # seconds of each answer
        self._counting = threading.Lock()
        self._stop = threading.Event()
        self._make, self._model, self._pause = make, model, pause
        self._wanted = [scale * small_models.linear(X) for scale in scales]
        self._threads = [threading.Thread(target=self._work) for _ in range(threads)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Let what is in flight end, and send no more."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads)

    def wait_for(self, count, seconds=60):
        """Until ``count`` more requests were answered."""
        wanted = self.found["ok"] + count
        end = time.monotonic() + seconds
        while self.found["ok"] < wanted:
            assert time.monotonic() < end, self.found
            time.sleep(0.005)

    def _work(self):
        client = self._make()
        try:
            while not self._stop.is_set():
                began = time.monotonic()
                try:
                    y = client.infer(self._model, {"x": X})["y"]
                except ServingError as error:
                    self._count(type(error).__name__)
                    self._stop.wait(self._pause)
                    continue
                except Exception as error:
                    self._count(repr(error))
                    continue
                right = any(np.allclose(y, want, rtol=1e-4) for want in self._wanted)
                self._count("ok" if right else "wrong", time.monotonic() - began)
        finally:
            client.close()

    def _count(self, how, seconds=None):
        with self._counting:
            self.found[how] += 1
            if seconds is not None:
                self.late.append(seconds)


def pool_of(*addresses, **options):
    """Makes a client of several servers that tries again elsewhere."""
    weights = dict.fromkeys(addresses, 1.0)
    retry = Retry(attempts=4, budget=1.0, reserve=100)
    return lambda: ClientPool(weights, timeout=20, retry=retry, **options)
