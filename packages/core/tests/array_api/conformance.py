"""Cases of the array API standard 2023.12 that take any namespace.

The standard's own suite (data-apis/array-api-tests) is no package. These cases state
its groups again: names, dtypes of results by the promotion table, special cases of
floating-point functions, values against Python's own functions, shapes of manipulations
and reductions. They expect what the standard or Python says, not a library. As by the
suite's option to skip dtypes, those of 16 to 64 bits without a sign are left out.
"""

from __future__ import annotations

import cmath
import itertools
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .conformance_shapes import SHAPE_CASES
from .test_namespace import FFT, FUNCTIONS, LINALG

Namespace = Any

SIGNED = ("int8", "int16", "int32", "int64")
INTEGERS = ("uint8", *SIGNED)
FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
REAL = (*INTEGERS, *FLOATS)
NUMERIC = (*REAL, *COMPLEX)
ALL = ("bool", *NUMERIC)
INF, NAN = math.inf, math.nan


@dataclass(frozen=True)
class Case:
    """What must hold in a namespace.

    Attributes:
        name: The group, the function and what is special.
        check: Raises an error unless it holds.
    """

    name: str
    check: Callable[[Namespace], None]


def dtype_name(x: Any) -> str:
    """The name of an array's dtype, or of a dtype."""
    kind = getattr(x, "dtype", x)
    return str(getattr(kind, "name", kind))


def array(xp: Namespace, values: Any, dtype: str) -> Any:
    return xp.asarray(values, dtype=getattr(xp, dtype))


def expect(held: bool, what: object = "") -> None:
    if not held:
        raise AssertionError(what)


def same(found: Any, wanted: Any, tolerance: float = 0.0) -> bool:
    """Whether two numbers are equal, with signs of zeros, or close."""
    if isinstance(wanted, complex) or isinstance(found, complex):
        found, wanted = complex(found), complex(wanted)
        parts = ((found.real, wanted.real), (found.imag, wanted.imag))
        return all(same(*pair, tolerance) for pair in parts)
    if isinstance(wanted, float):
        if math.isnan(wanted) or math.isinf(wanted):
            return math.isnan(found) if math.isnan(wanted) else found == wanted
        if not wanted and not tolerance:
            return found == 0 and math.copysign(1, found) == math.copysign(1, wanted)
        return abs(found - wanted) <= tolerance * max(abs(wanted), 1.0)
    return bool(found == wanted)


# --- names

UNARY = {
    "abs": NUMERIC, "acos": (*FLOATS, *COMPLEX), "acosh": (*FLOATS, *COMPLEX),
    "asin": (*FLOATS, *COMPLEX), "asinh": (*FLOATS, *COMPLEX),
    "atan": (*FLOATS, *COMPLEX), "atanh": (*FLOATS, *COMPLEX),
    "bitwise_invert": ("bool", *INTEGERS), "ceil": REAL, "conj": COMPLEX,
    "cos": (*FLOATS, *COMPLEX), "cosh": (*FLOATS, *COMPLEX),
    "exp": (*FLOATS, *COMPLEX), "expm1": (*FLOATS, *COMPLEX), "floor": REAL,
    "imag": COMPLEX, "isfinite": NUMERIC, "isinf": NUMERIC, "isnan": NUMERIC,
    "log": (*FLOATS, *COMPLEX), "log10": (*FLOATS, *COMPLEX),
    "log1p": (*FLOATS, *COMPLEX), "log2": (*FLOATS, *COMPLEX), "logical_not": ("bool",),
    "negative": (*SIGNED, *FLOATS, *COMPLEX), "positive": NUMERIC, "real": COMPLEX,
    "round": NUMERIC, "sign": NUMERIC, "signbit": FLOATS, "sin": (*FLOATS, *COMPLEX),
    "sinh": (*FLOATS, *COMPLEX), "sqrt": (*FLOATS, *COMPLEX), "square": NUMERIC,
    "tan": (*FLOATS, *COMPLEX), "tanh": (*FLOATS, *COMPLEX), "trunc": REAL,
}  # fmt: skip
BINARY = {
    "add": NUMERIC, "atan2": FLOATS, "bitwise_and": ("bool", *INTEGERS),
    "bitwise_left_shift": INTEGERS, "bitwise_or": ("bool", *INTEGERS),
    "bitwise_right_shift": INTEGERS, "bitwise_xor": ("bool", *INTEGERS),
    "copysign": FLOATS, "divide": (*FLOATS, *COMPLEX), "equal": ALL,
    "floor_divide": REAL, "greater": REAL, "greater_equal": REAL, "hypot": FLOATS,
    "less": REAL, "less_equal": REAL, "logaddexp": FLOATS, "logical_and": ("bool",),
    "logical_or": ("bool",), "logical_xor": ("bool",), "maximum": REAL, "minimum": REAL,
    "multiply": NUMERIC, "not_equal": ALL, "pow": NUMERIC, "remainder": REAL,
    "subtract": NUMERIC,
}  # fmt: skip
OPERATORS = (
    "add", "and", "floordiv", "lshift", "mod", "mul", "or", "pow", "rshift", "sub",
    "truediv", "xor", "matmul",
)  # fmt: skip
MEMBERS = (
    *OPERATORS, "abs", "array_namespace", "bool", "complex", "dlpack", "dlpack_device",
    "eq", "float", "ge", "getitem", "gt", "index", "int", "invert", "le", "lt", "ne",
    "neg", "pos", "setitem",
)  # fmt: skip
CONSTANTS = ("e", "inf", "nan", "newaxis", "pi")
METHODS = (
    *(f"__{name}__" for name in MEMBERS),
    *(f"__r{name}__" for name in OPERATORS),
    "T", "mT", "device", "dtype", "ndim", "shape", "size", "to_device",
)  # fmt: skip


