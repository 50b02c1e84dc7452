"""`paddle.reader`: functions that give generators of samples, composed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from proa.base.public import publish as _publish
from proa.errors import InvalidArgumentError

__all__ = [
    "ComposeNotAligned", "buffered", "cache", "chain", "compose", "firstn",
    "map_readers", "multiprocess_reader", "shuffle", "xmap_readers",
]  # fmt: skip

Reader = Callable[[], Iterable[Any]]
Generator = Callable[[], Iterator[Any]]


class ComposeNotAligned(InvalidArgumentError):
    """A composed reader ended before another one."""


def buffered(reader: Reader, size: int) -> Generator:
    """The samples of a reader, which is read so many samples ahead by a thread."""

    def read() -> Iterator[Any]:
        with ThreadPoolExecutor(1) as pool:
            source = iter(reader())
            begun = [pool.submit(next, source, _END) for _ in range(max(size, 1))]
            while (sample := begun.pop(0).result()) is not _END:
                begun.append(pool.submit(next, source, _END))
                yield sample

    return read


_END = object()


def cache(reader: Reader) -> Generator:
    """The samples of a reader, which is read once."""
    cached: list[Any] = []
    is_read = False

    def read() -> Iterator[Any]:
        nonlocal is_read
        if not is_read:
            cached[:] = reader()
            is_read = True
        yield from cached

    return read


def chain(*readers: Reader) -> Generator:
    """The samples of one reader after those of another."""

    def read() -> Iterator[Any]:
        for reader in readers:
            yield from reader()

    return read


def compose(*readers: Reader, check_alignment: bool = True) -> Generator:
    """A tuple of the readers' samples, whose tuples are joined.

    Args:
        readers: The readers.
        check_alignment: Whether readers must give as many samples; else the shortest
            one ends them all.

    Raises:
        ComposeNotAligned: If they do not.
    """

    def parts(sample: Any) -> tuple[Any, ...]:
        return sample if isinstance(sample, tuple) else (sample,)

    def read() -> Iterator[Any]:
        sources = [iter(reader()) for reader in readers]
        joined = itertools.zip_longest(*sources, fillvalue=_END)
        for samples in joined if check_alignment else zip(*sources, strict=False):
            if any(sample is _END for sample in samples):
                raise ComposeNotAligned(
                    "[reader.compose] readers must give as many samples, got one that "
                    "ended before another"
                )
            yield tuple(itertools.chain.from_iterable(map(parts, samples)))

    return read


def firstn(reader: Reader, n: int) -> Generator:
    """The first n samples."""

    def read() -> Iterator[Any]:
        yield from itertools.islice(reader(), n)

    return read


def map_readers(func: Callable[..., Any], *readers: Reader) -> Generator:
    """What a function makes of the readers' samples."""

    def read() -> Iterator[Any]:
        yield from map(func, *(reader() for reader in readers))

    return read


def multiprocess_reader(
    readers: Sequence[Reader], use_pipe: bool = True, queue_size: int = 1000
) -> Generator:
    """The samples of several readers, one after another.

    Args:
        readers: The readers.
        use_pipe: Kept for callers: no processes are started.
        queue_size: See there.
    """
    return chain(*readers)


def shuffle(reader: Reader, buf_size: int) -> Generator:
    """The samples in another order, by blocks of so many."""

    def read() -> Iterator[Any]:
        source = iter(reader())
        while block := list(itertools.islice(source, buf_size)):
            random.shuffle(block)
            yield from block

    return read


def xmap_readers(
    mapper: Callable[[Any], Any],
    reader: Reader,
    process_num: int,
    buffer_size: int,
    order: bool = False,
) -> Generator:
    """What a function makes of samples, by so many threads.

    Args:
        mapper: The function of a sample.
        reader: The samples.
        process_num: How many threads there are.
        buffer_size: How many samples are in work.
        order: Kept for callers: the order always stays.
    """

    def read() -> Iterator[Any]:
        with ThreadPoolExecutor(process_num) as pool:
            source = iter(reader())
            first = itertools.islice(source, max(buffer_size, 1))
            begun = [pool.submit(mapper, sample) for sample in first]
            while begun:
                yield begun.pop(0).result()
                begun += [pool.submit(mapper, x) for x in itertools.islice(source, 1)]

    return read


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
