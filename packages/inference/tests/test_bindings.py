"""Programs in Go, Java and R over the C library, where these are installed."""

import os
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from inference_models import mlp, write_mlp

from proa_inference import encrypt_file

HOME = Path(str(files("proa_inference")))
BINDINGS = Path(__file__).parent.parent / "bindings"


def needs(*programs):
    lacking = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(lacking), reason=f"needs {', '.join(lacking)}")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    pytest.importorskip("cryptography")
    folder = tmp_path_factory.mktemp("models")
    model, secret = write_mlp(folder / "mlp.proa"), folder / "mlp.secret"
    encrypt_file(model, secret, bytes([7] * 32))
    return model, secret


def run(*command, **options):
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_example(printed):
    """The example prints the outputs for a row of ones."""
    lines = dict(line.split(":") for line in printed.strip().splitlines())
    for name, want in zip(("y", "hidden"), mlp(np.ones((1, 6), "f4")), strict=True):
        np.testing.assert_allclose(np.array(lines[name].split(), float), want[0], 1e-4)


def run_go(models, tmp_path):
    environment = {
        **os.environ,
        "CGO_ENABLED": "1",
        "CGO_CFLAGS": f"-I{HOME / 'include'}",
        "CGO_LDFLAGS": f"-L{HOME / 'lib'} -Wl,-rpath,{HOME / 'lib'}",
        "GOCACHE": str(tmp_path / "cache"),
        "GOFLAGS": "-mod=mod",
        "GOPROXY": "off",
        "GOTOOLCHAIN": "local",
        "PROA_TEST_MODEL": str(models[0]),
        "PROA_TEST_SECRET": str(models[1]),
    }
    folder = shutil.copytree(BINDINGS / "go", tmp_path / "go")
    run("go", "vet", "./...", cwd=folder, env=environment)
    run("go", "test", "-count=1", ".", cwd=folder, env=environment)
    check_example(run("go", "run", "./example", models[0], cwd=folder, env=environment))


@needs("java", "javac", "cc")
def test_java_runs_models(models, tmp_path):
    java = Path(os.path.realpath(shutil.which("javac"))).parent.parent
    sources = [*(BINDINGS / "java").rglob("*.java")]
    run("javac", "-Xlint:all", "-Werror", "-d", tmp_path, *sources)
    library = tmp_path / "libproa_inference_jni.so"
    headers = [f"-I{java / 'include'}", f"-I{java / 'include' / 'linux'}"]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]
    link = [f"-L{HOME / 'lib'}", f"-Wl,-rpath,{HOME / 'lib'}", "-lproa_inference"]
    source = BINDINGS / "java" / "proa_inference_jni.c"
    run("cc", *flags, *headers, f"-I{HOME / 'include'}", source, *link, "-o", library)
    start = [
        java / "bin" / "java",
        "-Xcheck:jni",
        f"-Djava.library.path={tmp_path}",
        "-cp",
        tmp_path,
    ]
    assert "all checks passed" in run(*start, "Checks", *models)
    check_example(run(*start[:1], *start[2:], "Example", models[0]))


def run_r(models, tmp_path):
    environment = {
        **os.environ,
        "PROA_INFERENCE": str(HOME),
        "R_LIBS": str(tmp_path),
    }
    package = shutil.copytree(BINDINGS / "r" / "proainference", tmp_path / "source")
    install = ["R", "CMD", "INSTALL", "--no-docs", "--no-test-load"]
    run(*install, f"--library={tmp_path}", package, env=environment)
    checks = run("Rscript", BINDINGS / "r" / "checks.R", *models, env=environment)
    assert "all checks passed" in checks
    check_example(
        run("Rscript", BINDINGS / "r" / "example.R", models[0], env=environment)
    )


@pytest.mark.feature("L520")
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(run_go, marks=needs("go", "cc"), id="go"),
        pytest.param(run_r, marks=needs("R", "Rscript", "cc"), id="r"),
    ],
)
def test_go_and_r_run_models_and_their_examples(program, models, tmp_path):
    program(models, tmp_path)
