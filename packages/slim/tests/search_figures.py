"""What docs/search.md says of searches, measured.

    python packages/slim/tests/search_figures.py build/search.json

Searches of the table take half a minute; the supernet is trained on the data of
`tabulated.py`, and so are a few networks alone, for their time.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from tabulated import EPOCHS, Table, correct, data, space, trained_curve

import proa
from proa_slim.search import OneShot, Search, asha_stop, median_stop

SEEDS, STEPS = 8, 64
RUNS: dict[str, tuple[str, Any]] = {
    "annealing": ("annealing", None),
    "evolution": ("evolution", None),
    "reinforce": ("reinforce", None),
    "random": ("random", None),
    "evolution, `median_stop(3)`": ("evolution", lambda: median_stop(3)),
    "random, `asha_stop(3, 4)`": ("random", lambda: asha_stop(3, 4)),
}


def searches() -> list[dict[str, Any]]:
    """Each controller, with and without early stop, for several seeds."""
    table, rows = Table(), []

    def evaluate(trial: Any) -> float:
        for value in table.curve(trial.tokens):
            trial.report(value)
        return float(value)

    for name, (controller, stop) in RUNS.items():
        better, saved = [], []
        for seed in range(SEEDS):
            early_stop = None if stop is None else stop()
            search = Search(space(), controller, early_stop=early_stop, seed=seed)
            best = search.run(evaluate, STEPS, progress=False)
            better.append(table.share_better(best.reward))
            epochs = sum(record.epochs for record in search.trials)
            saved.append(1 - epochs / (STEPS * EPOCHS))
        rows.append(
            {
                "name": name,
                "top5": sum(share < 0.05 for share in better),
                "median_better": float(np.median(better)),
                "worst_better": max(better),
                "saved": float(np.mean(saved)),
                "least_saved": min(saved),
            }
        )
    return rows


def one_shot(cache: Path, epochs: int = 100, steps: int = 300) -> dict[str, Any]:
    """A supernet against networks trained alone, in seconds of one thread."""
    proa.set_num_threads(1)
    table, split = Table(), data(cache)
    x, y, validation_x, validation_y = split
    rng, begin = np.random.default_rng(0), time.process_time()
    alone = rng.choice(space().size, 10, replace=False)
    for number in alone:
        tokens = [int(t) for t in np.unravel_index(number, table.ranges)]
        proa.seed(0)
        trained_curve(space().token2arch(tokens), split)
    each = (time.process_time() - begin) / len(alone)
    proa.seed(0)
    search = OneShot(space())
    rate = proa.optimizer.lr.CosineAnnealingDecay(6e-3, epochs * len(x) // 64)
    adam = proa.optimizer.Adam(rate, parameters=search.supernet.parameters())

    def batches() -> Any:
        for rows in rng.permutation(len(x)).reshape(-1, 64):
            yield proa.to_tensor(x[rows]), proa.to_tensor(y[rows])

    def accuracy(network: Any) -> float:
        return correct(network, validation_x[:1000], validation_y[:1000]) / 1000

    begin = time.process_time()
    search.train(batches, adam, proa.nn.CrossEntropyLoss(), epochs, rate)
    trained = time.process_time()
    inputs = [proa.to_tensor(x[:256])]
    best = search.search(accuracy, inputs, steps, population=30)
    end = time.process_time()
    return {
        "epochs": epochs,
        "steps": steps,
        "seconds_each": each,
        "seconds_train": trained - begin,
        "seconds_search": end - trained,
        "ratio": steps * each / (end - begin),
        "better": table.share_better(table.accuracy(best.tokens)),
    }


def cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return names[0] if names else "unknown"


def main() -> None:
    cache = Path(os.environ.get("PROA_DATA_HOME") or tempfile.mkdtemp())
    found = {
        "cpu": cpu(),
        "date": datetime.date.today().isoformat(),
        "seeds": SEEDS,
        "steps": STEPS,
        "rows": searches(),
        "one_shot": one_shot(cache),
    }
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
