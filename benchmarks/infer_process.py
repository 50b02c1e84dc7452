"""Loading a model in a fresh process: seconds, and bytes held and at the peak.

``python infer_process.py ENGINE MODEL PRECISION THREADS FOLDER`` prints the seconds
until the model is loaded, those of its first run, and resident bytes above those of the
process before: after that run, and at the peak.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve()
FACTS = ("load_ms", "first_run_ms", "held_mib", "peak_mib")


def main(engine: str, name: str, precision: str, threads: str, folder: str) -> None:
    """Load, run once, and print `FACTS`."""
    import infer_engines
    import infer_models
    import numpy as np
    from peak import resident

    # The import is no part of the load.
    __import__("proa_inference" if engine.startswith("proa") else engine)
    model = infer_models.BY_NAME[name]
    files = infer_models.files_of(model, precision, Path(folder))
    names = [spec.name for spec in model.specs()]
    arrays = model.inputs(np.random.default_rng(0), 1)
    before, start = resident("VmRSS"), time.perf_counter()
    run = infer_engines.runner(engine, files, names, arrays, precision, int(threads))
    loaded = time.perf_counter()
    run()
    done = time.perf_counter()
    held = resident("VmRSS") - before, resident("VmHWM") - before
    seconds = loaded - start, done - loaded
    values = [*(1e3 * s for s in seconds), *(b / 2**20 for b in held)]
    print(json.dumps(dict(zip(FACTS, values, strict=True))))


def measured(
    engine: str, name: str, precision: str, threads: int, folder: Path
) -> dict[str, float] | None:
    """`FACTS` of a process of its own; None if the engine has no such form."""
    given = (engine, name, precision, str(threads), str(folder))
    command = [sys.executable, str(HERE), *given]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return None
    facts: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return facts


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    main(*sys.argv[1:])
