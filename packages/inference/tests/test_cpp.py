"""C++ and C programs built against the CMake package of the installed library."""

from pathlib import Path

import numpy as np
import pytest
from cpp_programs import ROOT, built, built_project, needs_cpp, run
from inference_models import mlp, write_gate, write_loop, write_mlp

from proa.ir import file
from proa.schema.dtypes import CODES
from proa_inference import encrypt_file
from proa_inference.cli import main

pytestmark = needs_cpp


@pytest.mark.feature("L509")
@pytest.mark.feature("L510")
@pytest.mark.feature("L529")
@pytest.mark.feature("L609")
def test_a_cpp_program_runs_models_by_the_names_of_paddle_inference(tmp_path):
    pytest.importorskip("cryptography")
    program = built("cpp_api_test.cc", tmp_path)
    model = write_mlp(tmp_path / "mlp.proa")
    encrypt_file(model, tmp_path / "mlp.secret", bytes([7] * 32))
    printed = run(program, model, tmp_path / "mlp.secret")
    want = mlp(np.ones((1, 6), np.float32))[0][0]
    np.testing.assert_allclose(np.array(printed.split(), float), want, rtol=1e-4)


def test_the_examples_of_c_and_cpp_print_the_outputs(tmp_path, capsys):
    folder = built_project(ROOT / "examples" / "cpp", tmp_path / "build")
    model = write_mlp(tmp_path / "mlp.proa")
    want = mlp(np.ones((1, 6), np.float32))
    for name in ("run_c", "run_cpp"):
        first, *_ = run(folder / name, model).splitlines()
        label, *values = first.split()
        assert label == "y:"
        np.testing.assert_allclose(np.array(values, float), want[0][0], rtol=1e-4)
    assert main(["where", "cmake"]) == 0
    assert (
        Path(capsys.readouterr().out.strip()) / "proa_inferenceConfig.cmake"
    ).exists()


def test_a_cpp_program_chooses_passes(tmp_path):
    gate = str(write_gate(tmp_path / "gate.proa"))
    assert main(["optimize", gate, str(tmp_path / "chained.proa")]) == 0
    program = built("passes_test.cc", tmp_path)
    run(program, tmp_path / "chained.proa")


@pytest.mark.feature("L528")
@pytest.mark.parametrize("write", [write_mlp, write_gate, write_loop])
def test_a_program_parses_models_by_the_header_that_is_shipped(write, tmp_path):
    """Operators, arrays, shapes and bodies of loops, without our library's help."""
    folder = built_project(ROOT / "examples" / "cpp", tmp_path / "build")
    model = write(tmp_path / "model.proa")
    program = file.read(model)
    printed = iter(run(folder / "inspect_c", model).splitlines())
    codes = list(CODES)

    def text(value):
        if value is None:
            return " -"
        sizes = ",".join(map(str, value.shape))
        return f" {value.name}:{codes.index(value.dtype)}({sizes})"

    for block in program.blocks:
        for node in block.nodes:
            inputs, outputs = (
                "".join(map(text, v)) for v in (node.inputs, node.outputs)
            )
            name, _, arrays = next(printed).partition(" ")
            assert name.split(".")[0] == node.op
            assert " " + arrays == f"{inputs} ->{outputs}"
    assert next(printed, None) is None
    damaged = tmp_path / "damaged.proa"
    damaged.write_bytes(model.read_bytes()[:-1])
    with pytest.raises(AssertionError, match="expected a model file"):
        run(folder / "inspect_c", damaged)
