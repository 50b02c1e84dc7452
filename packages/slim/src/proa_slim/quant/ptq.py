"""`PTQ`: calibration of a live network with PaddleSlim's arguments."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from proa.errors import PreconditionNotMetError
from proa.nn import Layer
from proa_slim.config import QuantConfig
from proa_slim.quant.model import QuantizedModel
from proa_slim.quant.post_static import quant_post_static
from proa_slim.quant.quantizer_names import (
    ACTIVATION_CLASSES,
    WEIGHT_CLASSES,
    quantizer,
)
from proa_slim.quant.training import adjacent_norms


class PTQ:
    """Post-training quantization of a network that is called on calibration data.

        ptq = PTQ(activation_quantizer="KLQuantizer")
        watched = ptq.quantize(network)
        for batch in batches:
            watched(batch)
        model = ptq.save_quantized_model(watched, "net.int8.proa", input_spec)

    What the network is called on is kept in memory until the model is saved; it is then
    quantized as by `quant_post_static`, which also takes the batches at once.

    Args:
        activation_quantizer: ``KLQuantizer``, ``HistQuantizer`` or ``AbsmaxQuantizer``.
        weight_quantizer: ``PerChannelAbsmaxQuantizer`` or ``AbsmaxQuantizer``.
        config: Other settings, whose observers these two replace.

    Raises:
        InvalidArgumentError: If a quantizer is none of these.
    """

    def __init__(
        self,
        activation_quantizer: str = "KLQuantizer",
        weight_quantizer: str = "PerChannelAbsmaxQuantizer",
        config: QuantConfig | None = None,
    ) -> None:
        self.config = replace(
            config or QuantConfig(),
            activation=quantizer(
                "PTQ", "activation_quantizer", activation_quantizer, ACTIVATION_CLASSES
            ),
            weight=quantizer(
                "PTQ", "weight_quantizer", weight_quantizer, WEIGHT_CLASSES
            ),
        )
        self._batches: dict[Layer, list[list[Any]]] = {}
        self._hooks: dict[Layer, Any] = {}

    def quantize(
        self,
        model: Layer,
        inplace: bool = False,
        fuse: bool = False,
        fuse_list: Sequence[Sequence[str]] | None = None,
    ) -> Layer:
        """A copy of the network (itself if `inplace`) that notes what it is called on.

        Args:
            model: In evaluation mode from now on.
            inplace: Whether `model` itself is watched.
            fuse, fuse_list: Have no meaning: norms are always folded into the products
                before them.
        """
        watched = model if inplace else copy.deepcopy(model)
        watched.eval()
        batches = self._batches[watched] = []

        def note(layer: Layer, inputs: Sequence[Any]) -> None:
            batches.append([np.array(x.numpy()) for x in inputs])

        self._hooks[watched] = watched.register_forward_pre_hook(note)
        return watched

    def find_conv_bn_names(self, model: Layer) -> list[list[str]]:
        """Paths of products and of the norms that follow them in a Sequential."""
        found = adjacent_norms(model)
        return [[product, norm] for product, norm in found.items()]

    def save_quantized_model(
        self, model: Layer, path: str | PathLike[str], input_spec: Sequence[Any]
    ) -> QuantizedModel:
        """Quantize by what the network was called on, and write the file.

        Args:
            model: That `quantize` gave. It is not watched any more.
            path: Path of the file.
            input_spec: As for `proa.jit.save`.

        Returns:
            The model, with its report.

        Raises:
            PreconditionNotMetError: If `model` is none that `quantize` gave, was never
                called, or has nothing to quantize.
        """
        if model not in self._batches:
            raise PreconditionNotMetError(
                "[PTQ] expected a network that quantize gave and that was not saved "
                f"yet, got {type(model).__name__}"
            )
        if not self._batches[model]:
            raise PreconditionNotMetError(
                "[PTQ] expected a network that was called on calibration data, got one "
                "that was never called"
            )
        self._hooks.pop(model).remove()
        batches = self._batches.pop(model)
        result = quant_post_static(model, input_spec, batches, self.config)
        result.save(path)
        return result
