"""`proa.fft` against NumPy and SciPy, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.fft

import proa
from proa.errors import InvalidArgumentError

RNG = np.random.default_rng(2)
NORMS = ["backward", "ortho", "forward"]


def draw(*shape: int, complex_: bool = False) -> np.ndarray:
    a = RNG.normal(size=shape)
    return a + 1j * RNG.normal(size=shape) if complex_ else a


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-10)


LENGTHS = [1, 2, 3, 4, 7, 13, 16, 17, 30, 64, 97, 101, 121, 143, 360, 1009, 1024]


@pytest.mark.parametrize("n", LENGTHS)
def test_every_length(n: int):
    a = draw(2, n, complex_=True)
    x = proa.to_tensor(a)
    close(proa.fft.fft(x), np.fft.fft(a))
    close(proa.fft.ifft(x), np.fft.ifft(a))
    single = proa.fft.fft(proa.to_tensor(a.astype("complex64"))).numpy()
    assert single.dtype == np.complex64
    np.testing.assert_allclose(single, np.fft.fft(a), atol=1e-5 * n)
    close(proa.fft.rfft(x.real()), np.fft.rfft(a.real))
    close(proa.fft.irfft(proa.fft.rfft(x.real()), n), a.real)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [None, 1, 4, 5, 6, 9])
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_one_axis(name: str, axis: int, n: int | None, norm: str):
    a = draw(5, 6, 4, complex_=name not in ("rfft", "ihfft"))
    got = getattr(proa.fft, name)(proa.to_tensor(a), n, axis, norm)
    close(got, getattr(np.fft, name)(a, n, axis, norm))


KINDS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("s", "axes"),
    [
        (None, None),
        ((4, 7), None),
        ((4, 7), (0, 2)),
        (None, (1,)),
        ((3, 4, 5), (2, 0, 1)),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_several_axes(kind: str, s: Any, axes: Any, norm: str):
    a = draw(3, 4, 5, complex_=kind not in ("rfft", "ihfft"))
    x = proa.to_tensor(a)
    got = getattr(proa.fft, f"{kind}n")(x, s, axes, norm)
    close(got, getattr(scipy.fft, f"{kind}n")(a, s, axes, norm))
    if s is None:
        got = getattr(proa.fft, f"{kind}2")(x, norm=norm)
        close(got, getattr(scipy.fft, f"{kind}2")(a, norm=norm))


def test_frequencies_and_shifts():
    for n in (1, 4, 5):
        close(proa.fft.fftfreq(n, 0.5, "float64"), np.fft.fftfreq(n, 0.5))
        close(proa.fft.rfftfreq(n, 0.5, dtype="float64"), np.fft.rfftfreq(n, 0.5))
    assert proa.fft.fftfreq(3).dtype == "float32"
    a = draw(4, 5, 3)
    x = proa.to_tensor(a)
    for axes in (None, 1, [0, 2], (-1,)):
        close(proa.fft.fftshift(x, axes), np.fft.fftshift(a, axes))
        close(proa.fft.ifftshift(x, axes), np.fft.ifftshift(a, axes))


def test_integers_and_single_precision():
    assert proa.fft.fft(proa.to_tensor([1, 2, 3])).dtype == "complex64"
    assert proa.fft.rfft(proa.ones([4], "float64")).dtype == "complex128"
    assert proa.fft.irfft(proa.ones([4], "complex64")).dtype == "float32"


def test_errors_state_the_requirement():
    x = proa.ones([3, 4])
    with pytest.raises(InvalidArgumentError, match=r"\[fft\] norm must be"):
        proa.fft.fft(x, norm="unit")
    with pytest.raises(InvalidArgumentError, match=r"\[rfft\] x must be real"):
        proa.fft.rfft(x.astype("complex64"))
    with pytest.raises(InvalidArgumentError, match=r"\[ifft\] n must be at least 1"):
        proa.fft.ifft(x, 0)
    with pytest.raises(InvalidArgumentError, match=r"\[fft\] axis must be in"):
        proa.fft.fft(x, axis=2)
    with pytest.raises(InvalidArgumentError, match=r"\[fftn\] s and axes"):
        proa.fft.fftn(x, s=[2], axes=[0, 1])


@pytest.mark.parametrize("kind", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize("n", [None, 3, 7])
def test_gradients(kind: str, n: int | None):
    f = getattr(proa.fft, kind)
    complex_ = kind not in ("rfft", "ihfft")
    a, direction = (draw(2, 5, complex_=complex_) for _ in "ab")
    x = proa.to_tensor(a, stop_gradient=False)
    y = f(x, n)
    weight = proa.to_tensor(draw(*y.shape, complex_=y.dtype.is_complex))

    def loss(t: Any) -> Any:
        out = f(t, n)
        square = (out * out * weight).sum()
        return square.real() if square.dtype.is_complex else square

    grad = proa.grad([loss(x)], [x], create_graph=True)[0]
    got = (np.conj(grad.numpy()) * direction).real.sum()
    h = 1e-6
    up, down = (float(loss(proa.to_tensor(a + s * h * direction))) for s in (1, -1))
    np.testing.assert_allclose(got, (up - down) / (2 * h), rtol=1e-5, atol=1e-6)
    # The loss is quadratic: its second derivative along the direction is exact.
    along = (grad * proa.to_tensor(np.conj(direction))).sum()
    along = along.real() if along.dtype.is_complex else along
    second = proa.grad([along], [x])[0].numpy()
    got = (np.conj(second) * direction).real.sum()
    twice = 2 * float(loss(proa.to_tensor(direction)))
    np.testing.assert_allclose(got, twice, rtol=1e-8, atol=1e-8)


def test_transforms_record_with_an_unknown_batch(tmp_path: Any):
    class Spectrum(proa.nn.Layer):
        def forward(self, x: Any) -> Any:
            return proa.abs(proa.fft.rfft(x, norm="ortho"))

    layer = Spectrum()
    proa.jit.save(layer, tmp_path / "m", [proa.jit.InputSpec([None, 12], "float32")])
    loaded = proa.jit.load(tmp_path / "m")
    a = draw(3, 12).astype("float32")
    want = np.abs(np.fft.rfft(a, norm="ortho"))
    np.testing.assert_allclose(loaded(proa.to_tensor(a)).numpy(), want, atol=1e-5)
