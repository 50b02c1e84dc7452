"""Writes `paddle_1_8.json`: ``python fluid_reference.py``, by a Python with the wheel
paddlepaddle 1.8.5 (Python 3.7), next to `fluid_cases.py`.
"""

import json
import os

import numpy as np
import paddle.fluid as fluid
from fluid_cases import CASES, source

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "paddle_1_8.json")


def main():
    result = {}
    for name, (_, feed, steps) in CASES.items():
        names = {}
        programs = fluid.program_guard(fluid.Program(), fluid.Program())
        with programs, fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
            exec(compile(source(name), name, "exec"), names)
            found = names["run"](feed, steps)
        results = []
        for tensor in found:
            array = np.array(tensor)
            flat = [float(f"{n:.7g}") for n in array.reshape(-1)]
            lengths = tensor.recursive_sequence_lengths()
            results.append([list(array.shape), lengths, flat])
        result[name] = results
    with open(PATH, "w") as file:
        json.dump(result, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
