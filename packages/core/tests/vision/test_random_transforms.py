"""Transforms with random parameters, and samples of several fields."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from PIL import Image

import proa
from proa.errors import Error, InvalidArgumentError, UnimplementedError
from proa.vision import transforms as T

RNG = np.random.RandomState(0)
NOISE = RNG.randint(0, 256, (14, 20, 3)).astype(np.uint8)


def noise(kind: str) -> Any:
    if kind == "pil":
        return Image.fromarray(NOISE)
    return NOISE if kind == "array" else proa.to_tensor(NOISE.transpose(2, 0, 1).copy())


def shape_of(image: Any) -> tuple[int, ...]:
    if isinstance(image, proa.Tensor):
        return (*image.shape[1:], image.shape[0])
    return np.asarray(image).shape


RANDOM: dict[str, tuple[Any, tuple[int, ...]]] = {
    "RandomResizedCrop": (T.RandomResizedCrop((6, 8)), (6, 8, 3)),
    "RandomCrop": (T.RandomCrop(5), (5, 5, 3)),
    "RandomCrop padded": (T.RandomCrop(16, 1), (16, 16, 3)),
    "RandomCrop if needed": (T.RandomCrop(30, pad_if_needed=True, fill=1), (30, 30, 3)),
    "RandomHorizontalFlip": (T.RandomHorizontalFlip(), (14, 20, 3)),
    "RandomVerticalFlip": (T.RandomVerticalFlip(), (14, 20, 3)),
    "BrightnessTransform": (T.BrightnessTransform(0.5), (14, 20, 3)),
    "ContrastTransform": (T.ContrastTransform(0.5), (14, 20, 3)),
    "SaturationTransform": (T.SaturationTransform(0.5), (14, 20, 3)),
    "HueTransform": (T.HueTransform(0.3), (14, 20, 3)),
    "ColorJitter": (T.ColorJitter(0.4, 0.4, 0.4, 0.1), (14, 20, 3)),
    "RandomRotation": (T.RandomRotation(40, "bilinear"), (14, 20, 3)),
    "RandomAffine": (
        T.RandomAffine(30, (0.1, 0.2), (0.8, 1.2), [-5, 5, -3, 3]), (14, 20, 3),
    ),
    "RandomPerspective": (T.RandomPerspective(1.0), (14, 20, 3)),
    "RandomErasing": (T.RandomErasing(1.0), (14, 20, 3)),
    "RandomErasing by noise": (T.RandomErasing(1.0, value="random"), (14, 20, 3)),
    "RandomErasing by colour": (T.RandomErasing(1.0, value=[1, 2, 3]), (14, 20, 3)),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["pil", "array", "tensor"])
@pytest.mark.parametrize("name", list(RANDOM))
def test_random_transforms_vary_keep_the_kind_and_repeat_by_seed(
    name: str, kind: str
) -> None:
    transform, shape = RANDOM[name]
    given = noise(kind)

    def run(seed: int) -> list[Any]:
        random.seed(seed)
        return [transform(given) for _ in range(5)]

    first, again = run(0), run(0)
    for one, other in zip(first, again, strict=True):
        assert shape_of(one) == shape
        assert isinstance(one, Image.Image if kind == "pil" else type(given))
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    assert any((np.asarray(one) != np.asarray(first[0])).any() for one in first)


def test_without_a_range_colours_stay() -> None:
    for transform in (T.ColorJitter(), T.BrightnessTransform(0), T.HueTransform(0)):
        np.testing.assert_array_equal(transform(NOISE), NOISE)
    for transform in (T.RandomErasing(0.0), T.RandomPerspective(0.0)):
        np.testing.assert_array_equal(transform(NOISE), NOISE)


def test_factors_are_drawn_from_the_stated_range() -> None:
    grey = np.full((2, 2, 3), 100, np.uint8)
    drawn = [T.BrightnessTransform(0.2)(grey)[0, 0, 0] for _ in range(200)]
    assert 80 <= min(drawn) < 90
    assert 110 < max(drawn) <= 120
    drawn = [T.BrightnessTransform((0.5, 0.6))(grey)[0, 0, 0] for _ in range(50)]
    assert min(drawn) >= 50 and max(drawn) <= 60


def test_a_resized_crop_falls_back_to_the_middle() -> None:
    thin = np.arange(40, dtype=np.uint8).reshape(1, 40)
    crop = T.RandomResizedCrop((1, 1), scale=(1.0, 1.0), ratio=(1.0, 1.0))
    assert crop._block(1, 40) == (0, 19, 1, 1)
    assert crop(thin).tolist() == [[19]]


def test_params_of_a_perspective_stay_near_the_corners() -> None:
    start, end = T.RandomPerspective().get_params(20, 14, 0.5)
    assert start == [[0, 0], [19, 0], [19, 13], [0, 13]]
    for (x, y), (u, v) in zip(start, end, strict=True):
        assert abs(x - u) <= 5 and abs(y - v) <= 3


@pytest.mark.parametrize(
    ("make", "message"),
    [(lambda: T.BrightnessTransform(-1), "value must be >= 0"),
     (lambda: T.HueTransform(0.7), "value must be in"),
     (lambda: T.ContrastTransform((2, 1)), "value must be in"),
     (lambda: T.RandomRotation(-3), "degrees must be >= 0"),
     (lambda: T.RandomRotation([1, 2, 3]), "one number or two"),
     (lambda: T.RandomAffine(3, (2, 0)), "translate must be in"),
     (lambda: T.RandomAffine(3, scale=(0, 1)), "scale must be positive"),
     (lambda: T.RandomHorizontalFlip(2), "prob must be in"),
     (lambda: T.RandomVerticalFlip(-1), r"\[RandomVerticalFlip\] prob"),
     (lambda: T.RandomErasing(2), "prob and scale"),
     (lambda: T.RandomErasing(value="noise"), "value must be numbers"),
     (lambda: T.RandomPerspective(2), "must be in"),
     (lambda: T.RandomResizedCrop(3, scale=(1, 0)), "0 < min <= max"),
     (lambda: T.RandomCrop(30)(NOISE), "size must be at most"),
     (lambda: T.Resize(3, keys="image"), "sequence of names")],
)  # fmt: skip
def test_invalid_settings_are_rejected(make: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make()


class Shift(T.BaseTransform):
    """One random shift of the image and of its boxes."""

    def _get_params(self, inputs: Any) -> int:
        return random.randint(1, 3)

    def _apply_image(self, image: Any) -> Any:
        return np.roll(image, self.params, 1)

    def _apply_boxes(self, boxes: Any) -> Any:
        return boxes + np.array([self.params, 0, self.params, 0])


def test_fields_of_a_sample_share_their_parameters() -> None:
    transform = Shift(keys=("image", "boxes"))
    image, boxes, label = transform((NOISE, np.array([[1, 2, 3, 4]]), 7))
    shift = boxes[0, 0] - 1
    assert boxes.tolist() == [[1 + shift, 2, 3 + shift, 4]]
    np.testing.assert_array_equal(image, np.roll(NOISE, shift, 1))
    assert label == 7
    flipped, name = T.RandomHorizontalFlip(1.0, keys=("image", "label"))((NOISE, 3))
    np.testing.assert_array_equal(flipped, NOISE[:, ::-1])
    assert name == 3
    with pytest.raises(UnimplementedError, match="_apply_mask"):
        T.Resize(3, keys=("image", "mask"))((NOISE, NOISE))
    with pytest.raises(UnimplementedError, match="_apply_image"):
        T.BaseTransform()(NOISE)


def test_a_chain_as_training_uses_it() -> None:
    random.seed(0)
    chain = T.Compose([
        T.RandomResizedCrop(8), T.RandomHorizontalFlip(), T.ColorJitter(0.4, 0.4, 0.4),
        T.ToTensor(), T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ])  # fmt: skip
    out = chain(Image.fromarray(NOISE))
    assert isinstance(out, proa.Tensor)
    assert out.shape == [3, 8, 8]
    assert 0.1 < float(out.std()) < 3


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: T.RandomAffine(5, shear=[1.0]), r"\[RandomAffine\] .*shear .*2 or 4"),
        (lambda: T.RandomAffine(5, scale=[1.0]), r"\[RandomAffine\] .*scale .*2 num"),
        (lambda: T.RandomAffine(5, (0.1,)), r"\[RandomAffine\] .*translate .*2 num"),
        (lambda: T.RandomAffine(5, scale=(1, math.inf)), r"scale to be finite"),
        (lambda: T.RandomRotation(math.inf), r"\[RandomRotation\] .*to be finite"),
        (lambda: T.RandomResizedCrop(4, scale=[]), r"\[RandomResizedCrop\] .*scale"),
        (lambda: T.RandomResizedCrop(4, ratio=(0, 1)), r"0 < min <= max, got \(0"),
        (lambda: T.RandomCrop([2, 3, 4]), r"\[RandomCrop\] expected size .*2 numbers"),
        (lambda: T.rotate(NOISE, math.inf), r"\[rotate\] expected angle .* got inf"),
        (lambda: T.affine(NOISE, 1, (math.nan, 0), 1, 0), r"\[affine\] .*translate"),
        (lambda: T.center_crop(NOISE, math.inf), r"\[center_crop\] expected size"),
        (lambda: T.pad(NOISE, -1), r"\[pad\] expected padding of at least 0, got -1"),
        (lambda: T.pad(NOISE, 2**62), r"\[pad\] expected padding to fit in memory"),
        (lambda: T.resize(NOISE, 2**62), r"\[resize\] expected size to fit in memory"),
        (lambda: T.resize(NOISE * 1j, 5), r"\[resize\] .*a real array .*complex128"),
        (
            lambda: T.RandomResizedCrop(3)(proa.ones([1, 4, 4], "complex64")),
            r"\[RandomResizedCrop\] .*a real tensor .*complex64",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(call: Any, text: str):
    with pytest.raises((ValueError, MemoryError), match=text) as caught:
        call()
    assert isinstance(caught.value, Error)
