"""`Model`: train, evaluate and use a network in a few lines."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from proa._core import Tensor
from proa.base.mode import in_dynamic_mode
from proa.base.no_tape import NoTape
from proa.base.random import get_rng_state, set_rng_state
from proa.errors import InvalidArgumentError, NotFoundError, PreconditionNotMetError
from proa.hapi import checkpoint
from proa.hapi.callbacks import (
    Callback,
    CallbackList,
    LRScheduler,
    ModelCheckpoint,
    ProgBarLogger,
)
from proa.hapi.precision import Precision
from proa.hapi.runner import DynamicRunner, Runner, listed, tensors
from proa.hapi.summary import summary
from proa.io import DataLoader
from proa.metric import Metric
from proa.nn.layer import Layer


def _arrays(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_arrays(v) for v in value]
    if not isinstance(value, Tensor):
        return value
    low = value.dtype.name in ("float16", "bfloat16")
    return (value.astype("float32") if low else value).numpy()


class Model:
    """A network with what it takes to train, measure, save and use it.

    In static mode, where the network is to be made after `enable_static`, its methods
    run programs in place of the network, and give the same numbers.

    Args:
        network: The Layer.
        inputs: InputSpecs of its inputs; needed to save it for inference, and in static
            mode.
        labels: InputSpecs of its labels; their number says how a batch is divided. In
            static mode the loss needs them.
    """

    def __init__(self, network: Layer, inputs: Any = None, labels: Any = None) -> None:
        if not isinstance(network, Layer):
            raise InvalidArgumentError(
                f"[Model] network must be a Layer, got {type(network).__name__}"
            )
        self.network = network
        self._inputs, self._labels = listed(inputs), listed(labels)
        self._runner: Runner = _runner_of(network, self._inputs, self._labels)
        self._optimizer: Any = None
        self._loss: Callable[..., Any] | None = None
        self._metrics: list[Metric] = []
        self._precision = Precision()
        self._pending = False  # gradients are being gathered over batches
        self._whole_epoch: int | None = None  # between epochs of fit, the last
        self.stop_training = False

    def prepare(
        self,
        optimizer: Any = None,
        loss: Callable[..., Any] | None = None,
        metrics: Any = None,
        amp_configs: Any = None,
    ) -> None:
        """Say how to train.

        Args:
            optimizer: What changes the parameters.
            loss: A function of (outputs…, labels…).
            metrics: Metrics besides the loss.
            amp_configs: Mixed precision: a level ("O0", "O1", "O2") or a dict of it and
                of settings; see `proa.hapi.precision.Precision`. In static mode weights
                stay float32 at every level, and evaluation computes in float32.
        """
        if loss is not None and not callable(loss):
            raise InvalidArgumentError(
                f"[Model.prepare] loss must be callable, got {loss!r}"
            )
        for m in listed(metrics):
            if not isinstance(m, Metric):
                raise InvalidArgumentError(
                    f"[Model.prepare] metrics must be Metrics, got {m!r}"
                )
        self._precision = Precision(amp_configs)
        self._runner.prepare(optimizer, loss, self._precision)
        self._optimizer, self._loss = optimizer, loss
        self._metrics = listed(metrics)

    # -- single batches ---------------------------------------------------------------
    def _measure(self, outputs: list[Any], labels: list[Any]) -> list[Any]:
        values = []
        for metric in self._metrics:
            given = metric.compute(*outputs, *labels)
            values.append(metric.update(*[_arrays(g) for g in _tuple(given)]))
        return values

    def _result(self, losses: list[Any], measures: list[Any]) -> Any:
        if self._metrics:
            return (losses, measures) if losses else measures
        return losses

    def train_batch(self, inputs: Any, labels: Any = None, update: bool = True) -> Any:
        """Take one step; with update=False only add up gradients.

        Returns the losses as a list, and with metrics also their values on this batch.
        """
        if self._optimizer is None or self._loss is None:
            raise PreconditionNotMetError(
                "[Model.train_batch] expected a call of prepare(optimizer, loss) before"
            )
        with self._runner.running():
            given = tensors(labels)
            losses, outputs = self._runner.train(inputs, given, update)
            self._pending = not update
            with NoTape():
                measures = self._measure(outputs, given)
        return self._result(losses, measures)

    def _update(self) -> None:
        self._runner.update()
        self._pending = False

    def eval_batch(self, inputs: Any, labels: Any = None) -> Any:
        """Losses and metrics of one batch, without training."""
        with self._runner.running(), NoTape():
            given = tensors(labels)
            losses, outputs = self._runner.evaluate(inputs, given)
            measures = self._measure(outputs, given)
        return self._result(losses, measures)

    def predict_batch(self, inputs: Any) -> list[Any]:
        """The network's outputs for one batch, as arrays."""
        with self._runner.running():
            return [_arrays(o) for o in self._runner.predict(inputs)]

    # -- whole datasets ---------------------------------------------------------------
    def _loader(
        self, data: Any, batch_size: int, shuffle: bool, drop_last: bool, workers: int
    ) -> Any:
        if data is None or isinstance(data, DataLoader):
            return data
        if not hasattr(data, "__getitem__") and hasattr(data, "__iter__"):
            return data  # something that yields batches
        return DataLoader(
            data, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last,
            num_workers=workers,
        )  # fmt: skip

    def _divided(self, batch: Any) -> tuple[list[Any], list[Any]]:
        """A batch's inputs and labels: as many inputs as there are specs, else all but
        one.
        """
        fields = list(batch.values()) if isinstance(batch, dict) else listed(batch)
        count = len(self._inputs)
        if not count:
            count = len(fields) - max(len(self._labels), 1) if len(fields) > 1 else 1
        return fields[:count], fields[count:]

    def _names(self) -> list[str]:
        names = ["loss"] if self._loss is not None else []
        for metric in self._metrics:
            names += listed(metric.name())
        return names

    def _logs(self, result: Any) -> dict[str, Any]:
        """Loss of the batch, and metrics over all batches so far."""
        losses = result[0] if isinstance(result, tuple) else result
        logs: dict[str, Any] = {}
        if self._loss is not None and not (self._metrics and isinstance(result, list)):
            logs["loss"] = losses
        for metric in self._metrics:
            values = listed(metric.accumulate())
            logs.update(zip(listed(metric.name()), values, strict=True))
        return logs

    def fit(
        self,
        train_data: Any = None,
        eval_data: Any = None,
        batch_size: int = 1,
        epochs: int = 1,
        eval_freq: int = 1,
        log_freq: int = 10,
        save_dir: str | None = None,
        save_freq: int = 1,
        verbose: int = 2,
        drop_last: bool = False,
        shuffle: bool = True,
        num_workers: int = 0,
        callbacks: Any = None,
        accumulate_grad_batches: int = 1,
        num_iters: int | None = None,
        resume: bool | str = False,
    ) -> None:
        """Train on a dataset (or loader), evaluating on another every eval_freq epochs.

        Args:
            train_data: A Dataset, a DataLoader, or anything that yields batches.
            eval_data: The same, to evaluate on.
            batch_size: Samples in a batch, where a Dataset is given.
            epochs: How often to go through the data.
            eval_freq: Epochs between evaluations.
            log_freq: Steps between lines where verbose is 2.
            save_dir: Where checkpoints go, every save_freq epochs.
            save_freq: Epochs between checkpoints.
            verbose: 0 silent, 1 one line that is redrawn, 2 a line every log_freq
                steps.
            drop_last: Whether to leave out a last batch that is not full.
            shuffle: Whether to shuffle.
            num_workers: Worker processes of the loaders.
            callbacks: Callbacks besides the ones that fit adds.
            accumulate_grad_batches: Batches whose gradients make up one step.
            num_iters: Steps after which to stop, whatever the epoch.
            resume: Go on after the latest complete checkpoint in save_dir (from the
                start if there is none), or after that of this path, with its weights,
                optimizer, schedule, loss scale and random numbers. ``epochs`` counts
                those before; callbacks start from scratch.
        """
        loader = self._loader(train_data, batch_size, shuffle, drop_last, num_workers)
        if loader is None:
            raise InvalidArgumentError("[Model.fit] expected train_data, got None")
        evaluation = self._loader(eval_data, batch_size, False, False, num_workers)
        steps = _length(loader)
        calls = self._callbacks(
            callbacks, verbose, log_freq, save_dir, save_freq,
            {"batch_size": batch_size, "epochs": epochs, "steps": steps,
             "verbose": verbose, "save_dir": save_dir, "metrics": self._names()},
        )  # fmt: skip
        self.stop_training = False
        first = self._resume(resume, save_dir)
        self._whole_epoch = first - 1 if first else None
        logs: dict[str, Any] = {}
        calls.call("on_train_begin", {})
        left = num_iters
        for epoch in range(first, epochs):
            self._whole_epoch = None
            calls.call("on_epoch_begin", epoch, {})
            for logs in self._epoch(loader, calls, accumulate_grad_batches, left):  # noqa: B007
                left = None if left is None else left - 1
            self._whole_epoch = epoch if left != 0 else None
            calls.call("on_epoch_end", epoch, logs)
            if evaluation is not None and epoch % eval_freq == 0:
                self._evaluate(evaluation, calls, None)
            if self.stop_training or left == 0:
                break
        calls.call("on_train_end", logs)
        self._whole_epoch = None

    def _callbacks(
        self,
        given: Any,
        verbose: int,
        log_freq: int,
        save_dir: str | None,
        save_freq: int,
        params: dict[str, Any],
    ) -> CallbackList:
        calls: list[Callback] = listed(given)
        kinds = [type(c) for c in calls]
        if ProgBarLogger not in kinds and verbose:
            calls.insert(0, ProgBarLogger(log_freq, verbose))
        if LRScheduler not in kinds:
            calls.append(LRScheduler())
        if ModelCheckpoint not in kinds and save_dir is not None:
            calls.append(ModelCheckpoint(save_freq, save_dir))
        # What else happens at the end of an epoch is part of its checkpoint.
        calls.sort(key=lambda call: isinstance(call, ModelCheckpoint))
        return CallbackList(calls, self, params)

    def _epoch(
        self, loader: Any, calls: CallbackList, gather: int, left: int | None
    ) -> Iterator[dict[str, Any]]:
        """Train on every batch; yields the logs of each."""
        for metric in self._metrics:
            metric.reset()
        last = (_length(loader) or 0) - 1
        for step, batch in enumerate(loader):
            if left is not None and step >= left:
                return
            inputs, labels = self._divided(batch)
            calls.call("on_train_batch_begin", step, {})
            update = (step + 1) % gather == 0 or step == last
            logs = self._logs(self.train_batch(inputs, labels, update))
            logs["batch_size"] = len(inputs[0])
            calls.call("on_train_batch_end", step, logs)
            yield logs
        if self._pending:  # a stream whose end was not foreseen
            self._update()

    def evaluate(
        self,
        eval_data: Any,
        batch_size: int = 1,
        log_freq: int = 10,
        verbose: int = 2,
        num_workers: int = 0,
        callbacks: Any = None,
        num_iters: int | None = None,
    ) -> dict[str, Any]:
        """Loss and metrics over a dataset (or loader)."""
        loader = self._loader(eval_data, batch_size, False, False, num_workers)
        calls = self._callbacks(
            callbacks, verbose, log_freq, None, 1,
            {"batch_size": batch_size, "verbose": verbose, "metrics": self._names()},
        )  # fmt: skip
        return self._evaluate(loader, calls, num_iters)

    def _evaluate(
        self, loader: Any, calls: CallbackList, num_iters: int | None
    ) -> dict[str, Any]:
        for metric in self._metrics:
            metric.reset()
        calls.call(
            "on_eval_begin", {"steps": _length(loader), "metrics": self._names()}
        )
        logs: dict[str, Any] = {}
        total, samples = np.zeros(0), 0
        for step, batch in enumerate(loader):
            if num_iters is not None and step >= num_iters:
                break
            inputs, labels = self._divided(batch)
            calls.call("on_eval_batch_begin", step, {})
            logs = self._logs(self.eval_batch(inputs, labels))
            size = len(inputs[0])
            if "loss" in logs:
                # The loss of the whole: each batch counts by its samples.
                total = (
                    total + np.array(logs["loss"]) * size
                    if samples
                    else (np.array(logs["loss"]) * size)
                )
                samples += size
                logs["loss"] = (total / samples).tolist()
            logs["batch_size"] = size
            calls.call("on_eval_batch_end", step, logs)
        logs.pop("batch_size", None)
        calls.call("on_eval_end", logs)
        return logs

    def predict(
        self,
        test_data: Any,
        batch_size: int = 1,
        num_workers: int = 0,
        stack_outputs: bool = False,
        verbose: int = 1,
        callbacks: Any = None,
    ) -> list[Any]:
        """The outputs over a dataset: for each a list by batch, or one array."""
        loader = self._loader(test_data, batch_size, False, False, num_workers)
        calls = self._callbacks(
            callbacks, verbose, 10, None, 1,
            {"batch_size": batch_size, "verbose": verbose, "metrics": []},
        )  # fmt: skip
        calls.call("on_predict_begin", {"steps": _length(loader)})
        columns: list[list[Any]] = []
        for step, batch in enumerate(loader):
            inputs, _ = self._divided(batch)
            calls.call("on_predict_batch_begin", step, {})
            outputs = self.predict_batch(inputs)
            columns = columns or [[] for _ in outputs]
            for column, out in zip(columns, outputs, strict=True):
                column.append(out)
            calls.call("on_predict_batch_end", step, {"batch_size": len(inputs[0])})
        calls.call("on_predict_end", {})
        return [np.concatenate(c) for c in columns] if stack_outputs else columns

    # -- state ------------------------------------------------------------------------
    def save(self, path: str, training: bool = True) -> None:
        """Write path.pdparams and path.pdopt, both or neither; or, not for training,
        the model file.

        The file for inference needs the InputSpecs given to Model, and is
        ``path.proa``.
        """
        if training:
            optimizer = self._runner.optimizer_state()
            progress = checkpoint.Progress(
                self._whole_epoch, get_rng_state(), self._precision.scaler.state_dict()
            )
            checkpoint.write(path, self._runner.network_state(), optimizer, progress)
            return
        if not self._inputs:
            raise PreconditionNotMetError(
                "[Model.save] saving for inference needs Model(network, "
                "inputs=[InputSpec]), got no inputs"
            )
        self._runner.save(path, self._inputs)

    def load(
        self, path: str, skip_mismatch: bool = False, reset_optimizer: bool = False
    ) -> None:
        """Read path.pdparams and, unless reset_optimizer, path.pdopt.

        A missing path.pdopt warns; that of another checkpoint raises a
        PreconditionNotMetError.
        """
        self._restore(path, skip_mismatch, reset_optimizer)

    def _restore(
        self, path: str, skip_mismatch: bool, reset_optimizer: bool
    ) -> checkpoint.Progress:
        wanted = self._optimizer is not None and not reset_optimizer
        state, optimizer, progress = checkpoint.read(path, optimizer=wanted)
        own = self.network.state_dict()
        for name, tensor in own.items():
            fits = name in state and list(state[name].shape) == list(tensor.shape)
            if fits:
                continue
            got = list(state[name].shape) if name in state else "nothing"
            text = f"[Model.load] {name} must be {list(tensor.shape)}, got {got}"
            if not skip_mismatch:
                raise (NotFoundError if name not in state else InvalidArgumentError)(
                    text
                )
            warnings.warn(f"{text}; it is left as it was", stacklevel=3)
            state.pop(name, None)
        self._runner.set_network_state(state)
        if optimizer is not None:
            self._runner.set_optimizer_state(progress.renamed(optimizer, own))
        return progress

    def _resume(self, resume: bool | str, save_dir: str | None) -> int:
        """Go on from a checkpoint; returns the first epoch to train."""
        path = checkpoint.found(resume, save_dir)
        if path is None:
            return 0
        progress = self._restore(path, False, False)
        if progress.random is not None:
            set_rng_state(progress.random)
        if progress.scaler:
            self._precision.scaler.load_state_dict(progress.scaler)
        return progress.next_epoch(path)

    def parameters(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The network's parameters."""
        return self.network.parameters(*args, **kwargs)

    def summary(self, input_size: Any = None, dtype: Any = None) -> dict[str, int]:
        """Print a table of the layers; see `proa.summary`."""
        size = input_size
        if size is None:
            if not self._inputs:
                raise InvalidArgumentError(
                    "[Model.summary] expected input_size, got None"
                )
            size = [tuple(s.shape) for s in self._inputs]
        return summary(self.network, size, dtype)


def _runner_of(network: Layer, inputs: list[Any], labels: list[Any]) -> Runner:
    """What runs the network in the mode that it was made in."""
    if in_dynamic_mode():
        return DynamicRunner(network)
    from proa.hapi.static_runner import StaticRunner

    return StaticRunner(network, inputs, labels)


def _tuple(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else (value,)


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except TypeError:
        return None
