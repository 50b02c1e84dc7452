"""The mapping table: one row for each ONNX operator and the opset it holds from."""

from __future__ import annotations

from collections.abc import Callable

from proa.interop.graph.table import Row, Rule, Table
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.sizes import SIZE_RULES

#: Other spellings of the core domain.
_CORE = ("", "ai.onnx")

ONNX = Table("onnx", Call, SIZE_RULES)


def onnx_op(
    *names: str,
    since: int = 1,
    domain: str = "",
    host: tuple[int, ...] = (),
    state: tuple[int, ...] = (),
    weights: tuple[int, ...] = (),
    folds: bool = True,
) -> Callable[[Rule], Rule]:
    """Let the decorated function compute these operators from an opset on."""

    def added(rule: Rule) -> Rule:
        for name in names:
            row = Row(rule, since, folds, host, state, weights)
            ONNX.add(full_name(domain, name), row)
        return rule

    return added


def core_domain(domain: str) -> str:
    """The domain under the name that rows have."""
    return "" if domain in _CORE else domain


def full_name(domain: str, name: str) -> str:
    """An operator's name with its domain, unless that is the core's."""
    return f"{domain}.{name}" if domain else name
