"""Public functions and methods that are operators are those that the rows name."""

from __future__ import annotations

import ast
import importlib
import inspect
import pydoc
import types
from pathlib import Path

import pytest

import proa
from proa import Tensor
from proa._core import ops
from proa.schema import ROWS

#: Public name -> name in `proa._core.ops`.
PUBLIC = {
    **{public: row.name for row in ROWS.values() for public in row.public},
    **{p: f"{row.name}_" for row in ROWS.values() for p in row.public_inplace},
}
FUNCTIONS = ("proa", "proa.nn.functional")
STUBS = Path(proa.__file__).parent / "_core"


def found(public: str):
    space, _, name = public.rpartition(".")
    if space == "Tensor":
        return getattr(Tensor, name)
    return getattr(importlib.import_module(space), name)


def test_many_rows_are_public():
    assert len(PUBLIC) > 150
    assert {"proa.erf", "Tensor.erf", "Tensor.erf_", "proa.tanh_"} < set(PUBLIC)


@pytest.mark.parametrize("public", PUBLIC)
def test_a_public_name_is_the_operator_with_its_docs(public: str):
    function = found(public)
    assert function is getattr(ops, PUBLIC[public])
    space, _, name = public.rpartition(".")
    if space in FUNCTIONS:
        assert name in importlib.import_module(space).__all__
    row = ROWS.get(PUBLIC[public]) or ROWS[PUBLIC[public][:-1]]
    assert row.doc in inspect.getdoc(function)
    arguments = [a.name for a in (*row.arrays, *row.attributes)]
    assert [*arguments, "name"] == list(inspect.signature(function).parameters)


def test_no_other_list_exports_operators():
    operators = {id(getattr(ops, name)) for name in dir(ops)}
    exported = {
        f"{space}.{name}"
        for space in FUNCTIONS
        for module in [importlib.import_module(space)]
        for name in module.__all__
        if isinstance(getattr(module, name, None), types.BuiltinFunctionType)
        and id(getattr(module, name)) in operators
    }
    exported |= {
        f"Tensor.{name}"
        for name in vars(Tensor)
        if not name.startswith("_") and id(getattr(Tensor, name)) in operators
    }
    assert exported == set(PUBLIC)


def test_every_operator_has_a_signature_that_agrees_with_its_row():
    for name, row in ROWS.items():
        parameters = inspect.signature(getattr(ops, name)).parameters
        for attribute in row.attributes:
            default = parameters[attribute.name].default
            required = default is inspect.Parameter.empty
            assert required == attribute.required
            assert required or default == attribute.default
    assert str(inspect.signature(ops.leaky_relu)) == (
        "(x, negative_slope=0.01, name=None)"
    )
    bound = inspect.signature(proa.ones([2]).add_)
    assert list(bound.parameters) == ["y", "name"]


def test_help_shows_signature_formula_and_dtypes():
    text = pydoc.render_doc(proa.erf, renderer=pydoc.plaintext)
    assert "erf(x, name=None)" in text
    assert "Error function, 2/sqrt(pi)" in text
    assert "Dtypes: floats" in text
    assert "In place." in pydoc.render_doc(Tensor.erf_, renderer=pydoc.plaintext)


def test_the_stubs_document_every_operator_and_method():
    module = ast.parse((STUBS / "ops.pyi").read_text())
    functions = {f.name: f for f in module.body if isinstance(f, ast.FunctionDef)}
    # Others are operators of Python functions and extensions of earlier tests.
    assert set(functions) == {
        n for n in dir(ops) if {n, n.removesuffix("_")} & ROWS.keys()
    }
    (tensor,) = (
        c
        for c in ast.parse((STUBS / "methods.pyi").read_text()).body
        if isinstance(c, ast.ClassDef)
    )
    methods = {f.name: f for f in tensor.body if isinstance(f, ast.FunctionDef)}
    assert set(methods) == {p[7:] for p in PUBLIC if p.startswith("Tensor.")}
    for stub in (*functions.values(), *methods.values()):
        assert ast.get_docstring(stub)
        of_method = stub is methods.get(stub.name)  # whose first parameter is self
        assert all(a.annotation for a in stub.args.args[of_method:])
    assert ast.unparse(methods["erf_"].args) == "x, name: str | None=None"
