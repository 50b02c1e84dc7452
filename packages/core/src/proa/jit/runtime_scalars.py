"""Runtime scalars: attributes of a recorded program whose values differ between runs.

All other attributes are constants. There are three: the key that a random op draws
with, the learning rate of an optimizer's step, and the count of steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proa import _core
from proa.errors import UnimplementedError
from proa.ir.attributes import draws, row_of
from proa.ir.program import Node, Program

#: (node, attribute) -> slot.
_Use = tuple[Node, str, int]


class RuntimeScalars:
    """Which attributes of which nodes are runtime scalars, and their values."""

    def __init__(self) -> None:
        self.seed, self.offset = _core.generator_get()
        self._watches = False
        self.drawn = 0  # counters that a run draws
        self.stepped = 0  # learning rates found
        self.has_own_key = False  # a random op draws with a key of its own
        self._uses: list[_Use] = []
        self._offsets: list[int] = []
        self._rates: list[Callable[[], float]] = []
        self._counts: list[dict[str, Any]] = []
        self._states: list[dict[str, Any]] = []
        self._found: dict[Any, tuple[str, int]] = {}

    # -- while a program is recorded --------------------------------------------------
    def watch(self) -> None:
        """Let this thread draw from a generator of its own until `restore`."""
        self._had_generator: bool = _core.own_generator(True)
        self._watches = True
        self.seed, self.offset = _core.generator_get()

    def record_draw(self, node: Node) -> None:
        """Note the key of a random op."""
        if not draws(node.op, node.attrs):
            return
        now = _core.generator_get()[1]
        offset = node.attrs["offset"]
        if node.attrs["seed"] != self.seed or not self.offset <= offset < now:
            self.has_own_key = True
            return
        self._uses.append((node, "seed", self._slot(("seed",), "seed")))
        delta = offset - self.offset
        slot = self._slot(("offset", delta), "offset", self._offsets, delta)
        self._uses.append((node, "offset", slot))

    def count_step(self, state: dict[str, Any]) -> None:
        """Note that a run counts a step in what an optimizer keeps for a parameter."""
        self._states.append(state)

    def record_step(
        self, node: Node, state: dict[str, Any], rate: Callable[[], float], alike: Any
    ) -> None:
        """Note the learning rate and the count of an optimizer's operator.

        `alike` is equal for parameters whose rates are equal in every run.
        """
        if node.attrs.get("lr") == rate():
            self.stepped += 1
            slot = self._slot(("lr", alike), "lr", self._rates, rate)
            self._uses.append((node, "lr", slot))
        if "step" in node.attrs:
            if node.attrs["step"] != state["step"]:
                raise UnimplementedError(
                    f"[to_static] {node.op} must receive its parameter's step count, "
                    f"{state['step']}, got {node.attrs['step']}"
                )
            slot = self._slot(("step", id(state)), "step", self._counts, state)
            self._uses.append((node, "step", slot))

    def _slot(
        self, key: Any, kind: str, into: list[Any] | None = None, x: Any = 0
    ) -> int:
        found = self._found.get(key)
        if found is None:
            if into is not None:
                into.append(x)
            found = (kind, 0 if into is None else len(into) - 1)
            self._found[key] = found
        return ("seed", "offset", "lr", "step").index(found[0]) << 24 | found[1]

    def restore(self) -> None:
        """Take back what recording drew and counted."""
        if not self._watches:
            return
        self._watches = False
        self.drawn = _core.generator_get()[1] - self.offset
        _core.own_generator(self._had_generator)
        if self._had_generator:  # a recording around this one continues with it
            _core.generator_set(self.seed, self.offset)
        for state in self._states:
            state["step"] -= 1

    # -- when it runs -----------------------------------------------------------------
    def uses(self, program: Program) -> list[tuple[int, int, int]]:
        """(node, byte of the attribute, slot) for the engine of a program."""
        at = {node: i for i, node in enumerate(program.main.nodes)}
        first = [0, 1, 1 + len(self._offsets)]
        first.append(first[-1] + len(self._rates))
        return [
            (at[node], byte_of(node, name), first[slot >> 24] + (slot & 0xFFFFFF))
            for node, name, slot in self._uses
            if node in at
        ]

    def next_values(self) -> list[float]:
        """The values of the next run, which counts its steps and draws its keys."""
        if not (self._uses or self._states or self.drawn):
            return []
        if self.drawn:
            seed, offset = _core.generator_get()
            _core.generator_set(seed, offset + self.drawn)
        else:
            seed = offset = 0
        for state in self._states:
            state["step"] += 1
        return [
            seed,
            *[offset + delta for delta in self._offsets],
            *[rate() for rate in self._rates],
            *[state["step"] for state in self._counts],
        ]

    @property
    def has_steps(self) -> bool:
        """Whether an optimizer steps."""
        return bool(self._states)


def byte_of(node: Node, name: str) -> int:
    """Where an attribute begins in the node's, in bytes."""
    at = 0
    for attribute in row_of(node.op).attributes:
        if attribute.name == name:
            return at
        at += attribute.size
    raise KeyError(name)
