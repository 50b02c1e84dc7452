"""`Executor`: runs programs that were loaded or recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proa._core import Tensor
from proa.base.device import check_place
from proa.errors import InvalidArgumentError, InvalidTypeError, NotFoundError
from proa.ir import Program, from_bytes, to_bytes
from proa.ir.passes import apply
from proa.ir.program import Node, Value
from proa.jit.traced_layer import TracedLayer
from proa.jit.translated_layer import TranslatedLayer
from proa.tensor.creation import to_tensor

#: Parts of programs that an executor keeps planned.
_CACHE_SIZE = 32


def program_of(where: str, program: Any) -> Program:
    """The program itself, or that of a TracedLayer or TranslatedLayer."""
    if isinstance(program, (TracedLayer, TranslatedLayer)):
        inner = program.program
        return inner if isinstance(inner, Program) else inner()
    if not isinstance(program, Program):
        raise InvalidTypeError(
            f"[static.{where}] program must be a loaded or recorded one, as graphs are "
            f"recorded by proa.jit.to_static, got {type(program).__name__}"
        )
    return program


def named(where: str, what: str, values: Any) -> list[str]:
    """The names of values of a program: theirs, or the names themselves."""
    several = isinstance(values, Sequence) and not isinstance(values, str)
    found = []
    for v in values if several else [values]:
        name = v if isinstance(v, str) else getattr(v, "name", None)
        if not isinstance(name, str):
            raise InvalidTypeError(
                f"[static.{where}] {what} must be values of the program or names, got "
                f"{type(v).__name__}"
            )
        found.append(name)
    return found


def extract_fetches(where: str, program: Program, fetches: Sequence[str]) -> Program:
    """A copy that computes these values alone, of inputs that they follow from."""
    part = from_bytes(to_bytes(program))
    values = {v.name: v for v in part.main.values()}
    missing = [name for name in fetches if name not in values]
    if missing:
        raise NotFoundError(
            f"[static.{where}] expected fetches of values in the program, got {missing}"
        )
    part.main.outputs = [values[name] for name in fetches]
    part.metadata.pop("outputs", None)
    apply(part, ["remove_dead_code"])
    read = {v for n in part.main.nodes for v in n.inputs} | {*part.main.outputs}
    part.main.inputs = [v for v in part.main.inputs if v in read]
    return part


class Executor:
    """Runs programs that were loaded or recorded, on the CPU.

    Programs are recorded from functions, by `proa.jit.to_static` or `TracedLayer`;
    there are none that are built statement by statement.

    Args:
        place: The CPU, or None.
    """

    def __init__(self, place: object = None) -> None:
        check_place("static.Executor", place)
        #: By program and what is fetched: the nodes and how they run.
        self._known: dict[
            tuple[Program, tuple[str, ...]], tuple[list[Node], TranslatedLayer]
        ] = {}

    def run(
        self,
        program: Any = None,
        feed: Mapping[str, Any] | None = None,
        fetch_list: Sequence[Any] | None = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Any = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        return_merged: bool = True,
        use_prune: bool = False,
    ) -> list[Any]:
        """The values of a program for these inputs.

        Args:
            program: What `load_inference_model` gave, or a recorded one.
            feed: Arrays or Tensors by the inputs' names; more than are needed may be
                given.
            fetch_list: Values of the program or their names; None takes its outputs.
            feed_var_name: Has no meaning here, as the next two.
            fetch_var_name: See there.
            scope: See there: a program holds its parameters itself.
            return_numpy: Whether arrays are returned, or Tensors.
            use_program_cache: Kept for callers; plans are always kept.
            return_merged: Kept for callers; there is one device.
            use_prune: Kept for callers; only what is fetched is computed.

        Raises:
            InvalidTypeError: If program is none, or something else is fetched than
                values.
            NotFoundError: If what is fetched is not in the program.
            InvalidArgumentError: If an input is missing, or not of its dtype or shape.
        """
        found = program_of("Executor.run", program)
        names = [v.name for v in found.main.outputs]
        if fetch_list is not None:
            names = named("Executor.run", "fetch_list", fetch_list)
        layer = self._layer(found, tuple(names))
        given = dict(feed or {})
        inputs = layer.program().main.inputs
        missing = [v.name for v in inputs if v.name not in given]
        if missing:
            raise InvalidArgumentError(
                f"[static.Executor.run] expected {[v.name for v in inputs]} in feed, "
                f"got no {missing}"
            )
        results = layer(*(_tensor(given[v.name], v) for v in inputs))
        several = results if isinstance(results, (list, tuple)) else [results]
        return [r.numpy() if return_numpy else r for r in several]

    def _layer(self, program: Program, names: tuple[str, ...]) -> TranslatedLayer:
        nodes, layer = self._known.get((program, names), (None, None))
        if layer is None or nodes != program.main.nodes:  # it may have been rewritten
            part = extract_fetches("Executor.run", program, names)
            layer = TranslatedLayer(part)
            self._known[program, names] = (list(program.main.nodes), layer)
            while len(self._known) > _CACHE_SIZE:
                del self._known[next(iter(self._known))]
        return layer

    def close(self) -> None:
        """Forget the plans of programs."""
        self._known.clear()


def _tensor(given: Any, value: Value) -> Tensor:
    found = given if isinstance(given, Tensor) else to_tensor(given)
    if found.dtype.name != value.dtype:
        raise InvalidArgumentError(
            f"[static.Executor.run] {value.name} must be {value.dtype}, got "
            f"{found.dtype.name}"
        )
    return found.detach()
