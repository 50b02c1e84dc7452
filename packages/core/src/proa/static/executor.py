"""`Executor`: runs static programs, and programs that were loaded or recorded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from proa import _core
from proa._core import Tensor
from proa.base.device import check_place
from proa.errors import InvalidArgumentError, InvalidTypeError, UnavailableError
from proa.ir import Program as Graph
from proa.ir.program import Node, Value
from proa.ir.record import at_once
from proa.jit.translated_layer import TranslatedLayer
from proa.static.block import Operator
from proa.static.compiled_program import CompiledProgram
from proa.static.data_parallel import is_updated_by, merged, parts_of
from proa.static.graphs import extract_fetches, named, program_of
from proa.static.mode import default_main_program, program_guard
from proa.static.plan import Plan, Request
from proa.static.program import Program, StartupRun
from proa.static.scope import Scope, global_scope
from proa.static.sequences import (
    as_fetched,
    companion_feed,
    level_names,
    with_lengths_fed,
)
from proa.static.variable import Variable
from proa.tensor.creation import to_tensor
from proa.tensor.lod import LoDTensor
from proa.tensor.symbolic_dims import SymbolicDim

#: Parts of loaded programs that an executor keeps planned.
_CACHE_SIZE = 32
#: Bytes that the plans of static programs may take together.
_CACHE_BYTES = 1 << 30


class Executor:
    """Runs programs on the CPU: static ones, which static mode builds, and ones that
    were loaded or recorded.

    A static program's persistable Variables live in a scope, where its startup program
    puts them. A run is planned once for the shapes of what it is fed and for what it
    fetches; plans are kept, the latest used ones of at most 1 GiB.

    Args:
        place: The CPU, or None.
    """

    def __init__(self, place: object = None) -> None:
        check_place("static.Executor", place)
        #: By program and what is fetched: the nodes and how they run.
        self._loaded: dict[
            tuple[Graph, tuple[str, ...]], tuple[list[Node], TranslatedLayer]
        ] = {}
        self._plans: OrderedDict[Any, Plan] = OrderedDict()

    def run(
        self,
        program: Any = None,
        feed: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        fetch_list: Any = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        return_merged: bool = True,
        use_prune: bool = False,
    ) -> list[Any]:
        """Run a program once: the values of the Variables fetched.

        Persistable Variables that the program changes are updated in the scope.

        Args:
            program: A Program or CompiledProgram, what `load_inference_model` gave, or
                a recorded one; None is `default_main_program`.
            feed: Arrays or Tensors by the inputs' names; more than are needed may be
                given.
            fetch_list: Variables or their names, also of parameters and gradients
                (``w@GRAD``); what `minimize` returns may be among them. Of a loaded
                program None takes its outputs.
            feed_var_name: Kept for callers, as the next.
            fetch_var_name: See there.
            scope: Where persistable Variables are; None is `global_scope`.
            return_numpy: Whether arrays are returned, or Tensors: LoDTensors where rows
                make sequences.
            use_program_cache: Kept for callers; plans are always kept.
            return_merged: For a CompiledProgram for several places: whether the rows of
                their results are put together, or each result is a list with that of
                each place, which may have different shapes.
            use_prune: Run only what fetches follow from: nothing is updated but by the
                operators in fetch_list, as `minimize` returns them.

        Raises:
            InvalidTypeError: If program is none, or something else is fetched than
                Variables.
            NotFoundError: If what is fetched is not in the program.
            InvalidArgumentError: If an input is missing, or not of its dtype or shape.
            PreconditionNotMetError: If the scope lacks a persistable Variable.
            EndOfDataError: If a loader of the program that is not iterable has no batch
                left.
        """
        if isinstance(program, CompiledProgram):
            count, program = program.place_count, program.program
            if count > 1 and feed and not is_updated_by(program):
                parts = [
                    self.run(program, part, fetch_list, scope=scope,
                             return_numpy=return_numpy)
                    for part in parts_of(program, feed, count)
                ]  # fmt: skip
                columns = [list(column) for column in zip(*parts, strict=True)]
                return [merged(c) for c in columns] if return_merged else columns
        if program is None:
            program = default_main_program()
        given = _merged_feed(feed)
        if isinstance(program, Program):
            held = global_scope() if scope is None else scope
            for reader in program.readers:
                given = {**reader.next_feed(), **given}
            if program.lod_levels:
                given = with_lengths_fed(program, given)
            if program.sequences and not return_numpy:
                return self._run_sequences(program, given, fetch_list, held, use_prune)
            results = self._run_program(program, given, fetch_list, held, use_prune)
        else:
            results = self._run_loaded(program, given, fetch_list)
        return [r.numpy() for r in results] if return_numpy else results

    # -- static programs --------------------------------------------------------------
    def _run_program(
        self,
        program: Program,
        feed: Mapping[str, Any],
        fetch_list: Any,
        scope: Scope,
        use_prune: bool,
    ) -> list[Any]:
        builds = _core.set_builds_here(False)
        enabled = _core.set_grad_enabled(False)
        try:
            try:
                fed = [
                    _core.from_numpy(x, False)
                    if type(x) is np.ndarray
                    else _fed_tensor(program, name, x)
                    for name, x in feed.items()
                ]
            except (InvalidArgumentError, InvalidTypeError):
                _refuse_feed(program, feed)
                raise
            fetched = _fetch_key(fetch_list, program)
            key = (
                id(program), program.version, tuple(feed), _core.call_key(fed), fetched,
                use_prune,
            )  # fmt: skip
            plan = self._plans.get(key)
            if plan is None:
                plan = self._plan(program, feed, fed, fetched, use_prune, key)
            else:
                self._plans.move_to_end(key)
            if program.initializations:
                _initialize(program, scope)
            return plan.run(fed, scope)
        finally:
            _core.set_grad_enabled(enabled)
            _core.set_builds_here(builds)

    def _run_sequences(
        self,
        program: Program,
        feed: Mapping[str, Any],
        fetch_list: Any,
        scope: Scope,
        use_prune: bool,
    ) -> list[Any]:
        """What `_run_program` gives, with lengths where rows have some."""
        wanted: list[Any] = []
        counts = []
        for key in _fetch_key(fetch_list, program):
            wanted.append(key)
            if isinstance(key, str):
                levels = level_names(program, key)
                wanted += levels
                counts.append(len(levels))
        results = self._run_program(program, feed, wanted, scope, use_prune)
        return as_fetched(results, counts)

    def _plan(
        self,
        program: Program,
        feed: Mapping[str, Any],
        fed: Sequence[Tensor],
        fetched: tuple[Any, ...],
        use_prune: bool,
        key: Any,
    ) -> Plan:
        specs = {
            name: (x.dtype.name, tuple(x.shape))
            for name, x in zip(feed, fed, strict=True)
        }
        names = [f for f in fetched if isinstance(f, str)]
        nodes = {f for f in fetched if isinstance(f, Node)} if use_prune else None
        plan = Plan(program, Request(specs, names, nodes))
        self._plans[key] = plan
        taken = sum(known.bytes for known in self._plans.values())
        while taken > _CACHE_BYTES and len(self._plans) > 1:
            taken -= self._plans.popitem(last=False)[1].bytes
        return plan

    # -- loaded and recorded programs -------------------------------------------------
    def _run_loaded(
        self, program: Any, feed: Mapping[str, Any], fetch_list: Any
    ) -> list[Any]:
        found = program_of("Executor.run", program)
        for name, value in list(feed.items()):
            if isinstance(value, LoDTensor) and value._lengths:
                feed = {**companion_feed(name, value), **feed}
        names = [v.name for v in found.main.outputs]
        if fetch_list is not None:
            names = named("Executor.run", "fetch_list", fetch_list)
        layer = self._layer(found, tuple(names))
        inputs = layer.program().main.inputs
        missing = [v.name for v in inputs if v.name not in feed]
        if missing:
            raise InvalidArgumentError(
                f"[static.Executor.run] expected {[v.name for v in inputs]} in feed, "
                f"got no {missing}"
            )
        with at_once():
            results = layer(*(_tensor(feed[v.name], v) for v in inputs))
        return list(results) if isinstance(results, (list, tuple)) else [results]

    def _layer(self, program: Graph, names: tuple[str, ...]) -> TranslatedLayer:
        nodes, layer = self._loaded.get((program, names), (None, None))
        if layer is None or nodes != program.main.nodes:  # it may have been rewritten
            part = extract_fetches("Executor.run", program, names)
            layer = TranslatedLayer(part)
            self._loaded[program, names] = (list(program.main.nodes), layer)
            while len(self._loaded) > _CACHE_SIZE:
                del self._loaded[next(iter(self._loaded))]
        return layer

    def close(self) -> None:
        """Forget the plans of programs."""
        self._loaded.clear()
        self._plans.clear()

    def flush(self) -> None:
        """Nothing: what a run does is done when it returns."""

    def split_program_by_device(self, program: Program) -> NoReturn:
        """Refused: no part of a program runs on another device.

        Raises:
            UnavailableError: Always.
        """
        raise UnavailableError(
            "[Executor.split_program_by_device] expected devices other than the CPU, "
            "got none"
        )

    def start_heter_trainer(
        self,
        program: Program | None = None,
        scope: Scope | None = None,
        debug: bool = False,
        fetch_list: Sequence[Any] | None = None,
        fetch_info: Sequence[str] | None = None,
        print_period: int = 100,
        fetch_handler: Any = None,
    ) -> NoReturn:
        """Refused: no part of a program runs on another device.

        Raises:
            UnavailableError: Always.
        """
        raise UnavailableError(
            "[Executor.start_heter_trainer] expected devices other than the CPU, got "
            "none"
        )

    # -- data sets --------------------------------------------------------------------
    def train_from_dataset(
        self,
        program: Any = None,
        dataset: Iterable[Mapping[str, Any]] | None = None,
        scope: Scope | None = None,
        thread: int = 0,
        debug: bool = False,
        fetch_list: Sequence[Any] | None = None,
        fetch_info: Sequence[str] | None = None,
        print_period: int = 100,
        fetch_handler: Any = None,
    ) -> None:
        """Run the program once for each batch of a data set.

        Args:
            program: As in `run`.
            dataset: Gives the batches: dictionaries of arrays by the inputs' names.
            scope: As in `run`.
            thread: Kept for callers; batches are run one after another.
            debug: Whether fetches are printed in every run.
            fetch_list: Variables to print.
            fetch_info: What to print before each of them; their names if None.
            print_period: Runs from one print to the next.
            fetch_handler: Its method ``handler`` is given the fetches by name, instead
                of printing them.

        Raises:
            InvalidTypeError: If there is no data set.
        """
        if dataset is None:
            raise InvalidTypeError(
                "[Executor.train_from_dataset] dataset must give batches, got None"
            )
        wanted = list(fetch_list or ())
        names = [w if isinstance(w, str) else w.name for w in wanted]
        labels = list(fetch_info or names)
        for step, batch in enumerate(dataset):
            shows = debug or (step + 1) % print_period == 0
            shown = wanted if shows else []
            result = self.run(program, batch, shown, scope=scope)
            if not shown:
                continue
            if fetch_handler is not None:
                fetch_handler.handler(dict(zip(names, result, strict=True)))
                continue
            pairs = zip(labels, result, strict=True)
            print(f"step: {step + 1}, " + ", ".join(f"{n}: {v}" for n, v in pairs))

    def infer_from_dataset(
        self,
        program: Any = None,
        dataset: Iterable[Mapping[str, Any]] | None = None,
        scope: Scope | None = None,
        thread: int = 0,
        debug: bool = False,
        fetch_list: Sequence[Any] | None = None,
        fetch_info: Sequence[str] | None = None,
        print_period: int = 100,
        fetch_handler: Any = None,
    ) -> None:
        """The same as `train_from_dataset`, by the name for programs of inference.

        Args:
            program: As there, and so are the others.
            dataset: See there.
            scope: See there.
            thread: See there.
            debug: See there.
            fetch_list: See there.
            fetch_info: See there.
            print_period: See there.
            fetch_handler: See there.
        """
        self.train_from_dataset(
            program, dataset, scope, thread, debug, fetch_list, fetch_info,
            print_period, fetch_handler,
        )  # fmt: skip


def _merged_feed(feed: Any) -> Mapping[str, Any]:
    """One dictionary, also of a list of them for devices."""
    if feed is None:
        return {}
    if isinstance(feed, Mapping):
        return feed
    if isinstance(feed, (list, tuple)) and all(isinstance(f, Mapping) for f in feed):
        if len(feed) == 1:
            return dict(feed[0])
        return {
            name: np.concatenate([np.asarray(f[name]) for f in feed])
            for name in (feed[0] if feed else ())
        }
    raise InvalidTypeError(
        f"[Executor.run] feed must be a dict, got {type(feed).__name__}"
    )


def _fed_tensor(program: Program, name: str, given: Any) -> Tensor:
    if isinstance(given, Tensor):
        if given._is_symbolic:
            raise InvalidTypeError(
                f"[Executor.run] {name!r} must be fed an array or a Tensor with a "
                f"value, got the Variable {given.name!r}"
            )
        return given
    if hasattr(given, "__array__"):
        return to_tensor(np.asarray(given))
    value = program.data.get(name)
    return to_tensor(given, None if value is None else value.dtype)


def _refuse_feed(program: Program, feed: Mapping[str, Any]) -> None:
    """Name what is no array of numbers."""
    for name, given in feed.items():
        if isinstance(given, Tensor):
            continue
        try:
            _fed_tensor(program, name, given)
        except (InvalidArgumentError, InvalidTypeError) as error:
            shown = repr(given)
            shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
            raise type(error)(
                f"[Executor.run] {name!r} must be fed an array of numbers, got the "
                f"{type(given).__name__} {shown}"
            ) from None


def _fetch_key(fetch_list: Any, program: Program) -> tuple[Any, ...]:
    """Names of Variables and nodes of operators, lists within taken apart."""
    if fetch_list is None:
        return ()
    given = fetch_list if isinstance(fetch_list, (list, tuple)) else [fetch_list]
    found: list[Any] = []
    for item in given:
        if isinstance(item, (str, Node)):
            found.append(item)
        elif isinstance(item, Tensor):
            known = item._is_symbolic or item.name in program.vars
            found.append(item.name if known else program.constant(item).name)
        elif isinstance(item, SymbolicDim):
            found.append(_as_variable(item).name)
        elif isinstance(item, Operator):
            found.append(item.node)
        elif isinstance(item, (list, tuple)):  # as `minimize` returns them
            found += [f for f in _fetch_key(item, program) if isinstance(f, Node)]
        else:
            raise InvalidTypeError(
                "[Executor.run] fetch_list must be Variables or names, got "
                f"{type(item).__name__}"
            )
    return tuple(found)


def _as_variable(size: SymbolicDim) -> Variable:
    """A size that is unknown while a program is built as a Variable of the program."""
    known: Any = size.__dict__.get("_variable")
    if known is None:
        with program_guard(size.of._handle[0].owner):
            known = size.__dict__["_variable"] = size.number()
    found: Variable = known
    return found


def _initialize(program: Program, scope: Scope) -> None:
    """Make the first values, in the order in which the Variables were made."""
    seed = program.random_seed
    had = _core.own_generator(True) if seed else False
    before = _core.generator_get()
    if seed:
        _core.generator_set(seed, 0)
    try:
        run = StartupRun(scope)
        for what in program.initializations:
            value = what.make(run)
            scope.var(what.name).tensor = value.detach()
    finally:
        if seed:
            _core.own_generator(had)
            if had:
                _core.generator_set(*before)


def _tensor(given: Any, value: Value) -> Tensor:
    found = given if isinstance(given, Tensor) else to_tensor(given)
    if found.dtype.name != value.dtype:
        raise InvalidArgumentError(
            f"[static.Executor.run] {value.name} must be {value.dtype}, got "
            f"{found.dtype.name}"
        )
    return found.detach()
