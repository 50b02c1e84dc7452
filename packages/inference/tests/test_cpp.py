"""C++ and C programs built against the CMake package of the installed library."""

import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from inference_models import mlp, write_mlp

from proa_inference import encrypt_file
from proa_inference.cli import main

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.skipif(
    shutil.which("cmake") is None or shutil.which("c++") is None,
    reason="needs CMake and a C++ compiler",
)
CHECKS = """
cmake_minimum_required(VERSION 3.16)
project(checks LANGUAGES CXX)
find_package(proa_inference 0.1 REQUIRED)
find_package(Threads REQUIRED)
add_executable(cpp_api_test {source})
target_compile_options(cpp_api_test PRIVATE -Wall -Wextra -Werror)
target_link_libraries(cpp_api_test PRIVATE proa::inference Threads::Threads)
set_target_properties(cpp_api_test PROPERTIES CXX_STANDARD 14 CXX_STANDARD_REQUIRED ON)
"""


def built(source: Path, folder: Path) -> Path:
    package = Path(str(files("proa_inference"))) / "cmake"
    made = subprocess.run(
        ["cmake", "-S", source, "-B", folder, f"-Dproa_inference_DIR={package}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    done = subprocess.run(
        ["cmake", "--build", folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def run(*command: object) -> str:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.feature("L509")
@pytest.mark.feature("L510")
@pytest.mark.feature("L529")
@pytest.mark.feature("L609")
def test_a_cpp_program_runs_models_by_the_names_of_paddle_inference(tmp_path):
    pytest.importorskip("cryptography")
    (tmp_path / "CMakeLists.txt").write_text(
        CHECKS.format(source=ROOT / "csrc" / "tests" / "cpp_api_test.cc")
    )
    program = built(tmp_path, tmp_path / "build") / "cpp_api_test"
    model = write_mlp(tmp_path / "mlp.proa")
    encrypt_file(model, tmp_path / "mlp.secret", bytes([7] * 32))
    printed = run(program, model, tmp_path / "mlp.secret")
    want = mlp(np.ones((1, 6), np.float32))[0][0]
    np.testing.assert_allclose(np.array(printed.split(), float), want, rtol=1e-4)


def test_the_examples_of_c_and_cpp_print_the_outputs(tmp_path, capsys):
    folder = built(ROOT / "examples" / "cpp", tmp_path / "build")
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
