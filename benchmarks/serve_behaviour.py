"""How `proa-serve` behaves under more load than it can answer, and while it changes.

    nox -s bench -- serve_behaviour.py overload|reload|stop [--seconds 20]

Each starts a server in a process of its own, whose model sleeps, and prints figures as
JSON. The tests of packages/serving assert counts; these are the times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from proa_serving.client import AsyncHttpClient, Retry
from proa_serving.protocol.errors import ServingError

MODEL = """
import time

inputs = outputs = [("x", "FP32", (-1, 4))]


def run(inputs):
    time.sleep({sleep})
    return inputs
"""
X = np.ones((1, 4), np.float32)
SLEEP, QUEUE = 0.004, 8


def write(folder: Path, name: str, sleep: float = SLEEP) -> None:
    """A Python model that takes ``sleep`` seconds for a request."""
    version = folder / name / "1"
    version.mkdir(parents=True, exist_ok=True)
    (version / "model.py").write_text(MODEL.format(sleep=sleep))


class Server:
    """`proa-serve` over ``folder``; a context manager."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "proa_serving.cli", "--repository", folder]
        command += ["--python-models", "--http", "0", "--max-batch", "1", *options]
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split("http=")[1].split()[0]

    def resident(self) -> int:
        """KiB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0])

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


class Load:
    """What became of requests, by model; each is sent once."""

    def __init__(self, address: str) -> None:
        self.client = AsyncHttpClient(
            address, retry=Retry(attempts=1), timeout=20, idle=256
        )
        self.counts: Counter[str] = Counter()
        self.seconds: dict[str, list[float]] = {}

    async def send(self, model: str = "m") -> bool:
        """One request."""
        began, how = time.perf_counter(), f"{model} ok"
        try:
            await self.client.infer(model, {"x": X})
        except ServingError as error:
            how = f"{model} {type(error).__name__}"
        self.counts[how] += 1
        self.seconds.setdefault(how, []).append(time.perf_counter() - began)
        return how.endswith(" ok")

    async def closed(self, model: str, seconds: float, clients: int) -> None:
        """So many clients, each of which waits for its answers."""
        end = time.perf_counter() + seconds

        async def one() -> None:
            while time.perf_counter() < end:
                await self.send(model)

        await asyncio.gather(*(one() for _ in range(clients)))

    async def open(self, rate: float, seconds: float) -> None:
        """``rate`` requests/s, whatever becomes of them."""
        began, tasks = time.perf_counter(), []
        for at in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, began + at / rate - time.perf_counter()))
            tasks.append(asyncio.create_task(self.send()))
        await asyncio.gather(*tasks)

    def summary(self) -> dict[str, object]:
        """Counts, medians and 99th percentiles in ms."""
        return {
            how: {
                "count": len(held),
                "p50_ms": round(float(np.percentile(held, 50)) * 1e3, 2),
                "p99_ms": round(float(np.percentile(held, 99)) * 1e3, 2),
            }
            for how, held in self.seconds.items()
        }


async def overload(folder: Path, seconds: float) -> dict[str, object]:
    """Goodput at twice the capacity, and how soon the rest is refused."""
    write(folder, "m")
    with Server(folder, "--queue", str(QUEUE)) as server:
        full = Load(server.address)
        await full.closed("m", seconds / 2, QUEUE)
        capacity = full.counts["m ok"] / (seconds / 2)
        load = Load(server.address)
        began = time.perf_counter()
        await load.open(2 * capacity, seconds)
        took = time.perf_counter() - began
    goodput = load.counts["m ok"] / took
    return {
        "capacity": round(capacity, 1),
        "goodput": round(goodput, 1),
        "ratio": round(goodput / capacity, 3),
        "wait_limit_ms": round((QUEUE + 1) / capacity * 1e3, 1),
        **load.summary(),
    }


async def reload(folder: Path, seconds: float) -> dict[str, object]:
    """A model is replaced every second; what that costs it and another."""
    for name in ("m", "other"):
        write(folder, name)
    with Server(folder, "--poll", "0.2") as server:
        calm = Load(server.address)
        await calm.closed("other", seconds / 2, 2)
        load = Load(server.address)
        before = server.resident()

        async def replace() -> None:
            for at in range(int(seconds)):
                write(folder, "m", SLEEP + at * 1e-6)
                await asyncio.sleep(1)

        await asyncio.gather(
            load.closed("m", seconds, 2), load.closed("other", seconds, 2), replace()
        )
        grown = server.resident() / before
    calm_p99, p99 = (
        float(np.percentile(held.seconds["other ok"], 99)) for held in (calm, load)
    )
    return {
        "other_p99_ratio": round(p99 / calm_p99, 3),
        "memory": round(grown, 4),
        **load.summary(),
    }


async def stop(folder: Path, seconds: float) -> dict[str, object]:
    """SIGTERM under load, again and again."""
    write(folder, "m")
    counts: Counter[str] = Counter()
    codes, took = set(), []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        with Server(folder) as server:
            load = Load(server.address)
            working = asyncio.create_task(load.closed("m", 1.5, 8))
            await asyncio.sleep(0.7)
            began = time.perf_counter()
            server.process.send_signal(signal.SIGTERM)
            codes.add(await asyncio.to_thread(server.process.wait))
            took.append(time.perf_counter() - began)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            counts += load.counts
    return {
        "exit_codes": sorted(codes),
        "seconds_to_end": round(max(took), 3),
        # Refused or closed before they were accepted: a client sends them elsewhere.
        **counts,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    what = {"overload": overload, "reload": reload, "stop": stop}
    parser.add_argument("what", choices=what)
    parser.add_argument("--seconds", type=float, default=20.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(what[args.what](Path(folder), args.seconds))
    print(json.dumps({args.what: found}, indent=2))


if __name__ == "__main__":
    main()
