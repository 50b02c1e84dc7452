"""Paddle's model files as Layers."""

from __future__ import annotations

import contextlib
import io
import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import static
from proa.cli import main
from proa.errors import (
    InvalidArgumentError,
    MissingFileError,
    UnavailableError,
    UnimplementedError,
)
from proa.interop import paddle

pytest.importorskip("google.protobuf")

from .programs import Block, ProgramFile, linear

RNG = np.random.default_rng(0)
W = RNG.standard_normal((3, 4)).astype(np.float32)
B = RNG.standard_normal(4).astype(np.float32)
X = RNG.standard_normal((2, 3)).astype(np.float32)


def loaded(file: ProgramFile) -> Any:
    return paddle.load(None, None, file.program(), file.parameters())


def saved_again(layer: Any) -> Any:
    buffer = io.BytesIO()
    proa.jit.save(layer, buffer, layer.input_spec)
    buffer.seek(0)
    return proa.jit.load(buffer)


def test_weights_are_parameters_under_their_names(tmp_path: Path) -> None:
    prefix = linear(W, B).save(tmp_path / "model")
    for path in (prefix, f"{prefix}.pdmodel", tmp_path):
        layer = proa.jit.load(path)
        names = {name: p.shape for name, p in layer.named_parameters()}
        assert names == {"linear_0_w_0": [3, 4], "linear_0_b_0": [4]}
        found = layer(proa.to_tensor(X)).numpy()
        np.testing.assert_allclose(found, X @ W + B, rtol=1e-6)


def test_a_loaded_model_is_trained_further() -> None:
    layer = loaded(linear(W, B))
    step = proa.optimizer.SGD(0.1, parameters=layer.parameters())
    (layer(proa.to_tensor(np.eye(3, dtype=np.float32))) ** 2).mean().backward()
    step.step()
    # d mean(y ** 2) / dW = 2 / 12 * y for x = I
    expected = W - 0.1 * 2 / 12 * (W + B)
    np.testing.assert_allclose(layer.linear_0_w_0.numpy(), expected, rtol=1e-5)


def test_a_loaded_model_is_saved_with_symbolic_sizes() -> None:
    again = saved_again(loaded(linear(W, B)))
    for n in (1, 5):
        x = np.full((n, 3), 0.5, np.float32)
        found = again(proa.to_tensor(x)).numpy()
        np.testing.assert_allclose(found, x @ W + B, rtol=1e-6)


def test_folders_of_paddle_1_are_read(tmp_path: Path) -> None:
    file = linear(W, B)
    one, many = tmp_path / "one", tmp_path / "many"
    for folder in (one, many):
        folder.mkdir()
        (folder / "__model__").write_bytes(file.program())
    (one / "__params__").write_bytes(file.parameters())
    for name, data in file.streams().items():
        (many / name).write_bytes(data)
    for folder in (one, many):
        found = proa.jit.load(folder)(proa.to_tensor(X)).numpy()
        np.testing.assert_allclose(found, X @ W + B, rtol=1e-6)


def of_paddle_1(weights: dict[str, Any]) -> ProgramFile:
    """A network for digits, with the operators and attributes that 1.8 wrote."""
    file = ProgramFile()
    file.feed("image", [-1, 1, 8, 8])
    for name, array in weights.items():
        file.param(name, array)
    op = file.main.op
    op(
        "conv2d",
        {"Input": "image", "Filter": "conv2d_0.w_0"},
        {"Output": "a"},
        strides=[1, 1],
        paddings=[1, 1],
        dilations=[1, 1],
        groups=1,
        use_cudnn=True,
    )
    op("elementwise_add", {"X": "a", "Y": "conv2d_0.b_0"}, {"Out": "b"}, axis=1)
    op("relu", {"X": "b"}, {"Out": "c"}, use_mkldnn=False)
    op(
        "pool2d",
        {"X": "c"},
        {"Out": "d"},
        pooling_type="max",
        ksize=[2, 2],
        strides=[2, 2],
        paddings=[0, 0],
        global_pooling=False,
        ceil_mode=False,
    )
    op(
        "mul",
        {"X": "d", "Y": "fc_0.w_0"},
        {"Out": "e"},
        x_num_col_dims=1,
        y_num_col_dims=1,
    )
    op("elementwise_add", {"X": "e", "Y": "fc_0.b_0"}, {"Out": "f"}, axis=1)
    op("softmax", {"X": "f"}, {"Out": "g"}, use_cudnn=False)
    file.fetch("g")
    return file  # fmt: skip