def _in_place() -> Iterator[Case]:
    """``x += y`` and its like: the result is that of the operator, in x's dtype."""
    for name, kind in itertools.product(OPERATORS, ("int32", "int64", *FLOATS)):
        whole = kind.startswith("int")
        if whole and name in ("truediv", "matmul"):
            continue
        if not whole and name in ("and", "or", "xor", "lshift", "rshift"):
            continue

        def check(xp: Namespace, name: str = name, kind: str = kind) -> None:
            values, other = [[5, 2], [1, 3]], [[2, 2], [1, 1]]
            x, y = array(xp, values, kind), array(xp, other, kind)
            plain = getattr(operator, f"__{name}__")(x, y)
            result = getattr(operator, f"__i{name}__")(array(xp, values, kind), y)
            expect(dtype_name(result) == kind, dtype_name(result))
            expect(result.tolist() == plain.tolist(), result)

        yield Case(f"inplace {name} {kind}", check)


def _has(names: str, name: str) -> Callable[[Namespace], None]:
    def check(xp: Namespace) -> None:
        owner = getattr(xp, names) if names else xp
        expect(hasattr(owner, name), name)

    return check


def _names() -> Iterator[Case]:
    for name in (*FUNCTIONS, *CONSTANTS, *ALL):
        yield Case(f"names {name}", _has("", name))
    for name in LINALG.split():
        yield Case(f"names linalg.{name}", _has("linalg", name))
    for name in FFT.split():
        yield Case(f"names fft.{name}", _has("fft", name))
    for name in METHODS:

        def check(xp: Namespace, name: str = name) -> None:
            expect(hasattr(array(xp, [[1.0]], "float64"), name), name)

        yield Case(f"names array.{name}", check)


# --- dtypes of results

_ORDER = {name: i for i, name in enumerate(SIGNED)}


def promoted(a: str, b: str) -> str | None:
    """The dtype by the standard's table; None where it has none."""
    if a == b:
        return a
    if a in SIGNED and b in SIGNED:
        return max(a, b, key=_ORDER.__getitem__)
    if "uint8" in (a, b):
        other = b if a == "uint8" else a
        return max(other, "int16", key=_ORDER.__getitem__) if other in SIGNED else None
    if a in FLOATS and b in FLOATS:
        return "float64"
    wide = {"float32": 1, "complex64": 1, "float64": 2, "complex128": 2}
    if a in wide and b in wide:
        return "complex128" if max(wide[a], wide[b]) == 2 else "complex64"
    return None


_BOOL = (
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isnan",
    "isinf", "isfinite", "signbit", "logical_not",
)  # fmt: skip


