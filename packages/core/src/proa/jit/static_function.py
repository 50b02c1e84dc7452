"""A function that runs as a planned program where that gives the same result."""

from __future__ import annotations

import copy
import functools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import MethodType
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    overload,
)

from proa import _core
from proa.base import autocast
from proa.base.collector import collector_paused
from proa.base.flags import checks_finite
from proa.errors import InvalidArgumentError
from proa.ir import Program
from proa.ir.program import Value
from proa.ir.record import dtype_name, in_graph
from proa.jit.capture import GraphBreak
from proa.jit.compiled import Compiled, InferenceProgram, TrainingProgram
from proa.jit.convert import code_of, recordable
from proa.jit.input_spec import InputSpec, as_specs
from proa.jit.log import log_recording
from proa.jit.pytree import flatten, is_tensor, leaves_of, unflatten
from proa.jit.recording import Recording, record
from proa.jit.switch import switch
from proa.jit.trace import Trace, owner_of, trace

P = ParamSpec("P")  # of the function that is made static
Q = ParamSpec("Q")  # of a method, without its object
R = TypeVar("R")
_Object = TypeVar("_Object")
_Net = TypeVar("_Net", bound="_LayerLike")
_Function = TypeVar("_Function", bound=Callable[..., object])

#: Signatures in a cache, and programs of one signature (modes, sets of parameters).
_MAX_TRACES = 32
_MAX_VARIANTS = 4


def _plain_treedef(count: int) -> Any:
    """The plan of a call with so many tensors and nothing else."""
    return {"tuple": [{"tuple": [{"leaf": i} for i in range(count)]}, {"dict": []}]}


def _stops(tensors: Sequence[Any]) -> tuple[bool, ...]:
    return tuple(t.stop_gradient for t in tensors)


