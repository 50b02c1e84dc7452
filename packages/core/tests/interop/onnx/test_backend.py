"""ONNX's own node and model cases, all of them."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa

onnx = pytest.importorskip("onnx")

HERE = Path(__file__).parent
#: Cases that do not pass yet. A change may only take lines away.
UNSUPPORTED = (HERE / "unsupported.txt").read_text().split()


def _backend() -> Any:
    spec = importlib.util.spec_from_file_location("onnx_backend", HERE / "backend.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ProaBackend


def _cases(kind: str) -> list[Any]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(load_model_tests(kind=kind))


def _data_sets(case: Any, model: Any) -> list[Any]:
    if case.data_sets is not None:
        return list(case.data_sets)
    found = []
    for folder in sorted(Path(case.model_dir).glob("test_data_set*")):
        arrays = []
        for kind, infos in (
            ("input", model.graph.input),
            ("output", model.graph.output),
        ):
            files = [folder / f"{kind}_{i}.pb" for i in range(len(infos))]
            files = [f for f in files if f.exists()]
            tensors = [onnx.TensorProto.FromString(f.read_bytes()) for f in files]
            arrays.append([onnx.numpy_helper.to_array(t) for t in tensors])
        found.append(arrays)
    return found


def _check(found: Any, expected: Any, case: Any) -> None:
    """Compare as the suite does: dtype, shape and elements, item by item."""
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            _check(ours, theirs, case)
        return
    if expected is None:
        assert found is None
        return
    if isinstance(expected, onnx.TensorProto):
        expected = onnx.numpy_helper.to_array(expected)
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    if expected.dtype.kind in "OU":
        assert found.astype(str).tolist() == expected.astype(str).tolist()
        return
    assert found.dtype == expected.dtype
    if expected.dtype.name == "bfloat16" or expected.dtype.name.startswith("float8"):
        found, expected = found.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_allclose(found, expected, case.rtol, case.atol)


def _failure(backend: Any, case: Any) -> str | None:
    """What is wrong with the results of a case, or None."""
    model = case.model or onnx.load(Path(case.model_dir) / "model.onnx")
    try:
        rep = backend.prepare(model)
        for inputs, outputs in _data_sets(case, model):
            _check(rep.run(inputs), outputs, case)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def _opset(case: Any) -> int | None:
    """The opset of a case that the core domain alone suffices for."""
    domains = {o.domain: int(o.version) for o in case.model.opset_import}
    return domains[""] if set(domains) == {""} else None


@pytest.fixture(scope="module")
def failures() -> dict[str, str]:
    backend = _backend()
    proa.seed(0)  # no case of random numbers passes by chance
    with np.errstate(all="ignore"):
        found = {case.name: _failure(backend, case) for case in _cases("node")}
    return {name: why for name, why in found.items() if why is not None}


def test_every_node_case_passes_but_those_listed(failures: dict[str, str]) -> None:
    news = {name: failures[name] for name in failures if name not in UNSUPPORTED}
    assert not news


def test_no_case_is_listed_that_passes(failures: dict[str, str]) -> None:
    assert sorted(set(UNSUPPORTED) - set(failures)) == []


def test_every_core_case_up_to_opset_17_passes(failures: dict[str, str]) -> None:
    names = [c.name for c in _cases("node") if (_opset(c) or 99) <= 17]
    assert len(names) > 500
    assert [name for name in names if name in failures] == []


@pytest.mark.parametrize("kind", ["simple", "pytorch-operator", "pytorch-converted"])
def test_model_cases_pass(kind: str) -> None:
    backend = _backend()
    cases = [c for c in _cases(kind) if "gradient_of" not in c.name]
    assert len(cases) > 20
    failed = {case.name: _failure(backend, case) for case in cases}
    assert {name: why for name, why in failed.items() if why is not None} == {}


@pytest.mark.full
@pytest.mark.parametrize("case", _cases("real"), ids=lambda case: case.name)
def test_light_cases_pass(case: Any) -> None:
    path = Path(onnx.__file__).parents[1] / case.url
    model = onnx.load(path)
    known = {tensor.name for tensor in model.graph.initializer}
    (info,) = (i for i in model.graph.input if i.name not in known)
    shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
    size = np.prod(shape)
    x = (np.arange(size).reshape(shape) / size).astype(np.float32)  # as the suite has
    golden = path.with_name(f"{path.stem}_output_0.pb").read_bytes()
    expected = onnx.numpy_helper.to_array(onnx.TensorProto.FromString(golden))
    _check(_backend().prepare(model).run([x]), [expected], case)
