"""Whatever shapes and dtypes come: a result, or a typed error that names the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import proa
from proa.errors import Error

DTYPES = [
    "bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
]  # fmt: skip
SHAPES = st.lists(st.integers(0, 4), max_size=4)


@st.composite
def tensors(draw: Any) -> Any:
    """Small tensors of any shape and dtype, some of them views."""
    shape = draw(SHAPES)
    seed = draw(st.integers(0, 9))
    values = np.random.default_rng(seed).integers(-3, 4, shape).astype("float32")
    x = proa.to_tensor(values).astype(draw(st.sampled_from(DTYPES)))
    if shape and draw(st.booleans()):
        x = x[::-1] if draw(st.booleans()) else x.transpose(list(range(x.ndim))[::-1])
    return x


AXIS = st.integers(-6, 6)
LISTS = st.lists(st.integers(-2, 5), max_size=4)
#: Functions of tensors, and what their other arguments are drawn from.
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{
        name: (getattr(proa, name), ())
        for name in (
            "abs",
            "exp",
            "sqrt",
            "sign",
            "floor",
            "isnan",
            "sum",
            "mean",
            "max",
            "prod",
            "any",
            "logsumexp",
            "std",
            "median",
            "numel",
            "nonzero",
            "unique",
            "t",
            "trace",
            "tril",
            "diag",
            "cumsum",
            "cumprod",
            "argmax",
            "sort",
            "squeeze",
            "logcumsumexp",
            "cummax",
            "nansum",
            "norm",
            "bincount",
            "histogram",
            "tolist",
            "conj",
            "real",
            "as_real",
            "as_complex",
            "diagflat",
            "is_empty",
        )
    },
    **{
        f"{name} of two": (getattr(proa, name), (tensors(),))
        for name in (
            "add",
            "subtract",
            "multiply",
            "divide",
            "pow",
            "floor_divide",
            "mod",
            "maximum",
            "matmul",
            "dot",
            "bmm",
            "mv",
            "kron",
            "outer",
            "inner",
            "equal",
            "less_than",
            "logical_and",
            "bitwise_xor",
            "dist",
            "allclose",
            "gather",
            "gather_nd",
            "index_select",
            "masked_select",
            "index_sample",
            "cross",
            "searchsorted",
            "expand_as",
            "tensordot",
            "atan2",
            "where",
        )
    },
    **{
        f"{name} along": (getattr(proa, name), (AXIS,))
        for name in (
            "sum",
            "max",
            "argmin",
            "cumsum",
            "cumprod",
            "flip",
            "unsqueeze",
            "squeeze",
            "unbind",
            "argsort",
            "mode",
            "median",
            "logcumsumexp",
            "cummin",
            "all",
            "flatten",
            "diff",
            "topk",
            "kthvalue",
            "repeat_interleave",
            "unstack",
        )
    },
    **{
        f"{name} by list": (
            getattr(proa, name),
            (st.lists(st.integers(-2, 5), max_size=4),),
        )
        for name in ("reshape", "transpose", "expand", "tile", "sum", "flip", "split")
    },
    **{
        name: (getattr(proa.linalg, name), ())
        for name in (
            "cholesky",
            "inv",
            "det",
            "slogdet",
            "svd",
            "qr",
            "lu",
            "eigh",
            "eig",
            "pinv",
            "matrix_rank",
            "cond",
            "cov",
        )
    },
    "solve": (proa.linalg.solve, (tensors(),)),
    "lstsq": (proa.linalg.lstsq, (tensors(),)),
    "fft": (proa.fft.fft, ()),
    "irfft": (proa.fft.irfft, (st.integers(-1, 7), AXIS)),
    "take_along_axis": (proa.take_along_axis, (tensors(), AXIS)),
    "put_along_axis": (proa.put_along_axis, (tensors(), tensors(), AXIS)),
    "scatter": (proa.scatter, (tensors(), tensors())),
    "index_add": (proa.index_add, (tensors(), AXIS, tensors())),
    "concat": (lambda x, y, a: proa.concat([x, y], a), (tensors(), AXIS)),
    "stack": (lambda x, y, a: proa.stack([x, y], a), (tensors(), AXIS)),
    "getitem": (lambda x, i: x[i], (tensors(),)),
    "slice": (lambda x, a, b, c: x[a:b:c], (AXIS, AXIS, AXIS)),
    "einsum": (lambda x, y: proa.einsum("ij,jk->ik", x, y), (tensors(),)),
    "quantile": (proa.quantile, (st.floats(-0.5, 1.5), AXIS)),
}


@pytest.mark.parametrize("name", CALLS)
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_bad_input_is_a_typed_error(name: str, data: Any):
    function, others = CALLS[name]
    x = data.draw(tensors())
    arguments = [data.draw(o) for o in others]
    with np.errstate(all="ignore"):
        try:
            function(x, *arguments)
        except Error as error:
            text = str(error)
            assert text.startswith("[") and ", got " in text, text
