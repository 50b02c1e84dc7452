"""Regular expressions that match in time linear in the text, as those of RE2 do.

An expression becomes states of an automaton (Thompson, 1968), of which all that a text
can be in are followed at once. Python's `re` tries one way after another, which a model
could make take for ever. There are no references to groups and no look-around, as in
RE2, and here also no classes of Unicode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn

from proa.errors import InvalidArgumentError, UnimplementedError

Test = Callable[[str], bool]
#: How many states an expression may have, and how often a part may be repeated.
_STATES, _REPEATS = 20_000, 1000
_DIGITS, _SPACES = "0123456789", "\t\n\f\r "
_WORD = _DIGITS + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
_CLASSES = {"d": _DIGITS, "s": _SPACES, "w": _WORD}
_PLACES = {"A": "begin", "z": "end", "b": "edge", "B": "inner"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_NAMED = {
    "alpha": _WORD[10:-1], "digit": _DIGITS, "alnum": _WORD[:-1], "word": _WORD,
    "lower": _WORD[10:36], "upper": _WORD[36:62], "space": _SPACES + "\v",
    "xdigit": _DIGITS + "abcdefABCDEF", "blank": " \t",
}  # fmt: skip


@dataclass(frozen=True)
class _Node:
    """A part of an expression.

    Attributes:
        kind: "one" (a character), "all" (parts in order), "any" (one of the parts),
            "many", "begin" or "end" (of the text), "edge" or "inner" (of a word).
        parts: The parts.
        test: Of "one": whether it is a character.
        low: Of "many": the smallest count.
        high: Of "many": the greatest one; None for any.
    """

    kind: str
    parts: tuple[_Node, ...] = ()
    test: Test | None = None
    low: int = 0
    high: int | None = None


def _among(characters: Iterable[str], negated: bool = False) -> Test:
    held = frozenset(characters)
    return lambda c: (c in held) != negated


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.ignores_case = self.dot_is_any = False

    def _bad(self, what: str) -> NoReturn:
        raise InvalidArgumentError(
            f"[RegexFullMatch] expected a regular expression, got {self.text!r}: {what}"
        )

    def _peek(self, count: int = 1) -> str:
        return self.text[self.at : self.at + count]

    def _take(self, wanted: str) -> bool:
        if self._peek(len(wanted)) != wanted:
            return False
        self.at += len(wanted)
        return True

    def _next(self) -> str:
        found = self._peek()
        if not found:
            self._bad("it ends too soon")
        self.at += 1
        return found

    def whole(self) -> _Node:
        found = self._alternatives()
        if self._peek():
            self._bad(f"{self._peek()!r} without its other end")
        return found

    def _alternatives(self) -> _Node:
        self.depth += 1
        if self.depth > 100:
            self._bad("more than 100 groups in each other")
        parts = [self._concatenated()]
        while self._take("|"):
            parts.append(self._concatenated())
        self.depth -= 1
        return parts[0] if len(parts) == 1 else _Node("any", tuple(parts))

    def _concatenated(self) -> _Node:
        parts = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated())
        return _Node("all", tuple(parts))

    def _repeated(self) -> _Node:
        found = self._atom()
        bounds = self._bounds()
        if bounds is None:
            return found
        self._take("?")  # the shortest match is as good here
        if self._bounds() is not None:
            self._bad("it repeats a repetition")
        return _Node("many", (found,), None, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        simple: dict[str, tuple[int, int | None]] = {
            "*": (0, None), "+": (1, None), "?": (0, 1),
        }  # fmt: skip
        if self._peek() in simple:
            return simple[self._next()]
        end = self.text.find("}", self.at)
        if self._peek() != "{" or end < 0:
            return None
        low, comma, high = self.text[self.at + 1 : end].partition(",")
        if not (low.isdecimal() and (high.isdecimal() or not high)):
            return None  # the bracket is a character
        self.at = end + 1
        lowest = int(low)
        highest = int(high) if high else None if comma else lowest
        above = lowest if highest is None else highest
        if max(lowest, above) > _REPEATS or above < lowest:
            self._bad(f"{{{low}{comma}{high}}}")
        return lowest, highest

    def _one(self, test: Test) -> _Node:
        return _Node("one", (), test)

    def _letter(self, character: str) -> _Node:
        both = {character}
        if self.ignores_case:
            both |= {character.lower(), character.upper()}
        return self._one(_among(both))

    def _atom(self) -> _Node:
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            return self._one(self._characters())
        if character == ".":
            return self._one(_among("" if self.dot_is_any else "\n", negated=True))
        if character in "^$":
            return _Node("begin" if character == "^" else "end")
        if character in "*+?":
            self._bad(f"{character!r} repeats nothing")
        return self._escaped() if character == "\\" else self._letter(character)

    def _group(self) -> _Node:
        flags = self.ignores_case, self.dot_is_any
        if self._take("?"):
            if self._take("P<") or self._take("<"):
                if self._peek() in ("=", "!"):
                    self._missing("look-around")
                self.at = self.text.find(">", self.at) + 1 or len(self.text)
            else:
                self._flags()
                if self._take(")"):
                    return _Node("all")  # for what follows, too
        found = self._alternatives()
        if not self._take(")"):
            self._bad("'(' without its other end")
        self.ignores_case, self.dot_is_any = flags
        return found

    def _flags(self) -> None:
        on = True
        while self._peek() not in (":", ")"):
            flag = self._next()
            if flag == "-":
                on = False
            elif flag == "i":
                self.ignores_case = on
            elif flag == "s":
                self.dot_is_any = on
            elif flag != "U":
                self._missing(f"(?{flag}")
        self._take(":")

    def _missing(self, what: str) -> NoReturn:
        raise UnimplementedError(
            f"[RegexFullMatch] expected no {what} in an expression, got {self.text!r}"
        )

    def _escaped(self) -> _Node:
        letter = self._next()
        if letter in _PLACES:
            return _Node(_PLACES[letter])
        if letter == "Q":
            end = self.text.find("\\E", self.at)
            quoted = self.text[self.at : end] if end >= 0 else self.text[self.at :]
            self.at = end + 2 if end >= 0 else len(self.text)
            return _Node("all", tuple(self._letter(c) for c in quoted))
        if letter.lower() in _CLASSES:
            return self._one(_among(_CLASSES[letter.lower()], letter.isupper()))
        return self._letter(self._escape_of(letter))

    def _escape_of(self, letter: str) -> str:
        if letter == "x":
            braces = self._take("{")
            end = self.text.find("}", self.at) if braces else self.at + 2
            digits = self.text[self.at : end]
            self.at = end + braces
            try:
                return chr(int(digits, 16))
            except (ValueError, OverflowError):
                self._bad(f"\\x{digits}")
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if letter.isalnum():
            self._missing(f"\\{letter}")
        return letter

    def _characters(self) -> Test:
        negated = self._take("^")
        tests: list[Test] = []
        first = True
        while first or self._peek() != "]":
            tests.append(self._member())
            first = False
        self.at += 1
        if self.ignores_case:
            return lambda c: any(t(c.lower()) or t(c.upper()) for t in tests) != negated
        return lambda c: any(t(c) for t in tests) != negated

    def _member(self) -> Test:
        if self._take("[:"):
            end = self.text.find(":]", self.at)
            name = self.text[self.at : end].removeprefix("^")
            if end < 0 or name not in _NAMED:
                self._bad(f"[:{name}")
            negated = self._peek() == "^"
            self.at = end + 2
            return _among(_NAMED[name], negated)
        low = self._next()
        if low == "\\":
            letter = self._next()
            if letter.lower() in _CLASSES:
                return _among(_CLASSES[letter.lower()], letter.isupper())
            low = self._escape_of(letter)
        if self._peek() != "-" or self._peek(2) in ("-]", "-"):
            return _among(low)
        self.at += 1
        high = self._next()
        high = self._escape_of(self._next()) if high == "\\" else high
        if high < low:
            self._bad(f"{low}-{high}")
        return lambda c: low <= c <= high


class FullMatch:
    """Whether texts are of an expression, from their beginning to their end.

    Raises:
        InvalidArgumentError: If it is no expression, or too large.
        UnimplementedError: If it has what is not here.
    """

    def __init__(self, expression: str) -> None:
        #: Of each state: a test of the next character, or a condition, or neither; and
        #: the states that follow.
        self._states: list[tuple[Test | str | None, tuple[int, ...]]] = [(None, ())]
        self._steps = 0
        self._first = self._build(_Parser(expression).whole(), 0)

    def _add(self, test: Test | str | None, *following: int) -> int:
        if len(self._states) >= _STATES:
            self._refuse()
        self._states.append((test, following))
        return len(self._states) - 1

    def _refuse(self) -> NoReturn:
        raise InvalidArgumentError(
            f"[RegexFullMatch] expected an expression of up to {_STATES} states, got "
            "more"
        )

    def _build(self, node: _Node, after: int) -> int:
        """The state that a part begins with, if `after` follows it."""
        self._steps += 1
        if self._steps > 5 * _STATES:
            self._refuse()
        if node.kind == "one":
            return self._add(node.test, after)
        if node.kind in _PLACES.values():
            return self._add(node.kind, after)
        if node.kind == "all":
            for part in reversed(node.parts):
                after = self._build(part, after)
            return after
        if node.kind == "any":
            return self._add(None, *(self._build(part, after) for part in node.parts))
        (part,) = node.parts
        if node.high is None:
            loop = self._add(None)
            self._states[loop] = (None, (self._build(part, loop), after))
            after = loop
        else:
            end = after
            for _ in range(node.high - node.low):
                after = self._add(None, self._build(part, after), end)
        for _ in range(node.low):
            after = self._build(part, after)
        return after

    def _reached(self, states: Iterable[int], before: str, after: str) -> set[int]:
        """These states, and those that follow without a character.

        Args:
            states: The states.
            before: The character before; empty at the beginning.
            after: The next character; empty at the end.
        """
        edge = (before in _WORD and before != "") != (after in _WORD and after != "")
        matches: dict[Test | str | None, bool] = {
            None: True, "begin": not before, "end": not after, "edge": edge,
            "inner": not edge,
        }  # fmt: skip
        found: set[int] = set()
        left = list(states)
        while left:
            state = left.pop()
            if state in found:
                continue
            found.add(state)
            test, following = self._states[state]
            if matches.get(test, False):
                left += following
        return found

    def __call__(self, text: str) -> bool:
        held = self._reached([self._first], "", text[:1])
        for i, character in enumerate(text):
            following = [
                state
                for test, after in (self._states[s] for s in held)
                if callable(test) and test(character)
                for state in after
            ]
            held = self._reached(following, character, text[i + 1 : i + 2])
            if not held:
                return False
        return 0 in held