@pytest.mark.feature("L165")
@pytest.mark.parametrize("combined", [False, True])
def test_a_model_of_paddle_1_is_run_by_both_apis(
    combined: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    shapes = {"conv2d_0.w_0": (2, 1, 3, 3), "conv2d_0.b_0": (2,),
              "fc_0.w_0": (32, 5), "fc_0.b_0": (5,)}  # fmt: skip
    weights = {n: rng.normal(size=s).astype("f") for n, s in shapes.items()}
    file = of_paddle_1(weights)
    (tmp_path / "__model__").write_bytes(file.program())
    if combined:
        (tmp_path / "__params__").write_bytes(file.parameters())
    for name, data in () if combined else file.streams().items():
        (tmp_path / name).write_bytes(data)
    image = rng.normal(size=(3, 1, 8, 8)).astype("f")
    wide = np.pad(image, [(0, 0), (0, 0), (1, 1), (1, 1)])
    taps = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
    y = np.einsum("nchwij,ocij->nohw", taps, weights["conv2d_0.w_0"])
    y = np.maximum(y + weights["conv2d_0.b_0"][:, None, None], 0)
    y = y.reshape(3, 2, 4, 2, 4, 2).max((3, 5)).reshape(3, 32)
    y = np.exp(y @ weights["fc_0.w_0"] + weights["fc_0.b_0"])
    want = y / y.sum(1, keepdims=True)
    found = proa.jit.load(tmp_path)(proa.to_tensor(image)).numpy()
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-6)
    executor, names = static.Executor(), {}
    if combined:
        names = {"model_filename": "__model__", "params_filename": "__params__"}
    program, feeds, fetches = static.load_inference_model(tmp_path, executor, **names)
    (found,) = executor.run(program, {feeds[0]: image}, fetches)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-6)


def test_static_mode_loads_and_runs_a_model(tmp_path: Path) -> None:
    file = linear(W, B)
    prefix = file.save(tmp_path / "model")
    (tmp_path / "weights").write_bytes(file.parameters())
    executor = static.Executor(proa.CPUPlace())
    for path, names in (
        (prefix, {}),
        (
            None,
            {"model_filename": file.program(), "params_filename": file.parameters()},
        ),
        (tmp_path, {"model_filename": "model.pdmodel", "params_filename": "weights"}),
    ):
        program, feeds, fetches = static.load_inference_model(path, executor, **names)
        assert feeds == ["x"]
        (found,) = executor.run(program, feed={"x": X}, fetch_list=fetches)
        np.testing.assert_allclose(found, X @ W + B, rtol=1e-6)


def test_the_command_converts_a_model(tmp_path: Path) -> None:
    prefix = linear(W, B).save(tmp_path / "model")
    target = tmp_path / "out.proa"
    assert main(["convert", f"{prefix}.pdmodel", str(target), "--shape", "x=2,3"]) == 0
    found = proa.jit.load(target)(proa.to_tensor(X)).numpy()
    np.testing.assert_allclose(found, X @ W + B, rtol=1e-6)


def test_a_smaller_operand_begins_at_the_axis_that_is_named() -> None:
    file = ProgramFile()
    file.feed("x", [2, 3, 4])
    file.param("v", W[:, 0])
    file.main.op("elementwise_mul", {"X": "x", "Y": "v"}, {"Out": "y"}, axis=1)
    file.fetch("y")
    x = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    found = loaded(file)(proa.to_tensor(x)).numpy()
    np.testing.assert_array_equal(found, x * W[:, 0][None, :, None])


