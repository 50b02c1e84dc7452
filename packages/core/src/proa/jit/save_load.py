"""jit.save and jit.load."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

from proa.base.version import installed_version
from proa.errors import InvalidArgumentError
from proa.ir import from_bytes, name_outputs, read, to_bytes
from proa.ir.file import check_storable, write_all
from proa.ir.passes import apply
from proa.jit.capture import GraphBreak
from proa.jit.convert.effects import left_out
from proa.jit.foreign import exporter_of, is_foreign, load_foreign
from proa.jit.input_spec import as_specs
from proa.jit.pytree import as_tuples, leaf_paths
from proa.jit.static_function import StaticFunction
from proa.jit.trace import Trace, owner_of
from proa.jit.translated_layer import TranslatedLayer, noted

_SUFFIX = ".proa"
#: What a saved program is rid of. Fusions are left to who runs it.
_SAVED_PASSES = (
    "remove_identities",
    "eliminate_common_subexpressions",
    "remove_dead_code",
)


def file_of(path: str | os.PathLike[str]) -> str:
    """The path itself if it ends in .proa, else with that added."""
    name = os.fspath(path)
    return name if name.endswith(_SUFFIX) else name + _SUFFIX


@contextmanager
def _evaluating(owner: Any) -> Iterator[None]:
    """The Layer in evaluation mode; afterwards each of its parts as it was."""
    parts = [] if owner is None else [owner, *owner.sublayers()]
    modes = [(part, part.training) for part in parts]
    for part in parts:
        part.training = False
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def _output_names(found: Trace) -> list[str]:
    """For each output the keys that lead to it in the function's result, joined by
    dots, or the name of the operator's output where there are none.

    Indices of the outermost lists are left out where the rest is enough.
    """
    outputs = found.program.main.outputs
    paths = leaf_paths(found.treedef)
    joined: list[str] = []
    for i in range(len(outputs)):
        path = paths.get(i, ())
        named = next((k for k, key in enumerate(path) if isinstance(key, str)), None)
        joined.append("" if named is None else ".".join(map(str, path[named:])))
    names: list[str] = []
    for i, (value, name) in enumerate(zip(outputs, joined, strict=True)):
        if name and joined.count(name) > 1:
            name = ".".join(map(str, paths[i]))
        name, number = name or value.name, 1
        stem = name
        while name in names or (name in joined and name != joined[i]):
            name, number = f"{stem}_{number}", number + 1
        names.append(name)
    return names


def _are_names(known: Any, found: Trace) -> bool:
    """Whether these are a name for each output: an importer's may be none or twice."""
    count = len(found.program.main.outputs)
    return (
        isinstance(known, list) and all(known) and len({*known}) == count == len(known)
    )


def export(
    layer: Callable[..., object],
    input_spec: Sequence[object] | None = None,
    output_names: Sequence[str] | None = None,
) -> Trace:
    """The program of a Layer or function in evaluation mode, as `save` writes it.

    Args:
        output_names: One for each output; by default the keys of what is returned.

    Raises:
        InvalidArgumentError: If the inputs' shapes are not known, or the function
            returns no tensors.
    """
    static: Any = layer
    if owner_of(layer) is layer:
        static = static.forward
    specs = None if input_spec is None else as_specs(list(input_spec))
    known = static.input_spec if isinstance(static, StaticFunction) else None
    if specs is None and known is None and not isinstance(static, StaticFunction):
        raise InvalidArgumentError(
            "[jit.save] expected input_spec with the inputs' shapes, got None"
        )
    function = static.function if isinstance(static, StaticFunction) else static
    owner = static.owner if isinstance(static, StaticFunction) else owner_of(layer)
    try:
        with _evaluating(owner), left_out():
            fresh = StaticFunction(function, specs or known, owner)
            as_called = fresh.input_spec is None and isinstance(static, StaticFunction)
            found = fresh.traced_like(static) if as_called else fresh.traced()
    except GraphBreak as graph_break:
        raise InvalidArgumentError(
            "[jit.save] expected a function that a model file can hold, "
            f"got one where {graph_break.reason}"
        ) from None
    program = found.program
    program.metadata["framework"] = f"proa {installed_version()}"
    named: Any = type(layer) if owner is layer else layer
    program.metadata["name"] = named.__name__
    shapes = [[v.name, v.dtype, list(v.shape)] for v in program.main.inputs]
    program.metadata["input_spec"] = json.dumps(shapes)
    # A value that only Python knows cannot be stored: outputs then come as a flat list.
    with suppress(TypeError):
        program.metadata["outputs"] = json.dumps(as_tuples(found.treedef))
    if output_names is None:
        # The names of a model that was loaded, or else those of what is returned.
        stored: Any = getattr(layer, "_output_names", None) if owner is layer else None
        output_names = stored if _are_names(stored, found) else _output_names(found)
    name_outputs(program, list(output_names))
    return found


