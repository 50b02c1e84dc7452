"""What networks with marks for graphs built statement by statement do here."""

from __future__ import annotations

import numpy as np

import proa
from proa import nn
from proa.jit import InputSpec, to_static


class _Marked(nn.Layer):
    def forward(self, x: proa.Tensor) -> proa.Tensor:
        with proa.static.amp.fp16_guard():
            return x * 2


def test_a_marked_forward_runs_eagerly_and_recorded() -> None:
    x = proa.to_tensor(np.arange(3, dtype="float32"))
    np.testing.assert_array_equal(_Marked()(x).numpy(), [0, 2, 4])
    recorded = to_static(_Marked(), input_spec=[InputSpec([3], "float32")])
    np.testing.assert_array_equal(recorded(x).numpy(), [0, 2, 4])
