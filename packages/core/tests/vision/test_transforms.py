"""Functions on images of all three kinds, against PIL and NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

import proa
from proa.errors import InvalidArgumentError
from proa.static import InputSpec
from proa.vision import transforms as T

KINDS = ("pil", "array", "tensor")
RNG = np.random.RandomState(0)
# Smooth (so that interpolation is comparable), coloured, 14 x 20.
Y, X = np.mgrid[:14, :20]
PICTURE = np.stack([X * 12, Y * 17, 200 - X * 5 - Y * 3], 2).astype(np.uint8)
NOISE = RNG.randint(0, 256, (14, 20, 3)).astype(np.uint8)


def image_from(pixels: np.ndarray, kind: str) -> Any:
    """An array (H, W[, C]) as an image of this kind."""
    if kind == "pil":
        return Image.fromarray(pixels)
    if kind == "array":
        return pixels.copy()
    axes = (2, 0, 1) if pixels.ndim == 3 else (0, 1)
    return proa.to_tensor(np.ascontiguousarray(pixels.transpose(axes)))


def pixels(image: Any) -> np.ndarray:
    """The image as (H, W[, C])."""
    if isinstance(image, proa.Tensor):
        array = image.numpy()
        return array.transpose(1, 2, 0) if array.ndim == 3 else array
    return np.asarray(image)


def check(
    change: Callable[[Any], Any], kind: str, expected: Any, source: Any = NOISE,
    atol: float = 0,
) -> None:  # fmt: skip
    given = image_from(source, kind)
    got = change(given)
    assert isinstance(got, type(given)) or (
        kind == "pil" and isinstance(got, Image.Image)
    )
    expected = np.asarray(expected)
    assert pixels(got).dtype == expected.dtype
    if pixels(got).ndim == expected.ndim + 1:
        expected = expected[:, :, None]
    np.testing.assert_allclose(
        pixels(got).astype(float), expected.astype(float), atol=atol, rtol=0
    )


def by_pil(method: Callable[[Image.Image], Image.Image]) -> np.ndarray:
    return np.asarray(method(Image.fromarray(NOISE)))


@pytest.mark.feature("L277")
@pytest.mark.parametrize("kind", KINDS)
def test_flips_and_crops(kind: str) -> None:
    check(T.hflip, kind, NOISE[:, ::-1])
    check(T.vflip, kind, NOISE[::-1])
    check(lambda x: T.crop(x, 2, 3, 5, 7), kind, NOISE[2:7, 3:10])
    check(lambda x: T.center_crop(x, (4, 6)), kind, NOISE[5:9, 7:13])
    with pytest.raises(InvalidArgumentError, match="at most"):
        T.center_crop(image_from(NOISE, kind), 15)


@pytest.mark.feature("L277")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
@pytest.mark.parametrize("channels", [1, 3])
def test_padding(kind: str, mode: str, channels: int) -> None:
    source = NOISE if channels == 3 else NOISE[:, :, 0]
    around = [(2, 4), (1, 3), (0, 0)][: source.ndim]
    options: dict[str, Any] = {"constant_values": 9} if mode == "constant" else {}
    expected = np.pad(source, around, mode=mode, **options)
    check(lambda x: T.pad(x, (1, 2, 3, 4), 9, mode), kind, expected, source)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_by_a_colour(kind: str) -> None:
    expected = by_pil(lambda x: ImageOps.expand(x, (2, 1), (10, 20, 30)))
    check(lambda x: T.pad(x, (2, 1), (10, 20, 30)), kind, expected)
    with pytest.raises(InvalidArgumentError, match="1, 2 or 4 numbers"):
        T.pad(image_from(NOISE, kind), (1, 2, 3))
    with pytest.raises(InvalidArgumentError, match="one for each of 3"):
        T.pad(image_from(NOISE, kind), 1, (10, 20))


@pytest.mark.feature("L277")
@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_resize_to_half_takes_one_or_the_mean_of_four_pixels(kind: str) -> None:
    check(lambda x: T.resize(x, (7, 10), "nearest"), kind, NOISE[::2, ::2])
    source = NOISE.astype(np.float32)
    four = source.reshape(7, 2, 10, 2, 3).mean((1, 3))
    check(lambda x: T.resize(x, (7, 10), "bilinear"), kind, four, source, 1e-4)


@pytest.mark.feature("L277")
@pytest.mark.parametrize("kind", ["array", "tensor"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "area", "nearest"])
@pytest.mark.parametrize("size", [(7, 31), (28, 9)])
def test_resize_samples_as_torch_does(
    kind: str, dtype: str, mode: str, size: tuple[int, int]
) -> None:
    torch = pytest.importorskip("torch")
    source = NOISE.astype(dtype)
    x = torch.tensor(source).permute(2, 0, 1)[None].float()
    # torch's area takes whole pixels; sizes that divide are the same in both.
    size = (7, 10) if mode == "area" else size
    want = torch.nn.functional.interpolate(x, size, mode=mode)[0].permute(1, 2, 0)
    want = want.numpy()
    if dtype == "uint8":
        want = np.clip(np.rint(want), 0, 255)
    tolerance = {"uint8": 1, "float32": 2e-3}[dtype]
    check(
        lambda x: T.resize(x, size, mode), kind, want.astype(dtype), source, tolerance
    )


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "lanczos", "box",
                                  "hamming"])  # fmt: skip
def test_pil_images_are_resized_by_pil(mode: str) -> None:
    expected = by_pil(lambda x: x.resize((9, 6), Image.Resampling[mode.upper()]))
    check(lambda x: T.resize(x, (6, 9), mode), "pil", expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["lanczos", "hamming", "box"])
def test_every_filter_keeps_a_flat_image(kind: str, mode: str) -> None:
    flat = np.full((14, 20, 3), 77, np.uint8)
    expected = np.full((8, 33, 3), 77, np.uint8)
    check(lambda x: T.resize(x, (8, 33), mode), kind, expected, flat)


@pytest.mark.parametrize("kind", KINDS)
def test_one_size_is_that_of_the_shorter_side(kind: str) -> None:
    assert pixels(T.resize(image_from(NOISE, kind), 7)).shape == (7, 10, 3)
    transposed_view = np.ascontiguousarray(NOISE.transpose(1, 0, 2))
    assert pixels(T.Resize(9)(image_from(transposed_view, kind))).shape == (12, 9, 3)
    with pytest.raises(InvalidArgumentError, match="interpolation must be one of"):
        T.resize(image_from(NOISE, kind), 7, "cubic")
    with pytest.raises(InvalidArgumentError, match="size must be positive"):
        T.resize(image_from(NOISE, kind), (0, 3))


@pytest.mark.feature("L277")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("expand", [False, True])
@pytest.mark.parametrize("angle", [0, 17, 90, 135.5, 180, -60, 270])
def test_rotation_by_nearest_pixel_is_pils(
    kind: str, expand: bool, angle: float
) -> None:
    expected = by_pil(lambda x: x.rotate(angle, expand=expand, fillcolor=(5, 6, 7)))
    got = image_from(NOISE, kind)
    got = pixels(T.rotate(got, angle, expand=expand, fill=(5, 6, 7)))
    assert got.shape == expected.shape
    # Pixels whose centre falls on a border of two may differ by rounding.
    assert (got != expected).any(2).mean() < 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_rotation_between_pixels_is_pils(kind: str) -> None:
    expected = np.asarray(
        Image.fromarray(PICTURE).rotate(
            25, Image.Resampling.BILINEAR, center=(4, 5), fillcolor=(1, 2, 3)
        )
    )
    check(
        lambda x: T.rotate(x, 25, "bilinear", center=(4, 5), fill=(1, 2, 3)),
        kind, expected, PICTURE, atol=1,
    )  # fmt: skip
    with pytest.raises(InvalidArgumentError, match="nearest or bilinear"):
        T.rotate(image_from(NOISE, kind), 25, "bicubic")


@pytest.mark.parametrize("kind", KINDS)
def test_affine_moves_scales_and_shears(kind: str) -> None:
    moved = np.zeros_like(NOISE)
    moved[2:, :-3] = NOISE[:-2, 3:]
    check(lambda x: T.affine(x, 0, (-3, 2), 1, 0), kind, moved)
    check(lambda x: T.affine(x, 180, (0, 0), 1, [0, 0]), kind, NOISE[::-1, ::-1])
    # About (10.25, 7.25) the new pixel (x, y) shows the old point 2x - 9.25, 2y - 6.25.
    half = np.zeros_like(NOISE)
    half[4:11, 5:15] = NOISE[1::2, ::2]
    check(lambda x: T.affine(x, 0, (0, 0), 0.5, 0, center=(10.25, 7.25)), kind, half)
    # A shear of 45 degrees along x moves a row by its distance from the centre.
    sheared = pixels(
        T.affine(image_from(NOISE, kind), 0, (0, 0), 1, 45, center=(10.3, 6.5))
    )
    np.testing.assert_array_equal(sheared[8, :-2], NOISE[8, 2:])
    np.testing.assert_array_equal(sheared[5, 1:], NOISE[5, :-1])
    with pytest.raises(InvalidArgumentError, match="scale must be positive"):
        T.affine(image_from(NOISE, kind), 0, (0, 0), 0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_perspective_maps_the_corners_to_the_stated_points(kind: str) -> None:
    corners = [(0, 0), (20, 0), (20, 14), (0, 14)]
    mirrored = [(20, 0), (0, 0), (0, 14), (20, 14)]
    check(lambda x: T.perspective(x, corners, mirrored), kind, NOISE[:, ::-1])
    end = [(3, 1), (18, 0), (20, 13), (1, 12)]
    got = pixels(T.perspective(image_from(PICTURE, kind), corners, end, "bilinear"))
    u, v = np.array(corners, float).T
    x, y = np.array(end, float).T
    one, zero = np.ones(4), np.zeros(4)
    rows = np.concatenate([
        np.c_[x, y, one, zero, zero, zero, -x * u, -y * u],
        np.c_[zero, zero, zero, x, y, one, -x * v, -y * v],
    ])  # fmt: skip
    data = np.linalg.solve(rows, np.r_[u, v])
    want = Image.fromarray(PICTURE).transform(
        (20, 14), Image.Transform.PERSPECTIVE, data, Image.Resampling.BILINEAR
    )
    difference = np.abs(got.astype(int) - np.asarray(want)).max(2)
    assert (difference > 1).mean() < 0.02
    with pytest.raises(InvalidArgumentError, match="four points"):
        T.perspective(image_from(NOISE, kind), corners[:3], end)
    with pytest.raises(InvalidArgumentError, match="collinear"):
        T.perspective(image_from(NOISE, kind), corners, [(0, 0)] * 4)


@pytest.mark.feature("L277")
@pytest.mark.parametrize("kind", KINDS)
def test_grey_is_pils(kind: str) -> None:
    expected = by_pil(lambda x: x.convert("L"))
    check(T.to_grayscale, kind, expected, atol=1)
    three = np.repeat(expected[:, :, None], 3, 2)
    check(T.Grayscale(3), kind, three, atol=1)
    with pytest.raises(InvalidArgumentError, match="1 or 3"):
        T.to_grayscale(image_from(NOISE, kind), 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factor", [0.0, 0.4, 1.0, 1.7])
@pytest.mark.parametrize(
    ("change", "enhance"),
    [(T.adjust_brightness, ImageEnhance.Brightness),
     (T.adjust_contrast, ImageEnhance.Contrast),
     (T.adjust_saturation, ImageEnhance.Color)],
)  # fmt: skip
def test_colours_are_adjusted_as_pil_does(
    kind: str, factor: float, change: Any, enhance: Any
) -> None:
    expected = by_pil(lambda x: enhance(x).enhance(factor))
    check(lambda x: change(x, factor), kind, expected, atol=1)
    with pytest.raises(InvalidArgumentError, match="must not be negative"):
        change(image_from(NOISE, kind), -0.1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shift", [-0.5, -0.2, 0.0, 0.31, 0.5])
def test_hue_is_shifted_in_hsv(kind: str, shift: float) -> None:
    import colorsys

    def transposed_view(colour: np.ndarray) -> tuple[float, ...]:
        hue, saturation, value = colorsys.rgb_to_hsv(*(colour / 255.0))
        return colorsys.hsv_to_rgb((hue + shift) % 1.0, saturation, value)

    expected = np.apply_along_axis(transposed_view, 2, NOISE) * 255
    check(lambda x: T.adjust_hue(x, shift), kind, np.rint(expected).astype(np.uint8),
          atol=1)  # fmt: skip
    with pytest.raises(InvalidArgumentError, match=r"\[-0.5, 0.5\]"):
        T.adjust_hue(image_from(NOISE, kind), 0.6)


def test_float_tensors_are_white_at_one() -> None:
    x = proa.to_tensor(RNG.rand(3, 4, 5).astype(np.float32))
    np.testing.assert_allclose(
        T.adjust_brightness(x, 1.5).numpy(), np.minimum(x.numpy() * 1.5, 1), rtol=1e-6
    )
    np.testing.assert_allclose(T.adjust_hue(x, 0.0).numpy(), x.numpy(), atol=1e-6)
    np.testing.assert_allclose(T.adjust_hue(x, 1 / 3).numpy(), x.numpy()[[2, 0, 1]],
                               atol=1e-6)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_erase(kind: str) -> None:
    expected = NOISE.copy()
    expected[2:5, 3:9] = 7
    check(lambda x: T.erase(x, 2, 3, 3, 6, 7), kind, expected)
    image = image_from(NOISE, kind)
    T.erase(image, 2, 3, 3, 6, 7, inplace=True)
    assert (pixels(image) == (NOISE if kind == "pil" else expected)).all()


@pytest.mark.feature("L277")
@pytest.mark.parametrize("kind", KINDS)
def test_normalize(kind: str) -> None:
    mean, std = [10.0, 20.0, 30.0], [2.0, 4.0, 8.0]
    order = "CHW" if kind == "tensor" else "HWC"
    got = T.normalize(image_from(NOISE, kind), mean, std, data_format=order)
    want = (NOISE.astype(np.float32) - mean) / std
    np.testing.assert_allclose(pixels(got), want, rtol=1e-6, atol=1e-5)
    flipped = T.normalize(image_from(NOISE, kind), mean, std, order, to_rgb=True)
    want = (NOISE[..., ::-1].astype(np.float32) - mean) / std
    np.testing.assert_allclose(pixels(flipped), want, rtol=1e-6, atol=1e-5)


def test_to_tensor_takes_pil_images_and_arrays() -> None:
    for image in (NOISE, Image.fromarray(NOISE)):
        got = T.to_tensor(pic=image, data_format="CHW")
        np.testing.assert_allclose(
            got.numpy(), NOISE.transpose(2, 0, 1) / 255, rtol=1e-6
        )
    assert T.to_tensor(NOISE[:, :, 0]).shape == [1, 14, 20]
    with pytest.raises(InvalidArgumentError, match="data_format"):
        T.to_tensor(NOISE, "NCHW")
    with pytest.raises(InvalidArgumentError, match=r"got 'picture\.png'"):
        T.to_tensor("picture.png")


# Functions of a float tensor that training may run through.
SMOOTH: dict[str, Callable[[Any], Any]] = {
    "resize": lambda x: T.resize(x, (6, 9)),
    "bicubic": lambda x: T.resize(x, (6, 9), "bicubic"),
    "rotate": lambda x: T.rotate(x, 30, "bilinear"),
    "affine": lambda x: T.affine(x, 10, (1, 2), 1.2, 5, "bilinear"),
    "pad": lambda x: T.pad(x, 2, padding_mode="reflect"),
    "crop": lambda x: T.center_crop(x, 5),
    "hflip": T.hflip,
    "grey": T.to_grayscale,
    "brightness": lambda x: T.adjust_brightness(x, 0.7),
    "contrast": lambda x: T.adjust_contrast(x, 0.7),
    "saturation": lambda x: T.adjust_saturation(x, 0.7),
    "normalize": lambda x: T.normalize(x, [0.5] * 3, [0.2] * 3),
}


@pytest.mark.parametrize("name", list(SMOOTH))
def test_functions_of_tensors_have_gradients(name: str) -> None:
    x = proa.to_tensor(0.2 + 0.6 * RNG.rand(3, 7, 8), stop_gradient=False)
    weight = None

    def total(values: Any) -> Any:
        nonlocal weight
        y = SMOOTH[name](values)
        if weight is None:
            weight = proa.to_tensor(RNG.rand(*y.shape).astype(y.numpy().dtype))
        return (y * weight).sum()

    total(x).backward()
    step, base = 1e-5, x.numpy()
    for index in [(0, 0, 0), (1, 3, 4), (2, 6, 7), (0, 2, 5)]:
        ends = []
        for sign in (1, -1):
            moved = base.copy()
            moved[index] += sign * step
            ends.append(float(total(proa.to_tensor(moved))))
        slope = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(x.grad.numpy()[index], slope, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("name", list(SMOOTH))
def test_functions_of_tensors_can_be_recorded(name: str) -> None:
    x = proa.to_tensor(RNG.rand(2, 3, 7, 8).astype(np.float32))
    spec = [InputSpec([None, 3, 7, 8], "float32")]
    recorded = proa.jit.to_static(SMOOTH[name], input_spec=spec)
    np.testing.assert_allclose(
        recorded(x).numpy(), SMOOTH[name](x).numpy(), rtol=1e-5, atol=1e-5
    )
