"""What every example shares: its command line, its progress, its learning curve.

Each example is one file, run as ``python examples/NAME``. It prints a line now and
then, writes ``curve.json`` and ``curve.png`` into its output folder, and ends with
exit code 1 if it did not reach the figure it states.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Curve:
    """The measurements of one run, and the figure it is to reach.

    Args:
        name: The example's name.
        figure: The measurement that is to reach the goal.
        goal: What it is to reach.
        greater: Whether greater is better.
        folder: Where the curve is written.
    """

    name: str
    figure: str
    goal: float
    greater: bool
    folder: Path
    points: list[dict[str, float]] = field(default_factory=list)
    begin: float = field(default_factory=time.perf_counter)

    def add(self, step: int, **measured: float) -> None:
        """Note measurements and print them."""
        seconds = time.perf_counter() - self.begin
        self.points.append({"step": step, "seconds": round(seconds, 2), **measured})
        texts = [f"{key} {value:.4f}" for key, value in measured.items()]
        print(f"step {step:5}  {seconds:5.0f} s  {'  '.join(texts)}", flush=True)

    def finish(self) -> int:
        """Write the curve, say whether the goal is reached at the end; returns the exit
        code."""
        reached = self.points[-1][self.figure]
        passed = reached >= self.goal if self.greater else reached <= self.goal
        self.folder.mkdir(parents=True, exist_ok=True)
        summary = {
            "example": self.name,
            "figure": self.figure,
            "goal": self.goal,
            "reached": reached,
            "kept": bool(passed),
            "seconds": self.points[-1]["seconds"],
            "cpu_seconds": round(time.process_time(), 2),
            "points": self.points,
        }
        (self.folder / "curve.json").write_text(json.dumps(summary, indent=1))
        self._draw()
        sign = ">=" if self.greater else "<="
        print(
            f"{self.name}: {self.figure} {reached:.4f}, goal {sign} {self.goal}: "
            f"{'reached' if passed else 'NOT REACHED'} in {summary['seconds']:.0f} s "
            f"({summary['cpu_seconds']:.0f} s of CPU); {self.folder / 'curve.png'}"
        )
        return 0 if passed else 1

    def _draw(self) -> None:
        try:
            import matplotlib
        except ImportError:
            print("matplotlib is not installed: no curve.png")
            return
        matplotlib.use("Agg")
        from matplotlib import pyplot

        keys = [key for key in self.points[-1] if key not in ("step", "seconds")]
        figure, axes = pyplot.subplots(
            1, len(keys), figsize=(4.5 * len(keys), 3.2), squeeze=False
        )
        for axis, key in zip(axes[0], keys, strict=True):
            pairs = [(p["step"], p[key]) for p in self.points if key in p]
            axis.plot(*zip(*pairs, strict=True), marker=".")
            axis.set_xlabel("step")
            axis.set_title(key)
            axis.grid(alpha=0.3)
            if key == self.figure:
                axis.axhline(self.goal, linestyle="--", color="tab:green")
        figure.suptitle(self.name)
        figure.tight_layout()
        figure.savefig(self.folder / "curve.png", dpi=110)
        pyplot.close(figure)


def options(name: str, description: str) -> argparse.ArgumentParser:
    """The command line that all examples have."""
    parser = argparse.ArgumentParser(prog=f"examples/{name}", description=description)
    parser.add_argument(
        "--out", type=Path, default=Path("build/examples") / name, help="output folder"
    )
    parser.add_argument("--seed", type=int, default=0)
    return parser
