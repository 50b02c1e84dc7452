"""`Any` in a public signature is found, counted and needs a reason."""

from __future__ import annotations

import pytest

from .loaded import tool

pytest.importorskip("mypy")
SOURCE = """
from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload
import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])
Loose = dict[str, Any]

def plain(x: int, y: NDArray[Any], call: Callable[..., int]) -> np.dtype[Any]: ...
def loose(x: Any, settings: Loose) -> list[Any]: ...
def decorate(function: F) -> F: ...
def unknown(x): ...
def _private(x: Any) -> Any: ...

@overload
def either(x: int, more: Literal[False] = ...) -> int: ...
@overload
def either(x: Any, more: bool) -> Any: ...
def either(x: Any, more: bool = False) -> Any: ...

class Box:
    held: Any
    def __init__(self, value: Any) -> None: ...
    def get(self) -> int: ...
    def _own(self, value: Any) -> Any: ...
    @property
    def kind(self) -> Any: ...
"""


tool("api_reference")
annotations = tool("annotations")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[annotations.Place]:
    folder = tmp_path_factory.mktemp("source")
    (folder / "made.py").write_text(SOURCE)
    names = ["plain", "loose", "decorate", "unknown", "either", "Box", "missing"]
    exported = {"made": names}
    tree = annotations.checked_modules(exported, [str(folder)]).files
    return annotations.places(exported, tree, ("made",))


def test_any_is_found_in_parameters_results_and_aliases(found):
    assert {str(place) for place in found if place.has_any} == {
        "made.loose:x", "made.loose:settings", "made.loose:return",
        "made.unknown:x", "made.unknown:return", "made.either:x", "made.either:return",
        "made.Box.__init__:value",
        "made.Box.kind:return", "made.missing:return", "made.Box.held:return",
    }  # fmt: skip


def test_parameters_and_results_are_counted(found):
    counted = annotations.shares(found)
    assert counted["parameters"] == (5, 10)
    assert counted["results"] == (6, 10)


def test_overloads_count_as_one_function(found):
    own = [place for place in found if place.function == "made.either"]
    assert sorted((place.name, place.has_any) for place in own) == [
        ("more", False), ("return", True), ("x", True),
    ]  # fmt: skip


def test_every_any_needs_a_reason_and_every_reason_an_any(found):
    text = "# Made for this test.\nmade.loose:*\nmade.Box.*\nmade.gone:x\n"
    text += "made.either:*\n"
    reasons = annotations.read_reasons(text)
    assert reasons["made.Box.*"] == "Made for this test."
    limits = {"parameters": 1.0, "results": 1.0}
    assert list(annotations.faults(found, limits, reasons)) == [
        "made.unknown:x: Any without a reason",
        "made.unknown:return: Any without a reason",
        "made.missing:return: Any without a reason",
        "made.gone:x: a reason, but no Any",
    ]


def test_more_than_the_limit_is_a_fault(found):
    limits = {"parameters": 0.1, "results": 1.0}
    (fault,) = annotations.faults(found, limits, {"made.*": "Made for this test."})
    assert fault == "5 of 10 parameters contain Any, more than 10.0%"
