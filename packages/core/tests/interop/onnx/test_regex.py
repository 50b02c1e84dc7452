"""RegexFullMatch: what Python's `re` matches, in time linear in the text."""

from __future__ import annotations

import random
import re
import time

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, UnimplementedError
from proa.interop.onnx.importer.regex import FullMatch

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

EXPRESSIONS = (
    r"a.*b", r"(\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$)", r"", r"a|b|", r"(ab)+c?",
    r"[^a-c]{2,3}", r"\d+\.\d{2}", r"(?i)Ab[C-E]", r"a{3}", r"a{2,}b", r"^ab$",
    r"(?:a|ab)(?:c|bcd)(?:d*)", r"[]a]+", r"[a\]-]+", r"\.\*\\", r"x*?y", r"(?P<n>a)b",
    r"\x41\t[\x30-\x39]", r"a(|b)c", r"[\d\s]+", r"(?s).+", r"a{,2}", r"\S\D\W",
    r"\ba\b|\w+\B.", r"www\.[\w.-]+\.\bcom\b", r"a\b.b",
)  # fmt: skip
TEXTS = (
    "", "a", "b", "ab", "acb", "abab", "ababc", "a\nb", "12.34", "aBc", "ABE", "aaa",
    "aab", "abcd", "abbcd", "]a]", "a-]", ".*\\", "xxy", "A\t7", "ac", "abc", "1 2",
    "account@gmail.com", "account@hotmail.com", "not email", "account@yahoo.com",
    "a{,2}", "xyz", "+-=", "é!", "x1!", "www.a.com", "www.acom",
)  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_texts_match_as_python_says(expression: str) -> None:
    matches = FullMatch(expression)
    plain = re.compile(expression, re.ASCII)
    for text in TEXTS:
        if expression == "a{,2}":  # RE2 and Python before 3.13 differ
            assert matches(text) == (text == expression)
        else:
            assert matches(text) == bool(plain.fullmatch(text)), text


def test_drawn_expressions_match_as_python_says() -> None:
    rng = random.Random(0)

    def drawn(depth: int) -> str:
        kind = rng.randrange(7 if depth else 2)
        if kind < 2:
            return rng.choice(["a", "b", "[ab]", ".", "[^a]", r"\w"])
        if kind < 4:
            return drawn(depth - 1) + drawn(depth - 1)
        if kind == 4:
            return f"({drawn(depth - 1)}|{drawn(depth - 1)})"
        return f"({drawn(depth - 1)}){rng.choice(['*', '+', '?', '{1,2}', '{2}'])}"

    for _ in range(300):
        expression = drawn(3)
        matches, plain = FullMatch(expression), re.compile(expression)
        for _ in range(10):
            text = "".join(rng.choice("abc") for _ in range(rng.randrange(7)))
            assert matches(text) == bool(plain.fullmatch(text)), (expression, text)


def test_no_expression_takes_for_ever() -> None:
    begin = time.perf_counter()
    assert not FullMatch("(a*)*b|(a|a)*c|((a+)+)+d")("a" * 2000)
    assert time.perf_counter() - begin < 5


@pytest.mark.parametrize(
    "expression",
    ["(", "a)", "[a", "*a", "a**", "a{2}{3}", "a{9999}", "b-a]"[:0] + "[b-a]", "\\",
     "((((a{999}){999}){999}){999})", "((){1000}){1000}", "(" * 300 + ")" * 300,
     r"\x{ffffffff}"],
)  # fmt: skip
def test_bad_expressions_are_typed_errors(expression: str) -> None:
    with pytest.raises(InvalidArgumentError, match="RegexFullMatch"):
        FullMatch(expression)


@pytest.mark.parametrize("expression", [r"(a)\1", r"(?=a)", r"(?<!a)b", r"\pN"])
def test_what_is_not_there_is_named(expression: str) -> None:
    with pytest.raises(UnimplementedError, match="RegexFullMatch"):
        FullMatch(expression)


def test_an_operator_keeps_the_shape() -> None:
    info = helper.make_tensor_value_info
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern="a+b?")
    graph = helper.make_graph(
        [node], "g", [info("x", TensorProto.STRING, [2, 2])],
        [info("y", TensorProto.BOOL, [2, 2])],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    layer = proa.onnx.load(model.SerializeToString())
    found = layer(np.array([["ab", "b"], ["aa", "abb"]]))
    assert found.tolist() == [[True, False], [True, False]]
