"""A teacher's static program inside the student's."""

from __future__ import annotations

from collections.abc import Mapping

import proa
from proa.errors import NotFoundError, PreconditionNotMetError
from proa.ir.record import at_once
from proa.static import Program, Scope, global_scope, program_guard
from proa_slim.static_graph import replay


def merge(
    teacher_program: Program,
    student_program: Program,
    data_name_map: Mapping[str, str],
    place: object = None,
    scope: Scope | None = None,
    teacher_scope: Scope | None = None,
    name_prefix: str = "teacher_",
    merge_feed: bool = True,
) -> None:
    """Add the teacher's statements to the student's program, and its values to the
    scope.

    The teacher computes what it does after training, no gradient flows to it, and it is
    in no list of parameters. Its Variables have the prefix: a loss takes them by name.

    Args:
        teacher_program: Is not changed; its gradients and steps are left out.
        student_program: Changed in place, before `minimize`.
        data_name_map: Names of the teacher's data -> those of the student's.
        place: Kept for callers; there is one device.
        scope: Where the student's values are; the current scope if None.
        teacher_scope: Where the teacher's values are; `scope` if None.
        name_prefix: Prefix of the teacher's Variables.
        merge_feed: Whether both read the student's data. If not, the teacher's data
            are inputs of their own, with the prefix.

    Raises:
        NotFoundError: If data of the teacher are not in the map, or the student has no
            data of a name.
        PreconditionNotMetError: If a scope lacks a value of the teacher, or the prefix
            is in use.
        UnimplementedError: If the teacher has branches, loops or recurrent layers.
    """
    held = scope or global_scope()
    source = teacher_scope or held
    teacher = teacher_program.clone(for_test=True)
    used = {v for node in teacher.graph.main.nodes for v in node.inputs}
    inputs: dict[str, proa.Tensor] = {}
    with program_guard(student_program):
        for name, value in teacher.data.items():
            if not merge_feed:
                inputs[name] = student_program.add_data(
                    f"{name_prefix}{name}", value.dtype, value.shape
                )
            elif name in data_name_map:
                inputs[name] = student_program.find(data_name_map[name], "merge")
            elif value in used:
                raise NotFoundError(
                    "[merge] expected all data of the teacher in data_name_map, got "
                    f"{sorted(data_name_map)} without {name!r}"
                )
            else:
                inputs[name] = proa.zeros([1])  # nothing reads it
        for name, value in teacher.states.items():
            own = f"{name_prefix}{name}"
            if own in student_program.vars:
                raise PreconditionNotMetError(
                    f"[merge] expected a name_prefix that is not in use, got {own!r}, "
                    "which the student's program has"
                )
            found = source.find_var(name)
            if found is None or found.tensor is None:
                raise PreconditionNotMetError(
                    f"[merge] expected {name!r} in the teacher's scope, got nothing"
                )
            state = student_program.add_state(own, value.dtype, value.shape)
            state.stop_gradient = True
            inputs[name] = state
            with at_once():
                held.var(own).set(found.tensor)
        replay("merge", teacher, student_program, inputs, name_prefix)
