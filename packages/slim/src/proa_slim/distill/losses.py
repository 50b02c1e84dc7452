"""What a student loses against its teacher.

Every function takes tensors, Variables of a static program, or Variables' names; names
are looked up in `program`, or in the program that is built if it is None. No gradient
flows to the teacher.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import proa
from proa import Tensor
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn import functional as F
from proa.static import Program, default_main_program

_EPSILON = 1e-6


def _found(given: Tensor | str, program: Program | None) -> Tensor:
    """The Variable of a name; anything else is returned."""
    if not isinstance(given, str):
        return given
    return (program or default_main_program()).find(given, "distill")


def _pair(
    teacher: Tensor | str, student: Tensor | str, program: Program | None
) -> tuple[Tensor, Tensor]:
    return _found(teacher, program).detach(), _found(student, program)


def _same_shape(where: str, teacher: Any, student: Any) -> None:
    sizes = zip(teacher.shape, student.shape, strict=False)
    alike = all(a == b or -1 in (a, b) for a, b in sizes)
    if teacher.ndim != student.ndim or not alike:
        raise ShapeError(
            where,
            f"student must have the teacher's shape {list(teacher.shape)} (an adapter "
            "may give it)",
            student.shape,
        )


def _check_temperature(where: str, *temperatures: float) -> None:
    for temperature in temperatures:
        if not temperature > 0:
            raise InvalidArgumentError(
                f"[{where}] a temperature must be positive, got {temperature}"
            )


def soft_label_loss(
    teacher: Tensor | str,
    student: Tensor | str,
    program: Program | None = None,
    teacher_temperature: float = 1.0,
    student_temperature: float = 1.0,
) -> Tensor:
    """Cross entropy with the teacher's softened probabilities (Hinton et al., 2015).

    mean over samples of -sum_k p_k log q_k, with p = softmax(teacher / Tt) and q =
    softmax(student / Ts). Gradients shrink with 1 / (Tt Ts): multiply by that to weigh
    the loss against one of hard labels as in the paper.

    Args:
        teacher: Logits (.., classes).
        student: Logits of the same shape.
        program: Where names are looked up.
        teacher_temperature: Tt, positive.
        student_temperature: Ts, positive.

    Raises:
        ShapeError: If the shapes differ.
        InvalidArgumentError: If a temperature is not positive.
    """
    where = "soft_label_loss"
    _check_temperature(where, teacher_temperature, student_temperature)
    given, learned = _pair(teacher, student, program)
    _same_shape(where, given, learned)
    p = F.softmax(given / teacher_temperature, -1)
    log_q = F.log_softmax(learned / student_temperature, -1)
    return (p * log_q).sum(-1).mean() * -1.0


def kl_loss(
    teacher: Tensor | str,
    student: Tensor | str,
    program: Program | None = None,
    temperature: float = 1.0,
) -> Tensor:
    """T^2 times the divergence from the teacher's probabilities (Hinton et al., 2015).

    mean over samples of T^2 sum_k p_k (log p_k - log q_k), at one temperature T:
    `soft_label_loss` less a constant, in the weight of the paper.

    Args:
        teacher: Logits (.., classes).
        student: Logits of the same shape.
        program: Where names are looked up.
        temperature: T, positive.

    Raises:
        ShapeError: If the shapes differ.
        InvalidArgumentError: If the temperature is not positive.
    """
    _check_temperature("kl_loss", temperature)
    given, learned = _pair(teacher, student, program)
    _same_shape("kl_loss", given, learned)
    return _divergence(given / temperature, learned / temperature) * temperature**2


def _divergence(teacher: Any, student: Any) -> Tensor:
    """mean over samples of KL(softmax(teacher) || softmax(student))."""
    log_p = F.log_softmax(teacher, -1)
    return (log_p.exp() * (log_p - F.log_softmax(student, -1))).sum(-1).mean()


def l2_loss(
    teacher: Tensor | str, student: Tensor | str, program: Program | None = None
) -> Tensor:
    """The mean of (student - teacher)^2, for hints (FitNets, Romero et al., 2015).

    Args:
        teacher: A feature map or logits.
        student: Of the same shape, perhaps by an adapter, such as a 1 x 1 convolution.
        program: Where names are looked up.

    Raises:
        ShapeError: If the shapes differ.
    """
    given, learned = _pair(teacher, student, program)
    _same_shape("l2_loss", given, learned)
    return (learned - given).square().mean()


def _flow_matrix(where: str, first: Tensor, second: Tensor) -> Tensor:
    """(n, c1, h, w), (n, c2, h, w) -> (n, c1, c2)."""
    if first.ndim != 4 or second.ndim != 4 or first.shape[2:] != second.shape[2:]:
        raise ShapeError(
            where,
            "feature maps must be (n, c, h, w) and agree in h and w",
            [list(first.shape), list(second.shape)],
        )
    rows = first.flatten(2)  # (n, c1, h * w)
    columns = second.flatten(2).transpose([0, 2, 1])  # (n, h * w, c2)
    return proa.matmul(rows, columns) / (first.shape[2] * first.shape[3])


def fsp_loss(
    teacher1: Tensor | str,
    teacher2: Tensor | str,
    student1: Tensor | str,
    student2: Tensor | str,
    program: Program | None = None,
) -> Tensor:
    """Flow of solution procedure (Yim et al., 2017).

    The mean of (G_student - G_teacher)^2, with G[i, j] = sum over positions of F1[i]
    F2[j] / (h w) between an early map F1 and a later one F2.

    Args:
        teacher1: The teacher's early feature map (n, c1, h, w).
        teacher2: Its later one (n, c2, h, w).
        student1: The student's, with c1 channels and any equal h and w of its own.
        student2: The student's, with c2 channels.
        program: Where names are looked up.

    Raises:
        ShapeError: If maps of one network differ in height or width, or the networks
            in channels.
    """
    first, second = (_found(t, program).detach() for t in (teacher1, teacher2))
    given = _flow_matrix("fsp_loss", first, second)
    own = (_found(student1, program), _found(student2, program))
    learned = _flow_matrix("fsp_loss", *own)
    _same_shape("fsp_loss", given, learned)
    return (learned - given).square().mean()


def attention_loss(
    teacher: Tensor | str, student: Tensor | str, program: Program | None = None
) -> Tensor:
    """Attention transfer (Zagoruyko and Komodakis, 2017).

    The mean of (a_student - a_teacher)^2, where a is the sum over channels of x^2, as a
    vector of length 1.

    Args:
        teacher: A feature map (n, c, h, w).
        student: One of the same h and w, with any channels.
        program: Where names are looked up.

    Raises:
        ShapeError: If the maps differ in height or width.
    """

    def attention(x: Tensor) -> Tensor:
        return F.normalize(x.square().sum(1).flatten(1), axis=1)

    given, learned = _pair(teacher, student, program)
    _same_shape("attention_loss", given[:, 0], learned[:, 0])
    return (attention(learned) - attention(given)).square().mean()


def dkd_loss(
    teacher: Tensor | str,
    student: Tensor | str,
    program: Program | None = None,
    temperature: float = 1.0,
    alpha: float = 1.0,
    beta: float = 1.0,
    label: Tensor | str | None = None,
) -> Tensor:
    """Decoupled knowledge distillation (Zhao et al., 2022).

    T^2 (alpha TCKD + beta NCKD): TCKD is the divergence of the two probabilities of the
    target class and all others, NCKD that of the probabilities among the others.

    Args:
        teacher: Logits (n, classes).
        student: Logits of the same shape.
        program: Where names are looked up.
        temperature: T, positive.
        alpha: Weight of TCKD.
        beta: Weight of NCKD.
        label: The target classes (n,), integers; the teacher's best ones if None.

    Raises:
        ShapeError: If the shapes differ.
        InvalidArgumentError: If the temperature is not positive.
    """
    _check_temperature("dkd_loss", temperature)
    given, learned = _pair(teacher, student, program)
    _same_shape("dkd_loss", given, learned)
    target = given.argmax(-1) if label is None else _found(label, program).flatten()
    mask = F.one_hot(target, given.shape[-1]).astype(given.dtype)
    both = [_two_classes(x / temperature, mask) for x in (given, learned)]
    log_p, log_q = both
    tckd = (log_p.exp() * (log_p - log_q)).sum(-1).mean()
    # The target's logit falls out of the softmax: 1,000 below the others.
    others = [x / temperature - mask * 1000.0 for x in (given, learned)]
    nckd = _divergence(*others)
    return (tckd * alpha + nckd * beta) * temperature**2


def _two_classes(logits: Any, mask: Any) -> Tensor:
    """(n, 2): log probabilities of the target class and of all others."""
    p = F.softmax(logits, -1)
    target = (p * mask).sum(-1)
    other = (p * (1.0 - mask)).sum(-1)
    return proa.stack([target, other], -1).clip(min=_EPSILON**2).log()


def loss(
    loss_func: Callable[..., Tensor], program: Program | None = None, **kwargs: Any
) -> Tensor:
    """A loss of one's own over Variables that are given by name.

    Args:
        loss_func: Called with keyword arguments.
        program: Where names are looked up; the program that is built if None.
        kwargs: Its arguments; texts are names of Variables.

    Raises:
        NotFoundError: If the program has no Variable of a name.
    """
    return loss_func(**{key: _found(value, program) for key, value in kwargs.items()})
