"""Corrections of the error that rounding leaves: AdaRound and bias correction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import proa
from proa.ir.program import Array, Node, Program, Value
from proa.runtime import call_operator
from proa_slim.config import WeightObserver
from proa_slim.quant.interpret import interpret
from proa_slim.quant.lower import PRODUCTS, quantize_array, rounded_input
from proa_slim.quant.observers import LEVELS
from proa_slim.quant.scales import Scale, weight_scale

_STEPS, _SAMPLES, _RATE = 1000, 256, 0.1
#: The rectified sigmoid goes from -0.1 to 1.1, so that 0 and 1 are reached.
_LOW, _HIGH = -0.1, 1.1


class RoundedWeight(NamedTuple):
    """Values that are multiples of the scales, (1,) or one for each output channel."""

    values: NDArray[np.float32]
    scale: NDArray[np.float32]


def adaround(
    program: Program,
    nodes: Sequence[Node],
    batches: Iterable[Sequence[Array]],
    scales: Mapping[Value, Scale],
    kind: WeightObserver,
) -> dict[str, RoundedWeight]:
    """Round each weight up or down, whichever keeps its product nearest to float32
    (AdaRound, Nagel et al., 2020); by the names of the products' results.

    h = clip(1.2 sigmoid(v) - 0.1, 0, 1) is learnt for q = floor(w / scale) + h, from
    the mean of (W x - (scale q) x^)^2, x^ the rounded input, in units of its value for
    nearest rounding, plus the mean of 1 - |2 h - 1|^b, b going from 20 to 2, by 1,000
    steps of Adam on at most 256 samples. Where the error on all of these is not lower
    than by nearest rounding, that is taken.
    """
    inputs: dict[Value, list[Array]] = {}
    wanted = {n.inputs[0] for n in nodes}

    def watch(value: Value, array: Array) -> None:
        if value in wanted:
            inputs.setdefault(value, []).append(np.array(array))

    seen = 0
    for batch in batches:
        interpret(program, batch, watch)
        seen += len(batch[0])
        if seen >= _SAMPLES:
            break
    found = {}
    for node in nodes:
        x, weight = node.inputs[:2]
        assert x is not None and weight is not None and weight.data is not None
        samples = np.concatenate(inputs[x])[:_SAMPLES]
        w = np.asarray(weight.data)
        step = weight_scale(w, PRODUCTS[node.op][1], kind)
        found[node.outputs[0].name] = _adaround(node, w, step, samples, scales[x])
    return found


def _apply(node: Node, x: Any, weight: Any) -> Any:
    """The product alone, without bias and activation."""
    attrs = {k: v for k, v in node.attrs.items() if k != "act"}
    (result,) = call_operator(node.op.removesuffix("_act"), x, weight, **attrs)
    return result


def _round_input(x: Array, scale: Scale) -> NDArray[np.float32]:
    whole = np.clip(np.rint((x - scale.offset) / scale.scale), -LEVELS, LEVELS)
    result: NDArray[np.float32] = (whole * scale.scale + scale.offset).astype("float32")
    return result


def _adaround(
    node: Node, w: Array, step: Array, samples: Array, scale: Scale
) -> RoundedWeight:
    axis = PRODUCTS[node.op][1]
    along = [1] * w.ndim
    along[axis] = -1
    steps = np.broadcast_to(step, (w.shape[axis],)).reshape(along).astype(np.float32)
    floor = np.floor(w / steps)
    # With x the rounding of the input is seen by training, as it is by the int8 model.
    x = _round_input(samples, scale)
    with proa.no_grad():
        target = _apply(node, proa.to_tensor(samples), proa.to_tensor(w)).numpy()
    share = np.clip((w / steps - floor - _LOW) / (_HIGH - _LOW), 1e-3, 1 - 1e-3)
    v = proa.to_tensor(np.log(share / (1 - share)).astype(np.float32))
    v.stop_gradient = False
    nearest = np.clip(np.rint(w / steps), -LEVELS, LEVELS) * steps
    before = _error(node, x, nearest, target)
    _learn(node, v, (floor, steps), (x, target), before / target.size)
    with proa.no_grad():
        learnt = np.clip(floor + (_up(v).numpy() >= 0.5), -LEVELS, LEVELS) * steps
    chosen = learnt if _error(node, x, learnt, target) < before else nearest
    return RoundedWeight(chosen.astype(np.float32), step)


def _up(v: Any) -> Any:
    return proa.clip(proa.nn.functional.sigmoid(v) * (_HIGH - _LOW) + _LOW, 0.0, 1.0)


def _learn(
    node: Node,
    v: Any,
    grid: tuple[Array, Array],
    data: tuple[Array, Array],
    error: float,
) -> None:
    (x, target), unit = data, error or 1.0
    floor, steps = (proa.to_tensor(a.astype(np.float32)) for a in grid)
    adam = proa.optimizer.Adam(_RATE, parameters=[v])
    order = np.random.default_rng(0)
    size = min(32, len(x))
    for i in range(_STEPS):
        at = order.choice(len(x), size, replace=False)
        h = _up(v)
        weight = proa.clip(floor + h, -float(LEVELS), float(LEVELS)) * steps
        y = _apply(node, proa.to_tensor(x[at]), weight)
        # In units of the error of nearest rounding, so that it suits all layers.
        loss = (y - proa.to_tensor(target[at])).square().mean() / unit
        if i > _STEPS // 5:
            beta = 20.0 - 18.0 * i / _STEPS
            loss = loss + (1.0 - (2.0 * h - 1.0).abs() ** beta).mean()
        loss.backward()
        adam.step()
        adam.clear_grad()


def _error(node: Node, x: Array, weight: Array, target: Array) -> float:
    with proa.no_grad():
        whole = np.ascontiguousarray(weight, np.float32)
        y = _apply(node, proa.to_tensor(x), proa.to_tensor(whole)).numpy()
    return float(((y - target) ** 2).sum())


def correct_bias(
    program: Program, faked: Program, batches: Iterable[Sequence[Array]]
) -> None:
    """Add to each quantized product's bias what rounding takes from the mean of its
    output channels (Nagel et al., 2019, measured on data).

    A product is linear: mean(W x) - mean(W^ x^) = W mean(x) - W^ mean(x^), over the
    samples, and then over the positions of a convolution.

    Args:
        program: In float32.
        faked: Its copy with fake quantization, whose biases are changed.
        batches: Batches of calibration.
    """
    pairs = {n.outputs[0].name: n for n in faked.main.nodes if rounded_input(n)}
    nodes = [
        (node, pairs[node.outputs[0].name])
        for node in program.main.nodes
        if node.outputs[0].name in pairs and node.op in PRODUCTS
    ]
    linear = {b.inputs[0] for b, _ in nodes if b.op.startswith("linear")}
    sums: dict[str, Array] = {}
    count = 0

    def watch(value: Value, array: Array) -> None:
        if value.name not in scales:
            return
        rounded = _round_input(array, scales[value.name])
        for key, whole in ((value.name, array), (f"{value.name} rounded", rounded)):
            if value in linear:  # positions of a sequence count alike
                whole = whole.reshape(len(whole), -1, whole.shape[-1]).mean(axis=1)
            total = whole.sum(axis=0, dtype=np.float64, keepdims=True)
            sums[key] = sums.get(key, 0.0) + total

    scales = {a.inputs[0].name: _scale(b) for a, b in nodes if a.inputs[0] is not None}
    for batch in batches:
        interpret(program, batch, watch)
        count += len(batch[0])
    for node, fake in nodes:
        _add_shift(faked, node, fake, sums, count)


def _scale(fake: Node) -> Scale:
    found = rounded_input(fake)
    assert found is not None and found.scale.data is not None
    offset = 0.0 if found.offset is None else float(_array(found.offset).reshape(()))
    return Scale(float(found.scale.data.reshape(())), offset)


def _array(value: Value | None) -> Array:
    assert value is not None and value.data is not None
    return value.data


def _add_shift(
    faked: Program, node: Node, fake: Node, sums: Mapping[str, Array], count: int
) -> None:
    assert node.inputs[0] is not None and fake.inputs[1] is not None
    name = node.inputs[0].name
    rounding = fake.inputs[1].producer
    assert rounding is not None
    weight, step = _array(rounding.inputs[0]), _array(rounding.inputs[1])
    axis = PRODUCTS[node.op][1]
    whole = quantize_array(weight, step, axis if step.size > 1 else -1)
    along = [1] * weight.ndim
    along[axis] = -1
    rounded = whole * np.broadcast_to(step, (weight.shape[axis],)).reshape(along)
    means = []
    for key, w in ((name, _array(node.inputs[1])), (f"{name} rounded", rounded)):
        x = proa.to_tensor((sums[key] / count).astype(np.float32))
        with proa.no_grad():
            y = _apply(node, x, proa.to_tensor(w.astype(np.float32))).numpy()
        channels = 1 if node.op.startswith("conv2d") else y.ndim - 1
        means.append(y.mean(axis=tuple(i for i in range(y.ndim) if i != channels)))
    shift = means[0] - means[1]
    old = fake.inputs[2] if len(fake.inputs) > 2 else None
    bias = shift if old is None else _array(old) + shift
    stem = fake.outputs[0].name if old is None else old.name
    value = faked.constant(bias.astype(np.float32), name=stem)
    fake.inputs = [*fake.inputs[:2], value, *fake.inputs[3:]]
