"""`Search`: trials of a space, in a storage that other processes can share."""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proa.errors import (
    InvalidArgumentError,
    PreconditionNotMetError,
    UnavailableError,
)
from proa_slim.search.controllers import (
    Constraint,
    Controller,
    Evolution,
    RandomSearch,
    SimulatedAnnealing,
)
from proa_slim.search.page import page
from proa_slim.search.policy import Reinforce
from proa_slim.search.space import Arch, SearchSpace

if TYPE_CHECKING:
    import optuna

#: Controllers by the names that `Search` takes. Further ones are added by assignment.
CONTROLLERS: dict[str, Callable[..., Controller]] = {
    "annealing": SimulatedAnnealing,
    "evolution": Evolution,
    "reinforce": Reinforce,
    "random": RandomSearch,
}
_SPACE, _SECONDS, _STOPPED = "space", "seconds", "stopped"


class Stopped(Exception):
    """Raised by `Trial.report`: the trial is not worth more epochs."""


@dataclass(frozen=True)
class Record:
    """A finished trial.

    Attributes:
        number: Counted from 0, as the storage does.
        tokens: What was tried.
        arch: What they mean.
        reward: The last value reported if it was stopped.
        epochs: How many values were reported.
        stopped: Whether it was stopped early.
        notes: What `Trial.note` added.
        seconds: Its time.
    """

    number: int
    tokens: list[int]
    arch: Arch
    reward: float
    epochs: int
    stopped: bool
    notes: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


class Trial:
    """One architecture to be evaluated.

    Attributes:
        number: Number of the trial.
        tokens: Tokens of the architecture.
        arch: What they mean.
    """

    def __init__(self, space: SearchSpace, trial: optuna.Trial, tokens: list[int]):
        self._space, self.trial = space, trial
        self.number, self.tokens = trial.number, tokens
        self.arch = space.describe(tokens)
        self.begin, self.epochs = time.monotonic(), 0
        self.last = math.nan

    def network(self) -> Any:
        """A new network of the architecture."""
        return self._space.token2arch(self.tokens)

    def report(self, value: float, epoch: int | None = None) -> None:
        """Note the metric after an epoch, counted from 1.

        Raises:
            Stopped: If the trial is not worth more epochs; let it pass through.
            InvalidArgumentError: If the value is not finite.
        """
        if self.is_bad(value, epoch):
            raise Stopped(f"trial {self.number} after {self.epochs} epochs")

    def is_bad(self, value: float, epoch: int | None = None) -> bool:
        """As `report`, but returns whether the trial is to be stopped."""
        self.epochs = self.epochs + 1 if epoch is None else epoch
        self.last = _finite(value, self.arch)
        self.trial.report(self.last, self.epochs)
        return bool(self.trial.should_prune())

    def note(self, name: str, value: str | float) -> None:
        """Keep a fact with the trial: multiply-adds, milliseconds."""
        self.trial.set_user_attr(f"note {name}", value)


#: Trains and measures an architecture; returns its reward.
Evaluate = Callable[[Trial], float]


def _finite(value: float, arch: Arch) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise InvalidArgumentError(
            f"[Search] expected a finite reward, got {number} for {arch}"
        )
    return number


