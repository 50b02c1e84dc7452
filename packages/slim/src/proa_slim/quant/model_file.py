"""Post-training quantization of model files, with the arguments that Paddle has."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np

from proa.errors import InvalidArgumentError
from proa_slim.config import QuantConfig, RoundType
from proa_slim.loading import LoadedNetwork, load
from proa_slim.quant.model import QuantizedModel
from proa_slim.quant.paddle_operators import kinds_of, op_types
from proa_slim.quant.post_static import quant_post_static
from proa_slim.quant.quantizer_names import CALIBRATED_ACTIVATIONS, WEIGHTS, quantizer

_ROUNDING: tuple[RoundType, ...] = ("round", "adaround")
#: A sample or a batch: an array, one for each input, or a dict of them by name.
Arrays = np.ndarray | Sequence[Any] | dict[str, Any]


class PostTrainingQuantization:
    """int8 from a model file and samples, operators chosen by Paddle's names.

        made = PostTrainingQuantization(
            model_dir="net.pdmodel", sample_generator=samples, algo="KL",
            quantizable_op_type=["conv2d", "mul", "elementwise_add", "softmax"])
        model = made.quantize()
        made.save_quantized_model("net.int8.proa")

    Products (``conv2d``, ``mul``, ..) multiply integers; weights of tables and
    recurrent layers have 8 bits; all other operators read their operands rounded to
    int8, and compute in float32 where no integer kernel does. Every kind ends in the
    same file format, a ``.proa`` file that all runtimes read.

    Args:
        executor: Has no meaning here; callers of Paddle give one.
        model_dir: ``NAME.proa``, ``NAME.onnx``, ``NAME.pdmodel``, or a folder of a
            Paddle model.
        model_filename: The program's file in the folder, with the ending ``.pdmodel``.
        batch_generator: Returns an iterator of batches.
        sample_generator: Returns an iterator of samples, which batches are made of.
        data_loader: Batches: arrays, or dicts by the names of inputs.
        batch_size: Samples in a batch.
        batch_nums: Number of batches; all if None.
        algo: How ranges of activations are found: ``KL``, ``hist``, ``avg``, ``mse``,
            ``emd``, ``abs_max``, or ``min_max``, which is not symmetric.
        hist_percent: For ``hist``.
        quantizable_op_type: Kinds of operator, those of `op_types`.
        round_type: ``round`` or ``adaround``.
        is_full_quantize: Whether all kinds are quantized, whichever are named.
        bias_correction: As in `QuantConfig`.
        weight_bits, activation_bits: 8.
        weight_quantize_type: ``channel_wise_abs_max``, or ``abs_max``: one scale in
            all.
        skip_tensor_list: Paths of layers that stay in float32, or patterns of them.

    Raises:
        NotFoundError: If there is no such model file.
        InvalidArgumentError: If an argument is none of the above; it names the
            argument.
    """

    def __init__(
        self,
        executor: object = None,
        model_dir: str | PathLike[str] | None = None,
        model_filename: str | None = None,
        batch_generator: Callable[[], Iterable[Arrays]] | None = None,
        sample_generator: Callable[[], Iterable[Arrays]] | None = None,
        data_loader: Iterable[Arrays] | None = None,
        batch_size: int = 10,
        batch_nums: int | None = None,
        algo: str = "KL",
        hist_percent: float = 0.99999,
        quantizable_op_type: Iterable[str] = ("conv2d", "depthwise_conv2d", "mul"),
        round_type: str = "round",
        is_full_quantize: bool = False,
        bias_correction: bool = False,
        weight_bits: int = 8,
        activation_bits: int = 8,
        weight_quantize_type: str = "channel_wise_abs_max",
        skip_tensor_list: Sequence[str] = (),
    ) -> None:
        api = type(self).__name__
        given = (batch_generator, sample_generator, data_loader)
        _check(
            ("model_dir", model_dir is not None, model_dir, "a model file"),
            ("round_type", round_type in _ROUNDING, round_type, "round or adaround"),
            ("weight_bits", weight_bits == 8, weight_bits, "8"),
            ("activation_bits", activation_bits == 8, activation_bits, "8"),
            ("batch_size", batch_size > 0, batch_size, "positive"),
            (
                "one of batch_generator, sample_generator and data_loader",
                sum(source is not None for source in given) == 1, given,
                "given, and no other",
            ),
        )  # fmt: skip
        chosen = op_types() if is_full_quantize else quantizable_op_type
        ops, operators = kinds_of(chosen)
        self.config = QuantConfig(
            quantizer(api, "algo", algo, CALIBRATED_ACTIVATIONS),
            quantizer(api, "weight_quantize_type", weight_quantize_type, WEIGHTS),
            symmetric=algo != "min_max",
            hist_percent=hist_percent,
            round_type=cast(RoundType, round_type),
            bias_correction=bias_correction,
            ops=ops,
            operators=operators,
            skip=tuple(skip_tensor_list),
        )
        assert model_dir is not None
        source = Path(model_dir)
        path = source / model_filename if model_filename else source
        self._network = LoadedNetwork(load(path, "PostTrainingQuantization"))
        self._names = [spec.name for spec in self._network.specs()]
        self._sources, self._size, self._count = given, batch_size, batch_nums
        self._model: QuantizedModel | None = None

    def quantize(self) -> QuantizedModel:
        """Calibrate and convert; returns the model, which can be called on arrays.

        Raises:
            PreconditionNotMetError: If there is no batch, or nothing that was chosen is
                in the model.
            InvalidArgumentError: If a sample lacks an input, or has NaN or infinities.
            NotFoundError: If skip_tensor_list names a layer that the model has not.
        """
        network = cast(Any, self._network)  # has the methods of a layer that are used
        self._model = quant_post_static(
            network, self._network.specs(), self._batches(), self.config
        )
        return self._model

    def save_quantized_model(self, save_model_path: str | PathLike[str]) -> None:
        """Write the model file in one step; it is quantized first if it is not yet."""
        model = self.quantize() if self._model is None else self._model
        model.save(save_model_path)

    def _batches(self) -> list[list[Any]]:
        batch_generator, sample_generator, data_loader = self._sources
        found: Iterator[Sequence[Any]]
        if sample_generator is not None:
            found = self._gathered(map(self._ordered, sample_generator()))
        else:
            batches = data_loader if batch_generator is None else batch_generator()
            assert batches is not None
            found = map(self._ordered, batches)
        return [list(batch) for batch in itertools.islice(found, self._count)]

    def _gathered(self, samples: Iterator[Sequence[Any]]) -> Iterator[Sequence[Any]]:
        while group := list(itertools.islice(samples, self._size)):
            yield [np.stack(column) for column in zip(*group, strict=True)]

    def _ordered(self, given: Arrays) -> Sequence[Any]:
        """Arrays in the order of the model's inputs."""
        if not isinstance(given, dict):
            return given if isinstance(given, (list, tuple)) else [given]
        missing = [name for name in self._names if name not in given]
        if missing:
            raise InvalidArgumentError(
                "[PostTrainingQuantization] expected an array for each of "
                f"{', '.join(self._names)}, got {', '.join(given)}"
            )
        return [given[name] for name in self._names]


def _check(*checks: tuple[str, bool, object, str]) -> None:
    for name, is_valid, value, expected in checks:
        if not is_valid:
            raise InvalidArgumentError(
                f"[PostTrainingQuantization] {name} must be {expected}, got {value!r}"
            )
