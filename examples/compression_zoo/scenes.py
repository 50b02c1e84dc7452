"""Scenes: scanned digits drawn over photographs, with their boxes and masks.

Made from what scikit-learn ships, 1,797 digits of 8 x 8 and two photographs. A digit is
enlarged, coloured far from what it covers and blended over a random patch; its box is
that of its ink, its mask the pixels where the ink covers more than half. Scenes for
training, validation and testing have digits of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_sample_images

from proa.vision import transforms as T

#: The digits of each part.
PARTS = {
    "train": slice(1260),
    "validation": slice(1260, 1440),
    "test": slice(1440, None),
}
_TRIES = 20


@dataclass(frozen=True)
class Scenes:
    """Images with what is in them; objects beyond those of an image are zeros.

    Attributes:
        images: (n, 3, size, size), uint8.
        boxes: (n, objects, 4), float32: centre x, y, width, height, parts of the image.
        labels: (n, objects), int64.
        masks: (n, size, size), uint8: 0 is background, 1 + label an object.
    """

    images: NDArray[np.uint8]
    boxes: NDArray[np.float32]
    labels: NDArray[np.int64]
    masks: NDArray[np.uint8]


def draw(
    count: int, size: int, objects: int, sides: tuple[int, int], classes: int,
    part: str, seed: int,
) -> Scenes:  # fmt: skip
    """Scenes of `size` with 1 to `objects` digits below `classes`, `sides` high.

    Args:
        part: Whose digits: one of `PARTS`.
        seed: The same scenes for the same seed and part.
    """
    digits = load_digits()
    labels = digits.target[PARTS[part]]
    shapes = (digits.images[PARTS[part]][labels < classes] / 16).astype(np.float32)
    labels = labels[labels < classes]
    photos = [photo / np.float32(255) for photo in load_sample_images().images]
    random = np.random.default_rng([seed, list(PARTS).index(part)])
    scenes = Scenes(
        np.zeros((count, 3, size, size), np.uint8),
        np.zeros((count, objects, 4), np.float32),
        np.zeros((count, objects), np.int64),
        np.zeros((count, size, size), np.uint8),
    )
    for i in range(count):
        photo = photos[random.integers(len(photos))]
        top, left = (random.integers(n - size) for n in photo.shape[:2])
        image = photo[top : top + size, left : left + size].copy()
        taken = np.zeros((size, size), bool)
        for slot in range(random.integers(1, objects + 1)):
            which = random.integers(len(shapes))
            place = _free_place(random, taken, sides)
            if place is None:
                break
            scenes.labels[i, slot] = labels[which]
            _draw_digit(random, scenes, i, slot, image, place, shapes[which])
            taken[place] = True
        scenes.images[i] = (image * 255).astype(np.uint8).transpose(2, 0, 1)
    return scenes


def _free_place(
    random: np.random.Generator, taken: NDArray[np.bool_], sides: tuple[int, int]
) -> tuple[slice, slice] | None:
    """A square that no other digit covers; None if none is found."""
    for _ in range(_TRIES):
        side = int(random.integers(sides[0], sides[1] + 1))
        y, x = (int(random.integers(n - side + 1)) for n in taken.shape)
        place = slice(y, y + side), slice(x, x + side)
        if not taken[place].any():
            return place
    return None


def _draw_digit(
    random: np.random.Generator, scenes: Scenes, i: int, slot: int,
    image: NDArray[np.float32], place: tuple[slice, slice], shape: NDArray[np.float32],
) -> None:  # fmt: skip
    """Blend a digit into the image, and note its box and its mask."""
    rows, columns = place
    side = rows.stop - rows.start
    ink = np.clip(T.resize(shape, (side, side)), 0, 1)
    patch = image[place]
    # A colour far from the patch's mean, so that the digit can be seen.
    colour = np.where(patch.mean((0, 1)) > 0.5, 0.0, 1.0) + random.uniform(-0.25, 0.25)
    image[place] = patch * (1 - ink[..., None]) + np.clip(colour, 0, 1) * ink[..., None]
    covered = ink > 0.5
    scenes.masks[i][place][covered] = 1 + scenes.labels[i, slot]
    ys, xs = (np.flatnonzero(covered.any(axis)) for axis in (1, 0))
    low = np.array([columns.start + xs[0], rows.start + ys[0]])
    high = np.array([columns.start + xs[-1] + 1, rows.start + ys[-1] + 1])
    scenes.boxes[i, slot] = np.concatenate([low + high, 2 * (high - low)]) / (
        2 * len(image)
    )
