"""C++ and C programs built against the CMake package of the installed library."""

from pathlib import Path

import numpy as np
import pytest
from cpp_programs import ROOT, built, built_project, needs_cpp, run
from inference_models import mlp, write_mlp

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
