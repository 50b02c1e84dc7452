"""A search in a process of its own, which tests kill."""

import os
import sys
import time
from pathlib import Path

from proa_slim.search import ChoiceSpace, Search


def build(arch):
    return []


def space():
    return ChoiceSpace({f"c{i}": range(5) for i in range(4)}, build)


def reward(trial):
    """The negative squared distance of the tokens from 3; writes a file that says which
    process evaluated them.
    """
    time.sleep(float(os.environ.get("SEARCH_SLEEP", "0")))
    note = Path(os.environ["SEARCH_NOTES"]) / f"{time.monotonic_ns()}.{os.getpid()}"
    note.write_text(" ".join(map(str, trial.tokens)))
    return -sum((t - 3) ** 2 for t in trial.tokens)


def main():
    storage, controller, steps, *workers = sys.argv[1:]
    count = int(workers[0]) if workers else 1
    Search(space(), controller, storage).run(reward, int(steps), count)


if __name__ == "__main__":
    main()
