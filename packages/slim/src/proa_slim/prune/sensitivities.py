"""Sensitivities: what the metric loses when one layer alone loses channels."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from proa.errors import InvalidArgumentError, NotFoundError

#: By the name of a weight, the loss by the ratio of channels removed: with m0 the
#: metric of the whole network and m that without the channels, (m0 - m) / m0.
Sensitivities = dict[str, dict[float, float]]
#: Ratios that are measured unless others are given.
RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

_FORMAT = "proa-sensitivities-1"


class SensitivityFile:
    """Losses in a file that is replaced in one step after each evaluation.

    Args:
        path: A JSON file; None keeps them in memory alone.
        fingerprint: That of network and criterion. A file of another is refused.

    Raises:
        InvalidArgumentError: If the file has no sensitivities, or of another network.
    """

    def __init__(self, path: str | PathLike[str] | None, fingerprint: str = "") -> None:
        self.path = None if path is None else Path(path)
        self.fingerprint = fingerprint
        self.baseline: float | None = None
        self.losses: Sensitivities = {}
        if self.path is not None and self.path.exists():
            content = _read(self.path)
            if fingerprint and content["fingerprint"] != fingerprint:
                raise InvalidArgumentError(
                    f"[sensitive] expected sensitivities of this network and "
                    f"criterion, got those of another in {self.path}; remove the file "
                    "to begin again"
                )
            self.fingerprint = str(content["fingerprint"])
            self.baseline, self.losses = content["baseline"], _losses(content)

    def require_baseline(self, where: str) -> float:
        """The metric of the whole network.

        Raises:
            InvalidArgumentError: If it is 0, of which no share can be lost, or not
                finite.
        """
        baseline = self.baseline
        if baseline is None or not math.isfinite(baseline) or baseline == 0:
            raise InvalidArgumentError(
                f"[{where}] expected a metric other than 0, got {baseline}"
            )
        return baseline

    def measured(self, where: str, name: str, ratio: float, metric: float) -> float:
        """Add an evaluation; returns the loss.

        Raises:
            InvalidArgumentError: If the metric is not finite; names the weight.
        """
        if not math.isfinite(metric):
            raise InvalidArgumentError(
                f"[{where}] expected a finite metric, got {metric} without a share of "
                f"{ratio:g} of the channels of {name!r}"
            )
        baseline = self.require_baseline(where)
        loss = (baseline - metric) / baseline
        self.losses.setdefault(name, {})[ratio] = loss
        self.save()
        return loss

    def save(self) -> None:
        """Write the file."""
        if self.path is None:
            return
        content = {
            "format": _FORMAT,
            "fingerprint": self.fingerprint,
            "baseline": self.baseline,
            "sensitivities": {
                name: {repr(ratio): loss for ratio, loss in sorted(losses.items())}
                for name, losses in self.losses.items()
            },
        }
        partial = self.path.with_name(f"{self.path.name}.partial")
        partial.write_text(json.dumps(content, indent=1))
        os.replace(partial, self.path)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
        if content["format"] == _FORMAT:
            _losses(content)
            return dict(content)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise InvalidArgumentError(
        f"[load_sensitivities] expected a file that `sensitive` wrote, got {path}"
    )


def _losses(content: Mapping[str, Any]) -> Sensitivities:
    found = content["sensitivities"]
    if not isinstance(found, dict):
        raise TypeError
    return {
        str(name): {float(ratio): float(loss) for ratio, loss in losses.items()}
        for name, losses in found.items()
    }


def load_sensitivities(sensitivities_file: str | PathLike[str]) -> Sensitivities:
    """Sensitivities that `sensitive` wrote.

    Raises:
        NotFoundError: If there is no such file.
        InvalidArgumentError: If it has none.
    """
    path = Path(sensitivities_file)
    if not path.exists():
        raise NotFoundError(f"[load_sensitivities] expected a file, got {path}")
    return _losses(_read(path))


def merge_sensitive(
    sensitivities: Iterable[str | PathLike[str] | Mapping[str, Mapping[float, float]]],
) -> Sensitivities:
    """One table of several files or tables; later ones win."""
    merged: Sensitivities = {}
    for item in sensitivities:
        table: Mapping[str, Mapping[float, float]] = (
            item if isinstance(item, Mapping) else load_sensitivities(item)
        )
        for name, losses in table.items():
            merged.setdefault(name, {}).update(losses)
    return merged


def get_ratios_by_loss(
    sensitivities: Mapping[str, Mapping[float, float]], loss: float
) -> dict[str, float]:
    """For each weight the ratio up to which its loss is at most `loss`.

    Losses are linear between measured ratios, and 0 at ratio 0; a loss that falls again
    at a higher ratio counts as it was.
    """
    found = {}
    for name, losses in sensitivities.items():
        best, highest = 0.0, 0.0
        for ratio, value in sorted(losses.items()):
            if value > loss:
                share = max(loss - highest, 0.0) / (value - highest)
                best += share * (ratio - best)
                break
            best, highest = ratio, max(highest, value)
        found[name] = best
    return found
