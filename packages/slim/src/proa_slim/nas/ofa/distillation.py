"""What smaller networks learn from a teacher, as PaddleSlim's `OFA` has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import proa
from proa import nn
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.nn import functional as F
from proa_slim.nas.ofa.convert_super import channels


class DistillConfig(NamedTuple):
    """What networks learn from a teacher.

    Attributes:
        lambda_distill: Factor of `OFA.calc_distill_loss`; 1 if None.
        teacher_model: The teacher; its mode becomes that of evaluation.
        mapping_layers: Paths of layers, in both networks, whose results are compared.
        teacher_model_path: A file, or a state, to load into the teacher.
        distill_fn: Takes the student's and the teacher's; the mean square if None.
        mapping_op: ``conv2d`` or ``linear`` for a layer between each pair, whose
            parameters are in `OFA.netAs_param`; needed where widths vary.
    """

    lambda_distill: float | None = None
    teacher_model: nn.Layer | None = None
    mapping_layers: Sequence[str] | None = None
    teacher_model_path: Any = None
    distill_fn: Callable[[Any, Any], Any] | None = None
    mapping_op: str | None = None


class Distillation:
    """A teacher, and the results of layers of both networks in the last call."""

    def __init__(self, model: nn.Layer, config: DistillConfig) -> None:
        if not isinstance(config.teacher_model, nn.Layer):
            raise InvalidArgumentError(
                "[DistillConfig] expected a Layer as teacher_model, got "
                f"{config.teacher_model!r}"
            )
        self._teacher, self._config = config.teacher_model, config
        state = config.teacher_model_path
        if state is not None:
            loaded = proa.load(state) if isinstance(state, str) else state
            self._teacher.set_state_dict(loaded)
        self._teacher.eval()
        self._pairs = [
            (path, _layer(model, path), _layer(self._teacher, path))
            for path in config.mapping_layers or ()
        ]
        self._between: dict[str, Any] = {
            path: _adapter(config.mapping_op, student, teacher, path)
            for path, student, teacher in self._pairs
            if config.mapping_op is not None
        }
        self.parameters = [
            p for layer in self._between.values() for p in layer.parameters()
        ]
        self._of_teacher: dict[str, Any] = {}
        self._of_student: dict[str, Any] = {}

    def teach(self, *inputs: Any, **keywords: Any) -> Any:
        """The teacher's result."""
        keywords.pop("depth", None)
        self._teacher.eval()
        noted: dict[str, Any] = {}
        pairs = [(path, teacher) for path, _, teacher in self._pairs]
        with proa.no_grad(), _noting(pairs, noted):
            found = self._teacher(*inputs, **keywords)
        self._of_teacher = noted
        return found

    def listening(self, masks_of: Callable[[Any], Any]) -> _noting:
        """Notes what the student's layers return.

        Args:
            masks_of: Masks of a parameter, as `search.OFA.remaining` returns them.
        """
        self._of_student = {}
        self._masks = {
            path: masks_of(layer.weight)
            for path, layer, _ in self._pairs
            if path in self._between
        }
        pairs = [(path, student) for path, student, _ in self._pairs]
        return _noting(pairs, self._of_student)

    def loss(self) -> Any:
        """The sum over layers."""
        terms = []
        for path, student in self._of_student.items():
            between = self._between.get(path)
            if between is not None:
                student = between(student, self._masks[path])
            teacher = self._of_teacher[path]
            compare = self._config.distill_fn or F.mse_loss
            terms.append(compare(student, teacher))
        if not terms:
            raise PreconditionNotMetError(
                "[calc_distill_loss] expected mapping_layers in the DistillConfig that "
                "run, got none"
            )
        factor = self._config.lambda_distill
        total = sum(terms[1:], terms[0])
        return total if factor is None else total * factor


class _noting:
    """While it is entered, results of layers are noted by their paths."""

    def __init__(self, layers: Sequence[tuple[str, nn.Layer]], found: Any) -> None:
        self._layers, self._found = layers, found
        self._hooks: list[Any] = []

    def __enter__(self) -> None:
        for path, layer in self._layers:
            self._hooks.append(layer.register_forward_post_hook(self._noter(path)))

    def _noter(self, path: str) -> Callable[..., None]:
        def note(layer: object, inputs: object, outputs: Any) -> None:
            self._found[path] = outputs[0] if isinstance(outputs, tuple) else outputs

        return note

    def __exit__(self, *error: object) -> None:
        for hook in self._hooks:
            hook.remove()


class _Widths(nn.Layer):
    """Maps what a student of any width gives to the teacher's width, by a weight for
    each channel that the whole student has.

    Args:
        own: The whole student's layer.
        other: The teacher's channels.
    """

    def __init__(self, own: nn.Layer, other: int) -> None:
        super().__init__()
        self._is_linear = isinstance(own, nn.Linear)
        self._axis = 1 if self._is_linear else 0
        self.weight = self.create_parameter([channels(own), other])
        self.bias = self.create_parameter([other], is_bias=True)

    def forward(self, x: Any, masks: Any) -> Any:
        weight, mask = self.weight, masks[self._axis]
        if mask is not None:
            weight = proa.index_select(weight, proa.to_tensor(np.flatnonzero(mask)))
        if self._is_linear:
            return F.linear(x, weight, self.bias)
        return F.conv2d(x, weight.t().unsqueeze(-1).unsqueeze(-1), self.bias)


def _adapter(kind: str, student: nn.Layer, teacher: nn.Layer, path: str) -> _Widths:
    if kind not in ("conv2d", "linear"):
        raise InvalidArgumentError(
            f"[DistillConfig] expected mapping_op conv2d or linear, got {kind!r}"
        )
    wanted = nn.Linear if kind == "linear" else nn.Conv2D
    for layer in (student, teacher):
        if not isinstance(layer, wanted):
            raise InvalidArgumentError(
                f"[DistillConfig] expected a {wanted.__name__} in both networks for "
                f"mapping_op {kind}, got {path!r}: {layer}"
            )
    return _Widths(student, channels(teacher))


def _layer(network: nn.Layer, path: str) -> nn.Layer:
    layers = dict(network.named_sublayers())
    if path not in layers:
        raise InvalidArgumentError(
            f"[DistillConfig] expected paths of layers in both networks, got {path!r}; "
            f"there are {', '.join(layers)}"
        )
    return layers[path]
