"""Distillation of one loaded model into another."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import proa
from proa.ir.program import Program
from proa_slim.compression.model import runner, unfused
from proa_slim.compression.recipe import Recipe
from proa_slim.compression.samples import Samples
from proa_slim.distill import kl_loss, l2_loss
from proa_slim.loading import LoadedNetwork

_Results = list[proa.Tensor]


class Distiller:
    """Trains models on a teacher's outputs, and on labels if there are any: KL
    divergence at temperature 2 and cross entropy where outputs are scores, else the
    mean squared error.

    Args:
        teacher: The model before compression.
        samples: To train on.
        recipe: Has the size of batches.
        progress: Whether each epoch writes a line to standard error.
    """

    def __init__(
        self, teacher: Program, samples: Samples, recipe: Recipe, progress: bool
    ) -> None:
        self._teacher, self._samples = runner(teacher), samples
        self._recipe, self._progress = recipe, progress

    def train(
        self, student: Program, name: str, epochs: int, rate: float, checkpoint: Path
    ) -> None:
        """Train the student's parameters in place, by Adam and a cosine to 0.

        Args:
            student: Its weights of kind ``param`` learn, but for statistics of norms.
            name: Name of the step, for progress.
            epochs: Passes.
            rate: The learning rate at first.
            checkpoint: A file with the last finished epoch, which training continues
                from if it is there.
        """
        network = LoadedNetwork(unfused(student))
        network.train()
        steps = -(-len(self._samples) // self._recipe.batch_size)
        schedule = proa.optimizer.lr.CosineAnnealingDecay(rate, epochs * steps)
        learned = network.trained_parameters()
        adam = proa.optimizer.Adam(schedule, parameters=learned)
        order = np.random.default_rng(0)
        orders = [order.permutation(len(self._samples)) for _ in range(epochs)]
        for epoch in range(_restored(checkpoint, network, adam), epochs):
            total = 0.0
            for rows in np.array_split(orders[epoch], steps):
                loss = self._loss(network, rows)
                loss.backward()
                adam.step()
                adam.clear_grad()
                schedule.step()
                total += float(loss)
            _store(checkpoint, network, adam, epoch + 1)
            if self._progress:
                line = f"[compress] {name} {epoch + 1}/{epochs}: "
                print(f"{line}loss {total / steps:.5f}", file=sys.stderr, flush=True)
        tensors = dict(network.named_parameters())
        for value in student.constants():
            if value.name in tensors and value.kind == "param":
                value.data = tensors[value.name].numpy()

    def _loss(self, network: LoadedNetwork, rows: np.ndarray) -> proa.Tensor:
        arrays = [array[rows] for array in self._samples.inputs]
        labels = self._samples.labels
        result, wanted = (
            network(*[proa.to_tensor(array) for array in arrays]),
            self._teacher(*arrays),
        )
        several: _Results = list(result) if isinstance(result, tuple) else [result]
        targets = wanted if isinstance(wanted, list) else [wanted]
        terms: _Results = []
        for number, (x, target) in enumerate(zip(several, targets, strict=True)):
            teacher = proa.to_tensor(target)
            if len(x.shape) != 2 or x.shape[1] < 2:
                terms.append(l2_loss(teacher, x))
                continue
            terms.append(kl_loss(teacher, x, temperature=2.0))
            if labels is not None and number == 0:
                right = proa.to_tensor(labels[rows])
                terms.append(proa.nn.functional.cross_entropy(x, right).mean())
        return sum(terms[1:], start=terms[0])


def _store(
    path: Path, network: LoadedNetwork, adam: proa.optimizer.Adam, done: int
) -> None:
    parameters = dict(network.named_parameters())
    state = {"network": parameters, "adam": adam.state_dict(), "epochs": done}
    proa.save(state, str(path))


def _restored(path: Path, network: LoadedNetwork, adam: proa.optimizer.Adam) -> int:
    """The finished epochs, after which network and optimizer are as they were."""
    if not path.is_file():
        return 0
    state = proa.load(str(path))
    own = dict(network.named_parameters())
    for name, tensor in state["network"].items():
        own[name].set_value(tensor)  # the same objects, which the optimizer knows
    adam.set_state_dict(state["adam"])
    return int(state["epochs"])
