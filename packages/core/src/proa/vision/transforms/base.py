"""What a transform is, and transforms one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from proa.errors import InvalidArgumentError, UnimplementedError


class BaseTransform:
    """A transform of a sample; ``keys`` says what the fields of a tuple are.

    A field "image" goes to ``_apply_image``, "boxes" to ``_apply_boxes``, "mask" to
    ``_apply_mask``, and so on; fields beyond the keys, and keys without such a method,
    are unchanged. ``_get_params`` sees the whole sample first; what it returns is in
    ``self.params``, so that all fields are changed by the same random choice.

    Raises:
        InvalidArgumentError: If keys are not a sequence of names.
    """

    def __init__(self, keys: Sequence[str] | None = None) -> None:
        if isinstance(keys, str) or not isinstance(keys, (Sequence, type(None))):
            raise InvalidArgumentError(
                f"[{type(self).__name__}] keys must be a sequence of names, "
                f"got {keys!r}"
            )
        self.keys = tuple(keys) if keys is not None else ("image",)
        self.params: Any = None

    def _get_params(self, inputs: tuple[Any, ...]) -> Any:
        return None

    def __call__(self, inputs: Any) -> Any:
        sample = inputs if isinstance(inputs, tuple) else (inputs,)
        self.params = self._get_params(sample)
        changed = [
            self._apply(key, value)
            for key, value in zip(self.keys, sample, strict=False)
        ]
        changed.extend(sample[len(self.keys) :])
        return changed[0] if len(changed) == 1 else tuple(changed)

    def _apply(self, key: str, value: Any) -> Any:
        apply = getattr(self, f"_apply_{key}", None)
        return value if apply is None else apply(value)

    def _apply_image(self, image: Any) -> Any:
        raise UnimplementedError(
            f"[{type(self).__name__}] _apply_image must be defined, got none"
        )

    def _apply_boxes(self, boxes: Any) -> Any:
        raise UnimplementedError(
            f"[{type(self).__name__}] _apply_boxes must be defined, got none"
        )

    def _apply_mask(self, mask: Any) -> Any:
        raise UnimplementedError(
            f"[{type(self).__name__}] _apply_mask must be defined, got none"
        )


class Compose:
    """Transforms one after another."""

    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, data: Any) -> Any:
        for transform in self.transforms:
            data = transform(data)
        return data
