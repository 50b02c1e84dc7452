"""What the examples share: a training loop, and how models come into a repository."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import proa
from proa import nn
from proa_serving import save_for_serving

Array = npt.NDArray[Any]


def fit(
    net: nn.Layer,
    draw: Callable[[np.random.Generator], tuple[Array, ...]],
    loss: Callable[..., proa.Tensor],
    *,
    steps: int,
    rate: float = 3e-3,
) -> None:
    """Train ``net``: ``loss`` gets its scores and what ``draw`` gave after the inputs.

    Args:
        net: Takes the first array that ``draw`` gives.
        draw: Makes a batch.
        loss: Gets the network's output and the other arrays.
        steps: Batches.
        rate: The rate of Adam at the beginning; it falls to 0.
    """
    rng = np.random.default_rng(0)
    schedule = proa.optimizer.lr.CosineAnnealingDecay(rate, T_max=steps)
    adam = proa.optimizer.Adam(schedule, parameters=net.parameters())
    net.train()
    for _ in range(steps):
        first, *rest = (proa.to_tensor(held) for held in draw(rng))
        loss(net(first), *rest).backward()
        adam.step()
        adam.clear_grad()
        schedule.step()
    net.eval()


class Named(nn.Layer):
    """A network whose result has a name, which a server's clients read it by."""

    def __init__(self, net: nn.Layer, output: str) -> None:
        super().__init__()
        self.net, self.output = net, output

    def forward(self, *inputs: proa.Tensor) -> dict[str, proa.Tensor]:
        return {self.output: self.net(*inputs)}


def save(
    net: nn.Layer,
    folder: Path,
    name: str,
    inputs: Mapping[str, tuple[Sequence[int | None], str]],
    output: str,
    **settings: object,
) -> None:
    """Put ``net`` into the repository ``folder``.

    Args:
        net: Was trained.
        folder: The repository.
        name: The model's name.
        inputs: Shape, None where any size is, and dtype, by name.
        output: What its result is called.
        settings: Settings of the model, as in its ``config.json``.
    """
    spec = [
        proa.static.InputSpec(list(shape), dtype, key)
        for key, (shape, dtype) in inputs.items()
    ]
    named = Named(net, output)
    named.eval()
    save_for_serving(named, folder, name, spec, settings=settings or None)


def save_python(folder: Path, name: str, source: str, **files: str) -> None:
    """Put a Python model into the repository, with ``files`` by their stem."""
    version = folder / name / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(source.lstrip(), encoding="utf-8")
    for stem, text in files.items():
        (version / f"{stem}.json").write_text(text, encoding="utf-8")


def save_ensemble(
    folder: Path,
    name: str,
    inputs: Sequence[Mapping[str, object]],
    outputs: Sequence[Mapping[str, object]],
    steps: Sequence[tuple[str, Mapping[str, str], Mapping[str, str]]],
) -> None:
    """Put an ensemble into the repository.

    Args:
        folder: The repository.
        name: The ensemble's name.
        inputs: Name, datatype and shape of each.
        outputs: The same.
        steps: Model, the tensor of each of its inputs, and of each of its outputs.
    """
    config = {
        "inputs": inputs,
        "outputs": outputs,
        "steps": [
            {"model": model, "inputs": taken, "outputs": given}
            for model, taken, given in steps
        ],
    }
    (folder / name).mkdir()
    (folder / name / "config.json").write_text(json.dumps(config, indent=2))


def padded(rows: Sequence[Sequence[int]], length: int) -> Array:
    """(rows, length) numbers, with 0 after each end."""
    found = np.zeros((len(rows), length), np.int64)
    for at, row in enumerate(rows):
        found[at, : len(row)] = row[:length]
    return found
