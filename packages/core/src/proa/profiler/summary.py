"""Tables of a result: overview, phases, operators, rates, memory, and the nesting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from proa.errors import InvalidArgumentError
from proa.profiler.rates import PeakRates, kernel_work, measure_peak_rates
from proa.profiler.result import Event, ProfilerResult, Span


class SortedKeys(Enum):
    """What tables are sorted by, the greatest first (the least, for a minimum)."""

    CPUTotal = 0
    CPUAvg = 1
    CPUMax = 2
    CPUMin = 3
    GPUTotal = 4
    GPUAvg = 5
    GPUMax = 6
    GPUMin = 7


class SummaryView(Enum):
    """The tables there are. Those of devices and of many machines are empty here."""

    DeviceView = 0
    OverView = 1
    ModelView = 2
    DistributedView = 3
    KernelView = 4
    OperatorView = 5
    MemoryView = 6
    MemoryManipulationView = 7
    UDFView = 8
    RateView = 9  # kernels against the machine's peak rates; not of Paddle


_UNITS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}


@dataclass
class Statistics:
    """Count, times in nanoseconds and allocated bytes of the events of one name."""

    calls: int = 0
    total: int = 0
    maximum: int = 0
    minimum: int = 1 << 62
    allocated: int = 0

    def add(self, event: Event) -> None:
        """Count one more event."""
        self.calls += 1
        self.total += event.duration
        self.maximum = max(self.maximum, event.duration)
        self.minimum = min(self.minimum, event.duration)
        self.allocated += event.allocated

    @property
    def average(self) -> float:
        """Nanoseconds of a call."""
        return self.total / max(self.calls, 1)


_ORDER: dict[str, Callable[[Statistics], float]] = {
    "Total": lambda s: -s.total,
    "Avg": lambda s: -s.average,
    "Max": lambda s: -s.maximum,
    "Min": lambda s: s.minimum,
}


def gather(events: Iterable[Event]) -> dict[str, Statistics]:
    """Statistics of events by title."""
    found: defaultdict[str, Statistics] = defaultdict(Statistics)
    for event in events:
        found[event.title].add(event)
    return dict(found)


def _rows(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        first, *rest = zip(cells, widths, strict=True)
        return "  ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in rest)])

    rule = "-" * len(line(head))
    text = [title.center(len(rule), "-"), line(head), rule, *map(line, rows), rule]
    return "\n".join(text)


def _size(number: int) -> str:
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(number) >= scale:
            return f"{number / scale:.2f} {unit}"
    return f"{number} B"


class Summary:
    """Makes the tables of one result.

    Args:
        result: What was recorded.
        sorted_by: Order of rows.
        op_detail: Show kernels and preparation below the ops.
        time_unit: s, ms, us or ns.
    """

    def __init__(
        self,
        result: ProfilerResult,
        sorted_by: SortedKeys = SortedKeys.CPUTotal,
        op_detail: bool = True,
        time_unit: str = "ms",
    ) -> None:
        if time_unit not in _UNITS:
            raise InvalidArgumentError(
                f"[Profiler.summary] time_unit must be one of {list(_UNITS)}, got "
                f"{time_unit!r}"
            )
        if not isinstance(sorted_by, SortedKeys):
            raise InvalidArgumentError(
                "[Profiler.summary] sorted_by must be a member of SortedKeys, got "
                f"{sorted_by!r}"
            )
        self.result, self.unit, self.op_detail = result, time_unit, op_detail
        self.order = _ORDER[sorted_by.name[3:]]
        first, last = result.time_range()
        self.whole = max(last - first, 1)

    def time(self, nanoseconds: float) -> str:
        """In the unit of the tables."""
        return f"{nanoseconds / _UNITS[self.unit]:.3f}"

    def cells(self, name: str, s: Statistics, whole: int) -> list[str]:
        """One row."""
        return [
            name,
            str(s.calls),
            *map(self.time, (s.total, s.average, s.maximum, s.minimum)),
            f"{100 * s.total / max(whole, 1):.1f}",
            _size(s.allocated),
        ]

    def head(self, first: str) -> list[str]:
        """Names of the columns."""
        u = self.unit
        return [first, "Calls", f"Total {u}", f"Avg {u}", f"Max {u}", f"Min {u}",
                "%", "Memory"]  # fmt: skip

    def _sorted(self, found: dict[str, Statistics]) -> list[tuple[str, Statistics]]:
        return sorted(found.items(), key=lambda item: self.order(item[1]))

    def _of_kind(self, *kinds: str) -> list[Event]:
        return [e for e in self.result.events if e.kind in kinds]

    def _table(self, title: str, first: str, events: list[Event]) -> str:
        if not events:
            return ""
        found = gather(events)
        whole = sum(s.total for s in found.values())
        rows = [self.cells(name, s, whole) for name, s in self._sorted(found)]
        return _rows(title, self.head(first), rows)

    def overview(self) -> str:
        """Kinds of events, and what the framework itself took."""
        rows: list[list[str]] = []
        for kind, title in (
            ("step", "Steps"), ("op", "Operators"), ("kernel", "Kernels"),
            ("prepare", "Preparation"), ("backward", "Backward nodes"),
            ("layer", "Layers"), ("user", "User events"),
        ):  # fmt: skip
            outer = self._outermost(kind)
            if outer:
                s = Statistics()
                for event in outer:
                    s.add(event)
                rows.append(self.cells(title, s, self.whole))
        overhead = self.overhead()
        if overhead is not None:
            s = Statistics(len(self._outermost("op")), overhead, overhead, 0)
            cells = self.cells("Framework overhead", s, self.whole)
            rows.append([*cells[:4], "", "", cells[6], ""])
        return _rows("Overview", self.head("Kind"), rows) if rows else ""

    def _outermost(self, kind: str) -> list[Event]:
        found: list[Event] = []

        def visit(spans: list[Span]) -> None:
            for span in spans:
                if span.event.kind == kind:
                    found.append(span.event)
                else:
                    visit(span.children)

        visit(self.result.spans())
        return found

    def overhead(self) -> int | None:
        """Nanoseconds of ops that no kernel took; None if kernels were not recorded."""
        kernels = self._of_kind("kernel")
        if not kernels:
            return None
        inside = sum(e.duration for e in self._outermost("op"))
        return max(inside - sum(e.duration for e in kernels), 0)

    def model(self) -> str:
        """Phases of a step: data, forward, backward, optimization."""
        phases = [
            e._replace(name="Forward") for e in self._outermost("layer")
        ] + self._of_kind("phase")
        if not phases:
            return ""
        found = gather(phases)
        rest = Statistics(1, self.whole - sum(s.total for s in found.values()))
        rows = [self.cells(n, s, self.whole) for n, s in self._sorted(found)]
        if rest.total > 0:
            rows.append([*self.cells("Other", rest, self.whole)[:3], "", "", "",
                         f"{100 * rest.total / self.whole:.1f}", ""])  # fmt: skip
        return _rows("Model", self.head("Phase"), rows)

    def operators(self) -> str:
        """Operators, with what they directly contain if op_detail."""
        inner: defaultdict[str, list[Event]] = defaultdict(list)
        events: list[Event] = []
        for root in self.result.spans():
            for _, span in root.walk():
                if span.event.kind not in ("op", "backward"):
                    continue
                events.append(span.event)
                for child in span.children:
                    inner[span.event.title].append(child.event)
        if not events:
            return ""
        found = gather(events)
        whole = sum(e.duration for e in self._outermost("op")) or 1
        rows: list[list[str]] = []
        for name, s in self._sorted(found):
            rows.append(self.cells(name, s, whole))
            if self.op_detail:
                own = gather(
                    e._replace(name=f"{e.name} [{e.kind}]", kind="op")
                    for e in inner[name]
                )
                rows += [self.cells("  " + n, t, s.total) for n, t in self._sorted(own)]
        return _rows("Operators", self.head("Name"), rows)

    def nested(self) -> str:
        """Layers, phases and events of the user with all that they contain, added up
        by the path of names.
        """
        paths: dict[tuple[str, ...], Statistics] = {}

        def add(spans: list[Span], path: tuple[str, ...]) -> None:
            for span in spans:
                if span.event.kind in ("kernel", "prepare") and not self.op_detail:
                    continue
                title, kind = span.event.title, span.event.kind
                own = (*path, f"{title.partition('#')[0]} [{kind}]")
                paths.setdefault(own, Statistics()).add(span.event)
                add(span.children, own)

        add(self.result.spans(), ())
        rows: list[list[str]] = []

        def show(path: tuple[str, ...], whole: int) -> None:
            below = {p[-1]: s for p, s in paths.items() if p[:-1] == path}
            for name, s in self._sorted(below):
                rows.append(self.cells("  " * len(path) + name, s, whole))
                show((*path, name), s.total)

        show((), self.whole)
        return _rows("Nesting", self.head("Event"), rows) if rows else ""

    def text(self, views: Any = None) -> str:
        """The tables of these views (all if None), one below the other."""
        chosen = list(SummaryView) if views is None else views
        if isinstance(chosen, SummaryView):
            chosen = [chosen]
        tables: list[str] = []
        for view in SummaryView:
            if view in chosen:
                tables += self._of_view(view)
        return "\n\n".join(t for t in tables if t)

    def _of_view(self, view: SummaryView) -> list[str]:
        if view is SummaryView.OverView:
            return [self.overview()]
        if view is SummaryView.ModelView:
            return [self.model()]
        if view is SummaryView.KernelView:
            return [self._table("Kernels", "Kernel", self._of_kind("kernel"))]
        if view is SummaryView.OperatorView:
            return [self.operators()]
        if view is SummaryView.MemoryView:
            return [self.memory()]
        if view is SummaryView.RateView:
            return [self.rates()]
        if view is SummaryView.UDFView:
            own = self._of_kind("user", "layer")
            return [self._table("Layers and user events", "Event", own), self.nested()]
        return []

    def rates(self, peak: PeakRates | None = None) -> str:
        """Kernels, longest first, with their rates and their share of peak, which
        is measured if it is not given. Empty if shapes were not noted.
        """
        kernels = [e for e in self._of_kind("kernel") if "->" in e.detail]
        if not kernels:
            return ""
        found = kernel_work(kernels, measure_peak_rates() if peak is None else peak)
        whole = sum(w.seconds for w in found.values())
        head = [
            "Kernel",
            "Calls",
            f"Total {self.unit}",
            "%",
            "GFLOP/s",
            "GB/s",
            "% of peak",
        ]
        rows = [
            [
                name, str(w.calls), self.time(w.nanoseconds),
                f"{100 * w.seconds / whole:.1f}",
                f"{1e-9 * w.operations / w.seconds:.1f}" if w.operations else "",
                f"{1e-9 * w.bytes / w.seconds:.1f}",
                f"{100 * w.minimum / w.seconds:.0f}",
            ]
            for name, w in sorted(found.items(), key=lambda i: -i[1].nanoseconds)
        ]  # fmt: skip
        return _rows("Rates", head, rows)

    def memory(self) -> str:
        """Bytes in use: at the start, at most, at the end, and by operator."""
        if not self.result.events:
            return ""
        by_time = sorted(self.result.events, key=lambda e: e.end)
        sizes = [e.bytes_after for e in by_time]
        rows = [
            ["at the start", _size(min(self.result.events, key=lambda e: e.start)[5])],
            ["at most", _size(max(sizes))],
            ["at the end", _size(sizes[-1])],
        ]
        found = gather(self._of_kind("op"))
        by_size = sorted(found.items(), key=lambda item: -item[1].allocated)
        rows += [[f"by {n}", _size(s.allocated)] for n, s in by_size if s.allocated]
        return _rows("Memory", ["Allocated", "Bytes"], rows)
