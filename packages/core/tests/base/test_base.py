"""dtypes, the random stream, threads, build information."""

from __future__ import annotations

import itertools
import os
import platform
import shutil
import subprocess
import sys

import numpy as np
import pytest

import proa
from proa import _core
from proa.base.dtype import DTYPES, as_dtype
from proa.base.random import next_key
from proa.errors import InvalidArgumentError


def test_dtypes_equal_their_names_and_numpy_types():
    for name, dtype in DTYPES.items():
        assert dtype == name and as_dtype(name) is dtype
        assert repr(dtype) == f"proa.{name}" and dtype == f"paddle.{name}"
        assert str(dtype) == f"{dtype}" == f"paddle.{name}"
        if name != "bfloat16":
            assert dtype == np.dtype(name) and as_dtype(np.dtype(name)) is dtype
    assert proa.float32 != "float64" and as_dtype(np.int8) is proa.int8
    assert len({proa.float32, proa.float64, DTYPES["float32"]}) == 2
    with pytest.raises(InvalidArgumentError, match="got 'float31'"):
        as_dtype("float31")


def test_the_default_dtype_is_that_of_python_floats():
    x = _core.from_numpy(np.array([1]), True)
    proa.set_default_dtype("float64")
    try:
        assert (x + 0.5).dtype == "float64" and as_dtype(float) == "float64"
    finally:
        proa.set_default_dtype("float32")
    assert (x + 0.5).dtype == "float32" and proa.get_default_dtype() == "float32"


def test_a_seed_repeats_its_stream_and_keys_do_not_overlap():
    proa.seed(7)
    first = [next_key(10) for _ in range(3)]
    proa.seed(7)
    assert [next_key(10) for _ in range(3)] == first
    assert all(b[1] - a[1] >= 3 for a, b in itertools.pairwise(first))
    state = proa.get_rng_state()
    key = next_key(4)
    proa.set_rng_state(state)
    assert next_key(4) == key


def test_results_do_not_depend_on_the_number_of_threads():
    a = np.random.default_rng(0).normal(size=(300, 300)).astype("float32")
    x = _core.from_numpy(a, True)
    before = proa.get_num_threads()
    results = []
    try:
        for count in (1, 2, 4):
            proa.set_num_threads(count)
            assert proa.get_num_threads() == count
            results.append(_core.ops.sum(x @ x, axis=[], keepdim=False).item())
    finally:
        proa.set_num_threads(before)
    assert len(set(results)) == 1
    with pytest.raises(InvalidArgumentError, match="at least 1"):
        proa.set_num_threads(0)


@pytest.mark.parametrize(
    ("variable", "value", "choices"),
    [
        ("PROA_ISA", "sse9", "one of scalar"),
        ("PROA_CACHES", "huge", "one of small, large"),
    ],
)
def test_an_unknown_instruction_set_or_cache_profile_is_refused(
    variable, value, choices
):
    done = subprocess.run(
        [sys.executable, "-c", "import proa"],
        env={**os.environ, variable: value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert f"[{variable}] expected {choices}" in done.stderr


IMPORT = """
import sys
try:
    import proa
except ImportError as error:
    sys.exit(f"{type(error).__module__}.{type(error).__name__}: {error}")
"""


@pytest.mark.feature("L341", how="mechanism")
def test_kernels_of_another_cpu_are_refused_at_import():
    other = "avx2" if platform.machine() == "aarch64" else "neon"
    done = subprocess.run(
        [sys.executable, "-c", IMPORT],
        env={**os.environ, "PROA_ISA": other},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "proa.errors.UnsupportedCpuError: [PROA_ISA]" in done.stderr
    assert f"got {other} on a CPU whose best is " in done.stderr


@pytest.mark.skipif(not shutil.which("qemu-x86_64"), reason="needs an emulator")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86's instruction sets")
def test_a_cpu_without_avx2_runs_scalar_kernels_or_is_refused():
    """A CPU of 2008, with what NumPy needs and no AVX."""
    command = ["qemu-x86_64", "-cpu", "Nehalem", sys.executable, "-c"]
    code = IMPORT + "print(proa.version.show(), float(proa.ones([9]).sum()))"
    env = {k: v for k, v in os.environ.items() if k != "PROA_ISA"}
    # NumPy's OpenBLAS takes an emulated CPU on some hosts for one with AVX.
    env["OPENBLAS_CORETYPE"] = "Nehalem"
    options = {"env": env, "capture_output": True, "text": True, "check": False}
    done = subprocess.run([*command, code], **options)
    if "scalar" in _core.build_info()["built_isas"]:
        assert "isa: scalar" in done.stdout
        assert done.stdout.split()[-1] == "9.0"
    else:
        assert "UnsupportedCpuError: [proa] expected a CPU with one of" in done.stderr
        assert "got one whose best is scalar" in done.stderr


def test_a_forked_child_computes():
    x = _core.from_numpy(np.ones((200, 200), "float32"), True)
    assert float((x @ x)[0, 0]) == 200.0
    child = os.fork()
    if child == 0:
        os._exit(0 if float((x @ x)[0, 0]) == 200.0 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_flags_are_known_by_name():
    assert proa.get_flags("FLAGS_check_nan_inf") == {"FLAGS_check_nan_inf": False}
    with pytest.raises(InvalidArgumentError, match="FLAGS_no_such"):
        proa.set_flags({"FLAGS_no_such": 1})
