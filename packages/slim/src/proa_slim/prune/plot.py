"""Curves of sensitivities, with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath

from proa.errors import InvalidArgumentError, UnavailableError


def plot_sensitivities(
    sensitivities: Mapping[str, Mapping[float, float]], path: str | PathLike[str]
) -> None:
    """Draw the loss of each weight over the ratio of channels removed.

    Args:
        sensitivities: What `sensitive` or `load_sensitivities` gave.
        path: A file whose ending says its format: png, svg, pdf.

    Raises:
        InvalidArgumentError: If there are no sensitivities.
        UnavailableError: If matplotlib is not installed (extra ``proa-slim[plot]``).
    """
    if not sensitivities:
        raise InvalidArgumentError("[plot_sensitivities] expected losses, got none")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UnavailableError(
            "[plot_sensitivities] expected matplotlib to be installed: pip install "
            "'proa-slim[plot]'"
        ) from None
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for name, losses in sensitivities.items():
        ratios = sorted(losses)
        axes.plot(ratios, [losses[r] for r in ratios], marker=".", label=name)
    axes.set_xlabel("share of channels removed")
    axes.set_ylabel("loss of the metric, as a share of it")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="x-small", ncols=1 + len(sensitivities) // 20)
    figure.savefig(fspath(path))
