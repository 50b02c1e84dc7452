"""Compresses classifiers, detectors and segmentation networks, and measures them.

    python examples/compression_zoo                 all recipes
    python examples/compression_zoo --recipe NAME   one of them, or several
    python examples/compression_zoo --list          their names
    python examples/compression_zoo --measure       times again, on an idle machine

Networks that were trained and recipes that ran are kept in the output folder, so a run
that was stopped continues. Each recipe leaves before.proa and after.proa, and a row in
results.json. The exit code is 1 if a recipe does not give what it promises.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import proa
from compression_zoo.recipes import RECIPES
from compression_zoo.zoo import Zoo, summary


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        prog="examples/compression_zoo", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, default=Path("build/compression_zoo"), help="output folder"
    )
    parser.add_argument("--recipe", nargs="+", choices=list(RECIPES), metavar="NAME")
    parser.add_argument("--list", action="store_true", help="print the recipes")
    parser.add_argument("--measure", action="store_true", help="measure times again")
    parser.add_argument("--threads", type=int, default=0, help="of training; all: 0")
    options = parser.parse_args()
    if options.list:
        for name, recipe in RECIPES.items():
            print(f"{name:36} {recipe.method}")
        return 0
    if options.threads:
        proa.set_num_threads(options.threads)
    zoo = Zoo(options.out, log=lambda line: print(line, flush=True))
    if options.measure:
        zoo.measure()
    rows = zoo.results["rows"]
    names = options.recipe or [name for name in RECIPES if name not in rows]
    broken = 0
    for number, name in enumerate([] if options.measure else names, 1):
        print(f"\n[{number}/{len(names)}] {name}", flush=True)
        row = zoo.run(name)
        print(summary(row), flush=True)
        broken += bool(row["broken"])
        for line in row["broken"]:
            print(f"NOT KEPT: {line}", file=sys.stderr, flush=True)
    print("\n" + "\n".join(summary(row) for row in zoo.results["rows"].values()))
    return 1 if broken else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        print("\nstopped; what was finished is kept", file=sys.stderr)
        raise SystemExit(130) from None
