"""State of networks and optimizers in static mode: parameters, buffers, slots.

Each is a persistable Variable of the program that is built, and has an initialization
in the startup program. That is the very function that makes the value in dynamic mode,
called when the startup program runs: so both modes draw the same numbers.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from proa._core import Tensor, ops
from proa.base.dtype import DTypeLike, as_dtype
from proa.base.mode import FeedReader, static_builder
from proa.base.naming import unique_name
from proa.base.no_tape import NoTape
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.jit.control_flow import while_loop
from proa.nn.attr import ParamAttr
from proa.nn.nms import true_indices
from proa.nn.schemes import Assign, Constant, Initializer, chosen
from proa.static import arrays
from proa.static.backward import append_backward
from proa.static.constants import known_value
from proa.static.derived import Derived
from proa.static.program import Initialization, Program, StartupRun
from proa.static.sequences import declare
from proa.static.variable import Variable
from proa.static.weight_norm import WeightNormParamAttr
from proa.tensor.arguments import as_ints

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike
    from proa.tensor.arguments import IntsLike


def _kind_of(init: Any) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(init).__name__).lower()


class Builder:
    """Makes state in the programs that statements go to.

    Args:
        main: Gives the program that is built.
        startup: Gives the one that initialises.
    """

    def __init__(
        self, main: Callable[[], Program], startup: Callable[[], Program]
    ) -> None:
        self._main, self._startup = main, startup

    def parameter(
        self, shape: Sequence[int], dtype: Any, attr: Any, stem: str, init: Any
    ) -> Variable:
        if isinstance(attr, WeightNormParamAttr):
            return self._normalised(shape, dtype, attr, stem, init)
        sizes = tuple(int(n) for n in shape)
        if any(n < 0 for n in sizes):
            raise InvalidArgumentError(
                f"[static.create_parameter] shape must be known, got {list(sizes)}"
            )
        name = attr.name or unique_name(stem)
        result = self._main().add_state(name, dtype.name, sizes, attr)
        self._initialize(result, _kind_of(init), lambda _: init.make([*sizes], dtype))
        return result

    def _normalised(
        self,
        shape: Sequence[int],
        dtype: Any,
        attr: WeightNormParamAttr,
        stem: str,
        init: Any,
    ) -> Variable:
        """g * v / |v| of parameters g and v."""
        name = attr.name or unique_name(stem)
        parts = {}
        for part in ("v", "g"):
            own = parts[part] = ParamAttr()
            own.__dict__.update(vars(attr), name=f"{name}_{part}")
        v = self.parameter(shape, dtype, parts["v"], stem, init)
        lengths = attr.lengths(v)
        sizes = tuple(map(int, lengths.shape))
        g = self._main().add_state(f"{name}_g", dtype.name, sizes, parts["g"])

        def make(run: StartupRun) -> Tensor:
            return attr.lengths(run.value(v.name))

        self._initialize(g, "length", make)
        weight: Any = ops.mul(v, ops.div(g, ops.maximum(lengths, 1e-12)))
        return weight  # type: ignore[no-any-return]

    def state(
        self,
        name: str,
        shape: Sequence[int],
        dtype: Any,
        init: Initializer,
        attr: ParamAttr | None = None,
    ) -> Variable:
        """A persistable Variable; no parameter unless it has an attribute."""
        sizes = tuple(int(n) for n in shape)
        result = self._main().add_state(name, dtype.name, sizes, attr)
        result.stop_gradient = True
        self._initialize(result, _kind_of(init), lambda _: init.make([*sizes], dtype))
        return result

    def _initialize(
        self, variable: Variable, kind: str, make: Callable[[StartupRun], Tensor]
    ) -> None:
        shape = tuple(map(int, variable.shape))
        self._startup().initialize(
            Initialization(variable.name, kind, shape, variable.dtype.name, make)
        )

    def initialize(self, variable: Variable, init: Initializer) -> None:
        """Let an initializer fill a Variable of the program at startup."""
        shape, dtype = [*map(int, variable.shape)], variable.dtype
        self._initialize(variable, _kind_of(init), lambda _: init.make(shape, dtype))

    def buffer(self, tensor: Tensor, name: str, is_parameter: bool = False) -> Variable:
        attr = ParamAttr(name, trainable=False) if is_parameter else None
        if not tensor._is_symbolic:
            array = np.array(tensor.numpy())
            return self.state(name, tensor.shape, tensor.dtype, Assign(array), attr)
        result = self._derived(tensor, name, attr)
        result.stop_gradient = True
        return result

    def derived_parameter(self, tensor: Tensor, name: str, trainable: bool) -> Variable:
        known = self._main().vars.get(name)
        if known is not None and known.persistable:
            return known
        return self._derived(tensor, name, ParamAttr(name, trainable=trainable))

    def _derived(self, tensor: Tensor, name: str, attr: ParamAttr | None) -> Variable:
        derived = Derived(self._main(), tensor)
        sizes = tuple(map(int, tensor.shape))
        result = self._main().add_state(name, tensor.dtype.name, sizes, attr)
        self._initialize(result, "derived", derived.make)
        return result

    def slot(self, name: str, like: Tensor, dtype: Any, value: float) -> Variable:
        return self.state(name, like.shape, as_dtype(dtype), Constant(value))

    def rate(self, weights: Tensor, lr: float) -> Tensor:
        result = ops.full_like(weights, value=0, dtype=weights.dtype)
        result = ops.mul(ops.sum(result), 0)  # of no value that is known before a run
        minus = ops.full(shape=[], value=-1, dtype=weights.dtype)
        ops.sgd_(result, minus, lr=lr)
        self._main().recorder.take_rate(weights)
        return ops.reshape(result, shape=[1])

    def master(self, name: str, parameter: Tensor) -> Variable:
        return self.copied(name, parameter, "float32")

    def copied(self, name: str, parameter: Tensor, dtype: Any = None) -> Variable:
        """A Variable that begins with a parameter's first value, in this dtype."""
        own, kind = parameter.name, as_dtype(dtype or parameter.dtype)

        def make(run: StartupRun) -> Tensor:
            return ops.cast(run.value(own), dtype=kind)

        shape = tuple(map(int, parameter.shape))
        result = self._main().add_state(name, kind.name, shape)
        result.stop_gradient = True
        self._initialize(result, "cast", make)
        return result

    def backward(
        self, optimizer: Any, loss: Any, startup: Any, parameters: Any, skip: Any
    ) -> list[tuple[Any, Any]]:
        given = parameters if parameters is not None else optimizer._parameter_list
        return append_backward(loss, list(given) or None, skip)

    def apply(self, optimizer: Any, pairs: Any, startup: Any = None) -> list[Any]:
        program = self._main()
        before = len(program.graph.main.nodes)
        known = len(program.counts)
        counter = unique_name(f"{type(optimizer).__name__.lower()}_step")
        with program.role("optimize"), program.recorder.stepping(counter):
            if optimizer._grad_clip is None and program.gradient_clips:
                with NoTape():
                    pairs = program.clipped(list(pairs))
            optimizer._apply(list(pairs))
        if len(program.counts) > known:
            self.state(counter, [1], as_dtype("int64"), Constant(0))
        block = program.global_block()
        return [op for op in block.ops[before:] if op.node in program.roles]

    def note_symbolic_shape(self, tensor: Tensor, shape: Sequence[Any]) -> None:
        node = tensor._handle[1].producer
        self._main().symbolic_shapes[node] = list(shape)

    def tested_as(self, trained: Tensor, tested: Tensor) -> None:
        if trained._is_symbolic and tested._is_symbolic:
            self._main().tested[trained._handle[1]] = tested._handle[1]

    def known(self, tensor: Tensor) -> Tensor | None:
        return known_value(tensor)

    def places(self, mask: Tensor) -> Tensor:
        return true_indices(mask)

    def loop(self, cond: Any, body: Any, values: list[Tensor]) -> list[Tensor]:
        return while_loop(cond, body, values)

    def constant(self, tensor: Tensor) -> Tensor:
        return self._main().constant(tensor)

    def assign(self, value: Tensor, output: Tensor) -> None:
        self._main().assign(value, output)

    def depth(self) -> int:
        return len(self._main().recorder.bodies)

    def array_read(self, array: Any, i: Tensor) -> Tensor:
        return arrays.read(self._main(), array, i)

    def array_write(self, x: Tensor, i: Tensor, array: Any) -> None:
        arrays.write(self._main(), x, i, array)

    def array_length(self, array: Any) -> Tensor:
        return arrays.length(self._main(), array)

    def add_reader(self, reader: FeedReader) -> None:
        self._main().readers.append(reader)

    def draw(self, count: int) -> tuple[int, int]:
        return self._main().draw(count)


