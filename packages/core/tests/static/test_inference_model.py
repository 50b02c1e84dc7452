"""Model files and the Executor of PaddlePaddle's static mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn, static
from proa.errors import InvalidArgumentError, InvalidTypeError, NotFoundError
from proa.jit import InputSpec, TracedLayer

RNG = np.random.default_rng(5)
A = RNG.normal(size=(4, 3)).astype("float32")
B = RNG.normal(size=(4, 2)).astype("float32")


class Two(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: proa.Tensor, y: proa.Tensor) -> tuple[proa.Tensor, ...]:
        hidden = proa.tanh(self.fc(x))
        return hidden, hidden * y


def _want(layer: Two) -> tuple[Any, Any]:
    hidden = np.tanh(A @ layer.fc.weight.numpy() + layer.fc.bias.numpy())
    return hidden, hidden * B


def _traced() -> tuple[Two, TracedLayer]:
    layer, inputs = Two(), [proa.to_tensor(A), proa.to_tensor(B)]
    inputs[0].name, inputs[1].name = "x", "y"
    return layer, TracedLayer.trace(layer, inputs)[1]


@pytest.mark.feature("L208")
@pytest.mark.parametrize("suffix", ["", ".proa"])
def test_what_a_traced_layer_saves_is_loaded_with_its_parameters(
    tmp_path: Path, suffix: str
) -> None:
    layer, traced = _traced()
    traced.save_inference_model(tmp_path / "model")
    assert [p.name for p in tmp_path.iterdir()] == ["model.proa"]
    want = _want(layer)
    layer.fc.weight.set_value(proa.zeros([3, 2]))  # the file has its own
    exe = static.Executor(proa.CPUPlace())
    program, feeds, fetches = static.load_inference_model(
        str(tmp_path / f"model{suffix}"), exe
    )
    assert feeds == traced.feed_names == ["x", "y"]
    got = exe.run(program, feed={"x": A, "y": B}, fetch_list=fetches)
    for array, wanted in zip(got, want, strict=True):
        assert isinstance(array, np.ndarray)
        np.testing.assert_allclose(array, wanted, rtol=1e-6, atol=1e-6)
    (one,) = exe.run(program, {"x": A}, [fetches[0].name], return_numpy=False)
    np.testing.assert_allclose(one.numpy(), want[0], rtol=1e-6, atol=1e-6)


@pytest.mark.feature("L208")
def test_feed_and_fetch_of_a_traced_layer_apply_to_the_loaded_program(
    tmp_path: Path,
) -> None:
    layer, traced = _traced()
    traced.save_inference_model(str(tmp_path / "model"), feed=[0, 1], fetch=[1])
    exe = static.Executor()
    program, feeds, fetches = static.load_inference_model(tmp_path / "model", exe)
    assert (feeds, len(fetches)) == (["x", "y"], 1)
    (got,) = exe.run(program, feed={"x": A, "y": proa.to_tensor(B)})
    np.testing.assert_allclose(got, _want(layer)[1], rtol=1e-6, atol=1e-6)


def test_a_part_of_a_program_is_saved(tmp_path: Path) -> None:
    layer, traced = _traced()
    exe = static.Executor()
    first = traced.program.main.outputs[0]
    static.save_inference_model(
        tmp_path / "part", ["x"], [first], exe, program=traced.program
    )
    program, feeds, fetches = static.load_inference_model(tmp_path / "part", exe)
    assert feeds == ["x"] and len(program.main.inputs) == 1
    (got,) = exe.run(program, feed={"x": A}, fetch_list=fetches)
    np.testing.assert_allclose(got, _want(layer)[0], rtol=1e-6, atol=1e-6)
    again = [v.name for v in traced.program.main.inputs]
    assert again == ["x", "y"]  # the program itself stays
    inputs = traced.program.main.inputs[::-1]
    static.save_inference_model(
        tmp_path / "reversed", inputs, traced.fetch_names[1], exe, program=traced
    )
    assert static.load_inference_model(tmp_path / "reversed", exe)[1] == ["y", "x"]


def test_symbolic_dims_and_models_of_jit_save_run(tmp_path: Path) -> None:
    layer = nn.Linear(3, 2)
    proa.jit.save(layer, tmp_path / "open", [InputSpec([None, 3], name="rows")])
    exe = static.Executor()
    program, feeds, _ = static.load_inference_model(tmp_path / "open", exe)
    assert feeds == ["rows"]
    for rows in (1, 4):
        (got,) = exe.run(program, {"rows": A[:rows]})
        want = A[:rows] @ layer.weight.numpy() + layer.bias.numpy()
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_program_that_is_rewritten_runs_as_it_is_then() -> None:
    layer, traced = _traced()
    exe, feed = static.Executor(), {"x": A, "y": B}
    before = exe.run(traced.program, feed)[0]
    static.amp.cast_model_to_fp16(traced.program, use_fp16_guard=False)
    after = exe.run(traced.program, feed)[0]
    assert (before != after).any()
    np.testing.assert_allclose(after, _want(layer)[0], atol=5e-3)
    exe.close()
    np.testing.assert_array_equal(exe.run(traced.program, feed)[0], after)


def test_invalid_calls_are_rejected(tmp_path: Path) -> None:
    _, traced = _traced()
    exe, program = static.Executor(), traced.program
    with pytest.raises(InvalidTypeError, match=r"Executor.run\] program must be .*int"):
        exe.run(3, feed={"x": A})
    with pytest.raises(InvalidArgumentError, match=r"in feed, got no \['y'\]"):
        exe.run(program, {"x": A})
    with pytest.raises(InvalidArgumentError, match="x must be float32, got float64"):
        exe.run(program, {"x": A.astype("float64"), "y": B})
    with pytest.raises(InvalidArgumentError):
        exe.run(program, {"x": A[:, :2], "y": B})
    with pytest.raises(NotFoundError, match=r"in the program, got \['nowhere'\]"):
        exe.run(program, {"x": A, "y": B}, ["nowhere"])
    with pytest.raises(InvalidTypeError, match=r"fetch_list must be values .*got int"):
        exe.run(program, {"x": A, "y": B}, [3])
    save = static.save_inference_model
    with pytest.raises(InvalidTypeError, match=r"save_inference_model\] program must"):
        save(tmp_path / "a", ["x"], ["tanh_0"], exe)
    with pytest.raises(InvalidArgumentError, match=r"\['x', 'y'\], got \['x'\]"):
        save(tmp_path / "a", ["x"], traced.fetch_names[1], exe, program=program)
    with pytest.raises(NotFoundError):
        static.load_inference_model(tmp_path / "a", exe)
    with pytest.raises(NotFoundError, match="__model__"):
        static.load_inference_model(tmp_path, exe, model_filename="__model__")
