"""Gradients in static mode: the tape over Variables, recorded like other statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from proa import _core
from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, InvalidTypeError
from proa.static.program import Program
from proa.static.variable import Variable

Names = Iterable[Variable | str]


def _variable(where: str, what: str, program: Program, given: Any) -> Variable:
    if isinstance(given, str):
        return program.find(given, where)
    if not isinstance(given, Variable):
        raise InvalidTypeError(
            f"[{where}] {what} must be Variables of a static graph or names, got "
            f"{type(given).__name__}"
        )
    return program.find(given.name, where) if given.program is not program else given


def _several(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (list, tuple, set)) else [given]


def _named(gradient: Any, name: str) -> Variable:
    """The gradient under a name of its own."""
    recorder, value = gradient._handle
    program = recorder.owner
    if name in program.vars:
        name = program.graph.new_name(f"{name}@RENAME")
    fresh = program.vars.get(value.name) is gradient and value.kind == "node"
    if not fresh or "@GRAD" in value.name:
        gradient = ops.assign(gradient)
        value = gradient._handle[1]
    del program.vars[value.name]
    value.name = gradient.name = name
    program.register(gradient)
    found: Variable = gradient
    return found


def append_backward(
    loss: Variable,
    parameter_list: Sequence[Variable | str] | None = None,
    no_grad_set: Names | None = None,
    callbacks: Sequence[Callable[..., object]] | None = None,
    checkpoints: object = None,
    distop_context: object = None,
) -> list[tuple[Variable, Variable]]:
    """Record the gradients of a loss with respect to parameters.

    Args:
        loss: A Variable of one element.
        parameter_list: The parameters, by Variable or name; None takes all that are
            trainable.
        no_grad_set: Variables or names that count as constants.
        callbacks: Each is called for every operator recorded, as
            ``callback(block=block, context=names of gradients by their Variables')``.
        checkpoints: Kept for callers; what is kept between forward and backward
            follows from the plan.
        distop_context: Kept for callers.

    Returns:
        Parameters, each with its gradient, which is called ``<name>@GRAD``. A parameter
        that the loss does not depend on is left out. Gradients of other Variables are
        in the program under such names, too, where a run can fetch them.

    Raises:
        InvalidTypeError: If the loss is no Variable.
        InvalidArgumentError: If it has several elements, or takes no gradient.
    """
    where = "static.append_backward"
    if not isinstance(loss, Variable):
        raise InvalidTypeError(
            f"[{where}] loss must be a Variable of a static graph, got "
            f"{type(loss).__name__}"
        )
    program = loss.program
    sizes = tuple(map(int, loss.shape))
    if any(n not in (1, -1) for n in sizes):
        raise InvalidArgumentError(
            f"[{where}] loss must have one element, got shape {list(sizes)}"
        )
    if parameter_list is None:
        wanted: list[Variable] = [p for p in program.all_parameters() if p.trainable]
    else:
        wanted = [
            _variable(where, "parameter_list", program, p)
            for p in _several(parameter_list)
        ]
    skipped = _skipped(where, program, no_grad_set)
    out = {id(v) for v in skipped}
    wanted = [p for p in wanted if id(p) not in out and not p.stop_gradient]
    if loss.stop_gradient or not wanted:
        raise InvalidArgumentError(
            f"[{where}] loss must depend on parameters that take a gradient, got "
            f"{loss.name!r}"
        )
    before = len(program.graph.main.nodes)
    with program.role("backward"):
        between = _between(program, wanted, out)
        requested = [*wanted, *between]
        found = _core.grad([loss], requested, None, True, False, True, True, skipped)
        count = len(wanted)
        pairs = [
            (p, _named(g, p.grad_name))
            for p, g in zip(wanted, found[:count], strict=True)
            if g is not None
        ]
        _name_others(program, zip(between, found[count:], strict=True))
    if not pairs:
        raise InvalidArgumentError(
            f"[{where}] loss must depend on parameters that take a gradient, got "
            f"{loss.name!r}, which depends on none of {[p.name for p in wanted]} (a "
            "clone's Variables cannot be differentiated)"
        )
    context = {g.name: p.name for p, g in pairs}
    for callback in callbacks or ():
        for _ in program.graph.main.nodes[before:]:
            callback(block=program.global_block(), context=context)
    return pairs


def _between(
    program: Program, wanted: Iterable[Variable], out: set[int]
) -> list[Variable]:
    """The other Variables that take a gradient."""
    passed = out | {id(p) for p in wanted}
    return [
        v
        for v in program.vars.values()
        if not v.stop_gradient and id(v) not in passed and v.dtype.is_floating
        and v.grad_name not in program.vars
    ]  # fmt: skip


def _name_others(program: Program, pairs: Iterable[tuple[Variable, Any]]) -> None:
    """Let gradients of what is computed be found by their names, too."""
    for variable, gradient in pairs:
        if gradient is not None:
            alias = Variable(gradient._handle[1], program.recorder)
            alias.stop_gradient, alias.name = True, variable.grad_name
            program.register(alias)


def _skipped(where: str, program: Program, given: Names | None) -> list[Any]:
    if given is None:
        return []
    return [_variable(where, "no_grad_set", program, v) for v in _several(given)]


def gradients(
    targets: Variable | Sequence[Variable],
    inputs: Variable | str | Sequence[Variable | str],
    target_gradients: Variable | Sequence[Variable | None] | None = None,
    no_grad_set: Names | None = None,
) -> list[Variable | None]:
    """Record the gradients of the sum of targets with respect to inputs.

    They can be differentiated again.

    Args:
        targets: Variables.
        inputs: Variables or names; also ones that were computed.
        target_gradients: The targets' own gradients; None means ones.
        no_grad_set: Variables or names that count as constants.

    Returns:
        A gradient for each input, called ``<name>@GRAD``; None where the targets do not
        depend on it, or it has stop_gradient, as data have at first.

    Raises:
        InvalidTypeError: If something else than Variables is among them.
        InvalidArgumentError: If there are not as many gradients as targets.
    """
    where = "static.gradients"
    roots = _several(targets)
    if not roots or not isinstance(roots[0], Variable):
        raise InvalidTypeError(
            f"[{where}] targets must be Variables of a static graph, got {targets!r}"
        )
    program = roots[0].program
    roots = [_variable(where, "targets", program, t) for t in roots]
    wanted = [_variable(where, "inputs", program, x) for x in _several(inputs)]
    seeds: list[Tensor | None] | None = None
    if target_gradients is not None:
        seeds = _several(target_gradients)
        if len(seeds) != len(roots):
            raise InvalidArgumentError(
                f"[{where}] expected one of target_gradients for each of "
                f"{len(roots)} targets, got {len(seeds)}"
            )
        _check_seeds(where, roots, seeds)
    skipped = _skipped(where, program, no_grad_set)
    trainable = [i for i, root in enumerate(roots) if not root.stop_gradient]
    if not trainable:
        return [None] * len(wanted)
    seeds = None if seeds is None else [seeds[i] for i in trainable]
    roots = [roots[i] for i in trainable]
    with program.role("backward"):
        taking = [x for x in wanted if not x.stop_gradient]
        found = _core.grad(roots, taking, seeds, True, True, True, True, skipped)
        results = {id(x): g for x, g in zip(taking, found, strict=True)}
        return [
            None if results.get(id(x)) is None else _named(results[id(x)], x.grad_name)
            for x in wanted
        ]


def _check_seeds(where: str, roots: list[Any], seeds: list[Any]) -> None:
    for root, seed in zip(roots, seeds, strict=True):
        if seed is None:
            continue
        pairs = zip(root.shape, seed.shape, strict=False)
        if root.ndim != seed.ndim or any(a != b and -1 not in (a, b) for a, b in pairs):
            raise InvalidArgumentError(
                f"[{where}] the gradient of {root.name!r} must have its shape "
                f"{list(root.shape)}, got {list(seed.shape)}"
            )
