"""convert and select, which need the package proa (proa-lite[tools])."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from proa_lite import Config, InvalidArgumentError, UnimplementedError, create_predictor
from proa_lite.cli import main

pytest.importorskip("proa._core", reason="the tools are not installed")

from proa_lite.convert import convert
from proa_lite.select import Selection, build, selection_of

SOURCE = Path(__file__).resolve().parents[1]
LENETS = ("lenet", "lenet.int8")
LENET_BUDGET = 120_000
EMULATORS = {
    "aarch64": ("aarch64-linux-gnu", ["qemu-aarch64", "-cpu", "cortex-a53"]),
    "armv7": ("arm-linux-gnueabihf", ["qemu-arm"]),
}


def lenets(models):
    return [models / f"{name}.proa" for name in LENETS]


@pytest.mark.feature("L623")
@pytest.mark.feature("L624")
@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_converted_model_computes_the_same(any_model, level, tmp_path):
    model, path = any_model, tmp_path / "converted.proa"
    done = convert(model.path, path, level=level)
    assert done.after <= done.before
    predictor = create_predictor(Config(path))
    for got, expected in zip(predictor.run(model.inputs), model.outputs, strict=True):
        if expected.dtype.kind == "f" and "int8" not in model.name:
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(got, expected)


def test_conversion_fuses_activations(models, tmp_path, capsys):
    output = tmp_path / "fused.proa"
    assert main(["convert", str(models / "lenet.proa"), str(output)]) == 0
    assert "8 -> 6 nodes" in capsys.readouterr().out
    assert "conv2d_act" in selection_of([output]).ops


@pytest.mark.feature("L652")
def test_a_model_with_reshape_can_be_converted(models, tmp_path):
    output = tmp_path / "mixed.proa"
    convert(models / "mixed.proa", output)
    assert "reshape" in selection_of([output]).ops


def test_a_selection_has_the_ops_and_dtypes_of_the_models(models):
    chosen = selection_of([models / "lenet.proa"])
    assert chosen.ops == ["conv2d", "flatten", "linear", "max_pool2d", "relu"]
    assert chosen.dtypes == ["float32"]
    both = selection_of(lenets(models))
    assert set(chosen.ops) < set(both.ops)
    assert both.dtypes == ["float32", "int8"]
    assert not both.winograd  # no convolution of theirs is wide enough
    assert not both.depthwise


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((32, 32, 3), True), ((32, 32, 1), False), ((32, 32, 3, 2), False)],
)
def test_a_selection_has_winograd_where_the_kernels_use_it(
    arguments, expected, tmp_path
):
    import proa
    from proa.static import InputSpec

    path = tmp_path / "conv.proa"
    spec = InputSpec([None, arguments[0], 8, 8], "float32", "x")
    proa.jit.save(proa.nn.Conv2D(*arguments), str(path), [spec])
    assert selection_of([path]).winograd == expected


def test_models_with_control_flow_are_refused(tmp_path):
    import proa
    from proa.static import InputSpec
    from proa.static import nn as snn

    def choose(x):
        return snn.cond(x.sum() > 0, lambda: x * 2, lambda: -x)

    path = tmp_path / "flow.proa"
    proa.jit.save(choose, path, input_spec=[InputSpec([3], "float32", "x")])
    for tool in (
        lambda: convert(path, tmp_path / "b.proa"),
        lambda: selection_of([path]),
    ):
        with pytest.raises(UnimplementedError, match=r"without control flow.*branch"):
            tool()
    with pytest.raises(
        UnimplementedError, match=r"(call|branch): expected that this build has the op"
    ):
        create_predictor(Config(path))


def test_select_names_what_is_wrong(tmp_path):
    with pytest.raises(InvalidArgumentError, match="one of native, aarch64, armv7"):
        build(Selection(), tmp_path, SOURCE, "toaster")
    with pytest.raises(InvalidArgumentError, match="folder packages/lite"):
        build(Selection(), tmp_path, tmp_path)


@pytest.mark.full
@pytest.mark.feature("L629", how="figure")
def test_a_selected_library_is_small_and_runs_its_models(models, recorded, tmp_path):
    library = build(selection_of(lenets(models)), tmp_path, SOURCE)
    assert library.stat().st_size <= LENET_BUDGET
    for name in LENETS:
        model = recorded(name)
        predictor = create_predictor(Config(model.path, library_path=library))
        (got,) = predictor.run(model.inputs)
        np.testing.assert_allclose(got, model.outputs[0], rtol=1e-5, atol=1e-5)
    with pytest.raises(UnimplementedError):
        create_predictor(Config(models / "mixed.proa", library_path=library))


@pytest.mark.full
@pytest.mark.parametrize("target", EMULATORS)
def test_a_cross_built_library_runs_under_emulation(target, models, tmp_path):
    prefix, emulator = EMULATORS[target]
    for tool in (f"{prefix}-g++", emulator[0]):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    library = build(selection_of(lenets(models)), tmp_path, SOURCE, target)
    program = tmp_path / "models_test"
    source = SOURCE / "csrc" / "tests" / "models_test.c"
    compiler = [f"{prefix}-gcc", "-std=c99", f"-I{tmp_path}", str(source)]
    subprocess.run(
        [*compiler, str(library), "-lm", f"-Wl,-rpath,{tmp_path}", "-o", str(program)],
        check=True,
    )
    run = subprocess.run(
        [*emulator, "-L", f"/usr/{prefix}", str(program), str(models), *LENETS],
        env={**os.environ, "LD_LIBRARY_PATH": ""},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
