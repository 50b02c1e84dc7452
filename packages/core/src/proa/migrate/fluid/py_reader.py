"""Readers inside programs: `py_reader` and `PyReader`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import proa
from proa._core import Tensor
from proa.base.naming import unique_name
from proa.errors import EndOfDataError, InvalidArgumentError, PreconditionNotMetError
from proa.io.generator_loader import GeneratorLoader, ProgramFeed
from proa.migrate.fluid.feeding import DataFeeder
from proa.static.state import data, require_static

__all__ = [
    "EOFException", "PyReader", "create_py_reader_by_data", "double_buffer",
    "py_reader", "read_file",
]  # fmt: skip

#: What ends the batches of a pass.
EOFException = EndOfDataError
#: Called, it iterates over batches.
Source = Callable[[], Iterable[Any]]


class ProgramReader(ProgramFeed):
    """Data that runs of a program take from a reader, batch by batch.

    Args:
        variables: The inputs that are fed.
    """

    def __init__(self, variables: Sequence[Tensor]) -> None:
        super().__init__()
        self.variables = list(variables)
        self._feeds: Callable[[], Iterator[Mapping[str, Any]]] | None = None
        builder = require_static("py_reader")
        self._feeder = DataFeeder([v.name for v in variables], None)
        builder.add_reader(self)

    def decorate_paddle_reader(self, reader: Source, places: object = None) -> None:
        """Let a reader of lists of samples, as `paddle.batch` makes, give the data."""
        self._feeds = lambda: (self._feeder.feed(samples) for samples in reader())

    def decorate_tensor_provider(self, reader: Source, places: object = None) -> None:
        """Let a reader of batches, an array or LoDTensor for each input, do it."""
        names = [v.name for v in self.variables]

        def feeds() -> Iterator[Mapping[str, Any]]:
            for batch in reader():
                parts = batch if isinstance(batch, (list, tuple)) else [batch]
                yield dict(zip(names, parts, strict=True))

        self._feeds = feeds

    decorate_sample_list_generator = decorate_paddle_reader
    decorate_batch_generator = decorate_tensor_provider

    def start(self) -> None:
        """Begin a pass.

        Raises:
            PreconditionNotMetError: If it has no reader.
        """
        if self._feeds is None:
            raise PreconditionNotMetError(
                "[py_reader.start] expected decorate_paddle_reader or "
                "decorate_tensor_provider before"
            )
        self._pass = iter(self._feeds())


def py_reader(
    capacity: int,
    shapes: Sequence[Sequence[int]],
    dtypes: Sequence[Any],
    lod_levels: Sequence[int] | None = None,
    name: str | None = None,
    use_double_buffer: bool = True,
) -> ProgramReader:
    """A reader inside the program, whose Variables `read_file` gives.

    Args:
        capacity: Kept for callers; batches are made one at a time.
        shapes: For each Variable its shape with that of the batch, -1 for any.
        dtypes: For each Variable its dtype.
        lod_levels: For each Variable how many levels of lengths it has; None for none.
        name: What the Variables' names begin with.
        use_double_buffer: Kept for callers.
    """
    stem = name or unique_name("py_reader")
    levels = [0] * len(shapes) if lod_levels is None else list(lod_levels)
    if not len(shapes) == len(dtypes) == len(levels):
        raise InvalidArgumentError(
            "[py_reader] expected as many shapes as dtypes and lod_levels, got "
            f"{len(shapes)}, {len(dtypes)} and {len(levels)}"
        )
    parts = zip(shapes, dtypes, levels, strict=True)
    return ProgramReader(
        [
            data(f"{stem}_slot_{i}", [int(n) for n in shape], dtype, level)
            for i, (shape, dtype, level) in enumerate(parts)
        ]
    )


def create_py_reader_by_data(
    capacity: int,
    feed_list: Sequence[Tensor],
    name: str | None = None,
    use_double_buffer: bool = True,
) -> ProgramReader:
    """`py_reader` of inputs that the program has."""
    return ProgramReader(feed_list)


def read_file(reader: ProgramReader) -> Any:
    """The Variables of a reader: one, or a list of them."""
    found = reader.variables
    return found[0] if len(found) == 1 else list(found)


def double_buffer(
    reader: ProgramReader, place: object = None, name: str | None = None
) -> ProgramReader:
    """The reader itself: batches are made one at a time."""
    return reader


class PyReader(GeneratorLoader):
    """`DataLoader.from_generator` with the names that its methods had.

    Args:
        feed_list: The inputs.
        capacity: Kept for callers.
        use_double_buffer: Kept for callers.
        iterable: Whether it is iterated over; else runs take batches from `start` on.
        return_list: Whether a batch is a list.
    """

    def __init__(
        self,
        feed_list: Sequence[Tensor] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
    ) -> None:
        super().__init__(feed_list, return_list, iterable)

    def decorate_sample_generator(
        self,
        sample_generator: Source,
        batch_size: int,
        drop_last: bool = True,
        places: object = None,
    ) -> None:
        """`set_sample_generator`."""
        self.set_sample_generator(sample_generator, batch_size, drop_last, places)

    def decorate_sample_list_generator(
        self, reader: Source, places: object = None
    ) -> None:
        """`set_sample_list_generator`, with LoDTensors where inputs have lengths."""
        program = None if proa.in_dynamic_mode() else proa.static.default_main_program()
        names = [v.name for v in self._variables]
        if program is None or not any(n in program.lod_levels for n in names):
            self.set_sample_list_generator(reader, places)
            return
        feeder = DataFeeder(names, None, program)
        self.set_batch_generator(
            lambda: ([*feeder.feed(samples).values()] for samples in reader()), places
        )

    def decorate_batch_generator(self, reader: Source, places: object = None) -> None:
        """`set_batch_generator`."""
        self.set_batch_generator(reader, places)
