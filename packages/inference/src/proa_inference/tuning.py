"""The path by which each convolution is computed, measured at load and kept in a cache.

A convolution may be computed by Winograd's algorithm, by implicit GEMM or by products
of copied patches (im2col). The rule that the kernels follow goes by the shape of the
weights; which is the fastest also depends on the size of the image and on the CPU.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import proa
from proa.base import files
from proa.errors import Error, InvalidArgumentError
from proa.ir import Node, Program
from proa.ir.program import NUMPY_TYPES
from proa.runtime import Engine, machine

#: What is measured; the empty one is what the kernels choose by themselves.
STRATEGIES = ("", "implicit_gemm", "im2col")
_FORMAT = 2
_OPS = ("conv2d", "conv2d_act", "conv2d_norm")
_ROUNDS = 12
#: A strategy is taken if it needs at most this share of the default's time.
_GAIN = 0.97

Strategies = list[str]


class Tuning:
    """Methods of a Config that concern measured choices."""

    _tunes = False
    _tuning_folder = ""
    _tuning_shapes: Mapping[str, tuple[int, ...]] = {}

    def enable_tuning(
        self,
        cache_dir: str | PathLike[str] | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """Measure at load how each convolution is computed fastest, once.

        What was measured is written into a cache, from which later loads take it: of
        the same graph, shapes, number of threads, version of Proa and CPU. Results
        may differ in the last bits from those of a predictor that is not tuned, and
        are the same for every predictor that reads the same cache. No names or shapes
        of the model are in it.

        Args:
            cache_dir: Folder of the cache; ``proa/tuning`` in ``$XDG_CACHE_HOME`` or
                ``~/.cache`` by default. It may be deleted at any time. An encrypted
                model has a cache only in a folder given here, else each load measures.
            shapes: Shapes of inputs, by name, to measure with. Without, a first
                dimension that varies is 1.

        Raises:
            InvalidArgumentError: At load, if another dimension varies and `shapes` does
                not say how large it is, or the model has no such input or shape.
        """
        self._tunes = True
        self._tuning_folder = "" if cache_dir is None else fspath(cache_dir)
        self._tuning_shapes = {k: tuple(v) for k, v in (shapes or {}).items()}

    def disable_tuning(self) -> None:
        """Compute as the kernels choose."""
        self._tunes = False

    def tuning_enabled(self) -> bool:
        """True after `enable_tuning`."""
        return self._tunes

    def tuning_cache_dir(self) -> Path:
        """The folder of the cache."""
        if self._tuning_folder:
            return Path(self._tuning_folder)
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(base) / "proa" / "tuning"

    def tuning_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shapes that `enable_tuning` was given."""
        return self._tuning_shapes


def tuned_strategies(
    program: Program,
    graph: bytes,
    config: Tuning,
    threads: int,
    build: Callable[[Strategies], Engine],
    *,
    is_secret: bool = False,
) -> Strategies:
    """The strategy of each node of the program, from the cache or measured.

    Args:
        program: Without control flow.
        graph: Its bytes, by which the cache finds it: weights do not matter to time.
        config: Says where the cache is, and which shapes are measured.
        threads: Number of threads of the engine.
        build: Makes the engine that computes by given strategies.
        is_secret: Whether only a folder that the config names may have a cache.
    """
    nodes = list(program.main.nodes)
    choosing = [n for n in nodes if _has_choice(n)]
    if not choosing:
        return []
    inputs = _inputs(program, config.tuning_shapes())
    shapes = json.dumps([list(a.shape) for a in inputs]).encode()
    facts = {
        "format": _FORMAT,
        "proa": str(proa.__version__),
        "machine": machine(),
        "threads": threads,
        # One hash of both: shapes alone could be found from theirs.
        "graph": hashlib.sha256(graph + shapes).hexdigest(),
    }
    text = json.dumps(facts, sort_keys=True).encode()
    path = config.tuning_cache_dir() / f"{hashlib.sha256(text).hexdigest()[:32]}.json"
    is_cached = bool(config._tuning_folder) or not is_secret
    choices = _read(path, facts, len(choosing)) if is_cached else None
    if choices is None:
        choices = _measured(nodes, choosing, inputs, build)
        if is_cached:
            _write(path, {"made_for": facts, "choices": choices})
    return _of_all(nodes, choosing, choices)