def save(
    layer: Callable[..., object],
    path: str | os.PathLike[str] | IO[bytes],
    input_spec: Sequence[object] | None = None,
    **configs: object,
) -> None:
    """Write a Layer or function as one model file.

    A Layer's further static methods are written next to it, each as a model file of its
    own: ``encode`` of ``model.proa`` as ``model.encode.proa``. `load` returns them as
    methods of what it loads. Those that have neither an input_spec nor were called are
    not saved, as the shapes of their inputs are not known.

    Args:
        layer: A Layer (saved in evaluation mode) or a function, static or not.
        path: The file's path (`.proa` is added if it does not end so), or a file open
            for writing bytes, such as `io.BytesIO`, which takes ``forward`` alone.
        input_spec: `InputSpec`s or example tensors, which may be nested in lists and
            dictionaries as the call's arguments do; may be left out if `to_static` had
            them or the function was called. The model takes them one after another.
            They are those of ``forward``.
        configs: ``format="paddle"`` writes ``PATH.pdmodel`` and ``PATH.pdiparams`` for
            PaddlePaddle, as `proa.interop.paddle.save` does. ``output_names``: what
            runtimes call the outputs of ``forward``, one for each. Without it a
            dictionary's keys and a named tuple's fields name what it returns
            (``"boxes"``, or ``"head.boxes"`` where they are nested).

    Raises:
        InvalidArgumentError: If the inputs' shapes are not known, the function
            returns no tensors, or the names are not one for each output.
        UnimplementedError: If the code depends on a tensor's value or calls Python
            functions of `static.py_func`; names the line.
    """
    kind = configs.get("format", "proa")
    names: Any = configs.get("output_names")  # of any type: export checks it
    if kind != "proa":
        exporter = exporter_of("jit.save", kind)
        exporter.save(layer, path, input_spec, output_names=names)
        return
    program = export(layer, input_spec, names).program
    apply(program, _SAVED_PASSES)
    if not isinstance(path, (str, os.PathLike)):
        check_storable(program)
        path.write(to_bytes(program))
        return
    methods = _static_methods(layer) if owner_of(layer) is layer else {}
    exported = {name: export(method).program for name, method in methods.items()}
    if exported:
        program.metadata["methods"] = json.dumps(list(exported))
    for method_program in exported.values():
        apply(method_program, _SAVED_PASSES)
    files = {_methods_path(file_of(path), n): p for n, p in exported.items()}
    write_all({**files, file_of(path): program})


def _methods_path(path: str, method: str) -> str:
    """Where a method other than ``forward`` is saved: ``model.encode.proa``."""
    return f"{path.removesuffix(_SUFFIX)}.{method}{_SUFFIX}"


def _static_methods(layer: Any) -> dict[str, StaticFunction[..., Any]]:
    """A Layer's static functions other than ``forward`` whose inputs are known: they
    have an input_spec or were called.
    """
    found = {}
    for name in dir(layer):
        attribute = inspect.getattr_static(layer, name, None)
        if name != "forward" and isinstance(attribute, StaticFunction):
            method: StaticFunction[..., Any] = getattr(layer, name)
            if method.has_known_inputs:
                found[name] = method
    return found


def load(path: str | os.PathLike[str] | IO[bytes], **configs: object) -> Any:
    """The model that `save` wrote, from its path or a file open for reading bytes.

    Static methods that were saved with it are methods of what is loaded. A model of
    PaddlePaddle (``PREFIX.pdmodel`` with ``PREFIX.pdiparams``, or a folder with
    ``__model__``) is read by `proa.interop.paddle.load`.

    Args:
        path: The path, which may lack its `.proa` or `.pdmodel`, or the file.
        configs: ``model_filename`` and ``params_filename``, the names of a Paddle
            model's two files.

    Returns:
        A `TranslatedLayer`, or the Layer of a Paddle model. Both can be trained.

    Raises:
        MissingFileError: If there is no such file; also a ValueError.
        InvalidArgumentError: If it is no sound model file.
        VersionError: If a version of Proa wrote it that this one cannot read.
    """
    if not isinstance(path, (str, os.PathLike)):
        return TranslatedLayer(from_bytes(path.read()))
    if is_foreign(path):
        chosen = ("model_filename", "params_filename")
        return load_foreign(path, **{k: v for k, v in configs.items() if k in chosen})
    name = os.fspath(path)
    name = name if os.path.exists(name) else file_of(name)
    programs = {"forward": read(name)}
    for method in noted(programs["forward"], "methods") or []:
        if not isinstance(method, str) or not method.isidentifier():
            raise InvalidArgumentError(
                f"[jit.load] the methods of {name} must be names, got {method!r}"
            )
        programs[method] = read(_methods_path(name, method))
    return TranslatedLayer(programs)
