"""Writes small models by PaddlePaddle, with what it computes: ``reference.py FOLDER``.

Run by an interpreter that has the wheel `paddlepaddle`; the tests run it in a process
of its own. Each case becomes ``NAME.pdmodel``, ``NAME.pdiparams`` and ``NAME.npz`` with
inputs ``in_…`` and outputs ``out_…`` in order.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import cases_layers  # noqa: F401  (cases register themselves)
import cases_sequences  # noqa: F401
import cases_tensors  # noqa: F401
import numpy as np
import paddle
from builder import CASES, Rows
from paddle import static


def _fed(given: Any) -> Any:
    """What an executor is fed for an array or rows."""
    if not isinstance(given, Rows):
        return given
    place = paddle.CPUPlace()
    return paddle.base.create_lod_tensor(given.array, given.lengths, place)


def write(folder: str, name: str) -> None:
    inputs, build = CASES[name]
    main, startup = static.Program(), static.Program()
    paddle.seed(0)
    with static.program_guard(main, startup), paddle.utils.unique_name.guard():
        feeds = []
        for key, given in inputs.items():
            is_rows = isinstance(given, Rows)
            array = given.array if is_rows else given
            shape = list(array.shape)
            if is_rows or (len(shape) > 1 and "shape" in name):
                shape[0] = -1
            levels = len(given.lengths) if is_rows else 0
            feeds.append(static.data(key, shape, str(array.dtype), levels))
        outputs = build(*feeds)
        outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        prefix = os.path.join(folder, name)
        static.save_inference_model(prefix, feeds, outputs, executor, program=main)
        program, names, targets = static.load_inference_model(prefix, executor)
        fed = {n: _fed(inputs[n]) for n in names}
        if name.startswith("gru"):  # whose saved program lacks an output that it needs
            program, targets = main, outputs
        found = executor.run(program, fed, targets, return_numpy=False)
    arrays = {}
    for key in names:
        given = inputs[key]
        arrays[f"in_{key}"] = given.array if isinstance(given, Rows) else given
        if isinstance(given, Rows):
            for k, level in enumerate(given.lengths):
                arrays[f"lengths_{key}_{k}"] = np.array(level, np.int64)
    arrays.update((f"out_{i:02}", np.array(a)) for i, a in enumerate(found))
    np.savez(prefix + ".npz", **arrays)


def main(folder: str) -> None:
    paddle.enable_static()
    for name in CASES:
        try:
            write(folder, name)
        except Exception as error:  # the wheel's version lacks something: no reference
            reason = str(error).strip().splitlines()[-1][:200]
            print(f"{name}: {type(error).__name__}: {reason}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
