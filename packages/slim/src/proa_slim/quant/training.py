"""Quantization-aware training: train with the rounding in place, then convert.

Weights and the inputs of products go through fake quantization in the forward pass; the
gradient goes straight through it (Bengio et al., 2013; Jacob et al., 2018).
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, TypeGuard

from proa import no_grad, ones
from proa.errors import PreconditionNotMetError
from proa.ir.program import Program
from proa.nn import (
    BatchNorm1D,
    BatchNorm2D,
    Conv2D,
    Conv2DTranspose,
    Layer,
    Linear,
    MultiHeadAttention,
    Sequential,
)
from proa.nn.layer.sizes import group_count
from proa_slim.config import QuantConfig
from proa_slim.loading import require_layers
from proa_slim.quant.fake_quant import InputQuantizer
from proa_slim.quant.layers import (
    Product,
    QuantizedActivation,
    QuantizedConvNorm,
    QuantizedLayer,
)
from proa_slim.quant.lower import narrow_layers
from proa_slim.quant.model import QuantizedModel
from proa_slim.quant.output_ranges import note_out_scales, watch_outputs
from proa_slim.quant.pair_layers import (
    QUANTIZED,
    MatMul,
    Quantized,
    QuantizedAttention,
    QuantizedMatMul,
)
from proa_slim.quant.speed import LayerSpeed, slow_in_int8
from proa_slim.quant.trained import lower_trained, recorded

_OP: dict[type[Layer], str] = {
    Conv2D: "conv2d",
    Conv2DTranspose: "conv2d",
    Linear: "linear",
}
_NORM: dict[type[Layer], type[Layer]] = {
    Conv2D: BatchNorm2D,
    Conv2DTranspose: BatchNorm2D,
    Linear: BatchNorm1D,
}


class FoldedNorm(Layer):
    """Replaces a batch norm that is folded into the product before it."""

    def forward(self, x: Any) -> Any:
        """x itself."""
        return x


class QAT:
    """Quantization-aware training.

        qat = QAT(QuantConfig(activation="moving_average"))
        student = qat.quantize(network, input_spec)   # train it as any network
        model = qat.convert(student, input_spec)

    In evaluation mode the student computes with the integer operators of the model that
    `convert` gives, with the same bits where all that needs rounding is quantized.

    Args:
        config: How; `QuantConfig(activation="moving_average")` if not given.
    """

    def __init__(self, config: QuantConfig | None = None) -> None:
        self.config = config or QuantConfig(activation="moving_average")

    def quantize(
        self,
        network: Layer,
        input_spec: Sequence[Any] | None = None,
        inplace: bool = False,
    ) -> Layer:
        """A copy of `network` (itself if `inplace`) that trains with the rounding in
        place.

        Every Linear, Conv2D and Conv2DTranspose is wrapped, and what
        ``config.activations`` names, but for those that ``config.skip`` names and kinds
        that ``config.ops`` does not have. Of products of two activations, ``attention``
        is that of MultiHeadAttention that returns no weights, ``matmul`` the layer
        `MatMul`. A batch norm that alone reads a product is folded into it. The ranges
        of all layers' outputs are noted, for `QuantizedModel.out_scales`.

        Args:
            network: The trained network.
            input_spec: As for `proa.jit.save`. With it, products and their norms are
                found in the recorded graph; without, where one follows the other in a
                Sequential that is a layer of the network, not the network itself.
            inplace: Whether `network` itself is changed.

        Raises:
            InvalidTypeError: If the network was loaded from a file.
            NotFoundError: If ``config.skip`` names what the network does not have.
            PreconditionNotMetError: If there is no layer to quantize, or no input_spec
                although the config says ``only_faster``.
        """
        require_layers(network, "QAT", "`compress` trains one with qat_epochs")
        # By path: a copy's layers have full names of their own.
        skipped = self.config.skipped(network) | self._slow(network, input_spec)
        pairs = _pairs(network, input_spec)
        student = network if inplace else copy.deepcopy(network)
        layers = dict(student.named_sublayers(include_self=True))
        wrapped: dict[Layer, Layer] = {}
        attends = False
        done = [f"{p}." for p, x in layers.items() if isinstance(x, QUANTIZED)]
        for path, child in list(layers.items()):
            if path in skipped or path.startswith(tuple(done)):
                continue
            if isinstance(child, MultiHeadAttention):
                stays = f"{path}:attention" in skipped
                attends |= not stays and self._attend(child, path)
            if not path or f"{path}:matmul" in skipped:
                continue
            if child not in wrapped:
                norm = pairs.get(path)
                result = self._wrapped(child, layers[norm] if norm else None)
                if result is None:
                    continue
                wrapped[child] = _named(result, path)
                if norm and isinstance(result, QuantizedConvNorm):
                    _replace(layers, norm, FoldedNorm())
            _replace(layers, path, wrapped[child])
        if not wrapped and not attends:
            raise PreconditionNotMetError(
                "[QAT] expected at least one Conv2D or Linear to quantize, got none of "
                f"{list(self.config.ops)} that skip leaves"
            )
        watch_outputs(student)
        return student

    def slow_in_int8(
        self,
        network: Layer,
        input_spec: Sequence[Any],
        repeats: int = 50,
        threads: int = 1,
    ) -> dict[str, LayerSpeed]:
        """The layers that are better left in float32 or float16, found as by
        `proa_slim.slow_in_int8`, by times of the models that `convert` gives.

        Args:
            network: Is not changed.
            input_spec: As for `proa.jit.save`. A symbolic first size is 1.
            repeats: Runs of which the fastest counts.
            threads: Number of threads of a run.

        Raises:
            InvalidArgumentError: If `repeats` is not positive, or another size is
                symbolic.
        """
        config = replace(self.config, only_faster=False)

        def export(skip: Sequence[str]) -> Program:
            return _untrained(network, input_spec, config, skip)

        # What is between products is not rounded in training.
        between = replace(config, between=False)
        return slow_in_int8(network, input_spec, between, repeats, threads, export)

    def _slow(self, network: Layer, input_spec: Sequence[Any] | None) -> frozenset[str]:
        """Layers that int8 does not make faster, if the config leaves them out."""
        if not self.config.only_faster:
            return frozenset()
        if input_spec is None:
            raise PreconditionNotMetError(
                "[QAT] expected an input_spec with only_faster=True, got None"
            )
        return frozenset(self.slow_in_int8(network, input_spec))

    def _attend(self, layer: MultiHeadAttention, path: str) -> bool:
        """Let the layer round what its attention reads, if it is chosen."""
        chosen = "attention" in self.config.ops and not layer.need_weights
        if not chosen or layer.attend is not None:
            return False
        layer.attend = _named(QuantizedAttention(self.config, layer.dropout), path)
        return True

    def _wrapped(self, layer: Layer, norm: Layer | None) -> Quantized | None:
        """The layer with its rounding, and perhaps a norm; None if it is not chosen."""
        if isinstance(layer, MatMul) and "matmul" in self.config.ops:
            return QuantizedMatMul(self.config)
        if isinstance(layer, self.config.activations):
            return QuantizedActivation(layer, self.config)
        if not self._chosen(layer):
            return None
        if norm is None:
            return QuantizedLayer(layer, self.config)
        return QuantizedConvNorm(layer, norm, self.config)

    def _chosen(self, layer: Layer) -> TypeGuard[Product]:
        return any(
            isinstance(layer, kind) and op in self.config.ops
            for kind, op in _OP.items()
        )

    def convert(self, student: Layer, input_spec: Sequence[Any]) -> QuantizedModel:
        """The int8 model of a trained student, which is not changed.

        Raises:
            PreconditionNotMetError: If a quantized layer never saw a training batch.
        """
        exported = copy.deepcopy(student)
        layers = dict(exported.named_sublayers(include_self=True))
        for path, layer in list(layers.items()):
            if isinstance(layer, QuantizedConvNorm):
                _replace(layers, path, layer.folded())
        program = recorded(exported, input_spec)
        lower_trained(program, self.config)
        narrow_layers(program, self.config.halved(student), "QAT")
        kind: str = "learned steps" if self.config.learn_steps else self.config.weight
        if self.config.learn_ranges:
            kind += ", learned ranges"
        program.metadata["quantization"] = f"int8 trained {kind}"
        note_out_scales(program, student)
        return QuantizedModel(program, [])

    def save_quantized_model(
        self,
        model: Layer,
        path: str | PathLike[str],
        input_spec: Sequence[Any],
    ) -> None:
        """`convert`, and write the model file.

        Raises:
            PreconditionNotMetError: As `convert`.
        """
        self.convert(model, input_spec).save(path)

    def freeze_bn(self, student: Layer) -> None:
        """Let all folded norms train with their running statistics from now on."""
        for layer in student.sublayers():
            if isinstance(layer, QuantizedConvNorm):
                layer.freeze_bn()


def _untrained(
    network: Layer, input_spec: Sequence[Any], config: QuantConfig, skip: Sequence[str]
) -> Program:
    """The model that training with these layers in float32 would give, but for its
    numbers.
    """
    qat = QAT(replace(config, skip=(*config.skip, *skip)))
    try:
        student = qat.quantize(network, input_spec)
    except PreconditionNotMetError:  # nothing is left to quantize
        return recorded(network, input_spec)
    student.train()
    with no_grad():
        for_any = [[2 if n < 0 else n for n in spec.shape] for spec in input_spec]
        student(*map(ones, for_any, [spec.dtype for spec in input_spec]))
    return qat.convert(student, input_spec).program


def _named(layer: Layer, path: str) -> Layer:
    """The layer, whose quantizers name that path in errors."""
    for part in layer.sublayers():
        if isinstance(part, InputQuantizer):
            part.layer = path
    return layer


def _replace(layers: dict[str, Layer], path: str, new: Layer) -> None:
    """Put a layer in the place of the one of that path."""
    above, _, name = path.rpartition(".")
    setattr(layers[above], name, new)


def adjacent_norms(network: Layer) -> dict[str, str]:
    """Paths of products -> those of the batch norms that follow them in a Sequential
    and can be folded into them.
    """
    layers = dict(network.named_sublayers(include_self=True))
    found = _adjacent(layers).items()
    return {p: n for p, n in found if _fits(layers[p], layers[n])}


def _pairs(network: Layer, input_spec: Sequence[Any] | None) -> dict[str, str]:
    """Paths of products -> those of the batch norms that alone read them."""
    layers = dict(network.named_sublayers())
    found = _adjacent(layers) if input_spec is None else _traced(network, input_spec)
    users = list(found.values())
    return {
        product: norm
        for product, norm in found.items()
        if _fits(layers[product], layers[norm]) and users.count(norm) == 1
    }


def _fits(product: Layer, norm: Layer) -> bool:
    # Channels of a transposed convolution in groups are no axis of its weight.
    if isinstance(product, Conv2DTranspose) and group_count(product) > 1:
        return False
    return any(
        isinstance(product, kind) and isinstance(norm, _NORM[kind]) for kind in _NORM
    )


def _adjacent(layers: dict[str, Layer]) -> dict[str, str]:
    found = {}
    uses = list(layers.values())
    for path, layer in layers.items():
        if not isinstance(layer, Sequential):
            continue
        children = list(layer.named_children())
        for (first, product), (second, norm) in itertools.pairwise(children):
            if uses.count(product) == uses.count(norm) == 1:
                start = f"{path}." if path else ""
                found[f"{start}{first}"] = f"{start}{second}"
    return found


def _traced(network: Layer, input_spec: Sequence[Any]) -> dict[str, str]:
    program = recorded(network, input_spec)
    found = {}
    for block in program.blocks:
        for node in block.nodes:
            x = node.inputs[0] if node.op == "batch_norm_infer" else None
            if x is None or x.producer is None or x.only_user is not node:
                continue
            weight, mean = x.producer.inputs[1], node.inputs[1]
            kinds = ("conv2d", "conv2d_transpose", "linear")
            if x.producer.op not in kinds or weight is None:
                continue
            if weight.only_user is not x.producer or mean is None:
                continue
            if mean.only_user is not node:
                continue
            product, norm = (v.name.rpartition(".")[0] for v in (weight, mean))
            found[product] = norm
    layers = dict(network.named_sublayers())
    return {p: n for p, n in found.items() if p in layers and n in layers}
