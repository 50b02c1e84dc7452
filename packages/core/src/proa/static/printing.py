"""`Print`: shows what a Variable is when a program runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from proa import _core
from proa._core import Tensor, ops
from proa.base.no_tape import NoTape
from proa.errors import InvalidArgumentError
from proa.jit.python_calls import Callback, call_python
from proa.static.state import require_static


@dataclass
class _Shower:
    """Prints a tensor at each of its first calls.

    Attributes:
        lines: Names of the lines that are printed.
        limit: How many calls print; negative for all.
        count: How many elements are printed; negative for all.
    """

    name: str
    message: str | None
    lines: set[str]
    limit: int
    count: int
    calls: int = 0

    def __call__(self, x: Tensor) -> None:
        self.calls += 1
        if 0 <= self.limit < self.calls:
            return
        array = np.asarray(x.numpy()).reshape(-1)
        shown = array if self.count < 0 else array[: self.count]
        values = " ".join(str(v) for v in shown.tolist())
        about = {
            "lod": "{}",
            "place": str(x.place),
            "shape": str(list(x.shape)),
            "layout": "NCHW",
            "dtype": x.dtype.name,
        }
        text = [f"Variable: {self.name}"] if "name" in self.lines else []
        text += [f"  - message: {self.message}"] if self.message else []
        text += [
            f"  - {k}: {v}" for k, v in about.items() if k in self.lines | {"place"}
        ]
        more = " ..." if len(shown) < math.prod(x.shape) else ""
        print("\n".join([*text, f"  - data: [{values}{more}]"]), flush=True)


def Print(
    input: Tensor,
    first_n: int = -1,
    message: str | None = None,
    summarize: int = 20,
    print_tensor_name: bool = True,
    print_tensor_type: bool = True,
    print_tensor_shape: bool = True,
    print_tensor_layout: bool = True,
    print_tensor_lod: bool = True,
    print_phase: str = "both",
) -> Tensor:
    """``input``, which every run of the program prints, and its gradient likewise.

    Args:
        input: A Variable.
        first_n: How many runs print; -1 for all.
        message: A line of text to print with it.
        summarize: How many elements are printed; -1 for all.
        print_tensor_name: Whether its name is printed.
        print_tensor_type: Whether its dtype is printed.
        print_tensor_shape: Whether its shape is printed.
        print_tensor_layout: Whether its layout is printed.
        print_tensor_lod: Whether levels of lengths are printed.
        print_phase: "forward" prints the value, "backward" its gradient, "both" both.

    Returns:
        A Variable of the same value. What is computed with it has the gradient printed.

    Raises:
        PreconditionNotMetError: In dynamic mode.
        InvalidArgumentError: If print_phase is another.
    """
    require_static("Print")
    phase = str(print_phase).lower()
    if phase not in ("forward", "backward", "both"):
        raise InvalidArgumentError(
            "[static.Print] print_phase must be 'forward', 'backward' or 'both', got "
            f"{print_phase!r}"
        )
    chosen = {
        "name": print_tensor_name,
        "dtype": print_tensor_type,
        "shape": print_tensor_shape,
        "layout": print_tensor_layout,
        "lod": print_tensor_lod,
    }
    lines = {line for line, wanted in chosen.items() if wanted}

    def show(x: Tensor, name: str) -> None:
        shower = _Shower(name, message, lines, int(first_n), int(summarize))
        call_python(Callback(shower, (), (), 1), [x])

    with NoTape():
        if phase != "backward":
            show(input, input.name)
        out = ops.assign(input)

    def backward(grad: Tensor) -> Any:
        if phase != "forward":
            with NoTape():
                show(grad, f"{input.name}@GRAD")
        return ops.assign(grad)

    if _core.is_grad_enabled() and not input.stop_gradient:
        _core.record_custom("print", [input], [out], backward)
    return out
