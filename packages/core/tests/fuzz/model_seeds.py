"""Writes a model of each operator, for csrc/fuzz to begin with.

    cd packages && python -m core.tests.fuzz.model_seeds FOLDER

The arrays are those of the records in tests/ops: once all inputs, once all but the
first constants, as weights are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from proa.errors import Error
from proa.ir import Builder, Program
from proa.ir.file import write

from ..interop.operator_models import main_dtype, programs, records
from ..ops.sample import Sample

#: Seeds for each operator.
CASES = 3
#: Files of the corpus are no larger.
MAX_BYTES = 16384


def with_constants(sample: Sample, arrays: list[Any], attrs: dict[str, Any]) -> Program:
    """A program of one node that is given its first array alone."""
    b = Builder()
    inputs = [
        None
        if a is None
        else (b.constant(np.asarray(a)) if i else b.input("x", str(a.dtype), a.shape))
        for i, a in enumerate(arrays)
    ]
    b.output(*b.node(sample.name, inputs, attrs).outputs)
    return b.program


def seeds() -> Iterator[tuple[str, Program]]:
    """The models, by name."""
    for sample in records({}):
        found = programs(sample, main_dtype(sample))
        for i, (_, case, arrays, program) in enumerate(islice(found, CASES)):
            yield f"{sample.name}_{i}", program
            if len(arrays) > 1 and arrays[0] is not None:
                result = with_constants(sample, arrays, case.attrs)
                yield f"{sample.name}_{i}_constant", result


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for name, program in seeds():
        path = folder / f"{name}.proa"
        try:
            write(program, path)
        except Error as error:  # a type that files do not hold
            print(f"{name}: {error}", file=sys.stderr)
            continue
        if path.stat().st_size > MAX_BYTES:
            path.unlink()
        else:
            count += 1
    print(f"{count} models in {folder}")
    return 0 if count > 300 else 1


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
