"""Parses protobuf's text format without knowing the messages.

The grammar is that of the Protocol Buffers documentation, "Text Format Language
Specification", but for extensions and ``Any``: fields ``name: value``, messages in
``{ }`` or ``< >``, lists in ``[ ]``, strings in either quote that may follow each
other, and ``#`` comments.
"""

from __future__ import annotations

import re
from typing import Any

from proa_serving.protocol.errors import ModelLoadError

_TOKEN = re.compile(
    r"""\s+ | \#[^\n]* |
    (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*') |
    (?P<number>-?\s*(?:0[xX][0-9a-fA-F]+
        |(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?)) |
    (?P<word>-?[A-Za-z_][A-Za-z0-9_]*) |
    (?P<mark>[{}<>\[\]:,;])""",
    re.VERBOSE,
)
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
}
_ESCAPE = re.compile(r"\\([0-7]{1,3}|[xX][0-9a-fA-F]{1,2}|.)")
_CLOSING = {"{": "}", "<": ">"}
_MAX_DEPTH = 32

# A message: the values of each field, in their order.
Fields = dict[str, list[Any]]


def parse_pbtxt(text: str, where: str) -> Fields:
    """The message that ``text`` holds; values are str, int, float, bool or messages.

    Enum values are strings. ``where`` is for errors.

    Raises:
        ModelLoadError: If the text is not well formed; it names the line.
    """
    return _Parser(text, where).message("", 0)


class _Parser:
    def __init__(self, text: str, where: str) -> None:
        self._text, self._where = text, where
        self._at = 0
        self._kind, self._token = "", ""
        self._advance()

    def message(self, end: str, depth: int) -> Fields:
        if depth > _MAX_DEPTH:
            raise self._error(f"messages must be nested at most {_MAX_DEPTH} deep")
        found: Fields = {}
        while not (self._kind == ("mark" if end else "end") and self._token == end):
            name = self._expect("word", "a field")
            values = found.setdefault(name, [])
            colon = self._skip(":")
            if not colon and self._token not in ("{", "<", "["):
                raise self._error(f"expected ':' after {name}")
            if self._skip("["):
                while not self._skip("]"):
                    values.append(self._value(depth))
                    if not self._skip(",") and self._token != "]":
                        raise self._error("expected ',' or ']'")
            else:
                values.append(self._value(depth))
            if not self._skip(","):
                self._skip(";")
        self._advance()
        return found

    def _value(self, depth: int) -> Any:
        kind, token = self._kind, self._token
        if kind == "mark" and token in _CLOSING:
            self._advance()
            return self.message(_CLOSING[token], depth + 1)
        if kind == "string":
            parts = []
            while self._kind == "string":
                parts.append(_ESCAPE.sub(_unescape, self._token[1:-1]))
                self._advance()
            return "".join(parts)
        if kind == "number":
            self._advance()
            return self._number(token)
        word = self._expect("word", "a value")
        return {"true": True, "false": False}.get(word, word)

    def _number(self, token: str) -> int | float:
        token = "".join(token.split())
        if "x" in token.lower():
            return int(token, 16)
        digits = token.lstrip("-")
        try:
            if digits.isdigit():
                octal = len(digits) > 1 and digits[0] == "0"
                return int(token, 8 if octal else 10)
            return float(token.rstrip("fF"))
        except ValueError:
            raise self._error(f"expected a number, got {token!r:.40}") from None

    def _expect(self, kind: str, what: str) -> str:
        if self._kind != kind:
            got = repr(self._token) if self._token else "the end"
            raise self._error(f"expected {what}, got {got:.60}")
        token = self._token
        self._advance()
        return token

    def _skip(self, mark: str) -> bool:
        if self._kind == "mark" and self._token == mark:
            self._advance()
            return True
        return False

    def _advance(self) -> None:
        while self._at < len(self._text):
            match = _TOKEN.match(self._text, self._at)
            if match is None:
                raise self._error(f"cannot read {self._text[self._at]!r}")
            self._at = match.end()
            if match.lastgroup is not None:
                self._kind, self._token = match.lastgroup, match.group()
                return
        self._kind = self._token = ""
        self._kind = "end"

    def _error(self, message: str) -> ModelLoadError:
        line = self._text.count("\n", 0, self._at) + 1
        return ModelLoadError(self._where, f"line {line}: {message}")


def _unescape(match: re.Match[str]) -> str:
    held = match.group(1)
    if held[0] in "01234567":
        return chr(int(held, 8))
    if held[0] in "xX" and len(held) > 1:
        return chr(int(held[1:], 16))
    return _ESCAPES.get(held, held)