def _one(dtype: str) -> Any:
    return True if dtype == "bool" else 1


def _dtypes() -> Iterator[Case]:
    for name, kinds in UNARY.items():
        for kind in kinds:
            wanted = "bool" if name in _BOOL else kind
            if name in ("abs", "real", "imag") and kind in COMPLEX:
                wanted = "float32" if kind == "complex64" else "float64"

            def unary(xp: Namespace, name: str = name, kind: str = kind,
                      wanted: str = wanted) -> None:  # fmt: skip
                result = getattr(xp, name)(array(xp, [_one(kind)] * 2, kind))
                expect(dtype_name(result) == wanted, dtype_name(result))
                expect(tuple(result.shape) == (2,), result.shape)

            yield Case(f"dtype {name}({kind})", unary)
    for name, kinds in BINARY.items():
        for a, b in itertools.product(kinds, kinds):
            result = promoted(a, b)
            if result is None:
                continue
            wanted = "bool" if name in _BOOL else result

            def binary(xp: Namespace, name: str = name, a: str = a, b: str = b,
                       wanted: str = wanted) -> None:  # fmt: skip
                x, y = array(xp, [[_one(a)]] * 2, a), array(xp, [_one(b)] * 3, b)
                result = getattr(xp, name)(x, y)
                expect(dtype_name(result) == wanted, dtype_name(result))
                expect(tuple(result.shape) == (2, 3), result.shape)

            yield Case(f"dtype {name}({a}, {b})", binary)
    for a, b in itertools.product(ALL, ALL):
        if (result := promoted(a, b)) is not None:

            def typed(xp: Namespace, a: str = a, b: str = b, r: str = result) -> None:
                output = xp.result_type(getattr(xp, a), getattr(xp, b))
                expect(output == getattr(xp, r), output)

            yield Case(f"dtype result_type({a}, {b})", typed)


# --- special cases of floats, as the standard's pages list them