def require_static(where: str) -> Builder:
    """What makes state in the programs that statements go to.

    Raises:
        PreconditionNotMetError: In dynamic mode.
    """
    builder = static_builder()
    if builder is None:
        raise PreconditionNotMetError(
            f"[static.{where}] builds a static graph: expected static mode, as "
            "proa.enable_static() begins it, got dynamic mode"
        )
    assert isinstance(builder, Builder)
    return builder


def data(
    name: str,
    shape: Sequence[int | None],
    dtype: DTypeLike | None = None,
    lod_level: int = 0,
) -> Variable:
    """An input of the program, which every run is fed by its name.

    Args:
        name: Its name.
        shape: Its sizes; None or -1 for one that may differ from run to run.
        dtype: Its dtype; None is the default one.
        lod_level: How many levels of lengths its rows have, which then make sequences,
            as `static.nn.sequence_pool` and the like take them: runs are fed a
            `LoDTensor`.

    Raises:
        PreconditionNotMetError: In dynamic mode.
        AlreadyExistsError: If the program has another Variable of this name; data of
            the same dtype and shape are given again.
    """
    builder = require_static("data")
    sizes = [-1 if n is None else int(n) for n in shape]
    kind = as_dtype("default" if dtype is None else dtype).name
    known = name in builder._main().data
    result = builder._main().add_data(name, kind, sizes)
    if known:
        return result
    result.stop_gradient = True
    if lod_level:
        declare(builder._main(), result, lod_level)
    return result