def test_batch_norm_uses_the_files_statistics_and_trains() -> None:
    file = ProgramFile()
    file.feed("x", [-1, 3])
    mean, var = np.float32([1, 2, 3]), np.float32([4, 1, 9])
    names = {"Scale": "s", "Bias": "b", "Mean": "m", "Variance": "v"}
    for name, array in zip("sbmv", (W[:, 0], W[:, 1], mean, var), strict=True):
        file.param(name, array)
    file.main.op(
        "batch_norm", {"X": "x", **names}, {"Y": "y", "MeanOut": "m"},
        epsilon=1e-3, momentum=0.8, is_test=True,
    )  # fmt: skip
    file.fetch("y")
    layer = loaded(file)
    assert {n for n, _ in layer.named_parameters()} == {"s", "b"}
    expected = (X - mean) / np.sqrt(var + 1e-3) * W[:, 0] + W[:, 1]
    found = layer(proa.to_tensor(X)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    layer.train()
    layer(proa.to_tensor(X))
    now = layer.m.numpy()
    np.testing.assert_allclose(now, 0.8 * mean + 0.2 * X.mean(0), rtol=1e-5)


def counting_loop() -> ProgramFile:
    """v = v * 2 + i, n times."""
    file = ProgramFile()
    file.feed("n", [1], "int64")
    file.feed("v", [2])
    file.main.op("fill_constant", {}, {"Out": "i"}, shape=[1], dtype=3, value=0.0)
    file.main.op("less_than", {"X": "i", "Y": "n"}, {"Out": "goes"})
    body = Block(file, 0)
    body.op("cast", {"X": "i"}, {"Out": "number"}, out_dtype=5, in_dtype=3)
    body.op("scale", {"X": "v"}, {"Out": "twice"}, scale=2.0)
    body.op("elementwise_add", {"X": "twice", "Y": "number"}, {"Out": "sum"}, axis=-1)
    body.op("assign", {"X": "sum"}, {"Out": "v"})
    body.op("increment", {"X": "i"}, {"Out": "i"}, step=1.0)
    body.op("less_than", {"X": "i", "Y": "n"}, {"Out": "goes"})
    body.program.main.op(
        "while", {"X": ["i", "n", "v"], "Condition": "goes"},
        {"Out": ["i", "v"], "StepScopes": "scopes"}, sub_block=body,
    )  # fmt: skip
    file.fetch("v")
    file.fetch("i")
    return file


def test_a_loop_changes_variables_of_the_block_around() -> None:
    layer = loaded(counting_loop())
    v = np.float32([1, -1])
    for run in (layer, saved_again(layer)):
        for n in (0, 1, 4):
            expected = v
            for i in range(n):
                expected = expected * 2 + i
            found, i = run(proa.to_tensor(np.array([n])), proa.to_tensor(v))
            np.testing.assert_array_equal(found.numpy(), expected)
            assert i.numpy().tolist() == [n]


def branching() -> ProgramFile:
    """x + 1 where k > 0, else x - 1, as `static.nn.cond` is saved."""
    file = ProgramFile()
    file.feed("x", [2])
    file.feed("k", [1], "int64")
    file.main.op("fill_constant", {}, {"Out": "zero"}, shape=[1], dtype=3, value=0.0)
    file.main.op("greater_than", {"X": "k", "Y": "zero"}, {"Out": "up"})
    file.main.op("logical_not", {"X": "up"}, {"Out": "down"})
    for name, condition, bias in (("a", "up", 1.0), ("b", "down", -1.0)):
        file.main.var(name)
        body = Block(file, 0)
        body.op("scale", {"X": "x"}, {"Out": f"{name}_inner"}, scale=1.0, bias=bias)
        body.op("assign", {"X": f"{name}_inner"}, {"Out": name})
        file.main.op(
            "conditional_block", {"Cond": condition, "Input": ["x"]},
            {"Out": [name], "Scope": "scope"}, sub_block=body, is_scalar_condition=True,
        )  # fmt: skip
    file.main.op("cast", {"X": "up"}, {"Out": "mask"}, out_dtype=2, in_dtype=0)
    file.main.op("select_input", {"X": ["b", "a"], "Mask": "mask"}, {"Out": "y"})
    file.fetch("y")
    return file


def test_a_branch_is_taken_by_its_condition() -> None:
    layer = loaded(branching())
    x = np.float32([3, 4])
    for run in (layer, saved_again(layer)):
        for k in (1, -1):
            found = run(proa.to_tensor(x), proa.to_tensor(np.array([k]))).numpy()
            np.testing.assert_array_equal(found, x + k)


def test_a_shape_may_be_numbers_and_tensors() -> None:
    file = ProgramFile()
    file.feed("x", [-1, 4, 6])
    file.main.op("shape", {"Input": "x"}, {"Out": "sizes"})
    file.main.op(
        "slice", {"Input": "sizes"}, {"Out": "n"}, axes=[0], starts=[0], ends=[1],
        decrease_axis=[0],
    )  # fmt: skip
    file.main.op("fill_constant", {}, {"Out": "two"}, shape=[1], dtype=2, value=2.0)
    file.main.op("fill_constant", {}, {"Out": "rest"}, shape=[1], dtype=2, value=-1.0)
    file.main.op(
        "reshape2", {"X": "x", "ShapeTensor": ["n", "two", "rest"]},
        {"Out": "y", "XShape": "xshape"}, shape=[-1, 2, -1],
    )  # fmt: skip
    file.fetch("y")
    layer = loaded(file)
    for run in (layer, saved_again(layer)):
        for n in (1, 3):
            x = RNG.standard_normal((n, 4, 6)).astype(np.float32)
            found = run(proa.to_tensor(x)).numpy()
            np.testing.assert_array_equal(found, x.reshape(n, 2, -1))


def test_values_are_rounded_by_their_scale() -> None:
    file = ProgramFile()
    file.feed("x", [4])
    file.param("scale", np.float32([2.0]))
    file.param("point", np.float32([0.0]))
    given = {"Scale": "scale", "ZeroPoint": "point"}
    attrs: dict[str, Any] = {"quant_axis": -1, "bit_length": 8}
    file.main.op("quantize_linear", {"X": "x", **given}, {"Y": "q"}, **attrs)
    file.main.op("dequantize_linear", {"X": "q", **given}, {"Y": "y"}, **attrs)
    file.fetch("y")
    x = np.float32([0.3, -1.99, 5.0, -5.0])
    found = loaded(file)(proa.to_tensor(x)).numpy()
    expected = np.clip(np.rint(x * 127 / 2), -128, 127) * 2 / 127
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_unknown_operators_are_named_all_at_once() -> None:
    file = ProgramFile()
    file.feed("x", [2])
    file.main.op("sigmoidd", {"X": "x"}, {"Out": "a"})
    file.main.op("no_such_thing", {"X": "a"}, {"Out": "b"})
    file.main.op("not_needed", {"X": "a"}, {"Out": "c"})
    file.fetch("b")
    with pytest.raises(UnimplementedError) as error:
        loaded(file)
    text = str(error.value)
    assert "no_such_thing" in text and "sigmoidd (nearest: sigmoid" in text
    assert "not_needed" not in text


def test_a_slot_that_a_row_does_not_read_is_refused() -> None:
    file = linear(W, B)
    op = file.main.desc.ops[1]
    slot = op.inputs.add()
    slot.parameter = "Residual"
    slot.arguments.append("x")
    with pytest.raises(UnimplementedError, match="matmul_v2 with the input Residual"):
        loaded(file)


def test_a_parameter_outside_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    file = ProgramFile()
    file.feed("x", [4])
    file.param("../secret", B)
    file.main.op("elementwise_add", {"X": "x", "Y": "../secret"}, {"Out": "y"})
    file.fetch("y")
    (folder / "__model__").write_bytes(file.program())
    (tmp_path / "secret").write_bytes(file.parameters())
    with pytest.raises(InvalidArgumentError, match="outside the model's folder"):
        proa.jit.load(folder)
    with pytest.raises(InvalidArgumentError, match="file's name"):
        static.load_inference_model(folder, model_filename="../model/__model__")


def test_a_constant_must_fit_into_memory() -> None:
    file = ProgramFile()
    file.feed("x", [1])
    shape = [2**20, 2**20]
    file.main.op("fill_constant", {}, {"Out": "c"}, shape=shape, dtype=5, value=0.0)
    file.main.op("elementwise_add", {"X": "x", "Y": "c"}, {"Out": "y"})
    file.fetch("y")
    with pytest.raises(UnimplementedError, match="1099511627776 elements"):
        loaded(file)


def test_missing_files_are_named(tmp_path: Path) -> None:
    prefix = linear(W, B).save(tmp_path / "model")
    (tmp_path / "model.pdiparams").unlink()
    with pytest.raises(MissingFileError, match=r"linear_0\.b_0"):
        proa.jit.load(prefix)
    with pytest.raises(MissingFileError):
        paddle.load(tmp_path / "nothing")


@pytest.mark.parametrize("array", [W[:, :3], W.astype(np.float64)])
def test_parameters_must_be_what_the_program_says(array: Any) -> None:
    other = linear(W, B)
    other.arrays["linear_0.w_0"] = array
    with pytest.raises(InvalidArgumentError, match=r"linear_0\.w_0"):
        loaded(other)


def test_blocks_that_contain_themselves_are_refused() -> None:
    file = counting_loop()
    body = file.main.program.message.blocks[1]
    body.ops.append(file.main.desc.ops[-3])  # the loop inside its own body
    assert body.ops[-1].type == "while"
    with pytest.raises(InvalidArgumentError, match="name block 1"):
        loaded(file)


def test_without_protobuf_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from proa.interop.paddle import proto

    proto._pool.cache_clear()
    data = b"\x00"
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(UnavailableError, match=r"proa\[paddle\]"):
        paddle.load(None, None, data, b"")
    monkeypatch.undo()
    proto._pool.cache_clear()


def test_damaged_files_raise_errors_of_proa() -> None:
    rng = np.random.default_rng(3)
    for file in (linear(W, B), counting_loop(), branching()):
        parts = (file.program(), file.parameters())
        for _ in range(300):
            changed = [bytearray(part) for part in parts]
            for _ in range(int(rng.integers(1, 4))):
                part = changed[int(rng.random() < 0.3)] or changed[0]
                at = int(rng.integers(len(part)))
                kind = rng.integers(3)
                if kind == 0:
                    part[at] = int(rng.integers(256))
                elif kind == 1:
                    del part[at : at + int(rng.integers(1, 9))]
                else:
                    part[at:at] = rng.bytes(int(rng.integers(1, 5)))
            with contextlib.suppress(proa.errors.Error):
                paddle.load(None, None, bytes(changed[0]), bytes(changed[1]))


@pytest.mark.parametrize(
    ("depth", "times", "what"), [(30, 2, "name block 1"), (40, 1, "at most 32 graphs")]
)
def test_blocks_that_would_be_very_many_are_refused(
    depth: int, times: int, what: str
) -> None:
    """Each is named by one or two loops of the one around: 2 ** 29 in all."""
    file = ProgramFile()
    file.feed("x", [1])
    file.main.op("fill_constant", {}, {"Out": "go"}, shape=[1], dtype=0, value=1.0)
    blocks = [file.main, *(Block(file, k) for k in range(depth - 1))]
    for outer, inner in itertools.pairwise(blocks):
        for _ in range(times):
            outer.op(
                "while", {"X": "x", "Condition": "go"}, {"Out": "x"}, sub_block=inner
            )
    blocks[-1].op("logical_not", {"X": "go"}, {"Out": "go"})
    file.fetch("x")
    with pytest.raises(InvalidArgumentError, match=what):
        loaded(file)
