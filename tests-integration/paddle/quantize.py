"""Train a small network with quantization by Paddle's passes, as PaddleSlim 2 does, and
save it: frozen, with weights of whole numbers, or with the operators that round them.
The ranges of outputs are attributes.

    python quantize.py WEIGHTS ACTIVATIONS frozen|rounding PREFIX
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
    block = program.global_block()
    ends = [block.var("x")], [block.var(out.name)]
    static.save_inference_model(prefix, *ends, executor, program=program)


main(*sys.argv[1:])