def parameter_of(
    layer: str,
    shape: IntsLike,
    dtype: DTypeLike = "float32",
    attr: ParamAttrLike | None = None,
    is_bias: bool = False,
    default_initializer: Initializer | None = None,
) -> Any:
    """A parameter of a function such as `static.nn.fc`, which is no Layer.

    Args:
        layer: What its name begins with: of "fc_0" it is ``fc_0.w_0``, a bias's
            ``fc_0.b_0``.
        shape: Its shape.
        dtype: Its dtype.
        attr: A ParamAttr, or what it is made of; False gives None.
        is_bias: Whether it is a bias.
        default_initializer: What fills it, if neither attr nor a global one does.
    """
    given = ParamAttr.of(attr)
    if given is None:
        return None
    builder = require_static("create_parameter")
    init = chosen(given.initializer, default_initializer, is_bias)
    stem = f"{layer}.{'b' if is_bias else 'w'}"
    sizes = as_ints("create_parameter", shape)
    return builder.parameter(sizes, as_dtype(dtype), given, stem, init)


def create_parameter(
    shape: IntsLike,
    dtype: DTypeLike,
    name: str | None = None,
    attr: ParamAttrLike | None = None,
    is_bias: bool = False,
    default_initializer: Initializer | None = None,
) -> Any:
    """A parameter of the program that is built; in dynamic mode a Parameter.

    The startup program fills it. One of a name that the program has already, of the
    same shape and dtype, is given again: so layers share it.

    Args:
        shape: Its shape.
        dtype: Its dtype.
        name: Its name.
        attr: A ParamAttr, or what one is made of.
        is_bias: Whether it is a bias, which is filled with zeros by default.
        default_initializer: What fills it, if neither attr nor a global one does.

    Raises:
        InvalidArgumentError: If one of that name has another shape or dtype.
    """
    if static_builder() is None:
        from proa.nn.create import create_parameter as eager

        return eager(shape, dtype, name, attr, is_bias, default_initializer)
    given = ParamAttr.of(attr)
    if given is not None and given.name is None and name is not None:
        given = copy.copy(given)
        given.name = name
    layer = unique_name("create_parameter")
    attr_or_none: Any = False if given is None else given
    return parameter_of(layer, shape, dtype, attr_or_none, is_bias, default_initializer)


def create_global_var(
    shape: IntsLike,
    value: float,
    dtype: DTypeLike,
    persistable: bool = False,
    force_cpu: bool = False,
    name: str | None = None,
) -> Variable:
    """A Variable that the startup program fills with a number and runs may change.

    Args:
        shape: Its shape.
        value: The number.
        dtype: Its dtype.
        persistable: Kept for callers: a value lasts from run to run in any case.
        force_cpu: Kept for callers; there is one device.
        name: Its name.

    Raises:
        PreconditionNotMetError: In dynamic mode.
    """
    builder = require_static("create_global_var")
    sizes = as_ints("create_global_var", shape)
    own = name or unique_name("global_var")
    return builder.state(own, sizes, as_dtype(dtype), Constant(value))
