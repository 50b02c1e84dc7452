"""Run one runtime over the test images in a process of its own.

A fresh process makes the resident memory that of the runtime alone, and shows that each
package works without the others. As a script it is that process:
``python measure.py RUNTIME MODEL IMAGES.npy RESULT.npz``.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Run = Callable[[NDArray[np.float32]], NDArray[np.float32]]
LATENCY_RUNS = 500
BATCH = 100
THREADS = 1  # of every runtime, so that rows can be compared; lite has no more


def resident_mb(pid: int | None = None) -> float:
    """Resident memory of a process now, in MB (2**20 bytes)."""
    pages = Path(f"/proc/{pid or os.getpid()}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20


# -- the runtimes, each behind "array in, array out"
# --------------------------------------


def _eager(model: str) -> Run:
    import proa
    from proa.vision.models import LeNet

    proa.set_num_threads(THREADS)
    network = LeNet()
    network.set_state_dict(proa.load(model))
    network.eval()

    def run(x: NDArray[np.float32]) -> NDArray[np.float32]:
        with proa.no_grad():
            out: NDArray[np.float32] = network(proa.to_tensor(x)).numpy()
        return out

    return run


def _inference(model: str) -> Run:
    import proa_inference

    config = proa_inference.Config(model)
    config.set_cpu_math_library_num_threads(THREADS)
    predictor = proa_inference.create_predictor(config)
    return lambda x: predictor.run([x])[0]


def _lite(model: str) -> Run:
    import proa_lite

    predictor = proa_lite.create_predictor(proa_lite.Config(model))
    return lambda x: predictor.run([x])[0]


def _client(kind: str, address: str) -> Run:
    from proa_serving import client

    model, _, where = address.partition("@")
    connection: Any = (
        client.HttpClient if kind == "serving-http" else client.GrpcClient
    )(where)
    metadata = connection.model_metadata(model)
    name = metadata.inputs[0].name

    def run(x: NDArray[np.float32]) -> NDArray[np.float32]:
        (out,) = connection.infer(model, {name: x}).as_dict().values()
        return np.asarray(out, np.float32)

    return run


def _open(runtime: str, model: str) -> Run:
    if runtime.startswith("serving"):
        return _client(runtime, model)
    return {"eager": _eager, "inference": _inference, "lite": _lite}[runtime](model)


def _instruction_set(runtime: str) -> str:
    """What the kernels run on; serving's are those of inference."""
    if runtime == "lite":
        import proa_lite

        return proa_lite.isa()
    from proa.utils.installation import engine

    return engine()["isa"]


def _main(runtime: str, model: str, images: str, result: str) -> None:
    x = np.load(images)
    run = _open(runtime, model)
    run(x[:1])
    times = []
    for i in range(LATENCY_RUNS):
        one = x[i % len(x)][None]
        start = time.perf_counter()
        run(one)
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    logits = np.concatenate([run(x[i : i + BATCH]) for i in range(0, len(x), BATCH)])
    seconds = time.perf_counter() - start
    figures: dict[str, Any] = {
        "p50_ms": float(np.percentile(times, 50) * 1e3),
        "p99_ms": float(np.percentile(times, 99) * 1e3),
        "images_per_s": len(x) / seconds,
        "rss_mb": resident_mb(),
        "threads": THREADS,
    }
    figures["isa"] = _instruction_set(runtime)  # may load core, so after the memory
    np.savez(result, logits=logits, figures=json.dumps(figures))


# -- the caller's side
# --------------------------------------------------------------------


def measure(
    runtime: str, model: str, images: Path, folder: Path
) -> tuple[dict[str, Any], NDArray[np.float32]]:
    """Run `runtime` in a process of its own; returns its figures and logits."""
    result = folder / f"{runtime}.npz"
    command = [sys.executable, __file__, runtime, model, str(images), str(result)]
    # Ctrl-C reaches this process alone, which then ends the other, whatever it was at.
    subprocess.run(command, check=True, start_new_session=True)
    with np.load(result) as stored:
        figures: dict[str, Any] = json.loads(str(stored["figures"]))
        logits: NDArray[np.float32] = stored["logits"]
    result.unlink()
    return figures, logits


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(address: str) -> bool:
    from proa_serving.client import HttpClient
    from proa_serving.protocol.errors import UnavailableError

    try:
        return HttpClient(address).ready()
    except UnavailableError:
        return False  # nobody listens yet


@contextmanager
def server(models: dict[str, Path], log: Path) -> Iterator[tuple[str, str, int]]:
    """A started ``proa-serve``; gives its HTTP and gRPC addresses and process id."""
    http, grpc = _free_port(), _free_port()
    command = [
        sys.executable,
        "-m",
        "proa_serving.cli",
        *(f"{name}={path}" for name, path in models.items()),
    ]
    command += ["--host", "127.0.0.1", "--http", str(http), "--grpc", str(grpc)]
    command += ["--threads", str(THREADS)]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 60
        while not _answers(f"127.0.0.1:{http}"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start:\n{log.read_text()}")
            time.sleep(0.1)
        yield f"127.0.0.1:{http}", f"127.0.0.1:{grpc}", process.pid
    finally:
        process.terminate()
        process.wait(30)


if __name__ == "__main__":
    _main(*sys.argv[1:])
