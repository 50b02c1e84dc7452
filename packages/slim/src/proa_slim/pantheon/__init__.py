"""Pantheon: distillation with teachers and student in processes of their own.

Teachers compute knowledge (named arrays for each sample) and write it to files or send
it to a student on any machine of a Ray cluster; the student reads both in the same way.
"""

from proa_slim.pantheon.student import Student
from proa_slim.pantheon.teacher import Teacher

__all__ = ["Student", "Teacher"]


def __dir__() -> list[str]:
    return __all__
