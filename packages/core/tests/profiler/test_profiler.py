"""The profiler: what is recorded when, how it nests, and what tables and traces say."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import proa
from proa import _core, nn, profiler
from proa.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
    PreconditionNotMetError,
    UnavailableError,
    UnimplementedError,
)
from proa.profiler import (
    Profiler,
    ProfilerState,
    ProfilerTarget,
    RecordEvent,
    SortedKeys,
    SummaryView,
    make_scheduler,
    rates,
)
from proa.profiler.result import Event
from proa.utils import profiler as old


def quiet(_: Profiler) -> None:
    """Writes no trace."""


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 1)

    def forward(self, x: proa.Tensor) -> proa.Tensor:
        return self.second(nn.functional.relu(self.first(x)))


def train_step(net: Net, step: Any) -> None:
    with RecordEvent("outer"), RecordEvent("inner"):
        loss = net(proa.ones([4, 8])).sum()
    loss.backward()
    step.step()
    step.clear_grad()


@pytest.fixture
def recorded() -> Profiler:
    net = Net()
    step = proa.optimizer.SGD(0.1, parameters=net.parameters())
    with Profiler(on_trace_ready=quiet, record_shapes=True, detail=2) as p:
        for _ in range(2):
            train_step(net, step)
            p.step(num_samples=4)
    return p


def test_nothing_is_recorded_while_no_profiler_runs():
    assert not _core.events_on()
    with RecordEvent("nothing"):
        proa.ones([2]) + 1
    assert _core.stop_events() == []


@pytest.mark.feature("L254")
@pytest.mark.feature("L255")
def test_events_nest_as_the_program_does(recorded):
    names = {}
    for root in recorded.profiler_result.spans():
        path: list[str] = []
        for depth, span in root.walk():
            path = [*path[:depth], f"{span.event.title}:{span.event.kind}"]
            names["/".join(path)] = span
    found = "\n".join(names)
    layer = r"net_\d+:layer/linear_\d+:layer"
    assert re.search(
        rf"Step#0:step/outer:user/inner:user/{layer}/linear:op/linear:kernel", found
    )
    assert re.search(
        r"Step#1:step/Backward:phase/linear.backward:backward/.*:op", found
    )
    assert re.search(r"Step#1:step/Optimization:phase/sgd_:op/sgd_:kernel", found)
    assert "linear:op/linear:prepare" in found
    for span in names.values():
        assert 0 <= span.own_time <= span.event.duration
    inputs = {e.detail for e in recorded.profiler_result.events if e.name == "relu"}
    assert "float32 (4, 16)" in inputs


@pytest.mark.feature("L256")
@pytest.mark.parametrize(
    ("option", "kinds"),
    [
        ("Default", {"op"}),
        ("OpDetail", {"op", "kernel"}),
        ("AllOpDetail", {"op", "kernel", "prepare"}),
    ],
)
def test_the_level_selects_what_is_recorded(option, kinds, tmp_path, capsys):
    path = tmp_path / "trace"
    with old.profiler("CPU", "total", str(path), tracer_option=option):
        proa.matmul(proa.ones([3, 4]), proa.ones([4, 5]))
    result = profiler.load_profiler_result(str(path))
    assert {e.kind for e in result.events} == kinds
    assert "matmul" in capsys.readouterr().out


def test_the_overview_shows_the_frameworks_share(recorded, capsys):
    recorded.summary(views=SummaryView.OverView)
    out = capsys.readouterr().out
    assert re.search(r"Framework overhead +\d+ +\d+\.\d+", out)
    for kind in ("Steps", "Operators", "Kernels", "Backward nodes", "Layers"):
        assert re.search(rf"{kind} +\d+ ", out)


@pytest.mark.feature("L254")
def test_times_are_those_that_passed():
    with Profiler(on_trace_ready=quiet) as p:
        start = time.perf_counter_ns()
        with RecordEvent("slept"):
            time.sleep(0.02)
        took = time.perf_counter_ns() - start
    (event,) = [e for e in p.profiler_result.events if e.name == "slept"]
    assert 20_000_000 <= event.duration <= took  # nanoseconds


@pytest.mark.feature("L255")
def test_the_tables_nest_and_add_up(recorded, capsys):
    recorded.summary(views=[SummaryView.UDFView, SummaryView.ModelView])
    out = capsys.readouterr().out
    assert re.search(r"\n  outer \[user\] +2 .*\n    inner \[user\] +2 ", out)
    assert re.search(r"\nForward +2 ", out) and re.search(r"\nBackward +2 ", out)
    assert re.search(r"\nOptimization +2 ", out)


@pytest.mark.parametrize("sorted_by", list(SortedKeys))
def test_rows_are_sorted(recorded, capsys, sorted_by):
    recorded.summary(sorted_by, op_detail=False, time_unit="us",
                     views=SummaryView.KernelView)  # fmt: skip
    lines = capsys.readouterr().out.splitlines()[3:-1]
    column = {"Total": -6, "Avg": -5, "Max": -4, "Min": -3}[sorted_by.name[3:]]
    # The memory column has two words.
    values = [float(line.split()[column - 1]) for line in lines]
    falling = sorted(values, reverse=not sorted_by.name.endswith("Min"))
    assert values == falling and len(values) > 3


def test_threads_are_distinguished(capsys):
    with Profiler(on_trace_ready=quiet) as p:
        thread = threading.Thread(target=lambda: proa.exp(proa.ones([2])))
        thread.start()
        thread.join()
        proa.sqrt(proa.ones([2]))
    assert len(p.profiler_result.threads()) == 2
    p.summary(thread_sep=True, views=SummaryView.OperatorView)
    out = capsys.readouterr().out
    first, second = re.findall(r"Thread \d+\n(.*?)(?=Thread|\Z)", out, re.S)
    assert ("exp" in first) != ("exp" in second)
    assert ("sqrt" in first) != ("sqrt" in second)


def test_the_memory_column_counts_retained_bytes():
    retained = []
    with Profiler(on_trace_ready=quiet) as p, RecordEvent("keeps"):
        retained.append(proa.ones([1000, 256]))
        proa.zeros([1000, 256])
    (event,) = [e for e in p.profiler_result.events if e.name == "keeps"]
    assert 1_024_000 <= event.allocated < 1_400_000


@pytest.mark.feature("L254")
def test_the_trace_is_in_the_trace_event_format(recorded, tmp_path):
    path = tmp_path / "trace.json"
    recorded.export(str(path))
    trace = json.loads(path.read_text())
    phases = {e["ph"] for e in trace["traceEvents"]}
    assert phases == {"X", "M", "C"}
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str) and isinstance(event["pid"], int)
        if event["ph"] == "X":
            assert event["dur"] >= 0 and event["ts"] > 0 and event["tid"] > 0
    again = profiler.load_profiler_result(str(path))
    assert again.events == recorded.profiler_result.events


def test_traces_are_written_when_they_are_ready(tmp_path):
    ready = profiler.export_chrome_tracing(str(tmp_path / "log"), "worker")
    with Profiler(
        scheduler=make_scheduler(closed=1, ready=0, record=1, repeat=2),
        on_trace_ready=ready,
    ) as p:
        for _ in range(6):
            proa.ones([2])
            p.step()
    files = sorted((tmp_path / "log").iterdir())
    assert len(files) == 2 and files[0].name.startswith("worker_time_")
    assert all(json.loads(f.read_text())["traceEvents"] for f in files)


C, R, A, B = (
    ProfilerState.CLOSED, ProfilerState.READY, ProfilerState.RECORD,
    ProfilerState.RECORD_AND_RETURN,
)  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "states"),
    [
        ({"closed": 1, "ready": 1, "record": 2}, [C, R, A, B, C, R, A, B]),
        ({"closed": 0, "ready": 0, "record": 1}, [B, B, B]),
        ({"closed": 1, "ready": 0, "record": 1, "repeat": 1}, [C, B, C, C, C]),
        (
            {"closed": 0, "ready": 1, "record": 1, "repeat": 2, "skip_first": 2},
            [C, C, R, B, R, B, C],
        ),
    ],
)
def test_schedules(arguments, states):
    scheduler = make_scheduler(**arguments)
    assert [scheduler(i) for i in range(len(states))] == states


def test_only_the_scheduled_steps_are_recorded():
    results = []
    with Profiler(
        scheduler=(1, 3), on_trace_ready=lambda p: results.append(p.profiler_result)
    ) as p:
        for i in range(5):
            with RecordEvent(f"step {i}"):
                proa.ones([2])
            p.step()
    (result,) = results
    names = {e.name for e in result.events if e.kind == "user"}
    assert names == {"step 1", "step 2"}


def test_events_are_decorators_and_pairs_of_calls():
    @RecordEvent("decorated")
    def work() -> None:
        proa.ones([1])

    with Profiler(on_trace_ready=quiet) as p:
        work()
        event = RecordEvent("paired")
        event.begin()
        event.begin()
        event.end()
        event.end()
    names = [e.name for e in p.profiler_result.events if e.kind == "user"]
    assert names == ["decorated", "paired", "paired"]
    with pytest.raises(PreconditionNotMetError, match=r"begin\(\) of paired before"):
        event.end()


def test_steps_are_timed_without_recording():
    data = [proa.ones([1]) for _ in range(8)]

    class Slow(proa.io.Dataset):
        def __getitem__(self, i: int) -> Any:
            time.sleep(0.002)
            return data[i].numpy()

        def __len__(self) -> int:
            return len(data)

    with Profiler(timer_only=True) as p:
        for _ in proa.io.DataLoader(Slow(), batch_size=2):
            p.step(num_samples=2)
        text = p.step_info(unit="images")
    found = re.fullmatch(
        r"reader_cost: (\S+) s batch_cost: (\S+) s ips: (\S+) images/s", text
    )
    assert found is not None
    waited, cost, rate = map(float, found.groups())
    assert 0.004 <= waited <= cost and rate == pytest.approx(2 / cost, rel=0.01)
    assert p.profiler_result is None


def test_a_planned_program_is_one_event():
    f = proa.jit.to_static(lambda x: proa.exp(x) * 2.0)
    f(proa.ones([3]))
    with Profiler(on_trace_ready=quiet) as p:
        f(proa.ones([3]))
    assert "program" in {e.name for e in p.profiler_result.events if e.kind == "op"}


def test_loading_data_is_an_event():
    with Profiler(on_trace_ready=quiet) as p:
        list(proa.io.DataLoader(list(range(6)), batch_size=3))
    loads = [e for e in p.profiler_result.events if e.name == "DataLoader"]
    assert len(loads) == 2 or len(loads) == 3  # the last finds the end


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: Profiler(targets=[ProfilerTarget.GPU]), UnavailableError, "CPU"),
        (lambda: Profiler(scheduler=(3, 1)), InvalidArgumentError, r"got \(3, 1\)"),
        (lambda: Profiler().summary(), PreconditionNotMetError, "got none"),
        (lambda: Profiler().export("x"), PreconditionNotMetError, "got none"),
        (lambda: make_scheduler(closed=0, ready=0, record=0), ValueError, "got 0"),
        (lambda: make_scheduler(closed=-1, ready=0, record=1), ValueError, "got -1"),
        (lambda: RecordEvent(1), InvalidTypeError, "got int"),
        (lambda: profiler.export_protobuf("x"), UnimplementedError, "chrome"),
        (lambda: profiler.load_profiler_result("/no"), NotFoundError, "got /no"),
        (lambda: profiler.load_profiler_result(__file__), ValueError, "a trace of"),
        (lambda: old.start_profiler("GPU"), UnavailableError, "CPU"),
        (lambda: old.start_profiler("CPU", "All"), ValueError, "AllOpDetail"),
        (lambda: old.stop_profiler("fastest"), ValueError, "got 'fastest'"),
        (lambda: old.cuda_profiler("x"), UnavailableError, "CUDA"),
        (lambda: old.ProfilerOptions({"a": 1}), ValueError, "got 'a'"),
    ],
)
def test_invalid_calls_are_rejected(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_invalid_views_of_a_result_are_rejected(recorded, tmp_path):
    with pytest.raises(InvalidArgumentError, match="got 'h'"):
        recorded.summary(time_unit="h")
    with pytest.raises(InvalidArgumentError, match="SortedKeys, got 3"):
        recorded.summary(sorted_by=3)
    with pytest.raises(UnimplementedError, match="got 'pb'"):
        recorded.export(str(tmp_path / "x"), format="pb")
    with pytest.raises(InvalidArgumentError, match="got 'xml'"):
        recorded.export(str(tmp_path / "x"), format="xml")
    assert not list(Path(tmp_path).iterdir())


@pytest.mark.feature("L254")
def test_the_profiler_of_2_1_records_a_range_of_batches(tmp_path, capsys):
    path = tmp_path / "profile"
    options = old.ProfilerOptions({
        "state": "CPU", "batch_range": [1, 2], "profile_path": str(path),
        "sorted_key": "max",
    })  # fmt: skip
    with old.Profiler(options=options) as p:
        for i in range(4):
            with RecordEvent(f"batch {i}"):
                proa.ones([1])
            p.record_step()
    names = {e.name for e in profiler.load_profiler_result(str(path)).events}
    assert "batch 1" in names and not names & {"batch 0", "batch 2", "batch 3"}
    assert "batch 1" in capsys.readouterr().out
    assert old.get_profiler() is old.get_profiler()


def test_what_was_recorded_can_be_forgotten(tmp_path, capsys):
    old.start_profiler("All")
    proa.exp(proa.ones([1]))
    old.reset_profiler()
    proa.sqrt(proa.ones([1]))
    old.stop_profiler(None, str(tmp_path / "p"))
    names = {e.name for e in profiler.load_profiler_result(str(tmp_path / "p")).events}
    assert "sqrt" in names and "exp" not in names


def test_rates_are_work_over_time_and_fractions_of_peak(capsys):
    x, w = proa.ones([64, 32]), proa.ones([32, 16])
    with Profiler(on_trace_ready=quiet, with_flops=True) as p:
        proa.matmul(x, w)
        x + x
    result = p.profiler_result
    assert result is not None
    kernels = {e.name: e for e in result.events if e.kind == "kernel"}
    peak = rates.PeakRates(operations=1e9, bytes=1e9)
    found = rates.kernel_work(result.events, peak)
    product, total = found["matmul"], found["add"]
    assert product.operations == 2 * 64 * 32 * 16
    assert product.bytes == 4 * (64 * 32 + 32 * 16 + 64 * 16)
    assert (total.operations, total.bytes) == (0, 4 * 3 * 64 * 32)
    assert product.minimum == pytest.approx(2 * 64 * 32 * 16 / 1e9)  # its products bind
    assert total.minimum == pytest.approx(4 * 3 * 64 * 32 / 1e9)  # its bytes do
    assert total.nanoseconds == kernels["add"].duration
    p.summary(views=SummaryView.RateView)
    table = capsys.readouterr().out
    assert re.search(r"matmul +1 ", table)
    assert "% of peak" in table


@pytest.mark.parametrize(
    ("name", "before", "after", "operations"),
    [
        ("matmul", [(3, 1, 4, 5), (2, 5, 6)], [(3, 2, 4, 6)], 2 * 3 * 2 * 4 * 5 * 6),
        ("linear", [(2, 3, 4), (4, 5), (5,)], [(2, 3, 5)], 2 * 6 * 4 * 5),
        ("linear_grad_weight", [(2, 3, 4), (2, 3, 5)], [(4, 5)], 2 * 6 * 4 * 5),
        ("conv2d", [(2, 4, 8, 8), (6, 2, 3, 3)], [(2, 6, 6, 6)], 2 * 432 * 18),
        ("conv2d_grad_weight", [(2, 4, 8, 8), (2, 6, 6, 6)], [(6, 2, 3, 3)],
         2 * 432 * 18),
        ("attention", [(2, 3, 4, 5), (2, 7, 4, 5), (2, 7, 4, 6)], [(2, 3, 4, 6)],
         2 * 8 * 21 * 11),
        ("recurrent", [(5, 2, 12), (12, 3)], [(5, 2, 3)], 2 * 10 * 36),
    ],
)  # fmt: skip
def test_operations_of_products(name, before, after, operations):
    sides = [", ".join(f"float32 {s}" for s in side) for side in (before, after)]
    event = Event(name, "kernel", 0, 1, 0, 0, 0, " -> ".join(sides))
    work = rates.kernel_work([event], rates.PeakRates(1.0, 1.0))[name]
    assert work.operations == operations
