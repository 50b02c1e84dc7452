"""Count the parameters and results of the public API whose type contains `Any`.

    python tools/annotations.py [--list [PREFIX]]

The types are those that mypy sees: of stubs and of sources, aliases expanded. Public is
what `__all__` of a public module names, and of its classes what has no underscore, the
construction and Python's protocols. `tools/annotations.txt` holds the reason of every
`Any` that is left: a comment, then the places it is of. Exits with 1 if more are left
than `LIMITS`, if one has no reason, or if a reason has no `Any`.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import api_reference
from mypy import build
from mypy.modulefinder import BuildSource
from mypy.nodes import (
    Decorator,
    FuncDef,
    MypyFile,
    OverloadedFuncDef,
    SymbolNode,
    TypeAlias,
    TypeInfo,
    Var,
)
from mypy.options import Options
from mypy.type_visitor import TypeQuery
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    Overloaded,
    ParamSpecType,
    TupleType,
    Type,
    TypeAliasType,
    TypeVarType,
    get_proper_type,
)

REASONS = Path(__file__).with_suffix(".txt")
#: The shares of parameters and of results that may contain `Any`.
LIMITS = {"parameters": 0.05, "results": 0.05}


class Place(NamedTuple):
    """A parameter, or the result, of one public function."""

    function: str  # where it is defined: proa.tensor.math.einsum
    name: str  # of the parameter; "return" of a result
    has_any: bool

    def __str__(self) -> str:
        return f"{self.function}:{self.name}"


class _ContainsAny(TypeQuery[bool]):
    """Whether `Any` is a part of a type, but for what NumPy's own types leave open."""

    def strategy(self, items: list[bool]) -> bool:
        return any(items)

    def visit_any(self, t: AnyType) -> bool:
        return True

    def visit_tuple_type(self, t: TupleType) -> bool:
        return self.query_types(t.items)  # not its base class, `tuple[Any, ...]`

    def visit_callable_type(self, t: CallableType) -> bool:
        if t.is_ellipsis_args:  # `Callable[..., int]`
            return t.ret_type.accept(self)
        return super().visit_callable_type(t)

    def visit_type_var(self, t: TypeVarType) -> bool:
        # Whatever its bound, the caller's type goes through it, or else its default.
        return t.has_default() and contains_any(t.default)

    def visit_param_spec(self, t: ParamSpecType) -> bool:
        return False

    def visit_instance(self, t: Instance) -> bool:
        if t.type.fullname == "typing.Coroutine":  # what `async def` returns
            return t.args[-1].accept(self)
        # `NDArray[Any]` is NumPy's name of an array of whatever dtype, and `NDArray`
        # itself leaves the shape open, as `slice` its bounds.
        if t.type.fullname.startswith(("numpy.", "builtins.slice")):
            return False
        return super().visit_instance(t)

    def visit_type_alias_type(self, t: TypeAliasType) -> bool:
        if t.alias is not None and t.alias.fullname.startswith("numpy."):
            return False
        return super().visit_type_alias_type(t)


def contains_any(kind: Type | None) -> bool:
    """Whether a type is unknown or `Any` is a part of it."""
    return kind is None or kind.accept(_ContainsAny())


def checked_modules(
    names: Iterable[str], path: Iterable[str] = ()
) -> build.BuildResult:
    """The modules as mypy sees them."""
    options = Options()
    options.mypy_path = list(path)
    options.ignore_errors = True  # `mypy --strict` reports them
    options.incremental = False  # of modules from the cache the build has no trees
    return build.build([BuildSource(None, name, None) for name in names], options)


def _of_type(function: str, kind: Type | None, bound: bool) -> Iterator[Place]:
    """The places of a callable; `bound` of one whose first parameter is the object."""
    proper = get_proper_type(kind) if kind is not None else None
    if isinstance(proper, Overloaded):
        for item in proper.items:
            yield from _of_type(function, item, bound)
        return
    if not isinstance(proper, CallableType):
        yield Place(function, "return", contains_any(kind))
        return
    given = list(enumerate(zip(proper.arg_names, proper.arg_types, strict=True)))
    for i, (name, each) in given[1 if bound else 0 :]:
        yield Place(function, name or str(i), contains_any(each))
    yield Place(function, "return", contains_any(proper.ret_type))


