"""ImageDecoder: pictures of their files' bytes."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

import proa
from proa.errors import InvalidArgumentError, UnavailableError
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.table import onnx_op

#: Pixels that a picture may have.
_PIXELS = 1 << 28
_MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}


@onnx_op("ImageDecoder", since=20, host=(0,))
def image_decoder(call: Call, encoded: Any) -> Any:
    order = call.get("pixel_format", "RGB")
    if order not in _MODES:
        raise call.refuse(f"pixel_format {order!r}")
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise UnavailableError(
            f"{call.place} needs Pillow (pip install pillow)"
        ) from None
    data = call.host(encoded).astype(np.uint8).tobytes()
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > _PIXELS:
                raise ValueError(f"more than {_PIXELS} pixels")
            pixels = np.atleast_3d(np.asarray(image.convert(_MODES[order])))
    except (
        UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError,
        SyntaxError,
    ) as error:  # fmt: skip
        raise InvalidArgumentError(
            f"{call.place} expected the bytes of a picture, got {error}"
        ) from None
    if order == "BGR":
        pixels = pixels[:, :, ::-1]
    return proa.to_tensor(np.ascontiguousarray(pixels))
