"""Inference models of static programs: written in each format and run again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from proa import static


def check_saved(
    folder: Path, exe: static.Executor, program: static.Program, feeds: Sequence[Any],
    fetches: Sequence[Any], feed: dict[str, Any], want: Sequence[Any],
) -> None:  # fmt: skip
    """Save what computes the fetches, in our format and in Paddle's; load it by name
    into a scope of its own, run it, and compare.
    """
    for form in ("proa", "paddle"):
        prefix = str(folder / form)
        static.save_inference_model(
            prefix, list(feeds), list(fetches), exe, program=program, format=form
        )
        with static.scope_guard(static.Scope()):
            read, names, targets = static.load_inference_model(prefix, exe)
            given = {name: feed[v.name] for name, v in zip(names, feeds, strict=True)}
            found = exe.run(read, feed=given, fetch_list=targets)
        for ours, theirs in zip(found, want, strict=True):
            assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, form
            if ours.dtype.kind == "f":
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
            else:
                np.testing.assert_array_equal(ours, theirs)