class StaticFunction(Generic[P, R]):
    """What `to_static` makes of a function. Calls are traced once per signature.

    Where a gradient may be wanted or the Layer is in training mode, the function is
    recorded with what it does to parameters, buffers and gradients (see `record`), for
    exact shapes; else its weights are constants of the program.
    """

    def __init__(
        self,
        function: Callable[P, R],
        input_spec: Sequence[object] | None = None,
        owner: object = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.input_spec = None if input_spec is None else as_specs(list(input_spec))
        self.owner: Any = owner if owner is not None else owner_of(function)
        #: By call signature, or for inference by input specs; the latest used last.
        self._cache: OrderedDict[Any, list[Compiled]] = OrderedDict()
        self._latest: tuple[Sequence[InputSpec], Any] | None = None
        #: Calls that a graph break keeps from being recorded.
        self._broken: set[Any] = set()

    @overload
    def __get__(
        self, instance: None, kind: type | None = ...
    ) -> StaticFunction[P, R]: ...
    @overload
    def __get__(
        self: StaticFunction[Concatenate[_Object, Q], R],
        instance: _Object,
        kind: type | None = ...,
    ) -> StaticFunction[Q, R]: ...
    def __get__(
        self, instance: object, kind: type | None = None
    ) -> StaticFunction[..., R]:
        if instance is None:
            return self
        # With the instance, whose life they share.
        known: dict[int, StaticFunction[..., R]] = getattr(
            instance, "__dict__", {}
        ).setdefault("_static_functions", {})
        if id(self) not in known:
            method = cast(Any, self.function).__get__(instance)
            known[id(self)] = StaticFunction(method, self.input_spec, owner_of(method))
        return known[id(self)]

    def __deepcopy__(self, memo: dict[int, object]) -> StaticFunction[P, R]:
        """The same function, of the instance's copy; recordings are not copied."""
        function: Any = self.function
        if isinstance(function, MethodType):
            function = MethodType(
                function.__func__, copy.deepcopy(function.__self__, memo)
            )
        return StaticFunction(
            function, self.input_spec, copy.deepcopy(self.owner, memo)
        )

    def _call_function(self, *args: P.args, **kwargs: P.kwargs) -> R:
        with in_graph():
            return self.function(*args, **kwargs)

    def _wants_function(self, tensors: Sequence[Any]) -> bool:
        if _core.is_recording() or any(t._is_symbolic for t in tensors):
            return True  # inside another trace
        return not switch.records or checks_finite()

    def _wants_record(
        self, tensors: Sequence[Any], specs: Sequence[InputSpec], treedef: Any
    ) -> bool:
        if getattr(self.owner, "training", False):
            return True
        if not _core.is_grad_enabled():
            return False
        takes_grad = any(not t.stop_gradient for t in tensors)
        if self.owner is not None:
            return takes_grad or any(
                not t.stop_gradient for t in self.owner.parameters()
            )
        # A function that was found to change nothing has an inference program.
        known = self._inference_program(specs, treedef)
        if known is None:
            return True
        return takes_grad and _stops(tensors) not in known.detached

    def _specs(self, tensors: Sequence[Any], treedef: Any) -> list[InputSpec]:
        if self.input_spec is None:
            return [InputSpec(list(t.shape), dtype_name(t)) for t in tensors]
        specs = self._specs_for(self.input_spec, len(tensors), treedef)
        for i, (spec, t) in enumerate(zip(specs, tensors, strict=True)):
            if not spec.admits(t.shape) or spec.dtype != dtype_name(t):
                raise InvalidArgumentError(
                    f"[to_static] argument {i} must be {spec}, got {dtype_name(t)} "
                    f"of shape {tuple(t.shape)}"
                )
        return specs

    @staticmethod
    def _specs_for(given: Sequence[Any], count: int, treedef: Any) -> list[InputSpec]:
        """The specs of a call's tensors, in their order."""
        if all(isinstance(spec, InputSpec) for spec in given):
            if count != len(given):
                raise InvalidArgumentError(
                    f"[to_static] expected a call with {len(given)} tensors, got "
                    f"{count}"
                )
            return list(given)
        try:
            found = leaves_of((tuple(given), {}), treedef)
        except LookupError as error:
            raise InvalidArgumentError(
                "[to_static] the call's arguments must have the structure of "
                f"input_spec, got {error.args[0]!r}, which it lacks"
            ) from None
        for i in range(count):
            if not isinstance(found[i], InputSpec):
                raise InvalidArgumentError(
                    f"[to_static] tensor {i} of the call must have an InputSpec, "
                    f"got {found[i]!r}"
                )
        return [found[i] for i in range(count)]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        plain = None if kwargs else _core.call_key(args)
        if plain is not None and switch.records and not checks_finite():
            tensors: Sequence[Any] = args  # call_key has found nothing else
            treedef, key = None, (plain, "", autocast.key())
        else:
            tensors, treedef = flatten((args, kwargs), is_tensor)
            if self._wants_function(tensors):
                if any(t._is_symbolic for t in tensors):
                    recorded: R = recordable(self.function)(*args, **kwargs)
                    return recorded
                return self.function(*args, **kwargs)
            key = (_core.call_key(tensors), repr(treedef), autocast.key())
        known = self._cached(key)
        if known is not None:
            cached: R = known(tensors)
            return cached
        treedef = treedef or _plain_treedef(len(args))
        specs = self._specs(tensors, treedef)
        self._latest = specs, treedef
        records = self._wants_record(tensors, specs, treedef)
        state = (key, records, getattr(self.owner, "training", False), _stops(tensors))
        if state in self._broken:
            return self._call_function(*args, **kwargs)
        try:
            compiled = self._compile(tensors, treedef, specs, records)
        except GraphBreak:
            if len(self._broken) >= _MAX_TRACES:
                self._broken.clear()
            self._broken.add(state)
            return self._call_function(*args, **kwargs)
        if not compiled.graph.is_repeatable:
            return self._call_function(*args, **kwargs)
        if isinstance(compiled, TrainingProgram):
            self._store(key, compiled)
        result: R = compiled(tensors)
        return result

    # -- the cache --------------------------------------------------------------------
    def _cached(self, key: Any) -> Compiled | None:
        """The program of this key whose guards hold."""
        for known in self._cache.get(key, ()):
            if known.check_guards():
                self._cache.move_to_end(key)
                return known
        return None

    def _store(self, key: Any, compiled: Compiled) -> None:
        log_recording(self.function, compiled.graph.program)
        variants = self._cache.setdefault(key, [])
        variants.insert(0, compiled)
        del variants[_MAX_VARIANTS:]
        self._cache.move_to_end(key)
        while len(self._cache) > _MAX_TRACES:
            self._cache.popitem(last=False)

    @staticmethod
    def _inference_key(specs: Sequence[InputSpec], treedef: Any) -> Any:
        return tuple(specs), repr(treedef), autocast.key()

    def _inference_program(
        self, specs: Sequence[InputSpec], treedef: Any
    ) -> InferenceProgram | None:
        """The cached program of these specs, if its guards hold."""
        found = self._cached(self._inference_key(specs, treedef))
        assert found is None or isinstance(found, InferenceProgram)
        return found

    def _store_inference(
        self, specs: Sequence[InputSpec], treedef: Any, found: Trace
    ) -> InferenceProgram:
        program = InferenceProgram(found)
        self._store(self._inference_key(specs, treedef), program)
        return program

    # -- recording --------------------------------------------------------------------
    def _find(self, specs: Sequence[InputSpec], treedef: Any) -> InferenceProgram:
        """The inference program of these specs."""
        known = self._inference_program(specs, treedef)
        if known is not None:
            return known
        result = trace(
            self.function,
            lambda symbols: unflatten(symbols, treedef),
            specs,
            owner=self.owner,
        )
        return self._store_inference(specs, treedef, result)

    def _compile(
        self,
        tensors: Sequence[Any],
        treedef: Any,
        specs: Sequence[InputSpec],
        records: bool,
    ) -> Compiled:
        """The program of such a call: one for inference, unless effects or gradients
        are to be recorded and there are any.
        """
        if not records:
            return self._find(specs, treedef)
        with collector_paused():
            return self._make_recording(tensors, treedef, specs)

    def _make_recording(
        self, tensors: Sequence[Any], treedef: Any, specs: Sequence[InputSpec]
    ) -> Compiled:
        exact = [InputSpec(list(t.shape), dtype_name(t)) for t in tensors]
        stops = _stops(tensors)
        recording = self._record(specs if self.owner is None else exact, stops, treedef)
        if self.owner is None and recording.is_plain:
            known = self._inference_program(specs, treedef)
            if known is None:
                known = self._store_inference(specs, treedef, recording.as_trace())
            known.detached.add(stops)
            return known
        if self.owner is None and list(specs) != exact:
            recording = self._record(exact, stops, treedef)
        return TrainingProgram(recording)

    def _record(
        self, specs: Sequence[InputSpec], stops: Sequence[bool], treedef: Any
    ) -> Recording:
        return record(
            self.function,
            lambda symbols: unflatten(symbols, treedef),
            specs,
            stops,
            owner=self.owner,
        )

    def traced(self, input_spec: Sequence[object] | None = None) -> Trace:
        """The trace for these specs (all arguments tensors), or for the latest call of
        another form than those before.
        """
        given = self.input_spec if not input_spec else as_specs(list(input_spec))
        if given is None:
            return self._find(*self._called()).graph
        is_spec = lambda s: isinstance(s, InputSpec)  # noqa: E731
        return self._find(*flatten((tuple(given), {}), is_spec)).graph

    def traced_like(self, called: StaticFunction[..., object]) -> Trace:
        """The trace for the latest call of another function."""
        return self._find(*called._called()).graph

    @property
    def has_known_inputs(self) -> bool:
        """Whether an input_spec or a call determines what the inputs are."""
        return self.input_spec is not None or self._latest is not None

    def _called(self) -> tuple[Sequence[InputSpec], Any]:
        if self._latest is None:
            raise InvalidArgumentError(
                "[to_static] expected an input_spec or an earlier call, got neither"
            )
        return self._latest

    @property
    def concrete_program(self) -> Trace | Recording:
        """The latest recording: its `program`, and what its results and inputs are."""
        latest = next(reversed(self._cache.values()), [None])[0]
        if isinstance(latest, TrainingProgram) and self.input_spec is None:
            return latest.graph
        return self.traced()

    @property
    def main_program(self) -> Program:
        """The program of the latest recording."""
        return self.concrete_program.program

    @property
    def inputs(self) -> list[Value]:
        """What the program is given: arguments and, if it trains, state."""
        return list(self.main_program.main.inputs)

    @property
    def outputs(self) -> list[Value]:
        """What the program leaves."""
        return list(self.main_program.main.outputs)

    @property
    def dygraph_function(self) -> Callable[P, R]:
        """The function itself."""
        return self.function

    def rollback(self) -> Callable[P, R]:
        """Undo `to_static`: the function, which is the Layer's forward again."""
        if vars(self.owner or self).get("forward") is self:
            del self.owner.forward
        return self.function

    @property
    def code(self) -> str:
        """The source of the function that is recorded, with its control flow converted.

        Raises:
            OSError: If the function has no source, as in an interactive session.
        """
        return code_of(self.function)


class _LayerLike(Protocol):
    """A Layer, which is defined above this package."""

    @property
    def forward(self) -> Callable[..., object]: ...

    @property
    def named_parameters(self) -> Callable[..., object]: ...


class _ToStatic(Protocol):
    """`to_static` with its settings, as a decorator."""

    @overload
    def __call__(self, function: _Net) -> _Net: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> StaticFunction[P, R]: ...


@overload
def to_static(
    function: _Net, input_spec: Sequence[object] | None = ...,
    build_strategy: object = ..., backend: object = ..., **kwargs: object,
) -> _Net: ...  # fmt: skip
@overload
def to_static(
    function: Callable[P, R], input_spec: Sequence[object] | None = ...,
    build_strategy: object = ..., backend: object = ..., **kwargs: object,
) -> StaticFunction[P, R]: ...  # fmt: skip
@overload
def to_static(
    function: None = ..., input_spec: Sequence[object] | None = ...,
    build_strategy: object = ..., backend: object = ..., **kwargs: object,
) -> _ToStatic: ...  # fmt: skip
def to_static(
    function: Callable[..., object] | _LayerLike | None = None,
    input_spec: Sequence[object] | None = None,
    build_strategy: object = None,
    backend: object = None,
    **kwargs: object,
) -> object:
    """Run a function or Layer as a planned program.

    Args:
        function: A function, or a Layer (whose `forward` is replaced). Without it, a
            decorator is returned.
        input_spec: Shapes and dtypes of the tensor arguments, in lists and dictionaries
            where they are; unknown dimensions may vary from call to call. Without it,
            each new shape is traced.
        build_strategy, backend: Accepted for Paddle's sake; there is one engine.

    Returns:
        A `StaticFunction`, or the Layer.
    """
    if function is None:
        return functools.partial(to_static, input_spec=input_spec)
    given: Any = function
    if getattr(given, "_not_to_static", False):
        return given
    if isinstance(given, StaticFunction):
        return StaticFunction(given.function, input_spec or given.input_spec)
    if owner_of(given) is given:
        forward = given.forward
        if isinstance(forward, StaticFunction):
            forward = forward.function
        given.forward = StaticFunction(forward, input_spec, owner=given)
        return given
    return StaticFunction(given, input_spec)


@overload
def not_to_static(function: _Function) -> _Function: ...
@overload
def not_to_static(function: None = ...) -> Callable[[_Function], _Function]: ...
def not_to_static(function: Callable[..., object] | None = None) -> object:
    """Mark a function that `to_static` leaves as it is."""
    if function is None:
        return not_to_static
    marked: Any = function
    marked._not_to_static = True
    return marked