_UNARY_SPECIAL: dict[str, list[tuple[float, float]]] = {
    "abs": [(NAN, NAN), (-0.0, 0.0), (-INF, INF)],
    "acos": [(NAN, NAN), (2.0, NAN), (-2.0, NAN), (1.0, 0.0)],
    "acosh": [(NAN, NAN), (0.5, NAN), (1.0, 0.0), (INF, INF)],
    "asin": [(NAN, NAN), (2.0, NAN), (-2.0, NAN), (0.0, 0.0), (-0.0, -0.0)],
    "asinh": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "atan": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, math.pi / 2),
             (-INF, -math.pi / 2)],
    "atanh": [(NAN, NAN), (-2.0, NAN), (2.0, NAN), (-1.0, -INF), (1.0, INF),
              (0.0, 0.0), (-0.0, -0.0)],
    "ceil": [(NAN, NAN), (INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0),
             (-0.5, -0.0), (3.0, 3.0)],
    "cos": [(NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)],
    "cosh": [(NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF)],
    "exp": [(NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0)],
    "expm1": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0)],
    "floor": [(NAN, NAN), (INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0),
              (3.0, 3.0)],
    "log": [(NAN, NAN), (-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF)],
    "log10": [(NAN, NAN), (-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0),
              (INF, INF)],
    "log1p": [(NAN, NAN), (-2.0, NAN), (-1.0, -INF), (-0.0, -0.0), (0.0, 0.0),
              (INF, INF)],
    "log2": [(NAN, NAN), (-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0),
             (INF, INF)],
    "negative": [(0.0, -0.0), (-0.0, 0.0), (INF, -INF)],
    "round": [(NAN, NAN), (INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0),
              (0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0), (3.0, 3.0)],
    "sign": [(NAN, NAN), (-3.0, -1.0), (3.0, 1.0), (0.0, 0.0), (INF, 1.0),
             (-INF, -1.0)],
    "sin": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "sinh": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "sqrt": [(NAN, NAN), (-1.0, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF)],
    "square": [(NAN, NAN), (-INF, INF), (-0.0, 0.0)],
    "tan": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "tanh": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "trunc": [(NAN, NAN), (INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0),
              (-0.5, -0.0), (3.0, 3.0)],
}  # fmt: skip
_PI = math.pi
_BINARY_SPECIAL: dict[str, list[tuple[float, float, float]]] = {
    "add": [(NAN, 1.0, NAN), (INF, -INF, NAN), (INF, INF, INF), (-INF, -INF, -INF),
            (INF, 1.0, INF), (1.0, -INF, -INF), (-0.0, -0.0, -0.0), (-0.0, 0.0, 0.0),
            (0.0, -0.0, 0.0), (0.0, 3.0, 3.0), (3.0, -3.0, 0.0)],
    "atan2": [(NAN, 1.0, NAN), (1.0, NAN, NAN), (1.0, 0.0, _PI / 2),
              (1.0, -0.0, _PI / 2), (0.0, 1.0, 0.0), (0.0, 0.0, 0.0),
              (0.0, -0.0, _PI), (0.0, -1.0, _PI),
              (-0.0, 1.0, -0.0), (-0.0, 0.0, -0.0), (-0.0, -0.0, -_PI),
              (-0.0, -1.0, -_PI), (-1.0, 0.0, -_PI / 2), (-1.0, -0.0, -_PI / 2),
              (1.0, INF, 0.0), (1.0, -INF, _PI), (-1.0, INF, -0.0), (-1.0, -INF, -_PI),
              (INF, 1.0, _PI / 2), (-INF, 1.0, -_PI / 2), (INF, INF, _PI / 4),
              (INF, -INF, 3 * _PI / 4), (-INF, INF, -_PI / 4),
              (-INF, -INF, -3 * _PI / 4)],
    "copysign": [(NAN, 1.0, NAN), (1.0, -0.0, -1.0), (-1.0, 0.0, 1.0),
                 (0.0, -2.0, -0.0), (INF, -1.0, -INF)],
    "divide": [(NAN, 1.0, NAN), (INF, INF, NAN), (0.0, -0.0, NAN), (1.0, 0.0, INF),
               (1.0, -0.0, -INF), (-1.0, 0.0, -INF), (-1.0, -0.0, INF), (0.0, 2.0, 0.0),
               (0.0, -2.0, -0.0), (-0.0, 2.0, -0.0), (INF, 2.0, INF), (INF, -2.0, -INF),
               (-INF, 2.0, -INF), (2.0, INF, 0.0), (2.0, -INF, -0.0),
               (-2.0, INF, -0.0)],
    "floor_divide": [(NAN, 1.0, NAN), (INF, INF, NAN), (0.0, 0.0, NAN),
                     (0.0, 2.0, 0.0), (0.0, -2.0, -0.0), (-0.0, 2.0, -0.0),
                     (2.0, INF, 0.0), (-2.0, -INF, 0.0), (7.0, 2.0, 3.0),
                     (-7.0, 2.0, -4.0)],
    "hypot": [(INF, NAN, INF), (NAN, -INF, INF), (NAN, 1.0, NAN), (3.0, 4.0, 5.0)],
    "logaddexp": [(NAN, 1.0, NAN), (INF, 1.0, INF), (1.0, INF, INF)],
    "maximum": [(NAN, 1.0, NAN), (1.0, NAN, NAN), (INF, 1.0, INF)],
    "minimum": [(NAN, 1.0, NAN), (1.0, NAN, NAN), (-INF, 1.0, -INF)],
    "multiply": [(NAN, 1.0, NAN), (INF, 0.0, NAN), (-0.0, INF, NAN), (INF, -INF, -INF),
                 (-2.0, INF, -INF), (-0.0, 2.0, -0.0), (-0.0, -2.0, 0.0)],
    "pow": [(1.0, NAN, 1.0), (NAN, 0.0, 1.0), (NAN, -0.0, 1.0), (NAN, 2.0, NAN),
            (2.0, INF, INF), (2.0, -INF, 0.0), (-1.0, INF, 1.0), (1.0, -INF, 1.0),
            (0.5, INF, 0.0), (0.5, -INF, INF), (INF, 2.0, INF), (INF, -2.0, 0.0),
            (-INF, 3.0, -INF), (-INF, 2.0, INF), (-INF, -3.0, -0.0), (-INF, -2.0, 0.0),
            (0.0, 2.0, 0.0), (0.0, -2.0, INF), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0),
            (-0.0, -3.0, -INF), (-0.0, -2.0, INF), (-2.0, 0.5, NAN)],
    "remainder": [(NAN, 1.0, NAN), (INF, 2.0, NAN), (2.0, 0.0, NAN), (0.0, 2.0, 0.0),
                  (-0.0, -2.0, -0.0), (5.0, 3.0, 2.0), (-5.0, 3.0, 1.0),
                  (5.0, -3.0, -1.0)],
    "subtract": [(NAN, 1.0, NAN), (INF, INF, NAN), (-INF, -INF, NAN), (INF, -INF, INF),
                 (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (3.0, 3.0, 0.0)],
}  # fmt: skip


