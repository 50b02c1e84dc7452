"""Config, predictor and handles against what NumPy computes."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest

import proa_lite
from proa_lite import (
    Config,
    InvalidArgumentError,
    LiteError,
    NotFoundError,
    VersionError,
    create_predictor,
)


def assert_same(got, expected, exact=False):
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    if exact or expected.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected)
    else:
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.feature("L622")
def test_a_model_computes_what_numpy_does(any_model):
    predictor = any_model.predictor()
    for _ in range(2):
        results = predictor.run(any_model.inputs)
        for got, expected in zip(results, any_model.outputs, strict=True):
            assert_same(got, expected, exact="int8" in any_model.name)


@pytest.mark.parametrize("isa", ["scalar", "avx2", "avx512", "neon"])
def test_every_instruction_set_computes_what_numpy_does(isa):
    """In another process, since the choice is made when a model is opened."""
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from conftest import NAMES, recorded
from test_predictor import assert_same
for name in NAMES:
    model = recorded(name)
    for got, expected in zip(model.predictor().run(model.inputs), model.outputs):
        assert_same(got, expected, exact="int8" in name)
"""
    run = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)],
        env={**os.environ, "PROA_ISA": isa},
        capture_output=True,
        text=True,
    )
    if "PROA_ISA must name an ISA of this CPU" in run.stderr:
        pytest.skip(f"this CPU has no {isa}")
    assert run.returncode == 0, run.stderr


@pytest.mark.feature("L653")
def test_exp_and_tanh_are_found_by_name(recorded):
    model = recorded("mixed")
    assert b"exp\0" in model.path.read_bytes()
    assert b"tanh\0" in model.path.read_bytes()
    results = model.predictor().run(model.inputs)
    assert_same(results[0], model.outputs[0])


def test_every_predictor_computes_the_same_bits(any_model):
    first = any_model.predictor().run(any_model.inputs)
    for _ in range(5):
        again = any_model.predictor().run(any_model.inputs)
        for a, b in zip(first, again, strict=True):
            assert a.tobytes() == b.tobytes()


def test_a_batch_may_have_any_size(mlp):
    predictor = mlp.predictor()
    (x,), (y,) = mlp.inputs, mlp.outputs
    for rows in ([0], [2, 1], [0, 1, 2, 0, 1, 2, 1], [], [1]):
        (got,) = predictor.run([x[rows]])
        assert_same(got, y[rows])


def test_strided_input_is_read_as_its_elements(mlp):
    (x,), (y,) = mlp.inputs, mlp.outputs
    wide = np.zeros((6, 16), np.float32)
    wide[::2, ::2] = x
    (got,) = mlp.predictor().run([wide[::2, ::2]])
    assert_same(got, y)


def test_handles_expose_inputs_and_outputs(mlp):
    predictor = mlp.predictor()
    handle, out = predictor.get_input(0), predictor.get_output(0)
    assert predictor.get_input_names() == [handle.name()] == ["x"]
    assert handle.shape() == [-1, 8]
    with pytest.raises(InvalidArgumentError, match="must hold an array"):
        out.numpy()
    with pytest.raises(InvalidArgumentError, match="got none for x"):
        predictor.run()
    handle.from_numpy(mlp.inputs[0])
    predictor.run()
    assert out.shape() == [3, 5]
    assert_same(out.numpy(), mlp.outputs[0])


def test_results_outlive_the_next_run_and_the_predictor(mlp):
    predictor = mlp.predictor()
    (first,) = predictor.run(mlp.inputs)
    predictor.run([np.zeros((3, 8), np.float32)])
    del predictor
    assert_same(first, mlp.outputs[0])


def test_a_model_may_be_read_from_memory(mlp):
    config = Config()
    config.set_model_from_buffer(mlp.path.read_bytes())
    (got,) = create_predictor(config).run(mlp.inputs)
    assert_same(got, mlp.outputs[0])


def deflated(raw):
    """A compressed model file, by zlib."""
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = b"PROADEFL" + struct.pack("<Q", len(raw))
    return head + stream.compress(raw) + stream.flush()


def test_a_compressed_file_is_the_model_in_it(any_model, tmp_path):
    raw = deflated(any_model.path.read_bytes())
    path = tmp_path / "compressed.proa"
    path.write_bytes(raw)
    for source in (path, raw):
        got = create_predictor(Config(source)).run(any_model.inputs)
        want = any_model.predictor().run(any_model.inputs)
        assert [g.tobytes() for g in got] == [w.tobytes() for w in want]


