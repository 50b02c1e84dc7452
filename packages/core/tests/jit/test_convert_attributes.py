"""What a recording that ends in an error leaves of a Layer's attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import Error
from proa.jit import to_static


class _Inner(proa.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.last: Any = None

    def forward(self, x: Any) -> Any:
        self.last = x * 2
        return self.last


class _Remembers(proa.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.inner = _Inner()
        self.state = proa.ones([2])
        self.seen: list[Any] = []
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        self.state = self.state + self.inner(x)
        self.seen.append(self.state)
        if len(self.seen) == 1 and x.sum() > 0:
            self.added = x
        return float(x.numpy()[0]) + self.state


@pytest.mark.parametrize("training", [True, False])
def test_an_error_leaves_no_symbols_in_layers(training: bool):
    layer = _Remembers()
    layer.train() if training else layer.eval()
    state, x = layer.state, proa.to_tensor([1.0, 2.0])
    with pytest.raises(Error):
        to_static(layer)(x)
    assert layer.state is state and layer.inner.last is None
    assert (layer.seen, layer.calls) == ([], 0) and not hasattr(layer, "added")
    y = _Remembers.forward(layer, x)
    np.testing.assert_array_equal(y.numpy(), [4.0, 6.0])