def _special() -> Iterator[Case]:
    for kind in FLOATS:
        near = 1e-6 if kind == "float32" else 1e-12
        for name, pairs in _UNARY_SPECIAL.items():
            for given, wanted in pairs:

                def unary(xp: Namespace, name: str = name, kind: str = kind,
                          given: float = given, wanted: float = wanted,
                          near: float = near) -> None:  # fmt: skip
                    found = float(getattr(xp, name)(array(xp, given, kind)))
                    expect(same(found, wanted, near if wanted else 0.0), found)

                yield Case(f"special {name}({given}) {kind}", unary)
        for name, triples in _BINARY_SPECIAL.items():
            for a, b, wanted in triples:

                def binary(xp: Namespace, name: str = name, kind: str = kind,
                           a: float = a, b: float = b, wanted: float = wanted,
                           near: float = near) -> None:  # fmt: skip
                    x, y = array(xp, a, kind), array(xp, b, kind)
                    found = float(getattr(xp, name)(x, y))
                    expect(same(found, wanted, near if wanted else 0.0), found)

                yield Case(f"special {name}({a}, {b}) {kind}", binary)


# --- values against Python's own functions

_COMPLEX_POINTS = (0.3 + 0.4j, -1.2 + 0.5j, 2.0 - 0.7j, -0.25 - 1.5j)
_REAL_FUNCTIONS: dict[str, tuple[Callable[[Any], Any], tuple[float, ...]]] = {
    "acos": (math.acos, (-0.9, 0.0, 0.4)), "acosh": (math.acosh, (1.5, 2.0, 40.0)),
    "asin": (math.asin, (-0.9, 0.1, 0.4)), "asinh": (math.asinh, (-3.0, 0.2, 9.0)),
    "atan": (math.atan, (-3.0, 0.2, 9.0)), "atanh": (math.atanh, (-0.9, 0.1, 0.4)),
    "ceil": (math.ceil, (-1.5, 0.2, 3.7)), "cos": (math.cos, (-3.0, 0.2, 9.0)),
    "cosh": (math.cosh, (-3.0, 0.2, 4.0)), "exp": (math.exp, (-3.0, 0.2, 4.0)),
    "expm1": (math.expm1, (-3.0, 1e-5, 4.0)), "floor": (math.floor, (-1.5, 0.2, 3.7)),
    "log": (math.log, (0.1, 1.5, 90.0)), "log10": (math.log10, (0.1, 1.5, 90.0)),
    "log1p": (math.log1p, (-0.5, 1e-5, 9.0)), "log2": (math.log2, (0.1, 1.5, 90.0)),
    "sin": (math.sin, (-3.0, 0.2, 9.0)), "sinh": (math.sinh, (-3.0, 0.2, 4.0)),
    "sqrt": (math.sqrt, (0.1, 1.5, 90.0)), "tan": (math.tan, (-3.0, 0.2, 9.0)),
    "tanh": (math.tanh, (-3.0, 0.2, 4.0)), "trunc": (math.trunc, (-1.5, 0.2, 3.7)),
    "abs": (abs, (-1.5, 2.0)), "negative": (lambda x: -x, (-1.5, 2.0)),
    "positive": (lambda x: x, (-1.5, 2.0)), "square": (lambda x: x * x, (-1.5, 2.0)),
    "round": (round, (-1.5, 0.2, 2.5)), "signbit": (lambda x: x < 0, (-1.0, 2.0)),
}  # fmt: skip
_COMPLEX_FUNCTIONS: dict[str, Callable[[complex], Any]] = {
    **{name: getattr(cmath, name) for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "log",
        "log10", "sin", "sinh", "sqrt", "tan", "tanh")},
    "abs": abs, "conj": lambda z: z.conjugate(), "expm1": lambda z: cmath.exp(z) - 1,
    "imag": lambda z: z.imag, "log1p": lambda z: cmath.log(1 + z),
    "log2": lambda z: cmath.log(z) / math.log(2), "negative": lambda z: -z,
    "positive": lambda z: z, "real": lambda z: z.real, "square": lambda z: z * z,
    "sign": lambda z: z / abs(z),
    "round": lambda z: complex(round(z.real), round(z.imag)),
}  # fmt: skip
_INTEGER_FUNCTIONS: dict[str, Callable[[int], Any]] = {
    "abs": abs, "bitwise_invert": lambda n: ~n, "ceil": lambda n: n,
    "floor": lambda n: n, "isfinite": lambda n: True, "isinf": lambda n: False,
    "isnan": lambda n: False, "negative": lambda n: -n, "positive": lambda n: n,
    "round": lambda n: n, "sign": lambda n: (n > 0) - (n < 0),
    "square": lambda n: n * n, "trunc": lambda n: n,
}  # fmt: skip
_INTEGER_PAIRS: dict[str, Callable[[int, int], Any]] = {
    "add": lambda a, b: a + b, "bitwise_and": lambda a, b: a & b,
    "bitwise_left_shift": lambda a, b: a << b, "bitwise_or": lambda a, b: a | b,
    "bitwise_right_shift": lambda a, b: a >> b, "bitwise_xor": lambda a, b: a ^ b,
    "equal": lambda a, b: a == b, "floor_divide": lambda a, b: a // b,
    "greater": lambda a, b: a > b, "greater_equal": lambda a, b: a >= b,
    "less": lambda a, b: a < b, "less_equal": lambda a, b: a <= b, "maximum": max,
    "minimum": min, "multiply": lambda a, b: a * b, "not_equal": lambda a, b: a != b,
    "pow": lambda a, b: a**b, "remainder": lambda a, b: a % b,
    "subtract": lambda a, b: a - b,
}  # fmt: skip


