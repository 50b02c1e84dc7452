"""What two threads keep of their rate while another process keeps one core busy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from harness import Case, Work

import proa

#: With one of two cores shared, three quarters are the fair share; the spinning
#: barriers of OpenMP leave 15 %. Ours must leave 45 %.
LIMIT = 1 / 0.45
SIZE = 768


class _Spinner:
    """A process that only counts, on the first core this one may use, while it may."""

    def __init__(self) -> None:
        core = min(os.sched_getaffinity(0))
        code = f"import os; os.sched_setaffinity(0, {{{core}}}); print(flush=True)\n"
        code += "while True: pass"
        command = [sys.executable, "-c", code]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self.pause()

    def spin(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def cases(torch: Any) -> Iterator[Case]:
    """Each with its own quiet time as the peer."""
    if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2:
        return
    proa.set_num_threads(2)
    array = np.random.default_rng(0).standard_normal((SIZE, SIZE), np.float32)
    x = proa.to_tensor(array)
    spinner = _Spinner()
    try:
        yield _case("matmul", spinner, lambda: proa.matmul(x, x), 40)
        yield _case("softmax", spinner, lambda: proa.nn.functional.softmax(x), 800)
    finally:
        spinner.end()


def _case(name: str, spinner: _Spinner, work: Callable[[], Any], count: int) -> Case:
    def quiet() -> None:
        for _ in range(count):
            work()

    def shared() -> None:
        spinner.spin()
        quiet()
        spinner.pause()

    contenders: dict[str, Work] = {"proa": shared, "quiet": quiet}
    return Case(
        f"{name} on a shared core", contenders, limit=LIMIT, rounds=9, own_load=0.5
    )
