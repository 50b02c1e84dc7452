"""The list of graph passes that a predictor runs at load."""

from __future__ import annotations

from collections.abc import Sequence

from proa.errors import NotFoundError, OutOfRangeError
from proa.ir import passes

#: The pass whose result a file does not keep; it runs after all others.
CHAINS = "chain_elementwise"


class PassBuilder:
    """The names of graph passes, in the order in which they run.

    They are those of `proa.ir.passes`. At first these are all that keep results within
    rounding.
    """

    def __init__(self) -> None:
        # What changes weights is for quantization. Chains keep every bit.
        self._names = [p.name for p in passes.PASSES.values() if p.level <= 2]
        self._names.append(CHAINS)
        self._debug = False

    def all_passes(self) -> list[str]:
        """The names, in the order they run."""
        return list(self._names)

    def set_passes(self, names: Sequence[str]) -> None:
        """Run these passes and no others.

        Raises:
            NotFoundError: If there is no such pass.
        """
        for name in names:
            _check(name)
        self._names = list(names)

    def append_pass(self, name: str) -> None:
        """Add a pass at the end.

        Raises:
            NotFoundError: If there is no such pass.
        """
        self.insert_pass(len(self._names), name)

    def insert_pass(self, index: int, name: str) -> None:
        """Add a pass before position `index`.

        Raises:
            NotFoundError: If there is no such pass.
            OutOfRangeError: If there is no such position.
        """
        _check(name)
        if not 0 <= index <= len(self._names):
            raise OutOfRangeError(
                f"[PassBuilder.insert_pass] index must be in [0, {len(self._names)}], "
                f"got {index}"
            )
        self._names.insert(index, name)

    def delete_pass(self, which: str | int) -> None:
        """Take a pass out: the first of that name, or the one at that position.

        Raises:
            NotFoundError: If it is not in the list.
            OutOfRangeError: If there is no such position.
        """
        if isinstance(which, int):
            if not 0 <= which < len(self._names):
                raise OutOfRangeError(
                    "[PassBuilder.delete_pass] index must be in "
                    f"[0, {len(self._names)}), got {which}"
                )
            del self._names[which]
            return
        if which not in self._names:
            raise NotFoundError(
                f"[PassBuilder] name must be one of {', '.join(self._names)}, "
                f"got {which!r}"
            )
        self._names.remove(which)

    def clear_passes(self) -> None:
        """Take every pass out."""
        self._names.clear()

    turn_off = clear_passes

    def enable_debug(self) -> None:
        """Write the graph after each pass, as `Config.switch_ir_debug` does."""
        self._debug = True

    def disable_debug(self) -> None:
        """Write no graphs; the default."""
        self._debug = False

    def is_debug(self) -> bool:
        """True after `enable_debug`."""
        return self._debug

    def debug_string(self) -> str:
        """The names, one a line."""
        return "\n".join(f"- {name}" for name in self._names)

    def append_analysis_pass(self, name: str) -> None:
        """As `append_pass`: there is one kind of passes."""
        self.append_pass(name)

    def analysis_passes(self) -> list[str]:
        """As `all_passes`."""
        return self.all_passes()

    def copy(self) -> PassBuilder:
        """The same list, to be changed on its own."""
        clone = PassBuilder()
        clone._names, clone._debug = list(self._names), self._debug
        return clone


def _check(name: str) -> None:
    if name not in passes.PASSES:
        raise NotFoundError(
            f"[PassBuilder] name must be one of {', '.join(passes.PASSES)}, "
            f"got {name!r}"
        )
