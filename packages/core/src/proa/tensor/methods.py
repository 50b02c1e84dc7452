"""Attach Paddle's methods to the C++ Tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from proa import _core
from proa._core import Tensor, ops
from proa.base.device import CPU, Place, check_place
from proa.base.dtype import DTypeLike, as_dtype
from proa.base.naming import unique_name
from proa.base.no_tape import NoTape
from proa.base.public import publish, published_method
from proa.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from proa.ops.methods import METHODS as OPERATORS
from proa.tensor import (
    complex_parts,
    contraction,
    creation,
    cumulative,
    decompositions,
    histograms,
    indexing,
    inplace,
    linalg,
    linear_solvers,
    logic,
    manipulation,
    math,
    printing,
    quantiles,
    random,
    reduction,
    search,
    shifts,
)
from proa.tensor.arguments import as_int, cast_if
from proa.tensor.creation import as_tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from proa.base.typing import ScalarLike, TensorLike
    from proa.tensor.arguments import IntsLike

#: The modules whose `__all__` are functions of `proa`, and methods but for these few.
FAMILIES = (
    complex_parts, contraction, creation, cumulative, histograms, inplace, linalg,
    logic, manipulation, math, quantiles, random, reduction, search,
)  # fmt: skip
publish(*(family.__name__ for family in (*FAMILIES, decompositions, linear_solvers)))
#: Functions whose first argument is not a tensor: no methods of these.
_NO_METHODS = frozenset({
    "arange", "assign", "complex", "einsum", "empty", "eye", "full",
    "gaussian", "linspace", "logspace", "meshgrid", "normal", "ones",
    "rand", "randint", "randn", "randperm", "shape", "standard_normal",
    "to_tensor", "tril_indices", "triu_indices", "uniform", "zeros",
})  # fmt: skip


def _method(function: Callable[..., Any], name: str) -> Any:
    """A function that binds to its instance; builtins do not by themselves."""
    if isinstance(function, FunctionType) and name not in _PROTOCOLS:
        return published_method(function, f"Tensor.{name}")
    binds = hasattr(type(function), "__get__")
    return function if binds else _core.as_method(function)


def _table() -> dict[str, Callable[..., Any]]:
    table: dict[str, Callable[..., Any]] = {}
    for family in (*FAMILIES, decompositions, linear_solvers):
        for name in family.__all__:
            if name not in _NO_METHODS:
                table[name] = getattr(family, name)
    table.update({f.__name__: f for f in (linalg.cond, linalg.corrcoef, linalg.cov)})
    table.update({name: getattr(inplace, name) for name in inplace.METHODS_ONLY})
    return {**table, **OPERATORS}


# -- conversions ----------------------------------------------------------------------
def _astype(self: Tensor, dtype: DTypeLike) -> Tensor:
    return ops.cast(self, dtype=as_dtype(dtype))


def _to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Convert: ``to(dtype)``, ``to(device)``, ``to(device, dtype)``, ``to(other)``."""
    dtype = kwargs.get("dtype")
    check_place("Tensor.to", kwargs.get("device"))
    for value in args:
        if isinstance(value, Tensor):
            dtype = value.dtype
        elif value is None or isinstance(value, bool):
            continue
        elif isinstance(value, Place) or (
            isinstance(value, str) and value.split(":")[0] in ("cpu", "gpu")
        ):
            check_place("Tensor.to", value)
        else:
            dtype = value
    return cast_if(self, dtype)


def _same(self: Tensor, *args: object, **kwargs: object) -> Tensor:
    return self


def _cuda(self: Tensor, *args: object, **kwargs: object) -> Tensor:
    check_place("Tensor.cuda", f"gpu:{args[0] if args else 0}")
    return self


def _gradient(self: Tensor) -> NDArray[Any] | None:
    return None if self.grad is None else self.grad.numpy()


def set_value(self: Tensor, value: TensorLike) -> Tensor:
    """Copy ``value``, of the same shape, into this tensor's memory; no gradient."""
    given = cast_if(as_tensor(value, self), self.dtype)
    if list(given.shape) != list(self.shape):
        raise ShapeError("Tensor.set_value", f"shape must be {self.shape}", given.shape)
    with NoTape():
        self[...] = given.detach()
    return self


