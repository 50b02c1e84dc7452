"""Train a small network with quantization by Paddle's passes, as PaddleSlim 2 does, and
save it: frozen, with weights of whole numbers, or with the operators that round them.
The ranges of outputs are attributes.

    python quantize.py WEIGHTS ACTIVATIONS frozen|rounding|thresholds PREFIX

`thresholds` saves a program that rounds what products read by the ranges of outputs, in
place of those of inputs, and as ``PREFIX.plain`` the same without these operators.
"""

import sys

import numpy as np
import paddle
from paddle import static
from paddle.base import core
from paddle.base.framework import IrGraph
from paddle.static import quantization

TYPES = ["conv2d", "depthwise_conv2d", "mul", "matmul", "matmul_v2"]


def network():
    x = static.data("x", [-1, 3, 16, 16], "float32")
    y = static.nn.conv2d(x, 8, 3, padding=1, act="relu")
    y = static.nn.conv2d(y, 8, 3, padding=1, groups=8, bias_attr=False)
    y = paddle.nn.functional.relu(static.nn.batch_norm(y, is_test=True))
    y = paddle.flatten(paddle.nn.functional.max_pool2d(y, 2, 2), 1)
    return static.nn.fc(y, 10)


def rounding(block):
    """The operators that round activations, in pairs, and what makes their input."""
    makers = {name: op for op in block.ops for name in op.output_arg_names}
    pairs = []
    for op in block.ops:
        name = op.input("X")[0] if op.type.startswith("fake_quantize") else ""
        if name and not block.var(name).persistable:
            (whole,) = op.output("Out")
            (second,) = [o for o in block.ops if whole in o.input_arg_names]
            pairs.append((op, second, makers.get(name)))
    return pairs


def remove(block, first, second):
    """Let readers of a rounded array read the array."""
    (name,), (rounded,) = first.input("X"), second.output("Out")
    for op in block.ops:
        if rounded in op.input_arg_names:
            op._rename_input(rounded, name)
    for op in (second, first):
        block._remove_op(list(block.ops).index(op))


def save_thresholds(program, scope, executor, out, prefix):
    block = program.global_block()
    ends = [block.var("x")], [block.var(out.name)]
    for first, second, maker in rounding(block):
        if maker is None or not maker.has_attr("out_threshold"):
            remove(block, first, second)
            continue
        limit = np.array([maker.attr("out_threshold")], "float32")
        scope.find_var(first.input("InScale")[0]).get_tensor().set(
            limit, paddle.CPUPlace()
        )
    static.save_inference_model(prefix, *ends, executor, program=program)
    for first, second, _ in rounding(block):
        remove(block, first, second)
    static.save_inference_model(f"{prefix}.plain", *ends, executor, program=program)


def main(weights, activations, form, prefix):
    paddle.enable_static()
    paddle.seed(1)
    program, start = static.Program(), static.Program()
    with static.program_guard(program, start):
        out = network()
    place = paddle.CPUPlace()
    executor, scope = static.Executor(place), static.global_scope()
    executor.run(start)
    graph = IrGraph(core.Graph(program.desc), for_test=False)
    kinds = {
        "weight_quantize_type": weights, "quantizable_op_type": TYPES
    }  # fmt: skip
    quantization.QuantizationTransformPass(
        scope, place, activation_quantize_type=activations, window_size=8, **kinds
    ).apply(graph)
    quantization.OutScaleForTrainingPass(scope, place).apply(graph)
    train, rng = graph.to_program(), np.random.default_rng(0)
    for _ in range(12):
        x = rng.standard_normal((4, 3, 16, 16)).astype("float32")
        executor.run(train, feed={"x": x}, fetch_list=[])
    graph = IrGraph(core.Graph(train.desc), for_test=True)
    quantization.OutScaleForInferencePass(scope).apply(graph)
    if form == "frozen":
        quantization.QuantizationFreezePass(
            scope, place, activation_bits=8, weight_bits=8, **kinds
        ).apply(graph)
    program = graph.to_program()
    if form == "thresholds":
        save_thresholds(program, scope, executor, out, prefix)
        return
    block = program.global_block()
    ends = [block.var("x")], [block.var(out.name)]
    static.save_inference_model(prefix, *ends, executor, program=program)


main(*sys.argv[1:])
