"""An operator of one's own runs in the inference runtime as it does in core."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import proa
import proa_inference
from proa.static import InputSpec
from proa.utils import cpp_extension

SOURCE = """
#include "paddle/extension.h"
using paddle::Tensor;
std::vector<Tensor> Cubed(const Tensor& x) {
  Tensor y = paddle::empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float v = x.data<float>()[i];
    y.data<float>()[i] = v * v * v;
  }
  return {y};
}
PD_BUILD_OP(cubed).Inputs({"X"}).Outputs({"Y"}).SetKernelFn(PD_KERNEL(Cubed));
"""


@pytest.mark.feature("L242")
@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_a_saved_model_with_a_custom_operator_is_inferred(tmp_path: Path) -> None:
    (tmp_path / "cubed.cc").write_text(SOURCE)
    ops = cpp_extension.load(
        "cubed_operators", [str(tmp_path / "cubed.cc")], build_directory=tmp_path
    )

    class Net(proa.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.fc = proa.nn.Linear(4, 3)

        def forward(self, x: proa.Tensor) -> proa.Tensor:
            return ops.cubed(self.fc(x)) + 1.0

    net = Net()
    path = tmp_path / "net.proa"
    proa.jit.save(net, str(path), [InputSpec([None, 4], "float32")])
    predictor = proa_inference.create_predictor(proa_inference.Config(str(path)))
    for n in (1, 5):
        x = np.random.default_rng(n).standard_normal((n, 4)).astype(np.float32)
        want = (x @ net.fc.weight.numpy() + net.fc.bias.numpy()) ** 3 + 1
        (got,) = predictor.run([x])
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
