"""Quantization-aware training of static programs, under the names of PaddleSlim."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import numpy as np

import proa
from proa.errors import (
    PreconditionNotMetError,
    UnimplementedError,
)
from proa.ir.passes import optimize
from proa.ir.program import Node, Value
from proa.ir.program import Program as Graph
from proa.runtime import call_operator, graph_value
from proa.static import Program, Scope, Variable, global_scope, program_guard
from proa.static.exporting import graph_with_values
from proa_slim.config import QuantConfig
from proa_slim.quant.lower import PRODUCTS
from proa_slim.quant.model import OUT_THRESHOLD
from proa_slim.quant.observers import LEVELS
from proa_slim.quant.paddle_operators import WEIGHTED
from proa_slim.quant.pairs import operands_of
from proa_slim.quant.quantizer_names import STATIC_ACTIVATIONS, WEIGHTS, quantizer
from proa_slim.quant.static_integers import (
    IntegerProduct,
    integer_product,
    name_weights,
    product_before,
)
from proa_slim.quant.static_pairs import (
    fold_scales,
    is_pair,
    product_of_integers,
    product_of_rounded,
)
from proa_slim.quant.trained import merge_integers
from proa_slim.quant.transposed import rows_of
from proa_slim.static_graph import call_node, replay

_OPS = {name: kind for name, kind in WEIGHTED.items() if kind in ("conv2d", "linear")}
#: Names of the states of ranges: of a product's input after the name of its weight, of
#: a result after its own.
_INPUT, _OUTPUT = ".input", ".output"
_STATES = _THRESHOLD, _TOTAL = "_threshold", "_total"

#: A step of what is zero throughout.
_SMALLEST_STEP = 1e-9

T = TypeVar("T")
Config = QuantConfig | Mapping[str, Any] | None


def config_of(config: Config) -> tuple[QuantConfig, tuple[str, ...]]:
    """A `QuantConfig`, and patterns of name scopes to skip, of either kind of config.

    Raises:
        InvalidArgumentError: If a value is none that PaddleSlim has.
        UnimplementedError: If it wants other bits than 8.
    """
    if config is None or isinstance(config, QuantConfig):
        return config or QuantConfig("moving_average"), ("skip_quant",)
    given = dict(config)
    for key in ("weight_bits", "activation_bits"):
        if given.get(key, 8) != 8:
            raise UnimplementedError(f"[quant_aware] {key} must be 8, got {given[key]}")

    def chosen(key: str, default: str, known: Mapping[str, T]) -> T:
        return quantizer("quant_aware", key, given.get(key, default), known)

    kinds = given.get("quantize_op_types", ["conv2d", "depthwise_conv2d", "mul"])
    ops = tuple(dict.fromkeys(_OPS[kind] for kind in kinds if kind in _OPS))
    patterns = given.get("not_quant_pattern", ["skip_quant"])
    return QuantConfig(
        chosen(
            "activation_quantize_type", "moving_average_abs_max", STATIC_ACTIVATIONS
        ),
        chosen("weight_quantize_type", "channel_wise_abs_max", WEIGHTS),
        moving_rate=given.get("moving_rate", 0.9),
        ops=ops,
    ), tuple([patterns] if isinstance(patterns, str) else patterns)


def quant_aware(
    program: Program,
    place: object = None,
    config: Config = None,
    scope: Scope | None = None,
    for_test: bool = False,
) -> Program:
    """A program that computes as `program`, with inputs and weights of products rounded
    to the int8 grid.

        train = quant_aware(main, place, config)
        test = quant_aware(main, place, config, for_test=True)
        with static.program_guard(train, startup):
            optimizer.minimize(train.find(loss.name))
        ...
        int8 = convert(test, place, config)

    Both programs share the parameters and the ranges of activations, which are in the
    scope. Variables have the names that they have in `program`.

    Args:
        program: With the loss, before `minimize`; is not changed.
        place: Kept for callers; there is one device.
        config: A `QuantConfig`, whose `skip` has names of weights, of the results of
            products of activations, or patterns of them; or PaddleSlim's dictionary:
            ``weight_quantize_type``, ``activation_quantize_type``,
            ``quantize_op_types``, ``moving_rate`` and ``not_quant_pattern``, name
            scopes (`static.name_scope`) to skip.
        scope: Where values are; the current scope if None.
        for_test: Whether layers do what they do after training, and ranges stay.

    Raises:
        PreconditionNotMetError: If the program has gradients already, or there is
            nothing to quantize.
        InvalidArgumentError, UnimplementedError: If a config wants what there is
            not, or the program has branches, loops or recurrent layers, or attention
            that is causal and to be quantized.
    """
    options, patterns = config_of(config)
    learns = options.learn_steps or options.learn_ranges
    if learns or not options.symmetric or "mse" in options.weight:
        raise UnimplementedError(
            "[quant_aware] programs are trained with symmetric ranges by greatest "
            f"magnitude, got {options}"
        )
    if program.roles and not for_test:
        raise PreconditionNotMetError(
            "[quant_aware] expected a program before minimize(), got one that has "
            "gradients"
        )
    source = program.clone(for_test=True) if for_test else program
    new_program = Program()
    held = scope or global_scope()
    rounding = _Rounding(source, new_program, options, patterns, held, for_test)
    with program_guard(new_program, Program()):
        inputs: dict[str, Any] = {
            name: new_program.add_data(name, v.dtype, v.shape)
            for name, v in source.data.items()
        }
        inputs.update(
            (name, new_program.adopt(source.find(name))) for name in source.states
        )
        for name in source.data:
            inputs[name].stop_gradient = source.find(name).stop_gradient
        replay("quant_aware", source, new_program, inputs, call=rounding)
    if not rounding.count:
        raise PreconditionNotMetError(
            "[quant_aware] expected at least one product to quantize, "
            f"got none of {list(options.ops)} that is not skipped"
        )
    return new_program


class _Rounding:
    """Computes nodes of a program, products with rounded arrays: for training with fake
    quantization, for tests with the integer operators of the converted program.
    """

    def __init__(
        self,
        source: Program,
        program: Program,
        config: QuantConfig,
        patterns: Sequence[str],
        scope: Scope,
        for_test: bool,
    ) -> None:
        self._source, self._program, self._config = source, program, config
        self._patterns, self._scope, self._for_test = patterns, scope, for_test
        self._products: dict[Value, IntegerProduct] = {}
        self.count = 0

    def __call__(self, node: Node, arrays: list[Any]) -> Sequence[Any]:
        results = self._results(node, arrays)
        if not self._for_test:
            for value, result in zip(node.outputs, results, strict=True):
                if value.dtype == "float32" and len(value.shape) > 1:
                    self._note(result, f"{value.name}{_OUTPUT}")
        return results

    def _results(self, node: Node, arrays: list[Any]) -> Sequence[Any]:
        if self._chosen(node):
            self.count += 1
            return self._product(node, arrays)
        if self._is_pair(node):
            self.count += 1
            return self._pair(node, arrays)
        before = product_before(node)
        if before is None or before not in self._products:
            return call_node(node, arrays)
        _forget(self._program, arrays[0])
        product = self._products[before].followed_by(node, arrays[1:])
        self._products[before] = product
        return product.call()

    def _product(self, node: Node, arrays: list[Any]) -> Sequence[Any]:
        rows = rows_of(node)
        if rows is not None:
            convolution, inputs = rows.convolution(node, arrays)
            return rows.placed(self._product(convolution, inputs))
        x, weight, *rest = arrays
        axis = PRODUCTS[node.op][1]
        name = node.inputs[1].name if node.inputs[1] is not None else ""
        steps = self._input_step(x, name), self._weight_step(weight, axis)
        along = axis if self._config.weight.startswith("channel") else -1
        if not self._for_test:
            (x,) = call_operator("fake_quant", x, steps[0])
            (weight,) = call_operator("fake_quant", weight, steps[1], axis=along)
            return call_node(node, [x, weight, *rest])
        product = integer_product(node, arrays, steps, along)
        self._products[node.outputs[0]] = product
        return product.call()

    def _pair(self, node: Node, arrays: list[Any]) -> Sequence[Any]:
        count = len(operands_of(node))
        name = node.outputs[0].name
        steps = [
            self._input_step(x, f"{name}.{i}") for i, x in enumerate(arrays[:count])
        ]
        if self._for_test:
            return product_of_integers(node, arrays, steps)
        rounded = [
            call_operator("fake_quant", x, step)[0]
            for x, step in zip(arrays, steps, strict=False)
        ]
        return product_of_rounded(node, [*rounded, *arrays[count:]])

    def _is_pair(self, node: Node) -> bool:
        skipped = self._is_skipped(node, node.outputs[0].name)
        return not skipped and is_pair(node, self._config, self._source.states)

    def _is_skipped(self, node: Node, name: str) -> bool:
        scope = self._source.scopes.get(node, "")
        names = [x for x in self._config.skip if isinstance(x, str)]
        return any(p in scope for p in self._patterns) or any(
            fnmatchcase(name, pattern) for pattern in names
        )

    def _chosen(self, node: Node) -> bool:
        is_product = node.op in ("conv2d", "linear") or rows_of(node) is not None
        weight = node.inputs[1] if is_product else None
        if weight is None or weight.name not in self._source.states:
            return False
        skipped = self._is_skipped(node, weight.name)
        return not skipped and node.op.removesuffix("_transpose") in self._config.ops

    def _state(self, name: str) -> Variable:
        result = self._program.add_state(name, "float32", (1,))
        result.stop_gradient = True
        held = self._scope.var(name)
        if held.tensor is None:
            held.set(np.zeros(1, np.float32))
        return result

    def _note(self, x: Any, name: str) -> tuple[Any, Any]:
        """States of the greatest magnitude of x: (sum, sum of weights)."""
        state, total = self._state(name + _THRESHOLD), self._state(name + _TOTAL)
        if not self._for_test:
            peak = x.detach().abs().max().reshape([1])
            if self._config.activation == "abs_max":
                state.set_value(proa.maximum(state, peak))
                total.set_value(proa.ones([1]))
            else:
                rate = self._config.moving_rate
                state.set_value(state * rate + peak * (1 - rate))
                total.set_value(total * rate + (1 - rate))
        return state, total

    def _input_step(self, x: Any, name: str) -> Any:
        state, total = self._note(x, f"{name}{_INPUT}")
        return (state / total / LEVELS).clip(min=_SMALLEST_STEP).detach()

    def _weight_step(self, weight: Any, axis: int) -> Any:
        others = [i for i in range(weight.ndim) if i != axis]
        per_channel = self._config.weight.startswith("channel")
        peak = weight.detach().abs()
        peak = peak.max(others) if per_channel else peak.max().reshape([1])
        return (peak / LEVELS).clip(min=_SMALLEST_STEP).detach()


def _forget(program: Program, variable: Any) -> None:
    """Remove a result that nothing reads, and the node that made it."""
    value = graph_value(variable)
    assert value.producer is not None and not value.users
    program.graph.main.nodes.remove(value.producer)
    program.vars.pop(value.name, None)


def convert(
    program: Program,
    place: object = None,
    config: Config = None,
    scope: Scope | None = None,
) -> Program:
    """The int8 program of a trained one, with the scope's values as constants.

    Integers flow on between products. Ranges of results that training noted are in the
    metadata, as `QuantizedModel.out_scales` has them. An Executor runs it, and
    `static.save_inference_model` writes what every runtime computes in int8.

    Args:
        program: What ``quant_aware(.., for_test=True)`` gave.
        place: Kept for callers; there is one device.
        config: As for `quant_aware`.
        scope: Where values are; the current scope if None.

    Returns:
        A program with the same data. Results that products alone read may be gone: they
        are integers now.

    Raises:
        PreconditionNotMetError: If the program is one for training, no product of it is
            rounded, or no batch was trained.
    """
    config_of(config)  # checks it
    held = scope or global_scope()
    part = program.clone(for_test=True)
    states = [n for n in part.states if n.endswith(_INPUT + _THRESHOLD)]
    if any(graph_value(part.find(n)) is not part.states[n] for n in states):
        raise PreconditionNotMetError(
            "[convert] expected a program of quant_aware(.., for_test=True), got one "
            "that is trained"
        )
    block = part.graph.main
    block.outputs = [v for n in block.nodes for v in n.outputs if not v.users]
    graph = graph_with_values("convert", part, held)
    totals = [v for v in graph.constants() if v.name.endswith(_INPUT + _TOTAL)]
    if not totals or any(not np.any(v.data) for v in totals):
        raise PreconditionNotMetError(
            "[convert] expected a program whose inputs of products were seen in "
            f"training, got {'untrained' if totals else 'no'} ranges"
        )
    name_weights(graph)
    optimize(graph, 1)
    fold_scales(graph)
    merge_integers(graph)
    graph.metadata[OUT_THRESHOLD] = json.dumps(_out_scales(part, held))
    return _as_program(graph, part)


def _out_scales(part: Program, scope: Scope) -> dict[str, float]:
    """Ranges of results that training noted, by the names of the results."""
    found = {}
    for name in part.vars:
        sums, weights = (scope.find_var(name + _OUTPUT + x) for x in _STATES)
        if sums is None or weights is None or weights.tensor is None:
            continue
        total, weight = (float(np.array(v.get_tensor())[0]) for v in (sums, weights))
        if weight > 0:
            found[name] = total / weight
    return found


def _as_program(graph: Graph, part: Program) -> Program:
    program = Program()
    program.graph = program.recorder.program = graph
    inputs = {v.name: v for v in graph.main.inputs}
    program.data = {name: inputs[name] for name in part.data if name in inputs}
    defined: list[Value] = [*graph.main.inputs]
    defined += [v for node in graph.main.nodes for v in node.outputs]
    for value in defined:
        if value.name in part.vars:
            program.register(Variable(value, program.recorder))
    graph.main.outputs = []
    return program
