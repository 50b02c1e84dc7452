"""`Layer`: parameters, buffers, sublayers, hooks, and the state they make up."""

from __future__ import annotations

import re
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from proa._core import Tensor
from proa.base.device import Place, check_place
from proa.base.dtype import DTypeLike, as_dtype
from proa.base.naming import unique_name
from proa.base.observers import layer_observers, observed, observing
from proa.base.public import explain
from proa.errors import AlreadyExistsError, InvalidArgumentError
from proa.nn.attr import ParamAttr
from proa.nn.layer.hooks import HookHandle
from proa.nn.layer.state import held_buffer, new_parameter
from proa.nn.schemes import Initializer, chosen
from proa.tensor.parameter import Parameter

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike

Self = TypeVar("Self", bound="Layer")
Part = TypeVar("Part", bound="Tensor | Layer | None")
LayerTypes = type["Layer"] | Sequence[type["Layer"]] | None


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class Layer:
    """A part of a network: it owns parameters and sublayers and computes `forward`.

    Parameters, layers and buffers that are assigned to attributes register themselves.

    Args:
        name_scope: Prefix of the layer's name; the class's name if None.
        dtype: Element type of the parameters it makes; None is the default dtype.
    """

    training: bool
    #: Where layers keep their argument `name`; those written for Paddle read it.
    _name: str | None = None
    #: Buffers that static programs count among their parameters, as Paddle does.
    _static_parameters: frozenset[str] = frozenset()

    def __init__(
        self, name_scope: str | None = None, dtype: DTypeLike | None = None
    ) -> None:
        d = self.__dict__
        d["training"] = True
        d["_full_name"] = unique_name(name_scope or _snake(type(self).__name__))
        d["_dtype"] = as_dtype("default" if dtype is None else dtype)
        d["_parameters"] = OrderedDict()
        d["_sub_layers"] = OrderedDict()
        d["_buffers"] = OrderedDict()
        d["_non_persistable"] = set()
        d["_forward_pre_hooks"] = OrderedDict()
        d["_forward_post_hooks"] = OrderedDict()
        d["_state_hooks"] = OrderedDict()

    # -- computing --------------------------------------------------------------------
    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the layer computes; subclasses define it."""
        raise NotImplementedError(
            f"[{type(self).__name__}] a Layer must define forward, got none"
        )

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        try:
            if layer_observers or observing:
                with observed(self) as forward:
                    return self._compute(forward, inputs, kwargs)
            if not self._forward_pre_hooks and not self._forward_post_hooks:
                return self.forward(*inputs, **kwargs)
            return self._compute(self.forward, inputs, kwargs)
        except Exception as error:
            kind = type(self)
            if not kind.__module__.startswith("proa."):
                raise
            better = explain(self.forward, inputs, kwargs, error, kind.__name__)
            if better is error:
                raise
            raise better from better.__cause__

    def _compute(self, forward: Callable[..., Any], inputs: Any, kwargs: Any) -> Any:
        for hook in tuple(self._forward_pre_hooks.values()):
            changed = hook(self, inputs)
            if changed is not None:
                inputs = changed if isinstance(changed, tuple) else (changed,)
        outputs = forward(*inputs, **kwargs)
        for hook in tuple(self._forward_post_hooks.values()):
            changed = hook(self, inputs, outputs)
            if changed is not None:
                outputs = changed
        return outputs

    def backward(self, *inputs: object) -> NoReturn:
        """Not for layers: gradients are those of `forward`; see `autograd.PyLayer`."""
        raise InvalidArgumentError(
            f"[{type(self).__name__}] a Layer must not define or call backward: call "
            "it on the loss, got a call on the layer"
        )

    def register_forward_pre_hook(self, hook: Callable[..., object]) -> HookHandle:
        """Call ``hook(layer, inputs)`` before forward; its result are the inputs."""
        return HookHandle(self._forward_pre_hooks, hook)

    def register_forward_post_hook(self, hook: Callable[..., object]) -> HookHandle:
        """Call ``hook(layer, inputs, outputs)`` after; its result are the outputs."""
        return HookHandle(self._forward_post_hooks, hook)

    def train(self: Self) -> Self:
        """Put this layer and all below into training mode."""
        for layer in self.sublayers(include_self=True):
            layer.training = True
        return self

    def eval(self: Self) -> Self:
        """Put this layer and all below into evaluation mode; gradients go on."""
        for layer in self.sublayers(include_self=True):
            layer.training = False
        return self

    def apply(self: Self, fn: Callable[[Layer], object]) -> Self:
        """Call ``fn`` with every layer below, then with this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    # -- making and registering -------------------------------------------------------
    def create_parameter(
        self,
        shape: Sequence[int],
        attr: ParamAttrLike | None = None,
        dtype: DTypeLike | None = None,
        is_bias: bool = False,
        default_initializer: Initializer | None = None,
    ) -> Any:
        """A new parameter, or None if ``attr`` is False. Assign it to register it."""
        if (given := ParamAttr.of(attr)) is None:
            return None
        kind = self._dtype if dtype is None else as_dtype(dtype)
        init = chosen(given.initializer, default_initializer, is_bias)
        name = f"{self._full_name}.{'b' if is_bias else 'w'}"
        return new_parameter([int(n) for n in shape], kind, given, name, init)

    def create_tensor(
        self,
        name: str | None = None,
        persistable: bool | None = None,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """An empty tensor for a buffer of the layer."""
        from proa.tensor.creation import zeros

        result = zeros([0], self._dtype if dtype is None else dtype)
        result.name = name or unique_name(f"{self._full_name}.var")
        result.persistable = bool(persistable)
        return result

    create_variable = create_tensor

    def _check_name(self, name: str, registry: str) -> None:
        if not name or "." in name:
            raise InvalidArgumentError(
                f"[Layer] a name must be text without a dot, got {name!r}"
            )
        if hasattr(self, name) and name not in self.__dict__[registry]:
            raise AlreadyExistsError(f"[Layer] expected an unused name, got {name!r}")

    def add_parameter(self, name: str, parameter: Part) -> Part:
        """Register a parameter (or None) under a name."""
        self._check_name(name, "_parameters")
        if parameter is not None and not isinstance(parameter, Tensor):
            raise InvalidArgumentError(
                f"[Layer.add_parameter] expected a Parameter, got {parameter!r}"
            )
        self._parameters[name] = parameter
        return parameter

    def add_sublayer(self, name: str, sublayer: Part) -> Part:
        """Register a layer (or None) under a name."""
        if sublayer is not None and not isinstance(sublayer, Layer):
            raise InvalidArgumentError(
                f"[Layer.add_sublayer] expected a Layer, got {sublayer!r}"
            )
        self._sub_layers[str(name)] = sublayer
        return sublayer

    def register_buffer(
        self, name: str, tensor: Tensor | None, persistable: bool = True
    ) -> None:
        """Register a tensor that is no parameter; a persistable one is saved."""
        self._check_name(name, "_buffers")
        self._keep_buffer(name, tensor, persistable)

    def _keep_buffer(self, name: str, tensor: Tensor | None, persistable: bool) -> None:
        tensor = held_buffer(
            self._buffers.get(name), tensor, persistable, f"{self._full_name}.w",
            name in self._static_parameters,
        )  # fmt: skip
        self._buffers[name] = tensor
        if persistable:
            self._non_persistable.discard(name)
        else:
            self._non_persistable.add(name)
        if tensor is not None:
            tensor.persistable = persistable

    def __setattr__(self, name: str, value: Any) -> None:
        d = self.__dict__
        registries = ("_parameters", "_sub_layers", "_buffers")
        if isinstance(value, (Parameter, Layer)):
            if "_parameters" not in d:
                raise InvalidArgumentError(
                    f"[{type(self).__name__}] super().__init__() must be called before "
                    f"parameters and layers are assigned, got {name!r}"
                )
            own = "_parameters" if isinstance(value, Parameter) else "_sub_layers"
            d.pop(name, None)
            for registry in registries:
                if registry != own:
                    d[registry].pop(name, None)
            d[own][name] = value
            return
        for registry in registries:
            if name in d.get(registry, ()):
                if registry == "_buffers" and isinstance(value, Tensor):
                    self._keep_buffer(name, value, name not in self._non_persistable)
                    return
                if value is None:
                    d[registry][name] = None
                    return
                if registry == "_parameters" and isinstance(value, Tensor):
                    raise InvalidArgumentError(
                        f"[Layer] {name!r} must be assigned a Parameter or None, got a "
                        "Tensor; use set_value to change its numbers"
                    )
                del d[registry][name]
        is_state = isinstance(value, Tensor) and value.is_leaf
        if is_state and "_buffers" in d and not value._is_symbolic:
            d.pop(name, None)
            self._keep_buffer(name, value, persistable=False)
            return
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        d = self.__dict__
        for registry in ("_parameters", "_sub_layers", "_buffers"):
            if registry in d and name in d[registry]:
                return d[registry][name]
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        for registry in ("_parameters", "_sub_layers", "_buffers"):
            if name in self.__dict__[registry]:
                del self.__dict__[registry][name]
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        own = [*self._parameters, *self._sub_layers, *self._buffers]
        return [*object.__dir__(self), *own]

    # -- walking ----------------------------------------------------------------------
    def full_name(self) -> str:
        """The layer's unique name, such as linear_0."""
        return str(self._full_name)

    def named_children(self) -> Iterator[tuple[str, Layer]]:
        """Names and layers right below, each layer once."""
        seen: set[int] = set()
        for name, layer in self._sub_layers.items():
            if layer is not None and id(layer) not in seen:
                seen.add(id(layer))
                yield name, layer

    def children(self) -> Iterator[Layer]:
        """The layers right below."""
        for _, layer in self.named_children():
            yield layer

    def named_sublayers(
        self,
        prefix: str = "",
        include_self: bool = False,
        layers_set: set[Layer] | None = None,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Layer]]:
        """Paths and layers at any depth below, each layer once (or by every path)."""
        seen = set() if layers_set is None else layers_set
        if self in seen:
            return
        if include_self:
            if remove_duplicate:
                seen.add(self)
            yield prefix, self
        for name, layer in self._sub_layers.items():
            if layer is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from layer.named_sublayers(path, True, seen, remove_duplicate)

    def sublayers(self, include_self: bool = False) -> list[Layer]:
        """The layers at any depth below."""
        return [layer for _, layer in self.named_sublayers(include_self=include_self)]

    def _members(
        self, registry: str, prefix: str, deep: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        layers = (
            self.named_sublayers(prefix, include_self=True)
            if deep
            else iter([(prefix, self)])
        )
        for path, layer in layers:
            for name, value in layer.__dict__[registry].items():
                if value is not None and id(value) not in seen:
                    seen.add(id(value))
                    yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", include_sublayers: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Paths and parameters, each parameter once."""
        return self._members("_parameters", prefix, include_sublayers)

    def parameters(self, include_sublayers: bool = True) -> list[Parameter]:
        """The parameters, each once."""
        return [p for _, p in self.named_parameters("", include_sublayers)]

    def named_buffers(
        self, prefix: str = "", include_sublayers: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Paths and buffers, each once."""
        return self._members("_buffers", prefix, include_sublayers)

    def buffers(self, include_sublayers: bool = True) -> list[Tensor]:
        """The buffers, each once."""
        return [b for _, b in self.named_buffers("", include_sublayers)]

    def clear_gradients(self) -> None:
        """Make zeros of the gradients of all parameters that have one."""
        for p in self.parameters():
            p.clear_grad()

    # -- state ------------------------------------------------------------------------
    def _collect_state(self, out: dict[str, Tensor], prefix: str, deep: bool) -> None:
        for name, value in self._parameters.items():
            if value is not None:
                out[prefix + name] = value
        for name, value in self._buffers.items():
            if value is not None and name not in self._non_persistable:
                out[prefix + name] = value
        if deep:
            for name, layer in self._sub_layers.items():
                if layer is not None:
                    layer._collect_state(out, f"{prefix}{name}.", True)

    def state_dict(
        self,
        destination: dict[str, Tensor] | None = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        use_hook: bool = True,
    ) -> dict[str, Tensor]:
        """Parameters and persistable buffers by path; the tensors themselves."""
        out: dict[str, Tensor] = OrderedDict() if destination is None else destination
        self._collect_state(out, structured_name_prefix, include_sublayers)
        if use_hook:
            for hook in self._state_hooks.values():
                changed = hook(out)
                out = out if changed is None else changed
        return out

    to_static_state_dict = state_dict

    def register_state_dict_hook(self, hook: Callable[[Any], object]) -> HookHandle:
        """Call ``hook(state)`` on what state_dict returns; its result replaces it."""
        return HookHandle(self._state_hooks, hook)

    def set_state_dict(
        self, state_dict: Mapping[str, Any], use_structured_name: bool = True
    ) -> tuple[list[str], list[str]]:
        """Copy values into parameters and buffers; returns (missing, unexpected) names.

        A value whose shape does not fit is warned of, left out, and counted as missing.
        """
        missing: list[str] = []
        used: set[str] = set()
        for path, own in self.state_dict(use_hook=False).items():
            key = path if use_structured_name else own.name
            if key not in state_dict:
                missing.append(key)
                continue
            used.add(key)
            value = state_dict[key]
            if list(value.shape) != list(own.shape):
                warnings.warn(
                    f"[set_state_dict] the shape of {key} must be {list(own.shape)}, "
                    f"got {list(value.shape)}; it is left as it was",
                    stacklevel=2,
                )
                missing.append(key)
                continue
            own.set_value(value)
        return missing, [k for k in state_dict if k not in used]

    set_dict = load_dict = set_state_dict

    # -- converting -------------------------------------------------------------------
    def _convert(self, dtype: DTypeLike, keep: tuple[type, ...]) -> None:
        for layer in self.sublayers(include_self=True):
            if keep and isinstance(layer, keep):
                continue
            layer._convert_own(dtype)

    def _convert_own(self, dtype: DTypeLike) -> None:
        self.__dict__["_dtype"] = dtype
        for registry in (self._parameters, self._buffers):
            for value in registry.values():
                if value is not None and value.dtype.is_floating:
                    value._share_from(value.detach().astype(dtype))

    def to(
        self: Self,
        device: Place | str | None = None,
        dtype: DTypeLike | None = None,
        blocking: bool | None = None,
    ) -> Self:
        """Move the layer and convert its floating parameters and buffers, in place."""
        check_place("Layer.to", device)
        if dtype is not None:
            self._convert(as_dtype(dtype), ())
        return self

    def astype(self: Self, dtype: DTypeLike | None = None) -> Self:
        """Convert floating parameters and buffers, in place."""
        return self.to(dtype=dtype)

    def _to_kind(self: Self, dtype: str, excluded: Any) -> Self:
        kinds = excluded if isinstance(excluded, (list, tuple)) else [excluded]
        self._convert(as_dtype(dtype), tuple(k for k in kinds if k is not None))
        return self

    def float(self: Self, excluded_layers: LayerTypes = None) -> Self:
        """Convert to float32, but for layers of the excluded types."""
        return self._to_kind("float32", excluded_layers)

    def float16(self: Self, excluded_layers: LayerTypes = None) -> Self:
        """Convert to float16, but for layers of the excluded types."""
        return self._to_kind("float16", excluded_layers)

    def bfloat16(self: Self, excluded_layers: LayerTypes = None) -> Self:
        """Convert to bfloat16, but for layers of the excluded types."""
        return self._to_kind("bfloat16", excluded_layers)

    # -- copying and printing ---------------------------------------------------------
    def __deepcopy__(self: Self, memo: dict[int, object]) -> Self:
        copy = object.__new__(type(self))
        memo[id(self)] = copy
        for key, value in self.__dict__.items():
            if isinstance(value, Tensor) and not value.is_leaf:
                # A result kept as an attribute, such as a normalised weight.
                value = value.detach()
            copy.__dict__[key] = deepcopy(value, memo)
        copy.__dict__["_full_name"] = unique_name(self._full_name.rsplit("_", 1)[0])
        return copy

    def deepcopy(self: Self) -> Self:
        """A copy with parameters of its own."""
        return deepcopy(self)

    def extra_repr(self) -> str:
        """What printing shows of the layer's own settings."""
        return ""

    def __repr__(self) -> str:
        lines = []
        for name, layer in self._sub_layers.items():
            text = repr(layer).replace("\n", "\n  ")
            lines.append(f"  ({name}): {text}")
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        head = [f"  {extra}"] if extra else []
        return "\n".join([f"{type(self).__name__}(", *head, *lines, ")"])
