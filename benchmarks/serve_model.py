"""What `proa-serve` adds to a real model, and what its batches bring.

    nox -s bench -- serve_model.py [--model mobilenet_v2] [--cores 1] [--rounds 5]

Next to the server, the predictor alone runs the same model in a loop, in a process of
its own on the same cores, as many loops as the server has instances, one thread each.
Measurements are interleaved, and medians of all rounds are printed as JSON. The client
(serve_load.c) has the last core where the server leaves it one.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from infer_models import BY_NAME, files_of
from numpy.typing import NDArray

from proa_inference import Config, create_predictor
from proa_serving.protocol.messages import InferRequest, Tensor
from proa_serving.protocol.rest import HEADER_LENGTH, encode_request

HERE = Path(__file__).resolve().parent
CORES = sorted(os.sched_getaffinity(0))
BATCHES = (1, 2, 4, 8, 16, 32)
Array = NDArray[np.float32]


def image(model: str, batch: int) -> Array:
    """Inputs of the model: it must have one."""
    (array,) = BY_NAME[model].inputs(np.random.default_rng(3), batch)
    return array


def predict(path: Path, model: str, batch: int, seconds: float, loops: int) -> None:
    """Print rows/s and the median seconds of a run of the predictor alone."""
    config = Config(str(path))
    config.set_cpu_math_library_num_threads(1)
    first = create_predictor(config)
    x, took = image(model, batch), list[float]()

    def loop(predictor: object) -> None:
        run = predictor.run  # type: ignore[attr-defined]  # a clone's type is Any
        run([x])
        end = time.perf_counter() + seconds
        while (begin := time.perf_counter()) < end:
            run([x])
            took.append(time.perf_counter() - begin)

    threads = [
        threading.Thread(target=loop, args=(first.clone(),)) for _ in range(loops)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    median = statistics.median(took)
    # By the sum of all, so that a loop's last run beyond the end counts as it is.
    print(batch * loops / statistics.fmean(took), median)


class Bench:
    """One model, its server and its client.

    Args:
        folder: For the files.
        model: Its name in infer_models.py.
        cores: Of the server and of the predictor: as many instances, and loops.
        seconds: Of each measurement.
    """

    def __init__(self, folder: Path, model: str, cores: int, seconds: float) -> None:
        self.folder, self.model, self.seconds = folder, model, seconds
        self.cores = CORES[:cores]
        self.path = files_of(BY_NAME[model], "fp32", folder / "models").proa
        self._client = folder / "serve_load"
        compiled = ["cc", "-O2", str(HERE / "serve_load.c"), "-o", str(self._client)]
        subprocess.run(compiled, check=True)
        body, length = encode_request(
            InferRequest("m", [Tensor.of("x", image(model, 1))], binary_output=True),
            True,
        )
        head = (
            f"POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\n"
            f"{HEADER_LENGTH}: {length}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        (folder / "request").write_bytes(head.encode() + body)

    @contextlib.contextmanager
    def server(self, *options: str) -> Iterator[int]:
        """`proa-serve` on its cores; its port."""
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "proa_serving.cli", f"m={self.path}"),
                *("--http", "0", "--instances", str(len(self.cores)), *options),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=functools.partial(os.sched_setaffinity, 0, self.cores),
        )
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline().split("http=")[1].split()[0][10:])
        finally:
            process.kill()
            process.wait()

    def load(self, port: int, connections: int) -> tuple[float, float]:
        """Requests/s and the median latency in seconds."""
        request = str(self.folder / "request")
        # Many clients share large batches; one that the end cuts off is not counted.
        seconds = self.seconds * max(1, connections // 8)
        done = subprocess.run(
            [
                *(str(self._client), "http", str(port), str(connections)),
                *(str(seconds), request, request),
            ],
            check=True,
            capture_output=True,
            text=True,
            preexec_fn=functools.partial(os.sched_setaffinity, 0, CORES[-1:]),
        )
        count, took, median, _ = map(float, done.stdout.split())
        return count / took, median * 1e-6

    def alone(self, batch: int) -> tuple[float, float]:
        """Rows/s and the median seconds of a run of the predictor alone."""
        done = subprocess.run(
            [
                *(sys.executable, __file__, "--predict", str(self.path)),
                *("--model", self.model, "--batch", str(batch)),
                *("--seconds", str(self.seconds), "--cores", str(len(self.cores))),
            ],
            check=True,
            capture_output=True,
            text=True,
            preexec_fn=functools.partial(os.sched_setaffinity, 0, self.cores),
        )
        rows, median = map(float, done.stdout.split())
        return rows, median


def measure(bench: Bench, rounds: int) -> dict[str, object]:
    """Medians of ``rounds``, each of which takes every measurement once."""
    found: dict[str, list[tuple[float, float]]] = {}
    with bench.server() as batched, bench.server("--max-batch", "1") as single:
        for port in (batched, single):
            bench.load(port, 32)  # so that every shape was planned
        for _ in range(rounds):
            for batch in BATCHES:
                found.setdefault(f"alone {batch}", []).append(bench.alone(batch))
            for name, port in (("batched", batched), ("single", single)):
                for connections in (1, 8, 32):
                    key = f"{name} c{connections}"
                    found.setdefault(key, []).append(bench.load(port, connections))
    rate = {k: statistics.median(each[0] for each in v) for k, v in found.items()}
    took = {k: statistics.median(each[1] for each in v) for k, v in found.items()}
    best = max(BATCHES, key=lambda batch: rate[f"alone {batch}"])
    return {
        "model": bench.model,
        "cores": len(bench.cores),
        "rows_per_s": {name: round(each, 1) for name, each in rate.items()},
        "p50_ms": {name: round(each * 1e3, 3) for name, each in took.items()},
        "added_p50_ms": round((took["single c1"] - took["alone 1"]) * 1e3, 3),
        "added_p50_ms_with_batches": round(
            (took["batched c1"] - took["alone 1"]) * 1e3, 3
        ),
        "throughput_c8": round(rate["single c8"] / rate["alone 1"], 3),
        "best_fixed_batch": best,
        "batched_to_best": round(rate["batched c32"] / rate[f"alone {best}"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--model", default="mobilenet_v2", choices=BY_NAME)
    add("--cores", type=int, default=1, help="of the server")
    add("--rounds", type=int, default=5)
    add("--seconds", type=float, default=1.0, help="of each measurement")
    add("--folder", type=Path, help="keeps the model's files")
    add("--predict", type=Path, help=argparse.SUPPRESS)
    add("--batch", type=int, default=1, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.predict is not None:
        predict(args.predict, args.model, args.batch, args.seconds, args.cores)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        bench = Bench(folder, args.model, args.cores, args.seconds)
        print(json.dumps(measure(bench, args.rounds), indent=2))


if __name__ == "__main__":
    main()
