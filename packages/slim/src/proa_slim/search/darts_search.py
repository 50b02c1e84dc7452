"""Training of architecture parameters and weights in turns."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import proa
from proa import nn
from proa.errors import InvalidArgumentError
from proa_slim.search import checkpoint
from proa_slim.search.darts import Genotype

Batches = Iterable[Any] | Callable[[], Iterable[Any]]


class Searchable(Protocol):
    """A network with parameters of its architecture."""

    training: bool

    def __call__(self, x: Any) -> Any:
        """Scores."""
        ...

    def arch_parameters(self) -> list[Any]:
        """Those of the architecture."""
        ...

    def weight_parameters(self) -> list[Any]:
        """All others."""
        ...

    def genotype(self) -> Genotype:
        """What was found."""
        ...


class DARTSearch:
    """DARTS (Liu et al., 2019): weights learn from training batches, the architecture
    from validation batches, in turns. With a `DartsNetwork` of partial channels it is
    PC-DARTS. Another strategy overrides `architecture_step`.

        network = DartsNetwork(channels=16, num_classes=10, layers=8)
        genotype = DARTSearch(network, train, valid, num_epochs=50).train()

    Each epoch is written to `save_dir`; with `resume`, a search continues from the last
    one.

    Args:
        model: A `DartsNetwork`, or another `Searchable`.
        train_reader, valid_reader: Batches of images and labels of an epoch, or a
            function that gives them.
        place: Ignored.
        learning_rate: Learning rate of the weights, by a cosine to 0; momentum 0.9.
        batchsize, num_imgs, use_multiprocess, log_freq: Ignored: batches come from the
            readers.
        arch_learning_rate: That of Adam on the architecture.
        unrolled: Whether its gradient is that after a step of the weights, the second
            order of the paper; the first order is four times as fast.
        num_epochs: Epochs.
        epochs_no_archopt: First epochs in which only weights learn.
        save_dir: Folder of the checkpoint; None for none.
        loss: Takes scores and labels; cross entropy if not given.
        weight_decay: Weight decay of the weights.
        arch_weight_decay: Weight decay of the architecture.
        resume: Whether to go on from `save_dir`.
        progress: Whether each epoch writes a line to standard error.

    Raises:
        InvalidArgumentError: If a number is out of its range.
    """

    def __init__(
        self,
        model: Searchable,
        train_reader: Batches,
        valid_reader: Batches,
        place: Any = None,
        learning_rate: float = 0.025,
        batchsize: int = 64,
        num_imgs: int = 50000,
        arch_learning_rate: float = 3e-4,
        unrolled: bool = False,
        num_epochs: int = 50,
        epochs_no_archopt: int = 0,
        use_multiprocess: bool = False,
        save_dir: str | PathLike[str] | None = None,
        log_freq: int = 50,
        loss: Callable[[Any, Any], Any] | None = None,
        weight_decay: float = 3e-4,
        arch_weight_decay: float = 1e-3,
        resume: bool = False,
        progress: bool = False,
    ) -> None:
        if num_epochs < 1 or learning_rate <= 0 or arch_learning_rate <= 0:
            raise InvalidArgumentError(
                "[DARTSearch] expected positive num_epochs and learning rates, got "
                f"{num_epochs}, {learning_rate} and {arch_learning_rate}"
            )
        self.model, self.unrolled, self.progress = model, unrolled, progress
        self._train, self._valid = train_reader, valid_reader
        self.num_epochs, self.epochs_no_archopt = num_epochs, epochs_no_archopt
        self.loss = loss or nn.CrossEntropyLoss()
        self._decay = weight_decay
        self._rate = proa.optimizer.lr.CosineAnnealingDecay(learning_rate, num_epochs)
        self._weights = proa.optimizer.Momentum(
            self._rate, 0.9, parameters=model.weight_parameters(),
            weight_decay=weight_decay, grad_clip=nn.ClipGradByGlobalNorm(5.0),
        )  # fmt: skip
        self._arch = proa.optimizer.Adam(
            arch_learning_rate, 0.5, 0.999, parameters=model.arch_parameters(),
            weight_decay=arch_weight_decay,
        )  # fmt: skip
        self._folder = None if save_dir is None else Path(fspath(save_dir))
        self._epoch = 0
        if resume and self._folder is not None:
            self._read()

    # -- epochs ------------------------------------------------------------------------
    def train(self) -> Genotype:
        """All epochs that are left.

        Returns:
            The genotype at the end.
        """
        for epoch in range(self._epoch, self.num_epochs):
            loss, accuracy = self.train_one_epoch(epoch)
            self._epoch = epoch + 1
            self._write()
            if self.progress:
                print(
                    f"[darts] {epoch + 1}/{self.num_epochs}: loss {loss:.4f}, accuracy "
                    f"{accuracy:.4f}, {self.model.genotype()}",
                    file=sys.stderr,
                    flush=True,
                )
        return self.model.genotype()

    def train_one_epoch(self, epoch: int) -> tuple[float, float]:
        """One pass over the training batches.

        Returns:
            Mean loss and accuracy on them.
        """
        self._mode(True)
        validation = self._endless(self._valid)
        total, right, count = 0.0, 0, 0
        for x, y in _batches(self._train):
            if epoch >= self.epochs_no_archopt:
                self.architecture_step((x, y), next(validation))
            scores = self.model(x)
            loss = self.loss(scores, y)
            loss.backward()
            self._weights.step()
            self._clear()
            labels = np.asarray(y.numpy()).reshape(-1)
            total += float(loss) * len(labels)
            right += int((scores.numpy().argmax(1) == labels).sum())
            count += len(labels)
        self._rate.step()
        return total / max(count, 1), right / max(count, 1)

    def valid_one_epoch(self) -> float:
        """The accuracy on the validation batches."""
        self._mode(False)
        right, count = 0, 0
        with proa.no_grad():
            for x, y in _batches(self._valid):
                labels = np.asarray(y.numpy()).reshape(-1)
                right += int((self.model(x).numpy().argmax(1) == labels).sum())
                count += len(labels)
        return right / max(count, 1)

    def architecture_step(self, train: Any, valid: Any) -> None:
        """One step of the architecture.

        Args:
            train: A batch that weights learn from.
            valid: A batch of validation.
        """
        if self.unrolled:
            gradients = self.unrolled_gradients(train, valid)
        else:
            gradients = self._gradients(self.model.arch_parameters(), valid)
        self._clear()
        for parameter, gradient in zip(
            self.model.arch_parameters(), gradients, strict=True
        ):
            parameter.grad = proa.to_tensor(gradient)
        self._arch.step()
        self._clear()

    def unrolled_gradients(self, train: Any, valid: Any) -> list[Any]:
        """Gradients of the validation loss after a step w' = w - r (dL/dw + d w), r the
        learning rate and d the weight decay, by the architecture a.

        dL_valid(w', a)/da - r d^2L_train(w, a)/(da dw) v, v = dL_valid/dw'; the second
        derivative is a central difference with a step of 0.01 / |v| (the paper's
        equations 7 and 8).
        """
        weights, arch = self.model.weight_parameters(), self.model.arch_parameters()
        rate = float(self._rate.get_lr())
        before = [w.numpy().copy() for w in weights]
        slopes = self._gradients(weights, train)
        _assign(
            weights,
            [
                w - rate * (g + self._decay * w)
                for w, g in zip(before, slopes, strict=True)
            ],
        )
        both = self._gradients([*arch, *weights], valid)
        direct, v = both[: len(arch)], both[len(arch) :]
        step = 0.01 / max(
            float(np.sqrt(sum((g.astype(float) ** 2).sum() for g in v))), 1e-12
        )
        ends = []
        for sign in (1, -1):
            moved = [w + sign * step * g for w, g in zip(before, v, strict=True)]
            _assign(weights, moved)
            ends.append(self._gradients(arch, train))
        _assign(weights, before)
        return [
            d - rate * (high - low) / (2 * step)
            for d, high, low in zip(direct, *ends, strict=True)
        ]

    def _gradients(self, parameters: list[Any], batch: Any) -> list[Any]:
        self._clear()
        x, y = batch
        self.loss(self.model(x), y).backward()
        found = [
            np.zeros(p.shape, "float32") if p.grad is None else p.grad.numpy().copy()
            for p in parameters
        ]
        self._clear()
        return found

    def _clear(self) -> None:
        self._weights.clear_grad()
        self._arch.clear_grad()

    def _mode(self, training: bool) -> None:
        if isinstance(self.model, nn.Layer):
            self.model.train() if training else self.model.eval()

    def _endless(self, reader: Batches) -> Iterator[Any]:
        while True:
            empty = True
            for batch in _batches(reader):
                empty = False
                yield batch
            if empty:
                raise InvalidArgumentError(
                    "[DARTSearch] expected batches of validation, got none"
                )

    # -- checkpoint --------------------------------------------------------------------
    def _write(self) -> None:
        if self._folder is None or not isinstance(self.model, nn.Layer):
            return
        state = {
            "epoch": self._epoch,
            "model": self.model.state_dict(),
            "weights": self._weights.state_dict(),
            "arch": self._arch.state_dict(),
            "names": [parameter.name for parameter in self.model.parameters()],
        }
        checkpoint.write(self._folder / "search.pdparams", state)
        text = json.dumps(asdict(self.model.genotype()), indent=1)
        (self._folder / "genotype.json").write_text(text, encoding="utf-8")

    def _read(self) -> None:
        assert self._folder is not None
        path = self._folder / "search.pdparams"
        if not path.is_file() or not isinstance(self.model, nn.Layer):
            return
        state = proa.load(str(path))
        self.model.set_state_dict(state["model"])
        parameters = self.model.parameters()
        for optimizer, key in ((self._weights, "weights"), (self._arch, "arch")):
            optimizer.set_state_dict(
                checkpoint.renamed(state[key], state["names"], parameters)
            )
        self._epoch = int(state["epoch"])


def _batches(reader: Batches) -> Iterable[Any]:
    return reader() if callable(reader) else reader


def _assign(parameters: list[Any], values: list[Any]) -> None:
    with proa.no_grad():
        for parameter, value in zip(parameters, values, strict=True):
            parameter.set_value(value.astype("float32"))
