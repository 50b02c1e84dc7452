"""What packages built on Proa take from its compiled module.

    engine = load_engine("lenet.proa", threads=4)
    (logits,) = engine.run([images])

Graphs and their passes are in `proa.ir`, tensors and layers where users find them, the
sizes that layers state in `proa.nn.layer.sizes`, and settings of theirs that change in
`proa.nn.layer.settings`. This module adds the engine that runs a model file, operators
called by name, the values of symbolic tensors and what is known of a tensor's memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from types import ModuleType
from typing import Any, Protocol

from numpy.typing import NDArray

from proa import _core
from proa._core import Tensor
from proa.autograd import no_grad
from proa.base.processor import cpu_model
from proa.errors import InvalidArgumentError
from proa.ir.program import Value

__all__ = [
    "Engine",
    "call_operator",
    "engine_from_bytes",
    "engine_from_parts",
    "graph_value",
    "is_symbolic",
    "load_engine",
    "machine",
    "multiplies_bfloat16",
    "operators",
    "replace_memory",
    "suits_winograd",
]

#: The operators of the table as functions, by name: what `call_operator` calls. They do
#: not check the number of outputs, and a benchmark times them alone.
operators: ModuleType = _core.ops


class Engine(Protocol):
    """A model that is ready to run. One thread at a time; clone for more."""

    @property
    def inputs(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """(name, dtype, shape) of each input; -1 is a dimension that may vary."""
        ...

    @property
    def outputs(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """(name, dtype, shape) of each output."""
        ...

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the model file."""
        ...

    @property
    def has_control_flow(self) -> bool:
        """Whether the model has branches or loops."""
        ...

    @property
    def model_bytes(self) -> int:
        """Bytes of the model."""
        ...

    @property
    def packed_bytes(self) -> int:
        """Bytes of its prepacked weights."""
        ...

    @property
    def arena_bytes(self) -> int:
        """Bytes of the buffers of a run."""
        ...

    def run(self, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Run on arrays, read in place; returns new arrays.

        Raises:
            InvalidArgumentError: If a number, dtype or shape is not the model's.
            UnavailableError: If `stop` ended it.
        """
        ...

    def profile(self, inputs: Sequence[NDArray[Any]]) -> list[tuple[str, str, int]]:
        """Run once; returns (operator, name, nanoseconds) of each step."""
        ...

    def run_profiled(
        self, inputs: Sequence[NDArray[Any]]
    ) -> tuple[list[NDArray[Any]], list[tuple[str, str, int]]]:
        """The results of `run` and the steps of `profile`, of one run."""
        ...

    def limit_plans(self, max_plans: int, max_bytes: int = 0) -> None:
        """Keep plans for so many sets of input shapes, and tables of so many bytes.

        The least recently used are dropped. 0 bytes are no limit.
        """
        ...

    def set_flush_denormals(self, on: bool) -> None:
        """Whether subnormal numbers count as 0 in a run, in this engine and its clones.

        False at first, so that results have the bits of the dynamic graph.
        """
        ...

    def release_memory(self) -> int:
        """Free the arena and the plans; returns the bytes freed."""
        ...

    def clone(self) -> Engine:
        """An engine for another thread: the same weights, memory of its own."""
        ...

    def stop(self) -> None:
        """End the run that another thread has in progress."""
        ...


def load_engine(path: str | PathLike[str], threads: int = 0) -> Engine:
    """The engine of a model file, which is mapped and read in place.

    Args:
        path: Path of the ``.proa`` file.
        threads: Number of threads; 0 for as many as `proa.get_num_threads()`.

    Raises:
        NotFoundError: If there is no such file.
        InvalidArgumentError: If its bytes are not a model.
        VersionError: If it is of a later format than this library reads.
    """
    engine: Engine = _core.Engine.load(fspath(path), threads)
    return engine


def engine_from_bytes(content: bytes | memoryview, threads: int = 0) -> Engine:
    """The engine of the bytes of a model file; arguments and errors as `load_engine`.

    The bytes are copied.
    """
    engine: Engine = _core.Engine.from_bytes(content, threads)
    return engine


def engine_from_parts(
    graph: bytes | memoryview,
    weights: Sequence[bytes | memoryview],
    threads: int = 0,
    chains: Sequence[tuple[int, int]] = (),
    disposable: bytes | memoryview | None = None,
    strategies: Sequence[str] = (),
) -> Engine:
    """The engine of a graph and its weights, as `proa.ir.file.to_parts` gives them.

    Args:
        weights: Read in place, and held where the engine reads them after it has
            packed what it multiplies by.
        threads: As for `load_engine`.
        chains: (first node, count) of elementwise nodes that run block by block, as
            `proa.ir.passes.chain_spans` gives them.
        disposable: Memory that has weights in it and that no one else reads or writes
            any more, such as the file's as it was read. What the engine does not need
            of it is returned to the operating system, page by page, and reads as zeros.
        strategies: How each node of a graph without control flow is computed where it
            is a convolution: "winograd", "implicit_gemm" or "im2col", where that
            applies, or "" for what the kernels choose. Results differ in the last bits.

    Raises:
        InvalidArgumentError: If the parts are not those of a model.
    """
    engine: Engine = _core.Engine.from_parts(
        graph, list(weights), threads, chains, disposable, list(strategies)
    )
    return engine


def call_operator(
    name: str, *inputs: Tensor | None, **attributes: Any
) -> tuple[Tensor, ...]:
    """The outputs of the operator of that name (see the reference of operators).

    Args:
        inputs: In the order of the operator's row; None for one that is left out.
        attributes: By name, those of the row.

    Raises:
        InvalidArgumentError: If there is no such operator, or inputs or attributes are
            not those that it takes.
    """
    operator = getattr(operators, name, None)
    if operator is None:
        raise InvalidArgumentError(
            f"[call_operator] expected the name of an operator, got {name!r}"
        )
    results = operator(*inputs, **attributes)
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def multiplies_bfloat16() -> bool:
    """Whether this process multiplies bfloat16 by instructions for it.

    By AMX's or AVX512_BF16's, or by an emulation with PROA_BF16=emulate in the
    environment, for tests. Elsewhere bfloat16 is widened to float32, which saves
    memory, not time.
    """
    return str(_core.build_info()["bf16"]) != "widened"


def is_symbolic(x: Tensor) -> bool:
    """Whether a tensor stands for a value of a program that is being recorded."""
    return bool(x._is_symbolic)


def graph_value(x: Tensor) -> Value:
    """The value of a program that a symbolic tensor stands for.

    Raises:
        InvalidArgumentError: If the tensor is not symbolic.
    """
    symbol: Any = x._handle
    if symbol is None:
        raise InvalidArgumentError(
            f"[graph_value] expected a symbolic tensor, got one of shape {x.shape}"
        )
    value: Value = symbol[1]
    return value


def replace_memory(x: Tensor, other: Tensor) -> None:
    """Give a tensor the memory and the shape of another; it stays the same object.

    No gradient flows through the change, which counts as one in place.

    Args:
        x: Not symbolic.
        other: A tensor of the same dtype; shares its memory afterwards.
    """
    target: Any = x  # the stub lists no method that begins with an underscore
    with no_grad():
        target._share_from(other)
        target._bump_inplace_version()


def machine() -> dict[str, str]:
    """What the speed of kernels depends on: the CPU's model, the instruction set, cache
    profile and the products of bfloat16 and int8 in use.
    """
    info = _core.build_info()
    return {
        "cpu": cpu_model(),
        **{name: str(info[name]) for name in ("isa", "caches", "bf16", "amx")},
    }


def suits_winograd(
    dtype: str,
    weight: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> bool:
    """Whether a convolution is computed by Winograd's algorithm, by its weights alone.

    Args:
        dtype: Dtype of the weights.
        weight: Their shape, (out, in / groups, KH, KW), or in and out by turns for a
            transposed convolution.
        stride: (height, width); likewise dilation.
        groups: Blocks of channels that do not mix.
    """
    suits: bool = _core.suits_winograd(
        dtype, list(weight), list(stride), list(dilation), groups
    )
    return suits
