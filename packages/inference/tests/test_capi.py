"""C programs built against the installed headers and library."""

import ctypes
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from cpp_programs import built, needs_cpp, run
from inference_models import loop, mlp, write_loop, write_mlp

from proa_inference.cli import main

LIBRARY = "libproa_inference.so"
SOURCE = Path(__file__).parent.parent / "csrc" / "tests" / "capi_test.c"


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.feature("L519")
def test_a_c_program_runs_a_model(tmp_path):
    package = Path(str(files("proa_inference")))
    library = package / "lib"
    program = tmp_path / "capi_test"
    options = [f"-I{package / 'include'}", f"-L{library}", f"-Wl,-rpath,{library}"]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-D_POSIX_C_SOURCE=200809L"]
    subprocess.run(
        ["cc", *flags, str(SOURCE), *options, "-lproa_inference", "-lm", "-o", program],
        check=True,
    )
    x = np.random.default_rng(1).standard_normal((9, 6)).astype(np.float32)
    x.tofile(tmp_path / "input.f32")
    mlp(x)[0].astype(np.float32).tofile(tmp_path / "output.f32")
    model = write_mlp(tmp_path / "mlp.proa")
    loop(np.ones((1, 8), np.float32), 5).tofile(tmp_path / "rows.f32")
    rounds = write_loop(tmp_path / "loop.proa")
    plain = [model, tmp_path / "input.f32", tmp_path / "output.f32"]
    done = subprocess.run(
        [program, *plain, rounds, tmp_path / "rows.f32"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@needs_cpp
@pytest.mark.feature("L519")
def test_a_c_program_runs_models_by_the_names_of_paddle_inference(tmp_path):
    program = built("pd_api_test.c", tmp_path)
    (tmp_path / "folder").mkdir()
    model = write_mlp(tmp_path / "folder" / "mlp.proa")
    assert main(["optimize", str(model), str(tmp_path / "passes.proa")]) == 0
    printed = run(program, model, tmp_path / "folder", tmp_path / "passes.proa")
    want = mlp(np.ones((1, 6), np.float32))[0][0]
    np.testing.assert_allclose(np.array(printed.split(), float), want, rtol=1e-4)


#: The functions of Paddle Inference's C interface, by its reference of 2.x.
PADDLE = (Path(__file__).parent / "paddle_c_names.txt").read_text().split()


def test_every_function_of_paddle_inference_is_exported():
    library = ctypes.CDLL(str(Path(str(files("proa_inference"))) / "lib" / LIBRARY))
    assert len(PADDLE) == 88
    for name in PADDLE:
        assert getattr(library, name)
