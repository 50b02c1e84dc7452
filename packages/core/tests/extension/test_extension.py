"""Operators in C++: built once here, used eagerly, in graphs, files and packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import (
    Error,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnimplementedError,
    VersionError,
)
from proa.jit import InputSpec
from proa.utils import cpp_extension

from ..processes import run_python

SOURCE = Path(__file__).with_name("operators.cc")

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="needs a compiler"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("extension")


@pytest.fixture(scope="module")
def ops(folder: Path) -> Any:
    return cpp_extension.load(
        "test_operators",
        [SOURCE],
        build_directory=folder,
        extra_cxx_cflags=["-O1", "-Wall", "-Wextra", "-Werror"],
    )


def tensor(*values: float, dtype: str = "float32", grad: bool = True) -> proa.Tensor:
    return proa.to_tensor(np.array(values, dtype), stop_gradient=not grad)


@pytest.mark.feature("L245")
@pytest.mark.feature("L242")
def test_an_operator_is_a_function_with_a_gradient(ops):
    x = tensor(1.0, -2.0, 3.0)
    y = ops.leaky(x, 0.25)
    np.testing.assert_array_equal(y.numpy(), [1, -0.5, 3])
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1, 0.25, 1])
    z = ops.leaky(X=x, slope=0.5)
    np.testing.assert_array_equal(z.numpy(), [1, -1, 3])
    assert "leaky(X, slope: float)" in ops.leaky.__doc__


@pytest.mark.feature("L246")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_kernels_see_every_floating_type(ops, dtype):
    x = proa.to_tensor(np.linspace(-3, 3, 7, dtype="f4")).astype(dtype)
    x.stop_gradient = False
    y = ops.leaky(x, 0.5)
    assert y.dtype == dtype
    want = x.astype("float32").numpy()
    np.testing.assert_allclose(
        y.astype("float32").numpy(), np.where(want > 0, want, want * 0.5)
    )
    y.sum().backward()
    assert x.grad.dtype == dtype


@pytest.mark.feature("L246")
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_kernels_compute_with_complex_numbers(ops, dtype):
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3)) for _ in range(2))
    a = a.astype(dtype)
    x = proa.to_tensor(a, stop_gradient=False)
    y = ops.rotated(x, 0.5)
    assert y.dtype == dtype
    np.testing.assert_allclose(y.numpy(), a * np.exp(0.5j), rtol=1e-6)
    (y * proa.to_tensor(b.astype(dtype))).real().sum().backward()
    assert x.grad.dtype == dtype
    np.testing.assert_allclose(x.grad.numpy(), np.conj(b * np.exp(0.5j)), rtol=1e-5)


@pytest.mark.parametrize("to", ["float32", "float16", "complex128"])
@pytest.mark.parametrize(
    "dtype",
    ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float64",
     "complex64", "complex128"],
)  # fmt: skip
def test_every_type_converts_as_numpy_does(ops, dtype, to):
    a = np.array([0, 1, 2.5, 100.0625, 65519, 1e-7]).astype(dtype)
    y = ops.converted(proa.to_tensor(a), to).numpy()
    want = (a.real if "complex" not in to else a).astype(to)
    np.testing.assert_array_equal(y, want)
    assert y.dtype == to


def test_the_16_bit_types_round_as_numpy_does(ops):
    a = np.random.default_rng(0).standard_normal(5000).astype("f4")
    a = np.concatenate([a * s for s in (1, 1e-5, 1e-7, 3e4)] + [[np.inf, np.nan]])
    a = a.astype("f4")
    with np.errstate(over="ignore"):
        want = a.astype("f2")
    half = ops.converted(proa.to_tensor(a), "float16")
    np.testing.assert_array_equal(half.numpy(), want)
    np.testing.assert_array_equal(
        ops.converted(half, "float32").numpy(), want.astype("f4")
    )


def test_the_gradients_of_two_orders_agree_with_calculus(ops):
    x = tensor(0.5, 2.0, -1.5, dtype="float64")
    v = np.array([0.5, 2.0, -1.5])
    (g,) = proa.grad([ops.cube(x).sum()], [x], create_graph=True)
    np.testing.assert_allclose(g.numpy(), 3 * v**2, rtol=1e-12)
    (gg,) = proa.grad([(g * g).sum()], [x])
    np.testing.assert_allclose(gg.numpy(), 36 * v**3, rtol=1e-12)  # d 9x^4
    w = tensor(2.0, -2.0)
    (h,) = proa.grad([ops.leaky(w * w * w, 0.5).sum()], [w], create_graph=True)
    (hh,) = proa.grad([h.sum()], [w])
    np.testing.assert_allclose(hh.numpy(), [12.0, 0.5 * -12.0])


@pytest.mark.feature("L247")
def test_lists_and_optional_inputs(ops):
    a, b, c = tensor(1.0, 2.0), tensor(10.0, 20.0), tensor(5.0, 5.0, grad=False)
    y = ops.total([a, b], c, [2.0, 0.5])
    np.testing.assert_array_equal(y.numpy(), [12, 19])
    y.sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), [2, 2])
    np.testing.assert_array_equal(b.grad.numpy(), [0.5, 0.5])
    y = ops.total([a, a, a], None, [1, 2, 3])
    np.testing.assert_array_equal(y.numpy(), [6, 12])
    a.clear_grad()
    y.sum().backward()
    np.testing.assert_array_equal(a.grad.numpy(), [6, 6])


ATTRIBUTES: dict[str, Any] = {
    "flag": True, "small": -3, "big": 1 << 40, "ratio": 0.5, "fine": 0.25,
    "text": "größer", "smalls": [1, -2], "bigs": [1 << 50], "ratios": [0.5, 2],
    "texts": ["a", "", "a longer text"],
}  # fmt: skip
TEXT = (
    "1 -3 1099511627776 0.5 0.25 größer i1 i-2 l1125899906842624 f0.5 f2"
    " a  a longer text"
)


@pytest.mark.feature("L245")
def test_attributes_of_every_type_arrive(ops):
    letters, total = ops.described(tensor(1.0, 2.0), **ATTRIBUTES)
    assert bytes(letters.numpy()).decode() == TEXT
    assert total.dtype == "float64" and total.shape == [] and total.item() == 3


def test_strided_inputs_and_arrays_are_taken(ops):
    a = np.arange(12, dtype="f4").reshape(3, 4) - 6
    x = proa.to_tensor(a, stop_gradient=False)
    y = ops.leaky(proa.transpose(x, [1, 0])[1:], 0.5)
    np.testing.assert_array_equal(y.numpy(), np.where(a > 0, a, a / 2).T[1:])
    y.sum().backward()
    want = np.where(a > 0, 1, 0.5)
    want[:, 0] = 0
    np.testing.assert_array_equal(x.grad.numpy(), want)
    np.testing.assert_array_equal(ops.leaky(a, 0.5).numpy(), np.where(a > 0, a, a / 2))
    assert ops.leaky(np.zeros([0, 3], "f4"), 0.5).shape == [0, 3]


def test_a_result_has_memory_of_its_own(ops):
    x = tensor(1.0, 2.0, grad=False)
    y = ops.itself(x)
    y.add_(proa.ones([2]))
    np.testing.assert_array_equal(x.numpy(), [1, 2])


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda o, x: o.leaky(x, -1.0), ValueError, r"\[leaky\].*negative, got -1"),
        (lambda o, x: o.leaky(x), TypeError, r"\[leaky\] slope is missing"),
        (lambda o, x: o.leaky(x, "a"), TypeError, r"slope must be a float, got 'a'"),
        (lambda o, x: o.leaky(None, 1.0), TypeError, r"\[leaky\] X .*got None"),
        (
            lambda o, x: o.leaky(x, 1.0, 2.0),
            TypeError,
            r"arguments of leaky\(X, slope",
        ),
        (lambda o, x: o.leaky(x, slop=1.0), TypeError, "got 'slop'"),
        (lambda o, x: o.leaky(x, X=x), TypeError, "got twice 'X'"),
        (lambda o, x: o.leaky(x.astype("int64"), 1.0), ValueError, "got int64"),
        (lambda o, x: o.total(x, None, [1.0]), TypeError, "Xs must be a list of Ten"),
        (lambda o, x: o.total([x], None, 1.0), TypeError, "weights must be a list of"),
        (lambda o, x: o.total([x], None, [1, 2]), ValueError, "as many weights"),
        (lambda o, x: o.cube(x), ValueError, "of float32, got float64"),
    ],
)
def test_mistakes_are_typed_errors_that_name_the_operator(ops, call, kind, message):
    with pytest.raises(kind, match=message) as caught:
        call(ops, tensor(1.0))
    assert isinstance(caught.value, Error)


def test_saved_tensors_are_watched_and_freed(ops):
    x = tensor(1.0, 2.0)
    z = x * 1.0
    y = ops.leaky(z, 0.5)
    z.add_(proa.ones([2]))
    with pytest.raises(RuntimeError, match="saved by op leaky was modified in place"):
        y.sum().backward()
    y = ops.leaky(x * 1.0, 0.5).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward()
    assert ops.swap(x, x)[0].stop_gradient  # has no gradient


def test_nan_is_found_in_results(ops):
    proa.set_flags({"FLAGS_check_nan_inf": True})
    try:
        with pytest.raises(Error, match=r"1 infinite .* output leaky\.Y"):
            ops.leaky(tensor(-1.0), np.inf)
    finally:
        proa.set_flags({"FLAGS_check_nan_inf": False})


class Net(proa.nn.Layer):
    """An operator between ops of the framework, with every feature."""

    def __init__(self, ops: Any) -> None:
        super().__init__()
        self.ops = ops
        self.linear = proa.nn.Linear(4, 4)

    def forward(self, x: proa.Tensor) -> Any:
        y = self.ops.leaky(self.linear(x), 0.1)
        z = self.ops.total([y, x, y], x, [1.0, 2.0, 3.0])
        a, b = self.ops.swap(z, proa.transpose(y, [1, 0]))
        letters, total = self.ops.described(z, **ATTRIBUTES)
        return a, b + 1.0, letters, total, y


@pytest.mark.feature("L242")
@pytest.mark.parametrize("rows", [2, None])
def test_recorded_and_saved_graphs_equal_eager(ops, tmp_path, rows):
    net = Net(ops)
    net.eval()
    x = proa.to_tensor(np.random.default_rng(1).standard_normal((2, 4)).astype("f4"))
    want = [t.numpy() for t in net(x)]
    path = str(tmp_path / "net")
    static = proa.jit.to_static(net, input_spec=[InputSpec([rows, 4], "float32")])
    with proa.no_grad():
        got = static(x)
    proa.jit.save(net, path, input_spec=[InputSpec([rows, 4], "float32")])
    loaded = proa.jit.load(path)
    for results in (got, loaded(x)):
        for a, b in zip(results, want, strict=True):
            np.testing.assert_array_equal(a.numpy(), b)
    loaded.train()
    out = loaded(x)
    proa.sum(out[4]).backward()
    assert all(p.grad is not None for p in loaded.parameters())


def test_a_kernel_error_in_a_graph_is_reported(ops, tmp_path):
    class Negative(proa.nn.Layer):
        def forward(self, x):
            return ops.leaky(x, -1.0)

    path = str(tmp_path / "bad")
    proa.jit.save(Negative(), path, input_spec=[InputSpec([2], "float32")])
    with pytest.raises(ValueError, match=r"leaky.*slope must not be negative"):
        proa.jit.load(path)(proa.ones([2]))


def test_failed_shape_inference_is_reported_while_recording(ops):
    assert len(ops.vague(proa.ones([2]), proa.ones([3]))) == 2
    static = proa.jit.to_static(lambda x: ops.vague(x, x))
    with pytest.raises(InvalidArgumentError, match=r"\[vague\].*SetInferShapeFn must"):
        static(proa.ones([2]))


def run(code: str, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(proa.__file__).parents[1])
    path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    return run_python(code, *args, **{"PYTHONPATH": path, **variables})


@pytest.mark.feature("L242")
def test_a_file_without_its_extension_is_a_typed_error(ops, tmp_path):
    class Only(proa.nn.Layer):
        def forward(self, x):
            return ops.leaky(x, 0.5)

    path = str(tmp_path / "only.proa")
    proa.jit.save(Only(), path, input_spec=[InputSpec([2], "float32")])
    code = """
        import sys, proa
        from proa import _core
        from proa.errors import UnimplementedError, VersionError
        try:
            proa.jit.load(sys.argv[1])
        except VersionError as error:
            assert "extension" in str(error) and "leaky" in str(error), error
        else:
            raise SystemExit("loaded")
        try:
            _core.Engine.load(sys.argv[1])
        except UnimplementedError as error:
            assert "leaky" in str(error), error
        else:
            raise SystemExit("an engine was made")
        from proa.utils.cpp_extension import load_library
        load_library(sys.argv[2])
        assert proa.jit.load(sys.argv[1])(proa.ones([2]) * -1).tolist() == [-0.5, -0.5]
    """
    done = run(code, path, ops.__file__)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.feature("L252")
def test_an_extension_needs_no_library_of_proa(ops):
    done = subprocess.run(
        ["readelf", "-d", ops.__file__], capture_output=True, text=True, check=True
    )
    needed = [line for line in done.stdout.splitlines() if "NEEDED" in line]
    assert needed and not any("proa" in line for line in needed)


@pytest.mark.feature("L248", how="mechanism")
def test_a_call_has_no_python_frames_of_its_own(ops):
    assert type(ops.leaky).__name__ == "builtin_function_or_method"


def test_building_again_takes_what_is_there(ops, folder):
    before = Path(ops.__file__).stat().st_mtime_ns
    again = cpp_extension.load(
        "test_operators",
        [SOURCE],
        build_directory=folder,
        extra_cxx_cflags=["-O1", "-Wall", "-Wextra", "-Werror"],
    )
    assert Path(again.__file__).stat().st_mtime_ns == before
    assert len(list(folder.glob("*.so"))) == 1


def test_failed_builds_and_loads_are_reported(tmp_path):
    broken = tmp_path / "broken.cc"
    broken.write_text('#include "proa/extension.h"\nint x = "no";\n')
    with pytest.raises(InvalidArgumentError, match=r"broken\.cc:2"):
        cpp_extension.load("broken", [broken], build_directory=tmp_path)
    assert not list(tmp_path.glob("*.so"))
    with pytest.raises(NotFoundError, match=r"nowhere\.cc"):
        cpp_extension.load("a", ["nowhere.cc"])
    with pytest.raises(InvalidArgumentError, match="got 'a b'"):
        cpp_extension.load("a b", [broken])
    with pytest.raises(UnavailableError, match="CUDA"):
        cpp_extension.CUDAExtension(["a.cu"])
    (tmp_path / "plain.so").write_bytes(b"no library")
    with pytest.raises(UnavailableError, match="can be opened"):
        cpp_extension.load_library(tmp_path / "plain.so")
    libc = next(Path("/lib").glob("*/libm.so.6"), None)
    if libc is not None:
        with pytest.raises(UnavailableError, match="got another library"):
            cpp_extension.load_library(libc)


def test_the_folders_are_named(tmp_path, monkeypatch):
    include = Path(proa.sysconfig.get_include())
    assert (include / "proa" / "extension.h").is_file()
    assert (Path(proa.sysconfig.get_lib()) / "libproa_runtime.so").is_file()
    monkeypatch.setenv("PROA_EXTENSION_DIR", str(tmp_path / "kept"))
    assert cpp_extension.get_build_directory() == str(tmp_path / "kept")
    assert (tmp_path / "kept").is_dir()


@pytest.mark.feature("L242")
def test_setup_builds_a_package(tmp_path):
    pytest.importorskip("setuptools")
    (tmp_path / "twice.cc").write_text(
        textwrap.dedent("""
            #include "proa/extension.h"
            using proa::ext::Tensor;
            std::vector<Tensor> Twice(const Tensor& x) {
              Tensor y = proa::ext::empty_like(x);
              for (int64_t i = 0; i < x.numel(); ++i) {
                y.data<float>()[i] = 2 * x.data<float>()[i];
              }
              return {y};
            }
            PD_BUILD_OP(twice).Inputs({"X"}).Outputs({"Y"}).SetKernelFn(PD_KERNEL(Twice));
        """)
    )
    (tmp_path / "setup.py").write_text(
        textwrap.dedent("""
            from proa.utils.cpp_extension import CppExtension, setup
            setup(name="twice_ops", ext_modules=CppExtension(
                sources=["twice.cc"], extra_compile_args=["-O0"]))
        """)
    )
    source = str(Path(proa.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": source}
    command = [sys.executable, "setup.py", "-q", "build", "--build-lib", "built"]
    subprocess.run(command, cwd=tmp_path, env=env, check=True, capture_output=True)
    files = {p.name for p in (tmp_path / "built").iterdir()}
    assert files == {"twice_ops.py", "twice_ops_ops.so"}
    done = run(
        "import proa, twice_ops; print(twice_ops.twice(proa.ones([2])).tolist())",
        PYTHONPATH=os.pathsep.join([source, str(tmp_path / "built")]),
    )
    assert done.stdout.strip() == "[2.0, 2.0]", done.stderr


def test_an_unknown_operator_names_what_is_missing():
    from proa.ir.attributes import row_of

    with pytest.raises(VersionError, match="one of a loaded extension"):
        row_of("never_loaded")


def test_a_gradient_of_lists_cannot_be_recorded(ops):
    def f(x):
        return proa._core.ops.total_grad(x, x, input_counts=[1, 1], weights=[1.0])

    with pytest.raises(UnimplementedError, match="fixed number of outputs"):
        proa.jit.to_static(f)(proa.ones([2]))
