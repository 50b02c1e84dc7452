"""Early stopping of trials that do worse than others did after as many epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from proa.errors import InvalidArgumentError

if TYPE_CHECKING:
    import optuna

    from proa_slim.search.study import Trial


def median_stop(
    start_epoch: int = 1, startup_trials: int = 5
) -> optuna.pruners.BasePruner:
    """Stop a trial whose best value so far is below the median of what the others
    reported at the same epoch.

    Args:
        start_epoch: Epochs that every trial gets.
        startup_trials: Trials that are never stopped.
    """
    import optuna

    return optuna.pruners.MedianPruner(startup_trials, start_epoch)


def asha_stop(
    min_epochs: int = 1, reduction_factor: int = 3
) -> optuna.pruners.BasePruner:
    """Let one of `reduction_factor` trials pass each rung: `min_epochs` epochs, then
    `reduction_factor` times as many, and so on (asynchronous successive halving, Li et
    al., 2020).
    """
    import optuna

    return optuna.pruners.SuccessiveHalvingPruner(min_epochs, reduction_factor)


def pruner(given: Any) -> optuna.pruners.BasePruner:
    """What a search takes as `early_stop`.

    Raises:
        InvalidArgumentError: If it is none of these.
    """
    import optuna

    if given is None:
        return optuna.pruners.NopPruner()
    if given == "median":
        return median_stop()
    if given == "asha":
        return asha_stop()
    if isinstance(given, optuna.pruners.BasePruner):
        return given
    raise InvalidArgumentError(
        f"[Search] early_stop must be median, asha, a pruner or None, got {given!r}"
    )


class Strategy(Protocol):
    """A search with one trial in progress: `SANAS`, `RLNAS`."""

    @property
    def trial(self) -> Trial:
        """The trial in progress."""
        ...


class EarlyStopBase:
    """What a strategy of early stopping offers."""

    def get_status(
        self, step: int, result: float, epochs: int
    ) -> Literal["GOOD", "BAD"]:
        """Whether the architecture of this step is worth more epochs."""
        raise NotImplementedError

    def client_end(self) -> None:
        """Called at the end of a search; there is nothing to do."""


class MedianStop(EarlyStopBase):
    """GOOD or BAD for the architecture in progress, by the median of the others.

        stop = MedianStop(sanas, start_epoch=2)
        if stop.get_status(step, accuracy, epoch) == "BAD":
            break

    Args:
        strategy: `SANAS` or `RLNAS`.
        start_epoch: Epochs that every architecture gets.
        mode: ``maximize`` or ``minimize``: what the results are. They are compared as
            rewards, so ``minimize`` changes their sign.

    Raises:
        InvalidArgumentError: If there is no such mode.
    """

    def __init__(
        self, strategy: Strategy, start_epoch: int, mode: str = "maximize"
    ) -> None:
        if mode not in (
            "maximize",
            "maxmize",
            "minimize",
        ):  # the second is PaddleSlim's
            raise InvalidArgumentError(
                f"[MedianStop] mode must be maximize or minimize, got {mode!r}"
            )
        self._strategy, self.start_epoch = strategy, start_epoch
        self._sign = -1.0 if mode == "minimize" else 1.0

    def get_status(
        self, step: int, result: float, epochs: int
    ) -> Literal["GOOD", "BAD"]:
        """BAD if the best result of this architecture is below the median.

        Args:
            step: Step of the search; the trial in progress is known without it.
            result: After this epoch.
            epochs: The number of the epoch, from 0.
        """
        trial = self._strategy.trial
        stop = median_stop(self.start_epoch, 1)
        trial.is_bad(self._sign * result, epochs + 1)
        study = trial.trial.study
        frozen = next(
            t for t in study.get_trials(deepcopy=False) if t.number == trial.number
        )
        return "BAD" if stop.prune(study, frozen) else "GOOD"
