"""What a teacher computes: batches of a reader through a program or a layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import proa
from proa.errors import InvalidArgumentError, InvalidTypeError, NotFoundError
from proa.nn import Layer
from proa_slim.pantheon.knowledge import Knowledge, checked

#: Arrays of one batch, in the order of the feeds.
Feeds = Sequence[Any]

_READERS = ("sample_generator", "sample_list_generator", "batch_generator")


def batches(reader_config: Mapping[str, Any]) -> Iterator[list[Any]]:
    """The batches of a reader, as lists of arrays.

    Args:
        reader_config: One of ``sample_generator`` (gives tuples of one sample's arrays;
            with ``batch_size`` and perhaps ``drop_last``), ``sample_list_generator``
            (lists of such tuples) and ``batch_generator`` (tuples of batches' arrays):
            functions without arguments that return an iterator.

    Raises:
        InvalidArgumentError: If there is not exactly one of these, or no batch_size.
    """
    given = [key for key in _READERS if key in reader_config]
    if len(given) != 1:
        raise InvalidArgumentError(
            f"[Teacher] reader_config must have one of {', '.join(_READERS)}, got "
            f"{sorted(reader_config)}"
        )
    kind = given[0]
    items = reader_config[kind]()
    if kind == "batch_generator":
        yield from (_as_list(item) for item in items)
        return
    if kind == "sample_list_generator":
        yield from (_stacked(item) for item in items)
        return
    batch_size = reader_config.get("batch_size")
    if not isinstance(batch_size, int) or batch_size < 1:
        raise InvalidArgumentError(
            "[Teacher] reader_config needs a positive batch_size for samples, got "
            f"{batch_size!r}"
        )
    held: list[Any] = []
    for sample in items:
        held.append(sample)
        if len(held) == batch_size:
            yield _stacked(held)
            held = []
    if held and not reader_config.get("drop_last", False):
        yield _stacked(held)


def _as_list(item: Any) -> list[Any]:
    return list(item) if isinstance(item, (list, tuple)) else [item]


def _stacked(samples: Sequence[Any]) -> list[Any]:
    rows = [_as_list(sample) for sample in samples]
    columns = zip(*rows, strict=True)
    return [np.stack([np.asarray(x) for x in column]) for column in columns]


def predictor(
    feed_list: Sequence[Any],
    schema: Mapping[str, Any],
    program: Any,
    exe: Any,
) -> Callable[[Feeds], Knowledge]:
    """A function from the arrays of a batch to its knowledge.

    Args:
        feed_list: Variables or names that a program is fed, in the order of the
            reader's arrays; of a Layer, which of the reader's arrays are its inputs, by
            position.
        schema: What each name of knowledge is: of a program, a Variable or its name; of
            a Layer, the path of a layer, "" for the network itself.
        program: A static Program, or a Layer.
        exe: What runs the program.

    Raises:
        InvalidTypeError: If program is something else.
        NotFoundError: If a Layer has no layer of a path.
    """
    if isinstance(program, Layer):
        return _layer_predictor(feed_list, schema, program)
    if not isinstance(program, (proa.static.Program, proa.static.CompiledProgram)):
        raise InvalidTypeError(
            "[Teacher] program must be a static.Program or a Layer, got "
            f"{type(program).__name__}"
        )
    names = [x if isinstance(x, str) else x.name for x in feed_list]
    fetches = list(schema.values())

    def run(arrays: Feeds) -> Knowledge:
        feed = {n: np.asarray(a) for n, a in zip(names, arrays, strict=True)}
        results = exe.run(program, feed=feed, fetch_list=fetches)
        return checked(dict(zip(schema, results, strict=True)))

    return run


def _layer_predictor(
    feed_list: Sequence[Any], schema: Mapping[str, Any], network: Layer
) -> Callable[[Feeds], Knowledge]:
    layers = dict(network.named_sublayers(include_self=True))
    for path in schema.values():
        if path not in layers:
            raise NotFoundError(
                f"[Teacher] schema must name layers of the network, got {path!r}; it "
                f"has {', '.join(p for p in layers if p)}"
            )
    network.eval()
    outputs: dict[str, Any] = {}

    def watch(path: str) -> Any:
        def note(layer: Layer, inputs: object, output: Any) -> None:
            outputs[path] = output

        return layers[path].register_forward_post_hook(note)

    def run(arrays: Feeds) -> Knowledge:
        hooks = [watch(path) for path in dict.fromkeys(schema.values())]
        try:
            with proa.no_grad():
                network(*(proa.to_tensor(np.asarray(arrays[i])) for i in feed_list))
        finally:
            for hook in hooks:
                hook.remove()
        return checked({name: outputs[path].numpy() for name, path in schema.items()})

    return run