def _rank(self: Tensor) -> Tensor:
    return reduction.rank(self)


def _copy(self: Tensor, other: TensorLike, *args: object) -> Tensor:
    return set_value(self, other)


def _get_tensor(self: Tensor) -> Tensor:
    return self


def _apply(self: Tensor, func: Callable[[Tensor], Tensor]) -> Tensor:
    if not self.stop_gradient:
        raise InvalidArgumentError(
            "[Tensor.apply] the tensor must have stop_gradient=True, got False"
        )
    return func(self)


# -- Python protocols -----------------------------------------------------------------
def _format(self: Tensor, spec: str) -> str:
    return format(self.item(), spec) if self.ndim == 0 else format(str(self), spec)


def _iterate(self: Tensor) -> Iterator[Tensor]:
    if self.ndim == 0:
        raise InvalidTypeError("[Tensor] iteration needs an axis, got a 0-d tensor")
    return iter(manipulation.unbind(self, 0))


def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if not self.is_leaf:
        raise InvalidArgumentError(
            "[deepcopy] the tensor must be a leaf of the graph, got a result"
        )
    copy = self.detach().clone()
    copy.stop_gradient = self.stop_gradient
    copy.persistable = self.persistable
    copy.name = unique_name(self.name or "tensor")
    memo[id(self)] = copy
    return copy


def _contains(self: Tensor, item: Any) -> bool:
    return bool(ops.any(ops.equal(self, item)).item())


def _reduce(self: Tensor) -> Any:
    return _rebuilt, (self.numpy(), self.dtype.name, self.stop_gradient)


def _rebuilt(array: np.ndarray[Any, Any], dtype: str, stop_gradient: bool) -> Tensor:
    """What pickling a tensor between processes calls to make it again."""
    return creation.to_tensor(array, dtype, stop_gradient=stop_gradient)


def _element_size(self: Tensor) -> int:
    return self.dtype.itemsize


def _is_same_shape(self: Tensor, y: Tensor) -> bool:
    return list(self.shape) == list(y.shape)


def _dim(self: Tensor) -> int:
    return self.ndim


def _expand(
    self: Tensor, shape: IntsLike, *more: int, name: str | None = None
) -> Tensor:
    """`expand` to a list of sizes, or to sizes given one by one."""
    sizes: Any = [shape, *more] if more else shape
    return manipulation.expand(self, sizes)


def to_device(self: Tensor, device: Place, /, *, stream: None = None) -> Tensor:
    """This tensor, which is on the one device, the CPU."""
    check_place("Tensor.to_device", device)
    return self


