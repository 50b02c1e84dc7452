"""A teacher in a process of its own: python pantheon_teacher.py '{"out_port": ..}'."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import numpy as np

import proa
from proa import nn
from proa_slim.pantheon import Teacher

SAMPLES = 50


def images() -> Any:
    """The data of all teachers and of the student: (n, 6)."""
    return np.random.default_rng(3).standard_normal((SAMPLES, 6)).astype(np.float32)


def network(seed: int) -> Any:
    """A teacher's network; its name of knowledge is logits."""
    proa.seed(seed)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))


def main(options: dict[str, Any]) -> None:
    """Serve as the options say; `delay` seconds for each batch, `log` of rows,
    `core` to be pinned to.
    """
    seed, delay = options.pop("seed"), options.pop("delay", 0.0)
    log, service = options.pop("log", None), options.pop("service", {})
    if "core" in options:
        os.sched_setaffinity(0, {options.pop("core")})

    def batches() -> Any:
        for begin in range(0, SAMPLES, 7):
            yield (images()[begin : begin + 7],)

    class Logged(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network(seed)

        def forward(self, x: Any) -> Any:
            time.sleep(delay)
            if log:
                with open(log, "a", encoding="utf-8") as file:
                    file.write(f"{os.getpid()} {float(x[0, 0]):.9g}\n")
            return self.inner(x)

    teacher = Teacher(**options)
    teacher.start(buf_size=2)
    reader = {"batch_generator": batches}
    teacher.start_knowledge_service([0], {"logits": ""}, Logged(), reader, **service)
    print(teacher.bytes_sent)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
