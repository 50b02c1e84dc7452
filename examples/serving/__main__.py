"""Seven services, each started by one command: it trains its models and serves them.

    python examples/serving segmentation --http 8000

Training takes seconds on two cores. The repository stays in build/examples/serving/NAME
(``--out`` names another folder) and is trained again only where it is missing. Other
options are those of ``proa-serve``.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
NAMES = (
    "segmentation",
    "sentiment",
    "embeddings",
    "ctr",
    "images",
    "ocr",
    "pipeline",
)


def main() -> int:
    """Build the repository of one example, and serve it until a signal comes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--out", type=Path)
    args, options = parser.parse_known_args()
    sys.path.insert(0, str(HERE))
    folder = args.out or HERE.parents[1] / "build" / "examples" / "serving" / args.name
    if not folder.is_dir():
        began = time.monotonic()
        part = folder.with_name(f".{folder.name}")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        importlib.import_module(args.name).build(part)
        part.rename(folder)
        print(f"{args.name}: trained in {time.monotonic() - began:.1f} s", flush=True)
    from proa_serving.cli import main as serve

    return serve(["--repository", str(folder), "--python-models", *options])


if __name__ == "__main__":
    raise SystemExit(main())
