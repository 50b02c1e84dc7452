"""The arguments of a call by the names of the old parameters, and as they become."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from proa.migrate.table import ACTIVATION, DROPPED, MARKS, OUTPUT, Row

#: Dropped arguments that change no result.
HARMLESS = {
    "actual_shape", "force_cpu", "in_place", "inplace", "is_distributed",
    "name", "need_clip", "numeric_stable_mode", "place", "seed", "type",
    "use_cudnn", "zero_copy",
}  # fmt: skip


#: Begins notes that are about every call.
ALWAYS = "every call: "


class Unreadable(Exception):
    """Arguments that only a run tells."""


class Arguments:
    """The arguments of one call.

    Attributes:
        values: The given expressions by the names of the old parameters.
        dropped: Names of arguments that went away and that may matter.
        activation: The given activation, or None.
        output: The given Variable that the result is assigned to, or None.
        added: Arguments of the new call that the old one did not have.
        leading: Expressions before all others.
    """

    def __init__(self, row: Row, given: Sequence[cst.Arg]) -> None:
        self._row, self._given = row, list(given)
        self._names = self._bound()
        self.values = dict(zip(self._names, (arg.value for arg in given), strict=True))
        self._removed: set[str] = set()
        self.added: dict[str, cst.BaseExpression] = {}
        self.leading: list[cst.BaseExpression] = []
        renames = dict(row.arguments)
        self.activation, self.output = (
            next((v for n, v in self.values.items() if renames.get(n) == mark), None)
            for mark in (ACTIVATION, OUTPUT)
        )
        self._is_unchanged = False
        self.dropped = [
            name
            for name, value in self.values.items()
            if renames.get(name) == DROPPED
            and name not in HARMLESS
            and not is_none(value)
        ]

    def _bound(self) -> list[str]:
        names: list[str] = []
        for place, arg in enumerate(self._given):
            if arg.star:
                raise Unreadable
            if arg.keyword is not None:
                names.append(arg.keyword.value)
            elif place < len(self._row.arguments):
                names.append(self._row.arguments[place][0])
            else:
                raise Unreadable
        return names

    def text(self, name: str) -> str | None:
        """The given text; None if it is not given or no literal."""
        value = self.values.get(name)
        if isinstance(value, cst.SimpleString):
            return str(value.evaluated_value)
        return None

    def handled(self, *names: str) -> None:
        """A rule takes care of these."""
        self.dropped = [name for name in self.dropped if name not in names]

    def note_applies(self) -> bool:
        """Whether the row's note is about this call: not where a rule took care, or
        where it is about arguments that are gone, and none was given."""
        note, rule = self._row.note, self._row.rule
        gone = any(new == DROPPED for _, new in self._row.arguments)
        always = note.startswith(ALWAYS)
        return bool(note) and (
            always or (not rule and (not gone or bool(self.dropped)))
        )

    def keep(self) -> None:
        """The new call takes the arguments as they are."""
        self._is_unchanged, self.dropped = True, []
        self.activation = self.output = None

    def replace(self, name: str, value: cst.BaseExpression) -> None:
        """Give an argument another value."""
        place = self._names.index(name)
        self._given[place] = self._given[place].with_changes(value=value)
        self.values[name] = value

    def remove(self, names: set[str]) -> None:
        """Take arguments away; those after them are given by keyword."""
        self.handled(*names)
        self._removed |= names

    def result(self, order: Sequence[str]) -> list[cst.Arg]:
        """The arguments of the new call, whose parameters are in that order.

        What is given by place stays so while the places agree.
        """
        if self._is_unchanged:
            return self._given
        renames = dict(self._row.arguments)
        results = [cst.Arg(value) for value in self.leading]
        by_place = True
        for name, arg in zip(self._names, self._given, strict=True):
            new = DROPPED if name in self._removed else renames.get(name, name)
            if new in MARKS:
                by_place = by_place and arg.keyword is not None
                continue
            by_place = (
                by_place
                and arg.keyword is None
                and len(results) < len(order)
                and order[len(results)] == new
            )
            results.append(arg if by_place else _named(arg, new))
        results += [keyword(name, value) for name, value in self.added.items()]
        if results:
            last = self._given[-1].comma if self._given else cst.MaybeSentinel.DEFAULT
            results[-1] = results[-1].with_changes(comma=last)
        return results


def keyword(name: str, value: cst.BaseExpression) -> cst.Arg:
    """``name=value``."""
    return _named(cst.Arg(value), name)


def _named(arg: cst.Arg, name: str) -> cst.Arg:
    none = cst.SimpleWhitespace("")
    equal = arg.equal
    if not isinstance(equal, cst.AssignEqual):
        equal = cst.AssignEqual(none, none)
    return arg.with_changes(keyword=cst.Name(name), equal=equal)


def is_none(value: cst.BaseExpression) -> bool:
    """Whether it is the name None."""
    return isinstance(value, cst.Name) and value.value == "None"


def is_false(value: cst.BaseExpression | None) -> bool:
    """Whether it is not given, or the name False."""
    return value is None or (isinstance(value, cst.Name) and value.value == "False")


def is_true(value: cst.BaseExpression | None) -> bool:
    """Whether it is the name True."""
    return isinstance(value, cst.Name) and value.value == "True"
