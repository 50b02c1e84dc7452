"""Operators of one's own, in C++, in models that Python and C++ predictors run."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cpp_programs import built, needs_cpp, run
from inference_models import write_mlp

import proa
from proa.errors import InvalidArgumentError
from proa.static import InputSpec
from proa.utils import cpp_extension
from proa_inference import Config, create_predictor

SOURCE = """
#include "proa/extension.h"
using proa::ext::Tensor;
std::vector<Tensor> Cubed(const Tensor& x, double shift) {
  Tensor y = proa::ext::empty_like(x);
  const float* from = x.data<float>();
  float* to = y.data<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    PD_CHECK(from[i] < 1e6f, "an element is too large");
  }
  proa::ext::parallel_for(x.numel(), 16, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      to[i] = from[i] * from[i] * from[i] + float(shift);
    }
  });
  return {y};
}
PD_BUILD_OP(cubed).Inputs({"X"}).Outputs({"Y"}).Attrs({"shift: double"})
    .SetKernelFn(PD_KERNEL(Cubed));
"""
W = np.linspace(0.1, 1, 12, dtype=np.float32).reshape(4, 3)


def reference(x):
    """relu((x @ W) ** 3 + 0.5) - 1."""
    return np.maximum((x @ W) ** 3 + 0.5, 0) - 1


@pytest.fixture(scope="module")
def operators(tmp_path_factory):
    """The library, and the path of a model that needs it."""
    # The operator is the user's own C++; an installed wheel alone cannot build it.
    if shutil.which("c++") is None:
        pytest.skip("needs a C++ compiler")
    folder = tmp_path_factory.mktemp("operators")
    (folder / "cubed.cc").write_text(SOURCE)
    ops = cpp_extension.load("cubed", [folder / "cubed.cc"], build_directory=folder)
    weight = proa.to_tensor(W)

    def net(x):
        cubes = ops.cubed(proa.matmul(x, weight), 0.5)
        return {"y": proa.nn.functional.relu(cubes) - 1.0}

    path = folder / "net.proa"
    proa.jit.save(net, path, [InputSpec([None, 4], "float32", "x")])
    return Path(ops.__file__), path


@pytest.mark.feature("L566")
@pytest.mark.parametrize("optimize", [True, False], ids=["passes", "plain"])
def test_a_predictor_runs_an_operator_of_ones_own(operators, optimize):
    config = Config(operators[1])
    config.switch_ir_optim(optimize)
    predictor = create_predictor(config)
    for n in (1, 7, 40):
        x = np.random.default_rng(n).standard_normal((n, 4)).astype(np.float32)
        np.testing.assert_allclose(predictor.run([x])[0], reference(x), 1e-4, 1e-5)
        np.testing.assert_array_equal(
            predictor.clone().run([x])[0], predictor.run([x])[0]
        )
    with pytest.raises(InvalidArgumentError, match=r"cubed.*an element is too large"):
        predictor.run([np.full((1, 4), 1e9, np.float32)])


@pytest.mark.feature("L566")
def test_a_process_that_only_infers_loads_the_library_first(operators):
    library, path = operators
    program = f"""
import numpy as np
from proa.errors import VersionError
from proa.utils.cpp_extension import load_library
from proa_inference import Config, create_predictor
try:
    create_predictor(Config({str(path)!r}))
except VersionError as error:
    assert "cubed" in str(error), error
else:
    raise AssertionError("an unknown operator was accepted")
load_library({str(library)!r})
print(*create_predictor(Config({str(path)!r})).run([np.ones((1, 4), "f4")])[0][0])
"""
    printed = run(sys.executable, "-c", program)
    want = reference(np.ones((1, 4), np.float32))[0]
    np.testing.assert_allclose(np.array(printed.split(), float), want, rtol=1e-5)
    command = [sys.executable, "-m", "proa_inference.cli", "bench", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "cubed" in done.stderr
    run(*command, "--runs", "2", "--operators", library)


@needs_cpp
@pytest.mark.feature("L566")
@pytest.mark.feature("L516")
@pytest.mark.feature("L610")
def test_a_cpp_program_runs_an_operator_of_ones_own(operators, tmp_path):
    library, path = operators
    program = built("operators_test.cc", tmp_path)
    printed = run(program, path, library, write_mlp(tmp_path / "mlp.proa"))
    rows = np.array([[1.0] * 4, [2.0] * 4], np.float32)
    got = np.array(printed.split(), float).reshape(2, 3)
    np.testing.assert_allclose(got, reference(rows), rtol=1e-4)