class Search:
    """A search that can be stopped at any time and continues where it was.

        search = Search(space, "annealing", storage="search.journal")
        best = search.run(evaluate, steps=64)
        search.report("search.html")

    Every trial is written to the storage when it is finished. Ctrl-C or a kill loses
    the trial that was running, no more: its architecture is tried again first. Other
    processes may search in the same storage, on one machine or on several with a
    common folder; each learns from the trials of all.

    Args:
        space: What to search.
        controller: A name of `CONTROLLERS`, a `Controller`, or a sampler of optuna.
        storage: A file, made if need be; the address of a database, as optuna takes
            it (``sqlite:///search.db``); or None to keep trials in memory.
        name: Name of the search in its storage.
        maximize: Whether greater rewards are better.
        early_stop: ``median``, ``asha``, a pruner of optuna, or None: what `report` of
            a trial consults (`median_stop` and `asha_stop` take settings).
        constraint: Whether tokens may be tried; of our controllers alone.
        seed: Seed of a controller that is named.

    Raises:
        InvalidArgumentError: If a name is unknown.
        PreconditionNotMetError: If the storage has trials of another space.
        UnavailableError: If optuna is not installed (extra ``proa-slim[search]``).
    """

    def __init__(
        self,
        space: SearchSpace,
        controller: str | Controller | optuna.samplers.BaseSampler = "annealing",
        storage: str | PathLike[str] | None = None,
        name: str = "search",
        maximize: bool = True,
        early_stop: str | optuna.pruners.BasePruner | None = None,
        constraint: Constraint | None = None,
        seed: int = 0,
    ) -> None:
        self.space, self.name, self.maximize = space, name, maximize
        self.storage = None if storage is None else fspath(storage)
        self._settings = (controller, early_stop, constraint, seed)
        self._study = self._open()
        self._retry_orphans()

    # -- trials ------------------------------------------------------------------------
    def ask(self) -> Trial:
        """Begin a trial. `tell` ends it."""
        from proa_slim.search import sampler

        trial = self._study.ask(sampler.distributions(self.space))
        trial.set_user_attr(sampler.OWNER, sampler.owner())
        tokens = [int(trial.params[name]) for name in sampler.names_of(self.space)]
        return Trial(self.space, trial, tokens)

    def tell(self, trial: Trial, reward: float | None) -> None:
        """End a trial; None means that it was stopped after its last report.

        Raises:
            InvalidArgumentError: If the reward is not finite; the trial then failed.
        """
        from optuna.trial import TrialState

        trial.trial.set_user_attr(_SECONDS, time.monotonic() - trial.begin)
        if reward is None:
            trial.trial.set_user_attr(_STOPPED, True)
            self._study.tell(trial.trial, state=TrialState.PRUNED)
            return
        try:
            value = _finite(reward, trial.arch)
        except InvalidArgumentError:
            self._study.tell(trial.trial, state=TrialState.FAIL)
            raise
        self._study.tell(trial.trial, value)

    def abandon(self, trial: Trial) -> None:
        """End a trial without a reward; its architecture is tried again next."""
        from optuna.trial import TrialState

        running = self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        if any(other.number == trial.number for other in running):
            self._study.tell(trial.trial, state=TrialState.FAIL)
            self._study.enqueue_trial(trial.trial.params)

    @property
    def trials(self) -> list[Record]:
        """What finished so far, in the order of numbers."""
        from proa_slim.search import sampler

        found = []
        for trial in self._study.get_trials(deepcopy=False):
            if trial.state not in sampler.FINISHED or trial.value is None:
                continue
            tokens = sampler.tokens_of(trial)
            notes = {
                key.removeprefix("note "): value
                for key, value in trial.user_attrs.items()
                if key.startswith("note ")
            }
            epochs = max(trial.intermediate_values, default=0)
            found.append(
                Record(
                    trial.number, tokens, self.space.describe(tokens), trial.value,
                    epochs, _STOPPED in trial.user_attrs, notes,
                    float(trial.user_attrs.get(_SECONDS, 0.0)),
                )
            )  # fmt: skip
        return found

    @property
    def best(self) -> Record:
        """The trial with the best reward, of those that were not stopped.

        Raises:
            PreconditionNotMetError: If none finished.
        """
        whole = [record for record in self.trials if not record.stopped]
        if not whole:
            raise PreconditionNotMetError(
                "[Search] expected a trial that was finished, got none"
            )
        sign = 1.0 if self.maximize else -1.0
        return max(whole, key=lambda r: (sign * r.reward, -r.number))

    # -- the loop ----------------------------------------------------------------------
    def run(
        self, evaluate: Evaluate, steps: int, workers: int = 1, progress: bool = True
    ) -> Record:
        """Search until the storage has `steps` finished trials.

        Args:
            evaluate: Takes a trial; returns its reward, and may report epochs.
            steps: In all, with those of earlier runs.
            workers: Processes. With several, `storage` must be a file or a database,
                and `evaluate` and the space such that pickle takes them.
            progress: Whether each trial writes a line to standard error.

        Returns:
            The best trial.

        Raises:
            InvalidArgumentError: If a number is not positive, a reward is not finite,
                or workers cannot share the search.
            PreconditionNotMetError: If a worker ended by an error.
        """
        if steps < 1 or workers < 1:
            raise InvalidArgumentError(
                f"[Search] expected positive steps and workers, got {steps} and "
                f"{workers}"
            )
        if workers > 1:
            self._run_workers(evaluate, steps, workers, progress)
        else:
            while (trial := self._next(steps)) is not None:
                self._evaluate(trial, evaluate)
                if progress:
                    self._print(trial, steps)
        return self.best

    def _next(self, steps: int) -> Trial | None:
        """A trial if fewer than `steps` were begun before it."""
        from optuna.trial import TrialState

        from proa_slim.search import sampler

        if len(sampler.counted(self._study.get_trials(deepcopy=False))) >= steps:
            return None
        trial = self.ask()
        # Another process may have proposed one at the same time.
        before = [
            other
            for other in sampler.counted(self._study.get_trials(deepcopy=False))
            if other.number < trial.number
        ]
        if len(before) < steps:
            return trial
        self._study.tell(trial.trial, state=TrialState.FAIL)
        return None

    def _evaluate(self, trial: Trial, evaluate: Evaluate) -> None:
        try:
            try:
                reward: float | None = evaluate(trial)
            except Stopped:
                reward = None
            self.tell(trial, reward)
        except BaseException:
            self.abandon(trial)
            raise

    def _print(self, trial: Trial, steps: int) -> None:
        records = self.trials
        known = {record.number: record for record in records}
        if trial.number not in known:
            return
        record, best = known[trial.number], self._best_reward(records)
        state = f" stopped after {record.epochs}" if record.stopped else ""
        left = (steps - len(records)) * record.seconds
        print(
            f"[search] {len(records)}/{steps}: {record.reward:.6g}{state} "
            f"(best {best:.6g}, {record.seconds:.1f} s, {left:.0f} s left) "
            f"{' '.join(f'{k}={v}' for k, v in record.arch.items())}",
            file=sys.stderr,
            flush=True,
        )

    def _best_reward(self, records: Sequence[Record]) -> float:
        rewards = [record.reward for record in records]
        return max(rewards) if self.maximize else min(rewards)

    def _run_workers(
        self, evaluate: Evaluate, steps: int, workers: int, progress: bool
    ) -> None:
        if self.storage is None:
            raise InvalidArgumentError(
                f"[Search] expected a storage that {workers} workers share, got None"
            )
        given = {
            "space": self.space, "storage": self.storage, "name": self.name,
            "maximize": self.maximize, "settings": self._settings,
        }  # fmt: skip
        try:
            content = pickle.dumps((given, evaluate, steps, progress))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InvalidArgumentError(
                "[Search] expected an evaluate function and a space that pickle takes "
                f"for {workers} workers (functions of a module), got: {error}"
            ) from None
        context = multiprocessing.get_context("spawn")
        processes = [
            context.Process(target=_work, args=(content,)) for _ in range(workers)
        ]
        for process in processes:
            process.start()
        try:
            for process in processes:
                process.join()
        except BaseException:
            _interrupt(processes)
            raise
        self._retry_orphans()
        failed = [process.exitcode for process in processes if process.exitcode]
        if failed:
            raise PreconditionNotMetError(
                f"[Search] expected all of {workers} workers to finish, got exit codes "
                f"{failed}; what they finished is in {self.storage}"
            )

    def report(self, path: str | PathLike[str]) -> Path:
        """Write a page with the trials; it reads no other file.

        Raises:
            PreconditionNotMetError: If no trial finished.
        """
        target = Path(path)
        best = self.best
        text = page(self.name, self.trials, best.number, self.space.size, self.maximize)
        target.write_text(text, encoding="utf-8")
        return target

    # -- storage -----------------------------------------------------------------------
    def _open(self) -> optuna.Study:
        try:
            import optuna
        except ImportError:
            raise UnavailableError(
                "[Search] expected optuna to be installed: pip install "
                "'proa-slim[search]'"
            ) from None
        from proa_slim.search.early_stop import pruner

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        controller, early_stop, constraint, seed = self._settings
        storage: Any = self.storage
        if storage is not None and "://" not in storage:
            from optuna.storages import JournalStorage
            from optuna.storages.journal import JournalFileBackend

            from proa_slim.search.sampler import KernelLock

            lock = KernelLock(f"{storage}.lock")
            storage = JournalStorage(JournalFileBackend(storage, lock))
        study = optuna.create_study(
            storage=storage,
            study_name=self.name,
            direction="maximize" if self.maximize else "minimize",
            sampler=self._sampler(controller, constraint, seed),
            pruner=pruner(early_stop),
            load_if_exists=True,
        )
        self._check_space(study)
        return study

    def _sampler(
        self, controller: Any, constraint: Constraint | None, seed: int
    ) -> optuna.samplers.BaseSampler:
        import optuna

        from proa_slim.search.sampler import ControllerSampler

        if isinstance(controller, optuna.samplers.BaseSampler):
            return controller
        if isinstance(controller, str):
            if controller not in CONTROLLERS:
                raise InvalidArgumentError(
                    "[Search] controller must be one of "
                    f"{', '.join(CONTROLLERS)}, got {controller!r}"
                )
            controller = CONTROLLERS[controller](seed=seed)
        ranges, initial = self.space.range_table(), self.space.init_tokens()
        controller.begin(ranges, initial, constraint)
        sign = 1.0 if self.maximize else -1.0
        return ControllerSampler(controller, self.space, sign)

    def _check_space(self, study: optuna.Study) -> None:
        own = dict(zip(self.space.names(), self.space.range_table(), strict=True))
        known: Mapping[str, int] | None = study.user_attrs.get(_SPACE)
        if known is None:
            study.set_user_attr(_SPACE, own)
        elif dict(known) != own:
            differ = [n for n in {**known, **own} if known.get(n) != own.get(n)]
            raise PreconditionNotMetError(
                f"[Search] expected trials of this space in {self.storage}, got those "
                f"of another: {differ[0]!r} has {known.get(differ[0], 'no')} values "
                f"there and {own.get(differ[0], 'none')} here"
            )

    def _retry_orphans(self) -> None:
        """Queue the architectures of trials whose process ended."""
        from optuna.trial import TrialState

        from proa_slim.search import sampler

        for trial in sampler.wait_for_owners(self._study):
            if sampler.is_orphan(trial):
                self._study.tell(trial.number, state=TrialState.FAIL)
                if len(trial.params) == len(sampler.names_of(self.space)):
                    self._study.enqueue_trial(trial.params)


def _interrupt(processes: Sequence[BaseProcess]) -> None:
    """End workers, each with its running trial abandoned.

    Ctrl-C in a terminal reached them, a signal to this process alone did not.
    """
    for process in processes:
        process.join(1 / len(processes))
    for process in processes:
        if os.name == "posix" and process.is_alive() and process.pid is not None:
            os.kill(process.pid, signal.SIGINT)
    for process in processes:
        process.join(5)
        if process.is_alive():
            process.terminate()


def _work(content: bytes) -> None:
    """A worker: the loop of one process."""
    given, evaluate, steps, progress = pickle.loads(content)
    controller, early_stop, constraint, seed = given.pop("settings")
    search = Search(
        **given, controller=controller, early_stop=early_stop, constraint=constraint,
        seed=seed,
    )  # fmt: skip
    search.run(evaluate, steps, progress=progress)
