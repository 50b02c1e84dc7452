"""`sensitivity`: what each weight of a static program is worth."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from proa.errors import InvalidArgumentError
from proa.static import Program, global_scope
from proa_slim.prune.criteria import Criterion
from proa_slim.prune.sensitivities import RATIOS, Sensitivities, SensitivityFile
from proa_slim.prune.static_pruner import ProgramPruner


def sensitivity(
    program: Program,
    place: object = None,
    param_names: Sequence[str] | None = None,
    eval_func: Callable[..., float] | None = None,
    sensitivities_file: str | PathLike[str] | None = None,
    pruned_ratios: Sequence[float] = RATIOS,
    eval_args: Sequence[Any] | None = None,
    criterion: str | Criterion = "l1_norm",
    scope: Any = None,
) -> Sensitivities:
    """Measure what channels of the weights of a static program are worth.

    The channels are removed from the program and the scope, evaluated, and put back.
    The file is written after each evaluation and read first, so that a run that was
    stopped continues.

    Args:
        program: Without backward operators; is not changed.
        place: Has no meaning here; callers of PaddleSlim give one.
        param_names: Weights.
        eval_func: Takes the program without the channels, and `eval_args` if there are
            any; returns the metric, the greater the better.
        sensitivities_file: Where results are, or will be.
        pruned_ratios: Shares of the channels.
        criterion: Criterion of channels.
        scope: Where parameters are; the global one if not given.

    Returns:
        For each weight, (m0 - m) / m0 by ratio, with m0 the metric of the program and m
        that without the channels.

    Raises:
        InvalidArgumentError: If there are no weights or no eval_func, or m0 is 0, or
            a metric is not finite; or as `ProgramPruner.prune`.
        NotFoundError, PreconditionNotMetError: As `ProgramPruner.prune`.
    """
    if eval_func is None or not param_names:
        raise InvalidArgumentError(
            "[sensitivity] expected param_names and an eval_func, got "
            f"{param_names!r} and {eval_func!r}"
        )
    where = global_scope() if scope is None else scope
    evaluate, more = eval_func, tuple(eval_args or ())
    before = {n: np.array(where.var(n).get_tensor()) for n in program.states}
    known = SensitivityFile(sensitivities_file, _fingerprint(before, criterion))
    if known.baseline is None:
        known.baseline = float(evaluate(program, *more))
    known.require_baseline("sensitivity")
    known.save()
    pruner = ProgramPruner(criterion)
    for weight in param_names:
        for ratio in pruned_ratios:
            if ratio in known.losses.get(weight, {}):
                continue
            try:
                small, _ = pruner.prune(program, where, [weight], [ratio])
                metric = float(evaluate(small, *more))
            finally:
                for name, array in before.items():
                    where.var(name).set(array)
            known.measured("sensitivity", weight, float(ratio), metric)
    return known.losses


def _fingerprint(
    arrays: Mapping[str, np.ndarray[Any, Any]], criterion: str | Criterion
) -> str:
    digest = hashlib.sha256(repr(criterion).encode())
    for name, array in arrays.items():
        digest.update(f"{name}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
