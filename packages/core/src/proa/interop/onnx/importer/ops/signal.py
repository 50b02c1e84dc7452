"""Windows, Fourier transforms and spectra."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import proa
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.ops.elementwise import dtype_of
from proa.interop.onnx.importer.table import onnx_op

#: Coefficients of cos(2 pi k n / size) in windows.
_WINDOWS = {
    "HannWindow": [0.5, -0.5],
    "HammingWindow": [25 / 46, -21 / 46],
    "BlackmanWindow": [0.42, -0.5, 0.08],
}


@onnx_op(*_WINDOWS, host=(0,))
def window(call: Call, size: Any) -> Any:
    count = int(call.number(size))
    span = count if call.get("periodic", 1) else count - 1
    angle = 2 * math.pi * np.arange(count) / max(span, 1)
    values = sum(c * np.cos(k * angle) for k, c in enumerate(_WINDOWS[call.op]))
    dtype = dtype_of(call, call.get("output_datatype", 1))
    return proa.to_tensor(np.asarray(values).astype(dtype))


def _discrete_fourier(
    call: Call, x: Any, length: int | None, axis: int, inverse: bool, one_sided: bool
) -> Any:
    """x (.., n, .., 1 or 2) by a product with the matrix of the transform."""
    axis = axis % x.ndim
    (n,) = call.known([x.shape[axis]])
    size = n if length is None else length
    moved = [i for i in range(x.ndim - 1) if i != axis]
    x = proa.transpose(x, [*moved, x.ndim - 1, axis])
    if size > n:
        x = proa.concat([x, proa.zeros([*x.shape[:-1], size - n], x.dtype)], -1)
    elif size < n:
        x = proa.slice(x, [x.ndim - 1], [0], [size])
    count = size // 2 + 1 if one_sided and not inverse else size
    phase = np.outer(np.arange(size), np.arange(count)) % size
    angles = 2 * math.pi * phase / size
    scale = 1.0 / size if inverse else 1.0
    real = proa.to_tensor((np.cos(angles) * scale).astype(x.dtype.name))
    sign = scale if inverse else -scale
    imag = proa.to_tensor((np.sin(angles) * sign).astype(x.dtype.name))
    parts = [proa.slice(x, [x.ndim - 2], [i], [i + 1]) for i in range(x.shape[-2])]
    a = proa.squeeze(parts[0], [x.ndim - 2])
    re, im = proa.matmul(a, real), proa.matmul(a, imag)
    if len(parts) == 2:
        b = proa.squeeze(parts[1], [x.ndim - 2])
        re, im = re - proa.matmul(b, imag), im + proa.matmul(b, real)
    found = proa.stack([re, im], -1)
    perm = list(range(found.ndim - 2))
    perm.insert(axis, found.ndim - 2)
    return proa.transpose(found, [*perm, found.ndim - 1])


def _transform(call: Call, x: Any, length: int | None, axis: int) -> Any:
    inverse, one = bool(call.get("inverse", 0)), bool(call.get("onesided", 0))
    if not inverse or not one:
        return _discrete_fourier(call, x, length, axis, inverse, one)
    # The other half of the spectrum of real numbers is the conjugate of this one.
    axis = axis % x.ndim
    (count,) = call.known([x.shape[axis]])
    size = 2 * (count - 1) if length is None else length
    bins = min(count, size // 2 + 1)
    x = proa.slice(x, [axis], [0], [bins])
    rest = size - bins
    if rest:
        have = proa.to_tensor(np.arange(rest, 0, -1))
        if rest >= bins:
            raise call.refuse(f"{count} numbers of a spectrum of {size}")
        mirror = proa.index_select(x, have, axis)
        sign = proa.to_tensor(np.array([1, -1], x.dtype.name))
        x = proa.concat([x, mirror * sign], axis)
    y = _discrete_fourier(call, x, None, axis, True, False)
    return proa.slice(y, [y.ndim - 1], [0], [1])


@onnx_op("DFT", host=(1,))
def dft_attribute(call: Call, x: Any, length: Any = None) -> Any:
    size = None if length is None else int(call.number(length))
    return _transform(call, x, size, call.get("axis", 1))


@onnx_op("DFT", since=20, host=(1, 2))
def dft(call: Call, x: Any, length: Any = None, axis: Any = None) -> Any:
    size = None if length is None else int(call.number(length))
    return _transform(call, x, size, int(call.number(axis, -2)))


@onnx_op("STFT", host=(1, 3))
def stft(call: Call, x: Any, step: Any, window: Any = None, length: Any = None) -> Any:
    size = int(call.number(length)) if length is not None else window.shape[0]
    hop = int(call.number(step))
    if x.ndim == 2:
        x = proa.unsqueeze(x, [2])
    count = (call.known(x.shape)[1] - size) // hop + 1
    at = (np.arange(count)[:, None] * hop + np.arange(size)).reshape(-1)
    frames = proa.index_select(x, proa.to_tensor(at.astype(np.int64)), 1)
    frames = proa.reshape(frames, [x.shape[0], count, size, x.shape[2]])
    if window is not None:
        frames = frames * proa.reshape(window, [1, 1, -1, 1])
    one_sided = bool(call.get("onesided", 1))
    return _discrete_fourier(call, frames, None, 2, False, one_sided)


@onnx_op("MelWeightMatrix", host=(0, 1, 2, 3, 4))
def mel_weights(
    call: Call, bins: Any, length: Any, rate: Any, lowest: Any, highest: Any
) -> Any:
    count, size, hertz = (int(call.number(v)) for v in (bins, length, rate))
    ends = [float(call.number(v)) for v in (lowest, highest)]
    low, high = (2595 * math.log10(1 + f / 700) for f in ends)
    mels = np.arange(count + 2) * ((high - low) / (count + 2)) + low
    points = ((size + 1) * (700 * (10 ** (mels / 2595) - 1)) // hertz).astype(np.int64)
    found = np.zeros((size // 2 + 1, count))
    for i in range(count):
        a, center, b = points[i : i + 3]
        if center == a:
            found[center, i] = 1
        else:
            for j in range(a, center + 1):
                found[j, i] = (j - a) / (center - a)
        for j in range(center, b if b > center else center):
            found[j, i] = (b - j) / (b - center)
    return proa.to_tensor(found.astype(dtype_of(call, call.get("output_datatype", 1))))
