"""Which layers int8 makes faster, as the runtime of this machine computes them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import proa
from proa.errors import InvalidArgumentError
from proa.ir import file
from proa.ir.passes import optimize
from proa.ir.program import NUMPY_TYPES, Array, Node, Program, Value
from proa.runtime import Engine, engine_from_bytes
from proa_slim.config import QuantConfig
from proa_slim.loading import as_network
from proa_slim.quant.images import images_between
from proa_slim.quant.layer_paths import layer_path
from proa_slim.quant.pairs import PAIRS, operands_of, pair_keys, pairs
from proa_slim.quant.post_training import (
    lowered,
    products,
    quantizable_program,
    with_fake_quant,
)
from proa_slim.quant.scales import Scale

#: The model of a network with layers of these paths in float32.
Export = Callable[[Sequence[str]], Program]

_ROUNDING = ("quantize", "quantize_affine")
#: Runs before those that are timed.
_WARM_UP = 3
#: A layer is left in float32 if the network gains this share of its time by that.
_GAIN = 0.01


@dataclass(frozen=True)
class LayerSpeed:
    """How long one layer takes in a run of the network, in float32 and in int8.

    Attributes:
        layer: Its path; ``path:attention`` of attention in the layer of that path, and
            likewise of matmul.
        op: The operator in float32, perhaps with an activation.
        float32_us: Microseconds in float32.
        int8_us: Microseconds in int8, with the rounding of its operands where that is
            an operator of its own.
    """

    layer: str
    op: str
    float32_us: float
    int8_us: float

    def __str__(self) -> str:
        return f"int8 takes {self.int8_us:.3g} us, float32 {self.float32_us:.3g} us"


def layer_speeds(
    network: proa.nn.Layer,
    input_spec: Sequence[Any],
    config: QuantConfig | None = None,
    repeats: int = 50,
    threads: int = 1,
) -> list[LayerSpeed]:
    """The time of each layer that `config` quantizes, before and after, in runs of the
    whole network. The network needs no training and no data for it.

    Args:
        network: Is not changed.
        input_spec: As for `proa.jit.save`; the first size may be symbolic, and is 1.
        config: What is quantized; `QuantConfig()` if not given.
        repeats: Runs of which the fastest counts, layer by layer.
        threads: Number of threads of a run.

    Raises:
        InvalidArgumentError: If `repeats` is not positive, or another size is symbolic.
    """
    timed = _Timed(network, input_spec, config or QuantConfig(), repeats, threads)
    return timed.layers(())


def slow_in_int8(
    network: proa.nn.Layer,
    input_spec: Sequence[Any],
    config: QuantConfig | None = None,
    repeats: int = 50,
    threads: int = 1,
    export: Export | None = None,
) -> dict[str, LayerSpeed]:
    """The layers that are better left in float32, by their paths: ``skip`` of a
    `QuantConfig`. Other arguments and errors are those of `layer_speeds`.

    Layers that take longer in int8 are put into float32, one after the other and all
    together, then those that take longer for that, and so on; what counts is the time
    of the whole network. All layers are named if int8 makes it no faster.

    Args:
        export: Gives the model with some layers in float32, of which whole networks
            are timed in the end; that of `quant_post_static` if not given.
    """
    timed = _Timed(network, input_spec, config or QuantConfig(), repeats, threads)
    first = timed.layers(())
    every = tuple(s.layer for s in first)
    tried = [(), *_all_together(timed, first), _one_by_one(timed, first), every]
    times = timed.whole(*tried, export=export)
    limit = min(min(times) / (1 - _GAIN), times[-1])
    best = min((s for s, t in zip(tried, times, strict=True) if t <= limit), key=len)
    known = {speed.layer: speed for speed in first}
    return {path: known[path] for path in best}


def _slower(speeds: Sequence[LayerSpeed]) -> list[LayerSpeed]:
    """Those that take longer in int8, the one that loses most first."""
    found = [s for s in speeds if s.int8_us > s.float32_us]
    return sorted(found, key=lambda s: s.float32_us - s.int8_us)


def _all_together(timed: _Timed, first: Sequence[LayerSpeed]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    slow = _slower(first)
    while slow:
        before = found[-1] if found else ()
        found.append((*before, *(s.layer for s in slow)))
        slow = _slower(timed.layers(found[-1]))
    return found


def _one_by_one(timed: _Timed, first: Sequence[LayerSpeed]) -> tuple[str, ...]:
    found: tuple[str, ...] = ()
    for speed in _slower(first):
        now, then = timed.whole(found, (*found, speed.layer))
        if then < (1 - _GAIN) * now:
            found = (*found, speed.layer)
    return found


class _Timed:
    """Programs of a network with some layers in int8, and their times."""

    def __init__(
        self,
        network: proa.nn.Layer,
        input_spec: Sequence[Any],
        config: QuantConfig,
        repeats: int,
        threads: int,
    ) -> None:
        if repeats < 1:
            raise InvalidArgumentError(
                f"[layer_speeds] expected repeats above 0, got {repeats}"
            )
        network = as_network(network, input_spec)
        self.config = replace(config.by_path(network), only_faster=False)
        self.program = quantizable_program(network, input_spec, self.config)
        self.inputs = [_ones(value) for value in self.program.main.inputs]
        self.repeats, self.threads = repeats, threads

    def layers(self, skip: Sequence[str]) -> list[LayerSpeed]:
        whole, small = self.program, self._int8(skip)
        before = self._steps(whole)
        after = self._steps(small)
        integer: dict[str, float] = {}
        for node, path in {
            **_integer_layers(small),
            **self._integer_pairs(small, skip),
        }.items():
            integer[path] = integer.get(path, 0.0) + _cost(node, after)
        keys = pair_keys(whole)
        times: dict[str, tuple[str, float]] = {}
        for node in products(whole, self.config) + pairs(whole, self.config):
            path = keys.get(node) or layer_path(node)
            known = times.get(path, (node.op, 0.0))[1]
            times[path] = node.op, known + _cost(node, before)
        return [
            LayerSpeed(path, op, time / 1000, integer[path] / 1000)
            for path, (op, time) in times.items()
            if path in integer
        ]

    def _integer_pairs(self, small: Program, skip: Sequence[str]) -> dict[Node, str]:
        """Products of activations in int8, and what `skip` calls them. No name is left
        of what they were, but they are in the same order.
        """
        keys = pair_keys(self.program)
        chosen = pairs(self.program, self._skipping(skip))
        integer = [name for name, _ in PAIRS.values()]
        old = [n for n in self.program.main.nodes if n in chosen or n.op in integer]
        new = [n for n in small.main.nodes if n.op in integer]
        if len(old) != len(new):
            return {}
        return {n: keys[o] for o, n in zip(old, new, strict=True) if o in keys}

    def _skipping(self, skip: Sequence[str]) -> QuantConfig:
        return replace(self.config, skip=(*self.config.skip, *skip))

    def whole(self, *skips: Sequence[str], export: Export | None = None) -> list[float]:
        """Seconds of a run with each of the lists of layers in float32, in turns."""
        programs = [(export or self._int8)(skip) for skip in skips]
        for program in programs:
            optimize(program)  # as a predictor does
        engines = [self._engine(program) for program in programs]
        best = [float("inf")] * len(engines)
        for _ in range(_WARM_UP + self.repeats):
            for at, engine in enumerate(engines):
                begin = time.perf_counter()
                engine.run(self.inputs)
                best[at] = min(best[at], time.perf_counter() - begin)
        return best

    def _int8(self, skip: Sequence[str]) -> Program:
        config = self._skipping(skip)
        chosen, others = products(self.program, config), pairs(self.program, config)
        if not (chosen or others):
            return _copied(self.program)
        read = [node.inputs[0] for node in chosen] + images_between(chosen, config)
        read += [value for node in others for value in operands_of(node)]
        scales = {value: Scale(1 / 127) for value in read if value is not None}
        faked = with_fake_quant(self.program, scales, config, {})
        result = lowered(self.program, faked, scales, config, "int8").program
        optimize(result, 3)
        return result

    def _engine(self, program: Program) -> Engine:
        return engine_from_bytes(file.to_bytes(program), self.threads)

    def _steps(self, program: Program) -> dict[str, float]:
        """Nanoseconds of each step by the name of its result: the least of all runs."""
        engine = self._engine(program)
        best: dict[str, float] = {}
        for _ in range(_WARM_UP + self.repeats):
            for _, name, duration in engine.profile(self.inputs):
                best[name] = min(best.get(name, float("inf")), float(duration))
        return best


def _integer_layers(program: Program) -> dict[Node, str]:
    """Nodes that read int8 weights, and the paths of their layers."""
    found = {}
    for node in program.main.nodes:
        weight = node.inputs[1] if len(node.inputs) > 1 else None
        path = "" if weight is None else weight.name.rpartition(".")[0]
        if weight is not None and weight.name.endswith(".int8"):
            found[node] = path.rpartition(".")[0]
    return {node: path for node, path in found.items() if path}


def _cost(node: Node, times: dict[str, float]) -> float:
    """Time of a product, with its share of the time that rounds its operands."""
    cost = times.get(node.outputs[0].name, 0.0)
    for x in dict.fromkeys(node.inputs):
        before = None if x is None else x.producer
        if x is not None and before is not None and before.op in _ROUNDING:
            cost += times.get(x.name, 0.0) / max(len(x.users), 1)
    return cost


def _copied(program: Program) -> Program:
    return file.from_bytes(file.to_bytes(program))


def _ones(value: Value) -> Array:
    """An input of ones; of sample size 1 where that is symbolic."""
    if any(n < 0 for n in value.shape[1:]):
        raise InvalidArgumentError(
            f"[layer_speeds] expected sizes of the input {value.name!r} that are known "
            f"but for the first, got {list(value.shape)}"
        )
    shape = [1 if n < 0 else n for n in value.shape]
    return np.ones(shape, NUMPY_TYPES[value.dtype])