def _of_node(node: SymbolNode | None, bound: bool = False) -> Iterator[Place]:
    """The places of a function or method; none of an attribute of known type."""
    if isinstance(node, Decorator):
        static = node.func.is_static
        yield from _of_type(node.fullname, node.var.type, bound and not static)
    elif isinstance(node, FuncDef) and node.type is None:
        for name in node.arg_names[1 if bound and not node.is_static else 0 :]:
            yield Place(node.fullname, name or "?", True)
        yield Place(node.fullname, "return", True)
    elif isinstance(node, (FuncDef, OverloadedFuncDef)):
        yield from _of_type(node.fullname, node.type, bound and not node.is_static)
    elif isinstance(node, Var):
        proper = get_proper_type(node.type) if node.type is not None else None
        if isinstance(proper, (AnyType, CallableType, Overloaded)):
            yield from _of_type(node.fullname, node.type, bound)


def _of_class(info: TypeInfo, ours: tuple[str, ...]) -> Iterator[Place]:
    for base in info.mro:
        if not base.fullname.startswith(ours):
            continue
        for name, symbol in base.names.items():
            special = name.startswith("__") and name.endswith("__")
            if (special or not name.startswith("_")) and not symbol.implicit:
                yield from _of_node(symbol.node, bound=True)


def places(
    exported: dict[str, list[str]], tree: dict[str, MypyFile], ours: tuple[str, ...]
) -> list[Place]:
    """Every parameter and result of what modules export, once where it is defined.

    Overloads count as one function, which has `Any` where one of them does.
    """
    found: dict[tuple[str, str], Place] = {}
    for module, names in exported.items():
        for name in names:
            symbol = tree[module].names.get(name)
            node = symbol.node if symbol else None
            if isinstance(node, TypeAlias):
                target = get_proper_type(node.target)
                node = target.type if isinstance(target, Instance) else None
                if node is None:
                    continue
            if node is None:
                each = [Place(f"{module}.{name}", "return", True)]
            elif isinstance(node, MypyFile):
                continue
            elif isinstance(node, TypeInfo):
                each = list(_of_class(node, ours))
            else:
                each = list(_of_node(node))
            for place in each:  # of overloads one and the same
                entry = found.setdefault((place.function, place.name), place)
                if place.has_any and not entry.has_any:
                    found[place.function, place.name] = place
    return list(found.values())


def public_names() -> dict[str, list[str]]:
    """What each public module exports but for modules."""
    return {
        module: [
            name
            for name, value in api_reference.members(importlib.import_module(module))
            if not inspect.ismodule(value)
        ]
        for module in api_reference.public_modules()
    }


def shares(found: Iterable[Place]) -> dict[str, tuple[int, int]]:
    """How many parameters contain `Any`, and how many there are; likewise results."""
    kinds = {"parameters": [0, 0], "results": [0, 0]}
    for place in found:
        count = kinds["results" if place.name == "return" else "parameters"]
        count[0] += place.has_any
        count[1] += 1
    return {kind: (some, all_) for kind, (some, all_) in kinds.items()}


def read_reasons(text: str) -> dict[str, str]:
    """Why each pattern of places may contain `Any`."""
    reasons: dict[str, str] = {}
    why = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("#"):
            why = line.lstrip("# ")
        else:
            reasons[line] = why
    return reasons


def faults(
    found: list[Place], limits: dict[str, float], reasons: dict[str, str]
) -> Iterator[str]:
    """What is over a limit, without a reason, or a reason of nothing."""
    for kind, (some, total) in shares(found).items():
        if some > limits[kind] * total:
            yield f"{some} of {total} {kind} contain Any, more than {limits[kind]:.1%}"
    left = [str(place) for place in found if place.has_any]
    for place in left:
        if not any(why and fnmatchcase(place, p) for p, why in reasons.items()):
            yield f"{place}: Any without a reason"
    for pattern in reasons:
        if not any(fnmatchcase(place, pattern) for place in left):
            yield f"{pattern}: a reason, but no Any"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", metavar="PREFIX", nargs="?", const="")
    parser.add_argument("--path", nargs="*", default=[], help="folders of sources")
    options = parser.parse_args()
    exported = public_names()
    tree = checked_modules(exported, options.path).files
    found = places(exported, tree, tuple(api_reference.TOPS))
    if options.list is not None:
        left = [
            str(p) for p in found if p.has_any and p.function.startswith(options.list)
        ]
        print(*left, sep="\n")
    for kind, (some, total) in shares(found).items():
        print(f"{some} of {total} {kind} contain Any: {some / total:.1%}")
    reasons = read_reasons(REASONS.read_text(encoding="utf-8"))
    breaches = list(faults(found, LIMITS, reasons))
    print(*breaches, sep="\n")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
