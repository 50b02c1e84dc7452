"""How a search uses optuna: sampler, lock of the file, and owners of trials."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.storages.journal import JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState

from proa_slim.search.controllers import Controller
from proa_slim.search.space import SearchSpace

#: What a finished trial taught.
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
#: The process that runs a trial: host, number and start of the process.
OWNER = "owner"
#: How long a trial may be without.
UNSIGNED_SECONDS = 2.0


def names_of(space: SearchSpace) -> list[str]:
    """The parameters of trials, in order."""
    return [f"{i:03}:{name}" for i, name in enumerate(space.names())]


def distributions(space: SearchSpace) -> dict[str, BaseDistribution]:
    """One choice for each token."""
    ranges = zip(names_of(space), space.range_table(), strict=True)
    return {name: CategoricalDistribution(range(count)) for name, count in ranges}


def tokens_of(trial: FrozenTrial) -> list[int]:
    """The tokens of a trial."""
    return [int(trial.params[name]) for name in sorted(trial.params)]


def counted(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """The trials that count as steps: all but those that failed or wait."""
    states = (*FINISHED, TrialState.RUNNING)
    return [trial for trial in trials if trial.state in states]


class ControllerSampler(optuna.samplers.BaseSampler):
    """Lets a controller observe the trials that finished, and propose the next."""

    def __init__(self, controller: Controller, space: SearchSpace, sign: float) -> None:
        self._controller, self._sign = controller, sign
        self._names, self._space = names_of(space), distributions(space)
        self._observed: set[int] = set()

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """All choices."""
        return self._space

    def sample_relative(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        """The proposal."""
        trials = study.get_trials(deepcopy=False)
        self.observe(trials)
        before = [other for other in counted(trials) if other.number < trial.number]
        # What other processes are trying is not tried twice.
        self._controller.seen.update(tuple(tokens_of(other)) for other in before)
        tokens = self._controller.propose(len(before))
        return dict(zip(self._names, tokens, strict=True))

    def observe(self, trials: Sequence[FrozenTrial]) -> None:
        """Give the controller the finished trials that it has not seen, in the order in
        which they finished.
        """
        new = [
            trial
            for trial in trials
            if trial.state in FINISHED and trial.number not in self._observed
        ]
        new.sort(key=lambda t: (t.datetime_complete, t.number))
        for trial in new:
            self._observed.add(trial.number)
            if trial.value is not None:
                self._controller.observe(tokens_of(trial), self._sign * trial.value)

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Never used: the relative space has all parameters."""
        raise AssertionError(param_name)


class KernelLock(JournalFileOpenLock):
    """A lock of the system, which a killed process leaves no trace of.

    Args:
        path: Path of the file that is locked, made if need be.
    """

    def __init__(self, path: str) -> None:
        self._path, self._file = path, -1

    def acquire(self) -> bool:
        """Wait for the lock."""
        self._file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o666)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        return True

    def release(self) -> None:
        """Let others have it."""
        os.close(self._file)


# --- whether the process of a trial is alive


def owner() -> str:
    """This process."""
    return f"{socket.gethostname()} {os.getpid()} {_started(os.getpid())}"


def is_orphan(trial: FrozenTrial) -> bool:
    """Whether the process of a running trial is known to have ended.

    A trial without an owner was killed when it began: its process would have signed it.
    """
    given = str(trial.user_attrs.get(OWNER, "")).split()
    if len(given) != 3:
        age = datetime.now() - (trial.datetime_start or datetime.min)
        return age.total_seconds() > UNSIGNED_SECONDS
    return given[0] == socket.gethostname() and _started(int(given[1])) != given[2]


def wait_for_owners(study: optuna.Study) -> list[FrozenTrial]:
    """The running trials, once each has an owner or had the time to get one."""
    end = time.monotonic() + 2 * UNSIGNED_SECONDS
    while True:
        trials = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        unsigned = [t for t in trials if OWNER not in t.user_attrs and not is_orphan(t)]
        if not unsigned or time.monotonic() > end:
            return trials
        time.sleep(0.05)


def _started(process: int) -> str:
    """When a process started, in ticks since the machine did; "-" if it has ended."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return "-"
    return "-" if fields[0] == "Z" else fields[19]
