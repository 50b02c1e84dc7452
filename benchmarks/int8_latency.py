"""Time int8 files of `quant_post_static` against float32: build/int8-latency.json.

    nox -s bench -- int8_latency.py --prepare   # writes the files, minutes
    nox -s bench -- int8_latency.py             # times them, a minute, one thread
    nox -s figures                              # the table of docs/slim.md

Batch 1, weights at random. Predictors of one network run in turns, so that what else
the machine does slows both; a time is the mean of the fastest fifth of the runs.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from infer_models import BY_NAME, files_of

import proa_inference

ROOT = Path(__file__).parents[1]
NETWORKS = {
    "resnet50": "ResNet-50",
    "mobilenet_v1": "MobileNetV1",
    "mobilenet_v2": "MobileNetV2",
    "mobilenet_v3_large": "MobileNetV3-large",
    "bert_base": "BERT-base, 128 words",
}
PRECISIONS = ("fp32", "int8")


def predictor(path: Path) -> Any:
    """A predictor of one thread."""
    config = proa_inference.Config(str(path))
    config.set_cpu_math_library_num_threads(1)
    return proa_inference.create_predictor(config)


def milliseconds(name: str, folder: Path, seconds: float) -> list[float]:
    """CPU time of a run in float32 and in int8."""
    model = BY_NAME[name]
    arrays = model.inputs(np.random.default_rng(0), 1)
    runs = [predictor(files_of(model, p, folder).proa) for p in PRECISIONS]
    times: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run.run(arrays)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 10:
        for run, found in zip(runs, times, strict=True):
            begin = time.process_time()
            run.run(arrays)
            found.append(1e3 * (time.process_time() - begin))
    return [float(np.mean(sorted(t)[: max(1, len(t) // 5)])) for t in times]


def main() -> None:
    """Write the files, or time them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--prepare", action="store_true", help="write the files alone")
    parser.add_argument("--seconds", type=float, default=4, help="for a network")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "int8-latency")
    options = parser.parse_args()
    rows = []
    for name, title in NETWORKS.items():
        if options.prepare:
            for precision in PRECISIONS:
                files_of(BY_NAME[name], precision, options.folder)
            continue
        found = milliseconds(name, options.folder, options.seconds)
        rows.append({"network": title, "ms": found})
        print(f"{title}: {found[0]:.2f} -> {found[1]:.2f} ms", flush=True)
    if rows:
        day = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        target = ROOT / "build" / "int8-latency.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps({"date": day, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
