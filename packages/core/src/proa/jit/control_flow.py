"""Branches and loops whose parts are Python functions.

They run at once where the condition has a value. While a graph is recorded a condition
may follow from its inputs: then every branch is recorded, as `proa.jit.flow` has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, InvalidTypeError
from proa.jit import flow
from proa.tensor.creation import as_tensor

__all__ = ["case", "cond", "switch_case", "while_loop"]

Function = Callable[..., Any]


def _callable(where: str, name: str, value: Any) -> Function:
    if not callable(value):
        raise InvalidTypeError(
            f"[{where}] {name} must be a function, got {type(value).__name__}"
        )
    found: Function = value
    return found


def _single(where: str, name: str, value: Any) -> Tensor:
    """A tensor of one element."""
    if not isinstance(value, Tensor):
        raise InvalidTypeError(
            f"[{where}] {name} must be a Tensor, got {type(value).__name__}"
        )
    if value.size != 1:
        raise InvalidArgumentError(
            f"[{where}] {name} must have one element, got shape {value.shape}"
        )
    return value


def _truth(where: str, value: Any) -> bool:
    pred = _single(where, "a condition", value)
    if pred.dtype != "bool":
        raise InvalidTypeError(
            f"[{where}] a condition must be bool, got {pred.dtype.name}"
        )
    return bool(pred)


def cond(
    pred: Tensor,
    true_fn: Function | None = None,
    false_fn: Function | None = None,
    name: str | None = None,
    return_names: Any = None,
) -> Any:
    """``true_fn()`` if ``pred`` holds, else ``false_fn()``.

    Args:
        pred: bool, one element.
        true_fn: Called without arguments; None gives None.
        false_fn: Likewise.
        name: Ignored.
        return_names: Ignored.

    Raises:
        InvalidTypeError: If pred is no bool Tensor or a branch no function.
    """
    for key, branch in (("true_fn", true_fn), ("false_fn", false_fn)):
        if branch is not None:
            _callable("cond", key, branch)
    if flow.is_symbolic(pred):
        return flow.cond(pred, true_fn or _nothing, false_fn or _nothing)
    branch = true_fn if _truth("cond", pred) else false_fn
    return None if branch is None else branch()


def _nothing() -> None:
    """What a branch that is not given does."""


def case(
    pred_fn_pairs: Sequence[tuple[Tensor, Function]],
    default: Function | None = None,
    name: str | None = None,
) -> Any:
    """The result of the first function whose condition holds.

    Args:
        pred_fn_pairs: (condition, function) in the order in which they are tested.
        default: Called if none holds; None takes the last pair's function.
        name: Ignored.

    Raises:
        InvalidTypeError: If a pair is not a condition and a function.
    """
    if not isinstance(pred_fn_pairs, (list, tuple)) or not pred_fn_pairs:
        raise InvalidTypeError(
            "[case] pred_fn_pairs must be a list of (condition, function), "
            f"got {pred_fn_pairs!r}"
        )
    for pair in pred_fn_pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InvalidTypeError(
                f"[case] a pair must be a tuple (condition, function), got {pair!r}"
            )
        _single("case", "a condition", pair[0])
        _callable("case", "a branch", pair[1])
    if default is None:
        *pred_fn_pairs, (_, default) = pred_fn_pairs
    return _first("case", list(pred_fn_pairs), _callable("case", "default", default))


def _first(where: str, pairs: list[tuple[Tensor, Function]], default: Function) -> Any:
    """The result of the first function whose condition holds, or of the default."""
    if not pairs:
        return default()
    (pred, branch), later = pairs[0], pairs[1:]
    if flow.is_symbolic(pred):
        return flow.cond(pred, branch, lambda: _first(where, later, default))
    return branch() if _truth(where, pred) else _first(where, later, default)


def _numbered(branch_fns: Any) -> dict[int, Function]:
    pairs: list[Any] = []
    if isinstance(branch_fns, Mapping):
        pairs = list(branch_fns.items())
    elif isinstance(branch_fns, (list, tuple)):
        several = all(map(callable, branch_fns))
        pairs = list(enumerate(branch_fns) if several else branch_fns)
    numbered: dict[int, Function] = {}
    for pair in pairs:
        fits = isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], int)
        if not fits:
            raise InvalidTypeError(
                f"[switch_case] a branch must be (int, function), got {pair!r}"
            )
        if pair[0] in numbered:
            raise InvalidArgumentError(
                f"[switch_case] expected distinct numbers of branches, got {pair[0]} "
                "twice"
            )
        numbered[pair[0]] = _callable("switch_case", "a branch", pair[1])
    if not numbered:
        raise InvalidTypeError(
            "[switch_case] branch_fns must be functions in a list or by number, "
            f"got {branch_fns!r}"
        )
    return numbered


def switch_case(
    branch_index: Tensor,
    branch_fns: Any,
    default: Function | None = None,
    name: str | None = None,
) -> Any:
    """The result of the function with that number.

    Args:
        branch_index: An integer, one element.
        branch_fns: Functions, (number, function) pairs, or a dict of them.
        default: Called if no function has the number; None takes the one with the
            greatest.
        name: Ignored.

    Raises:
        InvalidTypeError: If the index is no integer Tensor or a branch no function.
        InvalidArgumentError: If two functions have the same number.
    """
    index = _single("switch_case", "branch_index", branch_index)
    if index.dtype not in ("uint8", "int32", "int64"):
        raise InvalidTypeError(
            f"[switch_case] branch_index must be integer, got {index.dtype.name}"
        )
    numbered = _numbered(branch_fns)
    if default is None:
        default = numbered[max(numbered)]
    default = _callable("switch_case", "default", default)
    if flow.is_symbolic(index):
        pairs = [(ops.equal(index, n), branch) for n, branch in numbered.items()]
        return _first("switch_case", pairs, default)
    return numbered.get(int(index), default)()


def while_loop(
    cond: Function,
    body: Function,
    loop_vars: Sequence[Any],
    is_test: bool = False,
    name: str | None = None,
) -> list[Any]:
    """``loop_vars = body(*loop_vars)`` as long as ``cond(*loop_vars)`` holds.

    Gradients flow through the rounds that ran.

    Args:
        cond: Gives a bool Tensor of one element.
        body: Gives as many values as it takes.
        loop_vars: The values of the first round, at least one.
        is_test: Ignored.
        name: Ignored.

    Returns:
        The values after the last round, as a list.

    Raises:
        InvalidTypeError: If cond or body is no function, or loop_vars no list.
        InvalidArgumentError: If body gives another number of values.
    """
    _callable("while_loop", "cond", cond)
    _callable("while_loop", "body", body)
    if not isinstance(loop_vars, (list, tuple)):
        raise InvalidTypeError(
            f"[while_loop] loop_vars must be a list, got {type(loop_vars).__name__}"
        )
    if not loop_vars:
        raise InvalidArgumentError("[while_loop] loop_vars must not be empty, got []")
    values = list(loop_vars)
    while True:
        test = as_tensor(cond(*values))
        if flow.is_symbolic(test):
            return flow.while_loop(cond, body, values)
        if not _truth("while_loop", test):
            return values
        result = body(*values)
        result = list(result) if isinstance(result, (list, tuple)) else [result]
        if len(result) != len(values):
            raise InvalidArgumentError(
                f"[while_loop] body must return {len(values)} values, got {len(result)}"
            )
        values = result
