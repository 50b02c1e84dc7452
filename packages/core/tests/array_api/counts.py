"""How many cases of the array API standard pass here, and in NumPy's namespace.

    cd packages && python -m core.tests.array_api.counts

The cases are those of `conformance`, the same for both.
"""

from __future__ import annotations

import collections
import warnings
from typing import Any

import numpy as np

from proa import array_api

from .conformance import cases, failures


def main() -> None:
    """Print the counts by group, and what fails."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    groups = collections.Counter(case.name.split()[0] for case in cases())
    found: dict[str, dict[str, str]] = {}
    namespaces: dict[str, Any] = {"proa.array_api": array_api, "numpy": np}
    for name, namespace in namespaces.items():
        found[name] = failures(namespace)
    print("group     cases  " + "  ".join(f"{name:>14}" for name in found))
    for group, count in [*groups.items(), ("all", groups.total())]:
        passed = [
            count - sum(group in ("all", case.split()[0]) for case in failed)
            for failed in found.values()
        ]
        print(f"{group:8} {count:6}  " + "  ".join(f"{n:14}" for n in passed))
    for name, failed in found.items():
        for case, reason in failed.items():
            print(f"{name} fails {case}: {reason}")


if __name__ == "__main__":
    main()