def test_a_damaged_compressed_file_is_refused(mlp):
    raw = deflated(mlp.path.read_bytes())
    stated = [struct.pack("<Q", n) for n in (0, 1, 2**40, 2**64 - 1)]
    sizes = [raw[:8] + size + raw[16:] for size in stated]
    middle = bytearray(raw)
    middle[len(raw) // 2] ^= 4
    for content in (*sizes, raw[:-1], raw[:16], raw + b"x", bytes(middle)):
        with pytest.raises(LiteError, match=r"^\[proa_lite_open"):
            create_predictor(Config(content))


def test_threads_with_predictors_of_their_own_agree(mlp):
    failures = []

    def work():
        predictor = mlp.predictor()
        for _ in range(50):
            (got,) = predictor.run(mlp.inputs)
            if not np.allclose(got, mlp.outputs[0], atol=1e-5):
                failures.append(got)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_memory_does_not_grow_with_runs(mlp):
    predictor = mlp.predictor()
    predictor.run(mlp.inputs)
    held = predictor.memory()
    for _ in range(20):
        predictor.run(mlp.inputs)
    assert predictor.memory() == held > 0


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 7), np.float32), r"shape \(\?, 8\), got \(2, 7\)"),
        (np.zeros(8, np.float32), r"got \(8,\)"),
        (np.zeros((2, 8)), "must be float32, got float64"),
        (np.zeros((1,) * 9, np.float32), "of rank 9"),
    ],
)
def test_a_wrong_input_is_named(mlp, array, message):
    with pytest.raises(InvalidArgumentError, match=message):
        mlp.predictor().run([array])


def test_a_wrong_number_of_inputs_is_named(mlp):
    with pytest.raises(InvalidArgumentError, match="expected 1 inputs, got 2"):
        mlp.predictor().run(mlp.inputs * 2)


def test_a_missing_file_is_named():
    with pytest.raises(FileNotFoundError, match=r"no/such\.proa"):
        create_predictor(Config("no/such.proa"))
    with pytest.raises(InvalidArgumentError, match="expected a model"):
        create_predictor(Config())


def test_damaged_models_are_refused(mlp, tmp_path):
    raw = mlp.path.read_bytes()
    flipped = bytearray(raw)
    flipped[len(raw) // 2] ^= 1
    foreign = b"PK\3\4" + bytes(1000)
    for content in (raw[:-1], raw[:100], bytes(flipped), foreign, b"x", b""):
        with pytest.raises(LiteError, match=r"^\[proa_lite_open"):
            create_predictor(Config(content))
        path = tmp_path / "bad.proa"
        path.write_bytes(content)
        with pytest.raises(LiteError, match=r"^\[proa_lite_open"):
            create_predictor(Config(path))


def test_a_file_of_another_format_is_a_version_error(mlp):
    raw = bytearray(mlp.path.read_bytes())
    raw[8 + int.from_bytes(raw[:8], "little") + 8] = 99
    with pytest.raises(VersionError, match="format"):
        create_predictor(Config(bytes(raw)))


def test_a_library_that_is_none_is_refused(mlp, tmp_path):
    with pytest.raises(NotFoundError, match="must be a file"):
        create_predictor(Config(mlp.path, library_path=tmp_path / "none.so"))
    text = tmp_path / "text.so"
    text.write_text("not a library")
    with pytest.raises(LiteError, match="must be a library of proa_lite"):
        create_predictor(Config(mlp.path, library_path=text))


def test_a_library_may_be_chosen(mlp, tmp_path):
    wheel = Path(proa_lite.__file__).with_name("libproa_lite.so")
    copy = shutil.copy(wheel, tmp_path / "libmine.so")
    (got,) = create_predictor(Config(mlp.path, library_path=copy)).run(mlp.inputs)
    assert_same(got, mlp.outputs[0])


def test_the_package_needs_numpy_alone():
    code = (
        "import sys, proa_lite, proa_lite.cli;"
        "print([m for m in sys.modules if m.split('.')[0] in "
        "('proa', 'proa_slim', 'proa_inference', 'proa_serving')])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
    assert proa_lite.isa() in ("scalar", "avx2", "avx512", "neon", "neondot")


@pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf is not here")
def test_the_library_needs_the_c_library_alone():
    wheel = Path(proa_lite.__file__).with_name("libproa_lite.so")
    run = subprocess.run(
        ["readelf", "-W", "-d", "--dyn-syms", str(wheel)],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = run.stdout.splitlines()
    needed = [line.split("[")[1].split(".")[0] for line in lines if "NEEDED" in line]
    assert set(needed) <= {"libc", "libm"}
    assert "GLIBCXX" not in run.stdout
    assert "CXXABI" not in run.stdout
    exported = [
        line.split()[7].split("@")[0]
        for line in lines
        if " GLOBAL " in line and " UND " not in line
    ]
    assert exported
    assert all(name.startswith("proa_lite_") for name in exported)
