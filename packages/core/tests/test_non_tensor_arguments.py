"""What is no Tensor where one belongs: a typed error names the API and argument."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import re
import types
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import Error, InvalidTypeError
from proa.schema import ROWS

MODULES = (
    "proa", "proa.nn.functional", "proa.linalg", "proa.fft", "proa.vision.ops",
    "proa.text", "proa.metric", "proa.nn.utils",
)  # fmt: skip
#: Alias -> the function whose name its errors bear.
ALIASES = {
    "amax": "max", "amin": "min", "broadcast_to": "expand", "inv": "inverse",
    "reverse": "flip", "swish": "silu", "upsample": "interpolate",
}  # fmt: skip


def takes_a_tensor(p: inspect.Parameter) -> bool:
    hint = str(p.annotation)
    named = re.search(r"\bTensor\b", hint)
    return bool(named) and not re.search(r"Any|None|Like", hint)


def filled(p: inspect.Parameter) -> Any:
    """Some argument of the annotated kind."""
    hint = str(p.annotation)
    tensor = proa.ones([2, 2])
    if "Tensor" in hint:
        return [tensor, tensor] if "Sequence" in hint else tensor
    return {"float": 1.0, "str": "a"}.get(hint, 0)


def calls() -> list[Any]:
    found = []
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            function = getattr(module, name)
            if not isinstance(function, (types.FunctionType, type(proa.bmm))):
                continue
            if name in ("grad", "enable_grad", "no_grad", "set_grad_enabled"):
                continue  # see tests/autograd
            parameters = inspect.signature(function).parameters
            found += [
                pytest.param(function, p.name, id=f"{module.__name__}.{name}-{p.name}")
                for p in parameters.values()
                if takes_a_tensor(p) and p.kind is not p.VAR_POSITIONAL
            ]
    return found


CALLS = calls()


def test_the_sweep_is_over_the_public_functions():
    assert len(CALLS) > 400


@pytest.mark.feature("L264", how="mechanism")
@pytest.mark.feature("L269")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("function", "wrong"), CALLS)
def test_a_function_names_the_argument_that_is_no_tensor(function: Any, wrong: str):
    parameters = inspect.signature(function).parameters.values()
    arguments = {
        p.name: filled(p)
        for p in parameters
        if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    }
    where = ALIASES.get(function.__name__, function.__name__)
    for value, named in ((None, "None"), (object(), "'object'"), ("words", "'str'")):
        with pytest.raises(Error, match=rf"\[{where}\] {wrong} must be .*got {named}"):
            function(**{**arguments, wrong: value})


@pytest.mark.feature("L269")
@pytest.mark.parametrize(
    "name",
    [n for n, r in ROWS.items() if not any(a.required for a in r.attributes)],
)
def test_an_operator_names_the_array_that_is_none(name: str):
    needed = [a for a in ROWS[name].arrays if not a.optional]
    for wrong in needed:
        arrays = [None if a is wrong else proa.ones([2, 2]) for a in needed]
        pattern = rf"\[{name}\] {wrong.name} must be .*got None"
        with pytest.raises(InvalidTypeError, match=pattern):
            getattr(proa._core.ops, name)(*arrays)


LAYERS = {
    "Linear": (3, 3), "Conv2D": (3, 4, 3), "LSTM": (3, 4), "GRUCell": (3, 4),
    "BatchNorm2D": (3,), "LayerNorm": (3,), "MultiHeadAttention": (4, 2), "ReLU": (),
    "MaxPool2D": (2,), "Embedding": (3, 4), "Flatten": (), "Softmax": (),
    "CrossEntropyLoss": (), "CTCLoss": (), "MSELoss": (), "Pad2D": (1,),
    "TransformerEncoderLayer": (4, 2, 8), "Upsample": (2,), "Bilinear": (2, 2, 2),
}  # fmt: skip


@pytest.mark.feature("L269")
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_names_the_argument_that_is_none(name: str):
    layer = getattr(proa.nn, name)(*LAYERS[name])
    parameters = inspect.signature(layer.forward).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty]
    arguments: list[Any] = [proa.ones([2, 2]) for _ in needed]
    arguments[0] = None
    pattern = rf"\[{name}\] {needed[0]} must be .*got None"
    with pytest.raises(InvalidTypeError, match=pattern):
        layer(*arguments)


@pytest.mark.feature("L269")
@pytest.mark.parametrize(
    ("method", "wrong"),
    [("bmm", "y"), ("equal_all", "y"), ("matmul", "y"), ("dot", "y")],
)
def test_a_method_names_the_argument_that_is_none(method: str, wrong: str):
    with pytest.raises(InvalidTypeError, match=rf"\[{method}\] {wrong} must be"):
        getattr(proa.ones([2, 2]), method)(None)


def test_an_element_of_a_list_that_is_none_is_named():
    with pytest.raises(
        InvalidTypeError, match=r"\[multi_dot\] x\[1\] must be a Tensor"
    ):
        proa.linalg.multi_dot([proa.ones([2, 2]), None])


def test_errors_of_other_things_stay_as_they_are():
    with pytest.raises(Error, match="axis") as caught:
        proa.split(np.ones((2, 2)), 2, axis=9)
    assert "must be a Tensor" not in str(caught.value)

    class Net(proa.nn.Layer):
        def forward(self, x: proa.Tensor) -> Any:
            return x["missing"]

    with pytest.raises(KeyError, match="missing"):
        Net()({})  # a user's annotation is the user's affair


def test_public_functions_can_be_inspected_and_pickled():
    function = proa.bmm
    assert str(inspect.signature(function)).startswith("(x: ")
    assert function.__name__ == "bmm" and function.__doc__
    assert function.__module__ == "proa.tensor.math"
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy(function) is function
    assert callable(function) and "bmm" in repr(function)
    x = proa.ones([1, 2, 2])
    assert x.bmm(x).shape == proa.Tensor.bmm(x, y=x).shape == [1, 2, 2]