def _where(
    self: Tensor,
    x: ScalarLike | None = None,
    y: ScalarLike | None = None,
    name: str | None = None,
    *,
    condition: Tensor | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """`where` with this tensor as the condition, or as x if a condition is named."""
    choose: Callable[..., Tensor | tuple[Tensor, ...]] = search.where
    if condition is None:
        return choose(self, x, y)
    return choose(condition, self, x if y is None else y)


_UFUNCS: dict[str, Callable[..., Tensor]] = {
    "add": ops.add, "subtract": ops.sub, "multiply": ops.mul, "divide": ops.div,
    "true_divide": ops.div, "floor_divide": ops.floor_div, "remainder": ops.mod,
    "power": ops.pow, "equal": ops.equal, "not_equal": ops.not_equal,
    "less": ops.less_than, "less_equal": ops.less_equal,
    "greater": ops.greater_than, "greater_equal": ops.greater_equal,
    "matmul": math.matmul, "maximum": ops.maximum, "minimum": ops.minimum,
    "bitwise_and": ops.bitwise_and, "bitwise_or": ops.bitwise_or,
    "bitwise_xor": ops.bitwise_xor, "left_shift": shifts.left_shift,
    "right_shift": shifts.right_shift,
}  # fmt: skip


def _array_ufunc(
    self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any
) -> Any:
    """``array + tensor`` and its kin give Tensors; other functions of NumPy arrays."""
    function = _UFUNCS.get(ufunc.__name__)
    if function is not None and method == "__call__" and not options:
        return function(*(as_tensor(i) for i in inputs))
    arrays = [np.asarray(i) if isinstance(i, Tensor) else i for i in inputs]
    return getattr(ufunc, method)(*arrays, **options)


def _rounded(self: Tensor, digits: int | None = None) -> Tensor:
    if not digits:
        return ops.round(self)
    # Beyond 308 digits the power is no number that a double holds.
    power = 10.0 ** min(max(as_int("round", digits), -308), 308)
    return ops.div(ops.round(ops.mul(self, power)), power)


def _shifted(shift: Callable[..., Tensor], x: Any, y: Any) -> Any:
    """The result, or NotImplemented where the other operand is of another kind."""
    known = all(isinstance(z, (Tensor, int, np.integer, np.ndarray)) for z in (x, y))
    return shift(x, y) if known else NotImplemented


def _contiguous(self: Tensor) -> Tensor:
    """A copy whose elements are in row-major order, whatever order theirs is."""
    if self._is_symbolic or self.is_contiguous():
        return ops.assign(self)
    return ops.reshape(ops.reshape(self, shape=[-1]), shape=self.shape)


_METHODS: dict[str, Callable[..., Any]] = {
    "astype": _astype,
    "to": _to,
    "cpu": _same,
    "cuda": _cuda,
    "pin_memory": _same,
    "contiguous": _contiguous,
    "value": _get_tensor,
    "get_tensor": _get_tensor,
    "gradient": _gradient,
    "set_value": set_value,
    "copy_": _copy,
    "apply": _apply,
    "dim": _dim,
    "ndimension": _dim,
    "rank": _rank,
    "element_size": _element_size,
    "is_same_shape": _is_same_shape,
    "add_n": math.add_n,
    "expand": _expand,
    "where": _where,
    "to_device": to_device,
    "__complex__": lambda self: complex(self.item()),
    "__lshift__": lambda self, other: _shifted(shifts.left_shift, self, other),
    "__rlshift__": lambda self, other: _shifted(shifts.left_shift, other, self),
    "__rshift__": lambda self, other: _shifted(shifts.right_shift, self, other),
    "__rrshift__": lambda self, other: _shifted(shifts.right_shift, other, self),
    "__array_ufunc__": _array_ufunc,
    "__div__": lambda self, other: ops.div(self, other),
    "__rdiv__": lambda self, other: ops.div(as_tensor(other, self), self),
    "__long__": int,
    "__format__": _format,
    "__iter__": _iterate,
    "__deepcopy__": _deepcopy,
    "__contains__": _contains,
    "__reduce__": _reduce,
    "__round__": _rounded,
    "__repr__": printing.tensor_text,
    "__str__": printing.tensor_text,
}

#: Methods whose errors Python itself or NumPy reads.
_PROTOCOLS = frozenset({
    "__array_ufunc__", "__deepcopy__", "__format__", "__reduce__", "__repr__",
    "__str__",
})  # fmt: skip
_PROPERTIES: dict[str, Callable[[Tensor], Any]] = {
    "place": lambda self: CPU,
    "device": lambda self: CPU,
    "T": lambda self: ops.transpose(self, perm=list(range(self.ndim))[::-1]),
    "mT": lambda self: ops.swap_last(self),
    "data": lambda self: self.detach(),
    "type": lambda self: "Tensor",
}


def attach() -> None:
    """Give `Tensor` its methods. What C++ defines already is left as it is."""
    native = set(vars(Tensor))
    for name, function in _table().items():
        if name not in native:
            setattr(Tensor, name, _method(function, name))
    for name, function in _METHODS.items():
        setattr(Tensor, name, _method(function, name))
    for name, getter in _PROPERTIES.items():
        if name not in native:
            setattr(Tensor, name, property(getter))
    _core.set_index_fallback(indexing.get_item, indexing.set_item)