def _of_all(
    nodes: Sequence[Node], choosing: Sequence[Node], choices: Strategies
) -> Strategies:
    """The strategy of each node, given those of the nodes that have a choice."""
    chosen = {id(n): s for n, s in zip(choosing, choices, strict=True)}
    return [chosen.get(id(n), "") for n in nodes]


def _has_choice(node: Node) -> bool:
    """Whether it is a convolution of floats that is not depthwise."""
    if node.op not in _OPS or node.inputs[1] is None:
        return False
    w = node.inputs[1]
    depthwise = w.shape[1] == 1 and node.attrs["groups"] == w.shape[0]
    return w.is_constant and w.dtype in ("float32", "bfloat16") and not depthwise


def _inputs(
    program: Program, shapes: Mapping[str, tuple[int, ...]]
) -> list[NDArray[Any]]:
    """Arrays for the program's inputs."""
    values = {v.name: v for v in program.main.inputs}
    for name in shapes:
        if name not in values:
            raise InvalidArgumentError(
                f"[Config.enable_tuning] shapes must name inputs of the model, "
                f"{', '.join(values)}, got {name!r}"
            )
    rng = np.random.default_rng(0)
    arrays = []
    for name, value in values.items():
        stated = tuple(value.shape)
        shape = shapes.get(name, (1, *stated[1:]) if stated[:1] == (-1,) else stated)
        fits = len(shape) == len(stated) and all(
            d > 0 and e in (-1, d) for d, e in zip(shape, stated, strict=False)
        )
        if not fits:
            raise InvalidArgumentError(
                f"[Config.enable_tuning] shapes must say how large input {name!r} of "
                f"shape {stated} is, got {shape}"
            )
        kind = np.dtype(NUMPY_TYPES[value.dtype])
        floats = kind.kind == "f"
        result = rng.standard_normal(shape) if floats else np.zeros(shape)
        arrays.append(result.astype(kind))
    return arrays


def _measured(
    nodes: Sequence[Node],
    choosing: Sequence[Node],
    inputs: list[NDArray[Any]],
    build: Callable[[Strategies], Engine],
) -> Strategies:
    """For each node that has a choice, what beats the default, or the empty one."""
    engines = {
        s: build(_of_all(nodes, choosing, [s] * len(choosing))) for s in STRATEGIES
    }
    fastest: dict[str, dict[str, int]] = {s: {} for s in STRATEGIES}
    for _ in range(_ROUNDS):  # in turns, so that a disturbance hits all
        for strategy, engine in engines.items():
            times = fastest[strategy]
            for _, name, time in engine.profile(inputs):
                times[name] = min(time, times.get(name, time))
    return [_best(n.outputs[0].name, fastest) for n in choosing]


def _best(name: str, fastest: Mapping[str, Mapping[str, int]]) -> str:
    default = fastest[""].get(name)
    if default is None:
        return ""
    best = min(STRATEGIES, key=lambda s: fastest[s].get(name, default))
    return best if fastest[best].get(name, default) <= _GAIN * default else ""


def _read(path: Path, facts: dict[str, Any], count: int) -> Strategies | None:
    """The choices in a file of the cache; None if there is none that is whole."""
    if not path.exists():
        return None
    try:
        held = json.loads(bytes(files.read(path, where="Config.enable_tuning")))
        choices = held["choices"]
        whole = (
            held["made_for"] == json.loads(json.dumps(facts))
            and isinstance(choices, list)
            and len(choices) == count
            and all(s in STRATEGIES for s in choices)
        )
    except (Error, ValueError, TypeError, KeyError):
        whole = False
    if whole:
        return list(choices)
    warnings.warn(
        f"[Config.enable_tuning] expected the choices of this model in {path}, got a "
        "damaged file; it is measured again",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def _write(path: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=1, sort_keys=True)
    try:
        files.replace(path, [text.encode()], where="Config.enable_tuning")
    except (Error, OSError) as error:
        warnings.warn(
            "[Config.enable_tuning] expected a folder that can be written, got "
            f"{error}",
            RuntimeWarning,
            stacklevel=2,
        )
