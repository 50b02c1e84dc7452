"""Small models written by PaddlePaddle, eager and recorded, against its results."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.interop import paddle
from proa.static import LoDTensor, create_lod_tensor

from . import wheel

pytestmark = pytest.mark.full

#: What depends on the elements of an input, so that it cannot be recorded.
EAGER_ONLY = ("masked_select", "nonzero", "unique")


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("references")
    wheel.run("reference.py", str(folder))
    return folder


def _input(arrays: Any, key: str) -> Any:
    """An input of a reference, with its lengths if it has some."""
    levels = sorted(k for k in arrays.files if k.startswith(f"lengths_{key[3:]}_"))
    if not levels:
        return proa.to_tensor(arrays[key])
    return create_lod_tensor(arrays[key], [arrays[k].tolist() for k in levels])


def _compare(found: Any, expected: list[Any], what: str) -> None:
    results = found if isinstance(found, (list, tuple)) else [found]
    assert len(results) == len(expected), what
    for ours, theirs in zip(results, expected, strict=True):
        array = ours.numpy()
        assert array.dtype == theirs.dtype, what
        np.testing.assert_allclose(array, theirs, rtol=1e-4, atol=1e-5, err_msg=what)
        assert array.shape == theirs.shape, what


def test_operators_compute_what_paddlepaddle_computes(references: Path) -> None:
    files = sorted(references.glob("*.npz"))
    failed, count = {}, 0
    for file in files:
        with np.load(file) as arrays:
            given = {k[3:]: _input(arrays, k) for k in arrays.files if k[:3] == "in_"}
            expected = [arrays[k] for k in arrays.files if k.startswith("out_")]
        try:
            layer = paddle.load(file.with_suffix(""))
            inputs = [given[i.name] for i in layer.inputs if i.name in given]
            with proa.no_grad():
                _compare(layer(*inputs), expected, "eager")
                if file.stem not in EAGER_ONLY:
                    buffer = io.BytesIO()
                    proa.jit.save(layer, buffer, layer.input_spec)
                    buffer.seek(0)
                    again = proa.jit.load(buffer)
                    lengths = [
                        proa.to_tensor(np.array(level, np.int64))
                        for x in inputs
                        if isinstance(x, LoDTensor)
                        for level in x.recursive_sequence_lengths()
                    ]
                    whole = [*inputs, *lengths][: len(layer.inputs)]
                    _compare(again(*whole), expected, "recorded")
        except Exception as error:
            failed[file.stem] = f"{type(error).__name__}: {error}"
        count += 1
    assert not failed, "\n".join(f"{k}: {v}" for k, v in failed.items())
    assert count > 200  # the wheel's version may lack a few
