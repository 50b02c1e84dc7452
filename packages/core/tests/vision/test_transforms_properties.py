"""Any array or tensor given to a transform ends in an image or a typed error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import proa
from proa.errors import Error
from proa.vision import transforms as T

CALLS: dict[str, Callable[[Any], Any]] = {
    "hflip": T.hflip,
    "vflip": T.vflip,
    "crop": lambda x: T.crop(x, 1, 0, 2, 3),
    "center_crop": lambda x: T.center_crop(x, 2),
    "pad": lambda x: T.pad(x, 1),
    "pad reflect": lambda x: T.pad(x, 1, padding_mode="reflect"),
    "resize": lambda x: T.resize(x, (3, 2)),
    "resize one": lambda x: T.resize(x, 3, "bicubic"),
    "rotate": lambda x: T.rotate(x, 30, expand=True),
    "affine": lambda x: T.affine(x, 10, (1, 0), 1.5, 3, "bilinear"),
    "perspective": lambda x: T.perspective(
        x, [(0, 0), (3, 0), (3, 3), (0, 3)], [(0, 0), (3, 1), (3, 3), (1, 3)]
    ),
    "to_grayscale": lambda x: T.to_grayscale(x, 3),
    "adjust_brightness": lambda x: T.adjust_brightness(x, 1.2),
    "adjust_contrast": lambda x: T.adjust_contrast(x, 1.2),
    "adjust_saturation": lambda x: T.adjust_saturation(x, 0.2),
    "adjust_hue": lambda x: T.adjust_hue(x, 0.2),
    "normalize": lambda x: T.normalize(x, 0.5, 0.2),
    "erase": lambda x: T.erase(x, 0, 1, 2, 2, 0),
    "to_tensor": T.to_tensor,
    "RandomResizedCrop": T.RandomResizedCrop(3),
    "RandomCrop": T.RandomCrop(3, pad_if_needed=True),
    "ColorJitter": T.ColorJitter(0.2, 0.2, 0.2, 0.1),
    "RandomErasing": T.RandomErasing(1.0),
}
shapes = st.lists(st.integers(0, 5), min_size=0, max_size=4)
dtypes = st.sampled_from(["uint8", "int32", "float32", "float64", "bool"])


@pytest.mark.parametrize("name", list(CALLS))
@settings(max_examples=25, deadline=None)
@given(shape=shapes, dtype=dtypes, tensor=st.booleans())
def test_an_image_or_a_typed_error(
    name: str, shape: list[int], dtype: str, tensor: bool
) -> None:
    array = np.ones(shape, dtype)
    image = proa.to_tensor(array) if tensor else array
    try:
        result = CALLS[name](image)
    except Error as error:
        assert str(error).startswith("[")
    else:
        assert isinstance(result, (np.ndarray, proa.Tensor))
