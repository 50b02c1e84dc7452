"""A recorded function must do what the function does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import proa
from proa.jit import InputSpec, StaticFunction, to_static
from proa.jit.pytree import flatten


def arrays_of(result: Any) -> list[Any]:
    """The leaves of a result, tensors as arrays, with None among them."""
    leaves, _ = flatten(result, lambda part: not isinstance(part, (list, tuple, dict)))
    return [x.numpy() if isinstance(x, proa.Tensor) else x for x in leaves]


def assert_equal(got: Any, want: Any) -> None:
    """The same leaves; a number may be a tensor."""
    found, wanted = arrays_of(got), arrays_of(want)
    assert len(found) == len(wanted), (got, want)
    for a, b in zip(found, wanted, strict=True):
        assert (a is None) == (b is None), (got, want)
        if b is not None:
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
            assert np.shape(a) == np.shape(b)


def agree(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    spec: Sequence[InputSpec] | None = None,
    flow: set[str] | None = None,
) -> StaticFunction:
    """Record the function once, and run it with each of the inputs.

    Args:
        function: Takes tensors.
        inputs: Arguments, each an array or a tuple of several.
        spec: Specs of the arguments; shapes and dtypes of the first ones if None.
        flow: The operators of control flow that must be recorded.
    """
    calls = [each if isinstance(each, tuple) else (each,) for each in inputs]
    tensors = [[proa.to_tensor(np.asarray(a)) for a in call] for call in calls]
    if spec is None:
        spec = [InputSpec(list(t.shape), t.dtype) for t in tensors[0]]
    static = to_static(function, input_spec=spec)
    for given in tensors:
        assert_equal(static(*given), function(*given))
    assert isinstance(static, StaticFunction)
    assert len(static._cache) == 1  # all of them ran one program
    kinds = {node.op for node in static.main_program.nodes()}
    assert kinds >= (flow or set()), kinds
    return static
