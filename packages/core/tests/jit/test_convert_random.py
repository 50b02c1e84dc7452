"""Functions of random nests of branches, loops and early ends, against themselves."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proa.jit import InputSpec

from .equivalence import agree

NAMES = ("a", "b", "c")


class Writer:
    """Writes statements that change a, b and c by x, m and one another."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.loops, self.left = 0, 16

    def name(self) -> str:
        return self.draw.choice(NAMES)

    def value(self) -> str:
        kinds = [
            f"{self.name()} * 0.5 + x",
            f"{self.name()} - {self.name()}",
            f"({self.name()} if {self.test()} else {self.name()} + 1)",
        ]
        return self.draw.choice(kinds)

    def test(self) -> str:
        plain = f"{self.name()}.sum() < {self.draw.randint(-6, 9)}"
        kinds = [
            plain,
            f"not {plain} and {self.name()}[0] > {self.draw.randint(-3, 3)}",
            f"-9 < {self.name()}.sum() < 5 or flag",
        ]
        return self.draw.choice(kinds)

    def block(self, depth: int, in_loop: bool) -> list[str]:
        results: list[str] = []
        for _ in range(self.draw.randint(1, 3)):
            self.left -= 1
            kind = self.draw.choice(["bind", "bind", "if", "if", "while", "for", "end"])
            if kind == "bind" or depth > 3 or (self.left < 0 and not results):
                results.append(f"{self.name()} = {self.value()}")
            elif self.left < 0:
                break
            elif kind == "if":
                results += self.part(f"if {self.test()}:", depth, in_loop)
                if self.draw.random() < 0.6:
                    results += self.part("else:", depth, in_loop)
                results.append(f"flag = {self.test()}")
            elif kind == "end":
                ends = [f"return {self.name()} + n, n"]
                results.append(self.draw.choice(ends + ["break", "continue"] * in_loop))
                break
            else:
                results += self.loop(kind, depth, in_loop)
        return results

    def part(self, head: str, depth: int, in_loop: bool) -> list[str]:
        return [head, *("    " + line for line in self.block(depth + 1, in_loop))]

    def loop(self, kind: str, depth: int, in_loop: bool) -> list[str]:
        self.loops += 1
        k = f"k{self.loops}"
        head = [f"for {k} in range({self.draw.choice(['m', '3', '1, m'])}):"]
        if kind == "while":
            head = [f"{k} = 0", f"while {k} < m and ({self.test()}):", f"    {k} += 1"]
        results = [*head, "    n = n + 1", *self.part("", depth, True)[1:]]
        if self.draw.random() < 0.3:
            results += self.part("else:", depth, in_loop)
        return results


def written(seed: int, folder: Path) -> Any:
    """The function of that seed, in a file as functions are."""
    lines = ["def function(x, m):", "    a, b, c, n, flag = x, x * 2, x - 1, 0, False"]
    lines += ["    " + line for line in Writer(seed).block(0, False)]
    path = folder / f"random_{seed}.py"
    path.write_text("\n".join([*lines, "    return a - b + c, n", ""]))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.function


@pytest.mark.feature("L192")
@pytest.mark.parametrize(
    "first", [0, *(pytest.param(n, marks=pytest.mark.full) for n in range(20, 200, 20))]
)
def test_nests_of_all_sorts(first: int, tmp_path: Path):
    draw, kinds = np.random.default_rng(first), set[str]()
    for seed in range(first, first + 20):
        inputs = [
            (draw.integers(-4, 5, 2).astype("float32"), np.int64(draw.integers(0, 4)))
            for _ in range(4)
        ]
        spec = [InputSpec([2]), InputSpec([], "int64")]
        static = agree(written(seed, tmp_path), inputs, spec)
        kinds |= {node.op for node in static.main_program.nodes()}
    assert kinds >= {"branch", "loop"}
