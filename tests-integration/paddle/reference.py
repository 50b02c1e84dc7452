"""Writes small models by PaddlePaddle, with what it computes: ``reference.py FOLDER``.

Run by an interpreter that has the wheel `paddlepaddle`; the tests run it in a process
of its own. Each case becomes ``NAME.pdmodel``, ``NAME.pdiparams`` and ``NAME.npz`` with
inputs ``in_…`` and outputs ``out_…`` in order.
"""

from __future__ import annotations

import os
import sys

import cases_layers  # noqa: F401  (cases register themselves)
import cases_tensors  # noqa: F401
import numpy as np
import paddle
from builder import CASES
from paddle import static


def write(folder: str, name: str) -> None:
    inputs, build = CASES[name]
    main, startup = static.Program(), static.Program()
    paddle.seed(0)
    with static.program_guard(main, startup), paddle.utils.unique_name.guard():
        feeds = []
        for key, array in inputs.items():
            shape = list(array.shape)
            if len(shape) > 1 and "shape" in name:
                shape[0] = -1
            feeds.append(static.data(key, shape, str(array.dtype)))
        outputs = build(*feeds)
        outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        prefix = os.path.join(folder, name)
        static.save_inference_model(prefix, feeds, outputs, executor, program=main)
        program, names, targets = static.load_inference_model(prefix, executor)
        found = executor.run(program, {n: inputs[n] for n in names}, targets)
    arrays = {f"in_{n}": inputs[n] for n in names}
    arrays.update((f"out_{i:02}", a) for i, a in enumerate(found))
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
