"""The main job: train, compress, export, and run one file in every runtime.

``nox -s quickstart`` builds the packages and calls this. Its results are in
quickstart/.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))

import data
import machine
import measure
import report
from compress import accuracy, compress
from train import History, input_spec, train

import proa
from proa.vision.models import LeNet

Row = dict[str, Any]


def _step(number: int, title: str) -> None:
    print(f"\n[{number}/6] {title}", flush=True)


def _run_everywhere(
    folder: Path, images: data.Images, paths: dict[str, Path], weights: Path
) -> tuple[list[Row], dict[tuple[str, str], NDArray[np.float32]]]:
    test = folder / "state" / "test_images.npy"
    np.save(test, images.test_x)
    rows: list[Row] = []
    logits: dict[tuple[str, str], NDArray[np.float32]] = {}

    def add(runtime: str, precision: str, model: str, pid: int | None = None) -> None:
        print(f"  {runtime} {precision}", flush=True)
        figures, out = measure.measure(runtime, model, test, folder / "state")
        if pid is not None:
            figures["rss_mb"] = measure.resident_mb(pid)
        logits[runtime, precision] = out
        eager = logits["eager", "fp32"]
        rows.append(
            {
                "runtime": runtime,
                "precision": precision,
                "accuracy": accuracy(out, images.test_y),
                "agreement": accuracy(out, eager.argmax(1)),
                **figures,
                "file_bytes": (weights if runtime == "eager" else paths[precision])
                .stat()
                .st_size,
            }
        )

    add("eager", "fp32", str(weights))
    for runtime in ("inference", "lite"):
        for precision, path in paths.items():
            add(runtime, precision, str(path))
    served = {f"lenet-{precision}": path for precision, path in paths.items()}
    with measure.server(served, folder / "state" / "server.log") as started:
        for runtime, address in zip(
            ("serving-http", "serving-grpc"), started, strict=False
        ):
            for precision in paths:
                add(runtime, precision, f"lenet-{precision}@{address}", started[2])
    test.unlink()
    return rows, logits


def _compare(
    logits: dict[tuple[str, str], NDArray[np.float32]], slim: NDArray[np.float32]
) -> tuple[float, bool]:
    fp32 = [out for (_, precision), out in logits.items() if precision == "fp32"]
    int8 = [
        slim,
        *(out for (_, precision), out in logits.items() if precision == "int8"),
    ]
    worst = max(float(np.abs(out - fp32[0]).max()) for out in fp32)
    return worst, all(a.tobytes() == b.tobytes() for a, b in pairwise(int8))


def _check(summary: dict[str, Any], full_data: bool) -> list[str]:
    """What the main job promises and this run did not keep."""
    compressed, trained = summary["compress"], summary["train"]
    fp32 = trained["accuracy"][-1]
    broken = []
    if full_data and fp32 < 0.86:
        broken.append(f"test accuracy must reach 0.86, got {fp32:.4f}")
    for method in ("ptq_abs_max", "ptq_kl", "qat"):
        if compressed[method] < fp32 - 0.005:
            broken.append(
                f"{method} must be within 0.5 points of {fp32:.4f}, "
                f"got {compressed[method]:.4f}"
            )
    if summary["fp32_max_abs_diff"] > 1e-5:
        broken.append(
            f"fp32 logits must agree to 1e-5, got {summary['fp32_max_abs_diff']:.2e}"
        )
    if not summary["int8_bit_equal"]:
        broken.append("int8 logits must be bit-equal between the runtimes")
    return broken


def run(folder: Path, fresh: bool) -> int:
    """Do the whole job into `folder`; returns the exit code."""
    begin = time.perf_counter()
    state = folder / "state"
    state.mkdir(parents=True, exist_ok=True)
    _step(1, "Data")
    images = data.load(state)
    print(
        f"{images.name} from {images.source}: "
        f"{len(images.train_x):,} + {len(images.test_x):,}"
    )
    _step(2, "Training LeNet")
    started = time.perf_counter()
    network, history = train(images, state, fresh)
    train_seconds = time.perf_counter() - started
    _step(3, "Compressing to int8")
    started = time.perf_counter()
    paths = {"fp32": folder / "lenet.proa", "int8": folder / "lenet.int8.proa"}
    compressed, slim_logits = compress(network, images, paths["int8"])
    compress_seconds = time.perf_counter() - started
    for method in ("ptq_abs_max", "ptq_kl", "qat"):
        print(f"  {method}: {compressed[method]:.4f} (fp32 {history.accuracy[-1]:.4f})")
    _step(4, "Exporting")
    network.eval()
    proa.jit.save(network, str(paths["fp32"]), input_spec())
    for path in paths.values():
        print(f"  {path} ({path.stat().st_size:,} bytes)")
    _step(5, "Running every runtime")
    rows, logits = _run_everywhere(folder, images, paths, state / "lenet.pdparams")
    _step(6, "Report")
    summary = _summary(images, network, history, compressed, rows)
    summary["fp32_max_abs_diff"], summary["int8_bit_equal"] = _compare(
        logits, slim_logits
    )
    build = os.environ.get("PROA_QUICKSTART_BUILD_SECONDS")
    summary["seconds"] = {
        "build": float(build) if build else None,
        "train": train_seconds,
        "compress": compress_seconds,
        "total_without_build": time.perf_counter() - begin,
    }
    report.print_table(rows)
    report.write(
        folder,
        summary,
        images.test_x,
        images.test_y,
        logits["eager", "fp32"],
        images.classes,
    )
    total = machine.in_words(summary["seconds"]["total_without_build"])
    print(f"{folder / 'report.html'}, after {total}")
    broken = _check(summary, images.name == "Fashion-MNIST")
    for line in broken:
        print(f"NOT KEPT: {line}", file=sys.stderr)
    return 1 if broken else 0


def _summary(
    images: data.Images,
    network: LeNet,
    history: History,
    compressed: Row,
    rows: list[Row],
) -> dict[str, Any]:
    return {
        "data": {
            "name": images.name,
            "source": images.source,
            "train": len(images.train_x),
            "test": len(images.test_x),
        },
        "train": {
            "parameters": int(sum(p.size for p in network.parameters())),
            "loss": history.loss,
            "accuracy": history.accuracy,
            "seconds": history.seconds,
        },
        "compress": compressed,
        "runtimes": rows,
        "measured": {
            "threads": measure.THREADS,
            "batch": measure.BATCH,
            "latency_runs": measure.LATENCY_RUNS,
        },
        "machine": machine.facts(),
    }


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("quickstart"), help="output folder"
    )
    parser.add_argument("--fresh", action="store_true", help="train from scratch")
    options = parser.parse_args()
    try:
        return run(options.out, options.fresh)
    except KeyboardInterrupt:
        print("\nstopped; what was finished is kept", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
