"""Every operator's samples as Paddle models: what reads them gives what NumPy gives."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import UnimplementedError
from proa.schema import ROWS

from ...ops.sample import Sample
from ..operator_models import check, main_dtype, programs, reasons, records

pytest.importorskip("google.protobuf")
from proa.interop import paddle
from proa.interop.paddle.exporter.save import save_program

NOT_SAVED = reasons(Path(__file__).with_name("not_saved.txt"))
SAVED = records(NOT_SAVED)


#: Operators that are written as several of Paddle's, or whose attributes differ.
COMPOSED = (
    "adaptive_max_pool2d_index", "batch_norm", "blend_rows", "blend_rows_dot",
    "blend_rows_scatter", "channel_moments", "cholesky", "clip_grad", "cofactor",
    "conv2d_act", "conv2d_grad_input", "conv2d_int8", "conv2d_norm", "count_nonzero",
    "dequantize", "det", "diagonal", "diagonal_grad", "eigh", "embedding_grad",
    "expand_reduced", "fake_quant", "fake_quant_grad", "gather", "gather_grad",
    "gather_nd", "gelu_grad", "group_norm", "index_put", "inverse", "keep_scores",
    "label_gather", "label_mask", "label_scatter", "layer_norm", "linear_act",
    "linear_grad_weight", "linear_int8", "lu", "mask_scores", "max_pool2d_index",
    "mean_grad", "nonzero", "one_hot", "pad", "permute_rows", "pool_gather",
    "pool_scatter", "put_along_axis", "qr", "qr_complete", "quantize", "recurrent",
    "relu_grad", "resize_axis", "roi_max_index", "scatter_add_axis", "scatter_nd_like",
    "select_grad", "sized", "slice_assign", "slice_grad", "slogdet",
    "softmax_cross_entropy", "solve", "sort", "squared_norm", "sum_axis",
    "sum_channels", "sum_leading", "sum_to", "svd", "svd_full", "take_along_axis",
    "take_along_axis_grad", "triangle", "triangular_solve", "windows_grad",
)  # fmt: skip
#: Runs scripts by interpreters that have the wheel paddlepaddle.
WHEEL = Path(__file__).parents[5] / "tests-integration" / "paddle" / "wheel.py"


def saved(
    sample: Sample, path: Path, symbolic: bool = False, parameter: bool = False
) -> Any:
    """Every case in the main dtype, after it was written."""
    dtype = main_dtype(sample)
    for kind, case, arrays, program in programs(sample, dtype, symbolic, parameter):
        try:
            save_program(program, path)
        except UnimplementedError as error:
            assert symbolic and "symbolic" in str(error), str(error)
            continue
        yield kind, case, arrays


def read(path: Path, arrays: list[Any]) -> list[Any]:
    """What we compute by a model."""
    given = [proa.to_tensor(a) for a in arrays if a is not None]
    with proa.no_grad():
        found = paddle.load(path)(*given)
    return [t.numpy() for t in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("sample", SAVED, ids=lambda s: s.name)
def test_a_saved_operator_gives_what_numpy_gives(
    sample: Sample, tmp_path: Path
) -> None:
    for kind, case, arrays in saved(sample, tmp_path / "m"):
        check(sample, kind, case, read(tmp_path / "m", arrays), arrays)


@pytest.mark.parametrize(
    "sample",
    [s for s in SAVED if s.name != "squeeze"],  # has another rank without sizes
    ids=lambda s: s.name,
)
def test_sizes_may_be_symbolic(sample: Sample, tmp_path: Path) -> None:
    for kind, case, arrays in saved(sample, tmp_path / "m", symbolic=True):
        check(sample, kind, case, read(tmp_path / "m", arrays), arrays)


@pytest.mark.full
def test_paddlepaddle_gives_what_numpy_gives(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("wheel", WHEEL)
    assert spec is not None and spec.loader is not None
    wheel = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wheel)
    pythons = wheel.interpreters()
    runs, arguments = [], []
    for sample in SAVED:
        if sample.name not in COMPOSED:
            continue
        at, first = tmp_path / sample.name, len(runs)
        for kind, case, arrays in saved(sample, at, parameter=True):
            given = [a for a in arrays if a is not None]
            # Its predictor takes no empty array.
            if len(runs) == first + 4 or any(a.size == 0 for a in given):
                continue
            path = str(tmp_path / str(len(runs)))
            for suffix in (".pdmodel", ".pdiparams"):
                at.with_suffix(suffix).replace(path + suffix)
            np.savez(f"{path}.given.npz", *given)
            arguments += [path, f"{path}.given.npz", f"{path}.made.npz"]
            runs.append((sample, kind, case, arrays, f"{path}.made.npz"))
    for python in pythons:
        wheel.run("predict.py", *arguments, python=python)
        for sample, kind, case, arrays, result in runs:
            with np.load(result) as found:
                got = [found[name] for name in found.files][:-1]
            check(sample, kind, case, got, arrays, rtol=1e-4, atol=1e-5)


def test_the_list_names_rows() -> None:
    assert set(NOT_SAVED) <= set(ROWS)
