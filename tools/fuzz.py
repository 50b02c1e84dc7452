"""Throw changed model files at the engine under ASan + UBSan; the corpus grows.

    python tools/fuzz.py --count 1000000 --seed 1

In an environment with the build tools and an installed proa (CONTRIBUTING.md). What is
built, the models to begin with and the corpus are in build/fuzz.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "fuzz"
CORPUS = FOLDER / "corpus"
FLAGS = "-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all"


def build(folder: Path = FOLDER) -> Path:
    """The program of packages/core/csrc/fuzz, built."""
    configure = ["cmake", "-S", "packages/core", "-B", str(folder), "-G", "Ninja"]
    defines = {
        "PROA_BUILD_FUZZ": "ON",
        "PROA_ISAS": "native",
        "CMAKE_BUILD_TYPE": "None",
        "CMAKE_CXX_FLAGS": FLAGS,
        "Python_EXECUTABLE": sys.executable,
        "Python3_EXECUTABLE": sys.executable,
    }
    options = [f"-D{name}={value}" for name, value in defines.items()]
    subprocess.run([*configure, *options], cwd=ROOT, check=True)
    target = ["cmake", "--build", str(folder), "--target", "grow_corpus"]
    subprocess.run([*target, "-j", str(os.cpu_count() or 2)], check=True)
    return folder / "grow_corpus"


def seeds(folder: Path) -> list[str]:
    """A model of each operator, and those whose format is kept."""
    command = [sys.executable, "-m", "core.tests.fuzz.model_seeds", str(folder)]
    subprocess.run(command, cwd=ROOT / "packages", check=True)
    golden = ROOT / "packages" / "core" / "tests" / "ir" / "golden"
    return [str(p) for f in (golden, folder) for p in sorted(f.glob("*.proa"))]


def total(corpus: Path = CORPUS) -> int:
    """The files of all runs on this corpus."""
    runs = corpus / "runs.txt"
    lines = runs.read_text().splitlines() if runs.exists() else []
    return sum(int(line.split()[0]) for line in lines)


def main() -> int:
    """Run; the exit code is that of the fuzzer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="of files")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers")
    options = parser.parse_args()
    CORPUS.mkdir(parents=True, exist_ok=True)
    program = build()
    numbers = [str(options.count), str(options.seed)]
    command = [str(program), str(CORPUS), *numbers, *seeds(FOLDER / "seeds")]
    code = subprocess.run(command, check=False).returncode
    print(f"{total()} files over the life of the corpus")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
