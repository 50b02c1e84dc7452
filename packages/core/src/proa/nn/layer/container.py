"""Layers that hold layers or parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from proa.errors import OutOfRangeError
from proa.nn.layer.base import Layer

if TYPE_CHECKING:
    from proa.tensor.parameter import Parameter

#: Layers by key.
LayersLike: TypeAlias = Mapping[str, Layer] | Iterable[tuple[str, Layer]]

__all__ = ["LayerDict", "LayerList", "ParameterList", "Sequential"]


def _place(where: str, index: int, size: int) -> int:
    if not -size <= index < size:
        raise OutOfRangeError(
            f"[{where}] index must be in [{-size}, {size}), got {index}"
        )
    return index % size


#: A layer takes at least as many bytes, whatever its parameters.
LAYER_BYTES = 1024


class Sequential(Layer):
    """Layers one after another; given as layers or as (name, layer) pairs."""

    def __init__(
        self, *layers: Layer | tuple[str, Layer] | list[Any] | Mapping[str, Layer]
    ) -> None:
        super().__init__()
        items: tuple[Any, ...] = layers
        if len(layers) == 1 and isinstance(layers[0], (list, Mapping)):
            given: Any = layers[0]
            items = tuple(given.items() if isinstance(given, Mapping) else given)
        for i, item in enumerate(items):
            named = isinstance(item, (tuple, list))
            name, layer = item if named else (str(i), item)
            self.add_sublayer(str(name), layer)

    def forward(self, input: Any) -> Any:
        for layer in self._sub_layers.values():
            input = layer(input)
        return input

    @overload
    def __getitem__(self, name: int | str) -> Layer: ...
    @overload
    def __getitem__(self, name: slice) -> Sequential: ...
    def __getitem__(self, name: int | slice | str) -> Layer:
        if isinstance(name, str):
            named: Layer = self._sub_layers[name]
            return named
        layers: list[Layer] = list(self._sub_layers.values())
        if isinstance(name, slice):
            return Sequential(*layers[name])
        return layers[_place("Sequential", name, len(layers))]

    def __setitem__(self, name: int | str, layer: Layer) -> None:
        if not isinstance(name, str):
            name = str(list(self._sub_layers)[_place("Sequential", name, len(self))])
        self.add_sublayer(name, layer)

    def __delitem__(self, name: int | str) -> None:
        if not isinstance(name, str):
            name = list(self._sub_layers)[_place("Sequential", name, len(self))]
        del self._sub_layers[name]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self._sub_layers.values())

    def append(self, layer: Layer) -> Sequential:
        """Add a layer at the end."""
        self.add_sublayer(str(len(self)), layer)
        return self


class LayerList(Layer):
    """A list of layers (entries may be None)."""

    def __init__(self, sublayers: Iterable[Layer | None] | None = None) -> None:
        super().__init__()
        self.extend(sublayers or [])

    def _fill(self, layers: list[Any]) -> None:
        self._sub_layers.clear()
        self.extend(layers)

    @overload
    def __getitem__(self, idx: int) -> Layer: ...
    @overload
    def __getitem__(self, idx: slice) -> LayerList: ...
    def __getitem__(self, idx: int | slice) -> Layer:
        layers: list[Layer] = list(self._sub_layers.values())
        if isinstance(idx, slice):
            return type(self)(layers[idx])
        return layers[_place("LayerList", idx, len(layers))]

    def __setitem__(self, idx: int, sublayer: Layer | None) -> None:
        self.add_sublayer(str(_place("LayerList", idx, len(self))), sublayer)

    def __delitem__(self, idx: int | slice) -> None:
        layers = list(self._sub_layers.values())
        if isinstance(idx, int):
            idx = _place("LayerList", idx, len(layers))
        del layers[idx]
        self._fill(layers)

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self._sub_layers.values())

    def append(self, sublayer: Layer | None) -> LayerList:
        """Add a layer at the end."""
        self.add_sublayer(str(len(self)), sublayer)
        return self

    def insert(self, index: int, sublayer: Layer | None) -> None:
        """Put a layer before the one at index."""
        size = len(self)
        if not -size <= index <= size:
            raise OutOfRangeError(
                f"[LayerList.insert] index must be in [{-size}, {size}], got {index}"
            )
        layers = list(self._sub_layers.values())
        layers.insert(index, sublayer)
        self._fill(layers)

    def extend(self, sublayers: Iterable[Layer | None]) -> LayerList:
        """Add layers at the end."""
        for layer in sublayers:
            self.append(layer)
        return self


class LayerDict(Layer):
    """Layers by key."""

    def __init__(self, sublayers: LayersLike | None = None) -> None:
        super().__init__()
        if sublayers is not None:
            self.update(sublayers)

    def __getitem__(self, key: str) -> Layer:
        found: Layer = self._sub_layers[key]
        return found

    def __setitem__(self, key: str, sublayer: Layer) -> None:
        self.add_sublayer(key, sublayer)

    def __delitem__(self, key: str) -> None:
        del self._sub_layers[key]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._sub_layers)

    def __contains__(self, key: str) -> bool:
        return key in self._sub_layers

    def clear(self) -> None:
        """Take all layers out."""
        self._sub_layers.clear()

    def pop(self, key: str) -> Layer:
        """Take a layer out and return it."""
        return self._sub_layers.pop(key)  # type: ignore[no-any-return]  # an OrderedDict

    def keys(self) -> Iterable[str]:
        """The keys."""
        return self._sub_layers.keys()  # type: ignore[no-any-return]  # an OrderedDict

    def items(self) -> Iterable[tuple[str, Layer]]:
        """Keys and layers."""
        return self._sub_layers.items()  # type: ignore[no-any-return]  # an OrderedDict

    def values(self) -> Iterable[Layer]:
        """The layers."""
        return self._sub_layers.values()  # type: ignore[no-any-return]  # an OrderedDict

    def update(self, sublayers: LayersLike) -> None:
        """Add or replace layers: a mapping or (key, layer) pairs."""
        pairs = sublayers.items() if hasattr(sublayers, "items") else sublayers
        for key, layer in pairs:
            self.add_sublayer(key, layer)


class ParameterList(Layer):
    """A list of parameters."""

    def __init__(self, parameters: Iterable[Parameter] | None = None) -> None:
        super().__init__()
        for p in parameters or []:
            self.append(p)

    def __getitem__(self, idx: int) -> Parameter:
        found: Parameter = self._parameters[
            str(_place("ParameterList", idx, len(self)))
        ]
        return found

    def __setitem__(self, idx: int, param: Parameter) -> None:
        self._parameters[str(_place("ParameterList", idx, len(self)))] = param

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._parameters.values())

    def append(self, parameter: Parameter) -> ParameterList:
        """Add a parameter at the end."""
        self.add_parameter(str(len(self)), parameter)
        return self
