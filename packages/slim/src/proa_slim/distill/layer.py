"""Distillation of dynamic networks: features by the paths of layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import proa
from proa.errors import InvalidArgumentError, NotFoundError
from proa.nn import Layer, LayerList
from proa_slim.distill import losses

#: Losses between one output of the student and one of the teacher, by name.
LOSSES: dict[str, Callable[..., Any]] = {
    "soft_label": losses.soft_label_loss,
    "kl": losses.kl_loss,
    "l2": losses.l2_loss,
    "attention": losses.attention_loss,
    "dkd": losses.dkd_loss,
    "fsp": losses.fsp_loss,
}


@dataclass(frozen=True)
class DistillLoss:
    """One term of a `Distill` loss: weight * loss(teacher's output, student's output).

    Args:
        loss: ``soft_label``, ``kl``, ``l2``, ``attention``, ``dkd``, ``fsp``, or a
            function of the teacher's and the student's output.
        student: Path of a layer of the student; "" is the network itself. ``fsp`` takes
            a pair of paths.
        teacher: Likewise of the teacher; None means the student's.
        weight: Factor of the term.
        adapter: Layer that the student's output goes through first, which is trained
            along: a 1 x 1 convolution where channels differ (FitNets).
        teacher_index: Which of several teachers.
        options: Further arguments of the loss: ``{"temperature": 4.0}``.

    Raises:
        InvalidArgumentError: If there is no loss of that name.
    """

    loss: str | Callable[..., Any] = "kl"
    student: str | tuple[str, str] = ""
    teacher: str | tuple[str, str] | None = None
    weight: float = 1.0
    adapter: Layer | None = None
    teacher_index: int = 0
    options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.loss, str) and self.loss not in LOSSES:
            raise InvalidArgumentError(
                f"[DistillLoss] loss must be one of {', '.join(LOSSES)} or a function, "
                f"got {self.loss!r}"
            )


class Distill(Layer):
    """A student with its teachers, on whose outputs and features it is trained.

        distill = Distill([DistillLoss("kl", options={"temperature": 4.0}),
                           DistillLoss("l2", "features.3", weight=0.1)],
                          student, teacher)
        logits, teacher_logits, loss = distill(x)

    Teachers run in evaluation mode and without gradients, whatever `train` says;
    `parameters` are those of the student and of adapters.

    Args:
        configs: The terms of the loss: `DistillLoss`, or dictionaries of its arguments.
        students: The student.
        teachers: The teacher, or several.
        return_model_outputs: Whether a call returns (student's outputs, teacher's
            outputs, loss), where several teachers' outputs are a list, or the loss
            alone.

    Raises:
        NotFoundError: If a network has no layer of a path.
        InvalidArgumentError: If there is no term, or no teacher of an index.
    """

    def __init__(
        self,
        configs: Sequence[DistillLoss | Mapping[str, Any]],
        students: Layer,
        teachers: Layer | Sequence[Layer],
        return_model_outputs: bool = True,
    ) -> None:
        super().__init__()
        self.student = students
        several = [teachers] if isinstance(teachers, Layer) else list(teachers)
        # Not sublayers: their parameters are neither trained nor saved.
        self.__dict__["_teachers"] = several
        self._several = not isinstance(teachers, Layer)
        self._terms = [
            c if isinstance(c, DistillLoss) else DistillLoss(**c) for c in configs
        ]
        if not self._terms:
            raise InvalidArgumentError(
                "[Distill] expected at least one DistillLoss, got none"
            )
        self.adapters = LayerList([t.adapter for t in self._terms if t.adapter])
        self._return_outputs = return_model_outputs
        #: (network, path) -> output; network is -1 for the student.
        self.__dict__["_outputs"] = dict[tuple[int, str], Any]()
        for number, path in self._needed():
            self._watch(number, path)

    def _needed(self) -> list[tuple[int, str]]:
        found: dict[tuple[int, str], None] = {}
        for term in self._terms:
            if not 0 <= term.teacher_index < len(self._teachers):
                raise InvalidArgumentError(
                    f"[Distill] teacher_index must be in [0, {len(self._teachers)}), "
                    f"got {term.teacher_index}"
                )
            found.update((((-1), path), None) for path in _paths(term.student))
            given = term.student if term.teacher is None else term.teacher
            found.update(((term.teacher_index, path), None) for path in _paths(given))
        return list(found)

    def _watch(self, number: int, path: str) -> None:
        network = self.student if number < 0 else self._teachers[number]
        layers = dict(network.named_sublayers(include_self=True))
        if path not in layers:
            who = "student" if number < 0 else "teacher"
            raise NotFoundError(
                f"[Distill] expected the path of a layer of the {who}, got {path!r}; "
                f"it has {', '.join(p for p in layers if p)}"
            )

        def note(layer: Layer, inputs: object, output: Any) -> None:
            self._outputs[number, path] = output

        layers[path].register_forward_post_hook(note)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run the student and all teachers; see `return_model_outputs`."""
        self._outputs.clear()
        student = self.student(*inputs, **kwargs)
        given = []
        for teacher in self._teachers:
            teacher.eval()
            with proa.no_grad():
                given.append(teacher(*inputs, **kwargs))
        adapters = iter(self.adapters)
        total: Any = None
        for term in self._terms:
            adapter = next(adapters) if term.adapter else None
            part = self._value(term, adapter) * term.weight
            total = part if total is None else total + part
        self._outputs.clear()
        if not self._return_outputs:
            return total
        return student, (given if self._several else given[0]), total

    def _value(self, term: DistillLoss, adapter: Any) -> Any:
        function = LOSSES[term.loss] if isinstance(term.loss, str) else term.loss
        names = term.student if term.teacher is None else term.teacher
        teachers = [self._outputs[term.teacher_index, path] for path in _paths(names)]
        students = [self._outputs[-1, path] for path in _paths(term.student)]
        if adapter is not None:
            students = [adapter(x) for x in students]
        return function(*teachers, *students, **(term.options or {}))


def _paths(given: str | tuple[str, str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