def _value(name: str, kind: str, function: Any, *given: Any) -> Case:
    near = {"float32": 2e-6, "complex64": 1e-5}.get(kind, 1e-12)

    def check(xp: Namespace) -> None:
        wanted = function(*given)
        found = getattr(xp, name)(*(array(xp, g, kind) for g in given))
        number = found.tolist()
        if isinstance(wanted, int) and isinstance(number, float):
            wanted = float(wanted)
        expect(same(number, wanted, near), (number, wanted))

    shown = ", ".join(map(str, given))
    return Case(f"value {name}({shown}) {kind}", check)


def _values() -> Iterator[Case]:
    for kind in FLOATS:
        for name, (function, points) in _REAL_FUNCTIONS.items():
            for point in points:
                yield _value(name, kind, function, point)
    for kind in COMPLEX:
        for name, complex_function in _COMPLEX_FUNCTIONS.items():
            for point_ in _COMPLEX_POINTS:
                yield _value(name, kind, complex_function, point_)
    for kind in INTEGERS:
        points_ = (0, 3, 7) if kind == "uint8" else (0, 3, -5)
        for name, whole in _INTEGER_FUNCTIONS.items():
            if kind not in UNARY[name] or (name, kind) == ("bitwise_invert", "uint8"):
                continue
            for number in points_:
                yield _value(name, kind, whole, number)
        for name, pair in _INTEGER_PAIRS.items():
            for a, b in ((7, 2), (3, 3), (5, 1) if kind == "uint8" else (-5, 3)):
                yield _value(name, kind, pair, a, b)


def cases() -> list[Case]:
    """All cases."""
    shapes = [Case(name, check) for name, check in SHAPE_CASES.items()]
    groups = (_names, _dtypes, _special, _values, _in_place)
    return [*itertools.chain.from_iterable(group() for group in groups), *shapes]


def failures(xp: Namespace) -> dict[str, str]:
    """The cases that a namespace fails, with the reasons."""
    found = {}
    for case in cases():
        try:
            case.check(xp)
        except Exception as error:
            found[case.name] = f"{type(error).__name__}: {error}"
    return found
