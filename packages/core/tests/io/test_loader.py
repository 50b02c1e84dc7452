"""The loader, here and by worker processes: order, errors, kills, clean ends."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import io
from proa.errors import InvalidArgumentError, UnavailableError

WORKERS = [0, 2]


class Images(io.Dataset[Any]):
    """Sample i is an image full of i, and i."""

    def __init__(self, size: int = 23, side: int = 40) -> None:
        self.size, self.side = size, side

    def __getitem__(self, idx: int) -> Any:
        return np.full((self.side, self.side), idx, np.float32), idx

    def __len__(self) -> int:
        return self.size


def children() -> set[int]:
    found = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            found.add(int(entry.parent.name))
    return found


@pytest.mark.feature("L232", how="mechanism")
def test_processes_make_the_batches_of_a_sampler_in_its_order() -> None:
    class Recorded(Images):
        def __getitem__(self, idx: int) -> Any:
            return np.int64(idx), np.int64(os.getpid())

    data = Recorded(23)
    proa.seed(1)
    drawn = io.BatchSampler(data, shuffle=True, batch_size=4, drop_last=True)
    for sampler in (drawn, [[3, 1], [22], [7, 7, 0], [5]]):
        loader = io.DataLoader(data, batch_sampler=sampler, num_workers=2)
        batches = [(i.tolist(), set(pid.tolist())) for i, pid in loader]
        assert len(batches) == len(loader) == len(sampler)
        processes = set[int]().union(*(pids for _, pids in batches))
        assert len(processes) == 2 and os.getpid() not in processes
        assert all(len(pids) == 1 for _, pids in batches)  # one makes a whole batch
        if sampler is not drawn:
            assert [indices for indices, _ in batches] == sampler
    seen = [
        i
        for indices, _ in list(io.DataLoader(data, batch_sampler=drawn))
        for i in indices
    ]
    assert len(set(seen)) == len(seen) == 20


@pytest.mark.feature("L239", how="mechanism")
@pytest.mark.parametrize("share", [True, False])
def test_tensors_of_workers_use_shared_memory(share: bool) -> None:
    class Tensors(Images):
        def __getitem__(self, idx: int) -> Any:
            return {"x": proa.full([100, 100], float(idx)), "name": f"image {idx}"}

    def mapped() -> int:
        gc.collect()
        return Path("/proc/self/maps").read_text().count("memfd:proa-batch")

    before = mapped()
    loader = io.DataLoader(
        Tensors(8), batch_size=2, num_workers=1, use_shared_memory=share
    )
    batches = iter(loader)
    received = [next(batches), next(batches)]
    assert (mapped() > before) is share
    received += batches
    for k, batch in enumerate(received):
        assert batch["x"].numpy()[:, 99, 99].tolist() == [2 * k, 2 * k + 1]
        assert batch["name"] == [f"image {2 * k}", f"image {2 * k + 1}"]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("share", [True, False])
def test_batches_arrive_in_order_and_complete(workers: int, share: bool) -> None:
    loader = io.DataLoader(
        Images(), batch_size=4, num_workers=workers, use_shared_memory=share
    )
    assert len(loader) == 6
    for _ in range(2):
        seen = []
        for image, label in loader:
            assert isinstance(image, proa.Tensor)
            assert image.shape == [label.shape[0], 40, 40]
            assert (image.numpy()[:, 3, 5] == label.numpy()).all()
            seen += label.tolist()
        assert seen == list(range(23))


@pytest.mark.parametrize("workers", WORKERS)
def test_batches_stay_valid_after_later_ones(workers: int) -> None:
    batches = list(io.DataLoader(Images(), batch_size=4, num_workers=workers))
    for i, (image, _) in enumerate(batches):
        assert image.numpy()[0, 0, 0] == 4 * i


@pytest.mark.parametrize("workers", WORKERS)
def test_shuffling_sees_all_once(workers: int) -> None:
    proa.seed(0)
    loader = io.DataLoader(Images(), batch_size=5, shuffle=True, num_workers=workers)
    first, second = (
        [i for _, label in loader for i in label.tolist()] for _ in range(2)
    )
    assert sorted(first) == sorted(second) == list(range(23))
    assert first != second


@pytest.mark.feature("L234")
@pytest.mark.parametrize("workers", WORKERS)
def test_single_fields_and_samples_are_not_wrapped(workers: int) -> None:
    class One(Images):
        def __getitem__(self, idx: int) -> Any:
            return np.full(3, idx, np.float32)

    batch = next(iter(io.DataLoader(One(), batch_size=2, num_workers=workers)))
    assert batch.shape == [2, 3]
    sample = next(iter(io.DataLoader(One(), batch_size=None, num_workers=workers)))
    assert sample.shape == [3]


@pytest.mark.feature("L237")
@pytest.mark.parametrize("workers", WORKERS)
def test_tensors_and_own_collation(workers: int) -> None:
    class Tensors(Images):
        def __getitem__(self, idx: int) -> Any:
            return proa.full([3], float(idx))

    loader = io.DataLoader(
        Tensors(), batch_size=2, num_workers=workers, drop_last=True,
        collate_fn=lambda samples: {"sum": proa.add_n(samples), "text": "t"},
    )  # fmt: skip
    batches = list(loader)
    assert len(batches) == 11
    assert batches[1]["sum"].tolist() == [5, 5, 5]
    assert batches[0]["text"] == "t"


def test_tensor_datasets_are_read_by_batch() -> None:
    x, y = np.random.randn(50, 3).astype(np.float32), np.arange(50)
    loader = io.DataLoader(io.TensorDataset([x, y]), batch_size=16, shuffle=True)
    for rows, labels in loader:
        np.testing.assert_array_equal(rows.numpy(), x[labels.numpy()])


class Counting(io.IterableDataset[Any]):
    """0 .. 9, shared out between workers."""

    def __iter__(self) -> Any:
        info = io.get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        for i in range(start, 10, step):
            yield np.full(2000, i)


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_streams(workers: int) -> None:
    loader = io.DataLoader(Counting(), batch_size=2, num_workers=workers)
    for _ in range(2):
        seen = [int(row[0]) for batch in loader for row in batch.numpy()]
        assert sorted(seen) == list(range(10))
    with pytest.raises(TypeError):
        len(loader)
    with pytest.raises(InvalidArgumentError, match="shuffle"):
        io.DataLoader(Counting(), shuffle=True)


class Trouble(Images):
    def __getitem__(self, idx: int) -> Any:
        if idx == 9:
            self.fail()
        return super().__getitem__(idx)

    def fail(self) -> None:
        raise ValueError("sample nine is bad")


def test_worker_exceptions_carry_their_traceback() -> None:
    with pytest.raises(ValueError, match="worker 0 raised ValueError") as caught:
        list(io.DataLoader(Trouble(), batch_size=4, num_workers=2))
    text = str(caught.value)
    assert "sample nine is bad" in text
    assert "in fail" in text
    with pytest.raises(ValueError, match="sample nine is bad"):
        list(io.DataLoader(Trouble(), batch_size=4))


def test_unpicklable_exceptions_are_reported() -> None:
    class Odd(Exception):
        def __init__(self, a: int, b: int) -> None:
            super().__init__("odd")

    class Bad(Images):
        def __getitem__(self, idx: int) -> Any:
            raise Odd(1, 2)

    with pytest.raises(RuntimeError, match="raised Odd"):
        list(io.DataLoader(Bad(), num_workers=1))


def test_a_killed_worker_is_reported() -> None:
    class Deadly(Images):
        def __getitem__(self, idx: int) -> Any:
            if idx == 8:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__getitem__(idx)

    before = children()
    with pytest.raises(UnavailableError, match=r"died: killed by SIGKILL"):
        list(io.DataLoader(Deadly(), batch_size=4, num_workers=2))
    assert children() <= before


def test_a_worker_that_leaves_is_reported() -> None:
    class Leaving(Images):
        def __getitem__(self, idx: int) -> Any:
            os._exit(3)

    with pytest.raises(UnavailableError, match="exit code 3"):
        list(io.DataLoader(Leaving(), num_workers=1))


def test_a_timeout_is_reported() -> None:
    class Slow(Images):
        def __getitem__(self, idx: int) -> Any:
            time.sleep(30)

    start = time.monotonic()
    with pytest.raises(UnavailableError, match=r"within 0.3 s"):
        list(io.DataLoader(Slow(), num_workers=1, timeout=0.3))
    assert time.monotonic() - start < 10


class Where(Images):
    def __getitem__(self, idx: int) -> Any:
        info = io.get_worker_info()
        assert info is not None
        return os.getpid(), info.id, np.random.rand(), proa.rand([1]).item()


def test_workers_know_who_they_are_and_differ() -> None:
    seen: list[int] = []
    loader = io.DataLoader(
        Where(8), batch_size=1, num_workers=2, worker_init_fn=lambda i: seen.append(i)
    )
    rows = [[t.item() for t in batch] for batch in loader]
    assert {r[1] for r in rows} == {0, 1}
    assert len({r[0] for r in rows}) == 2
    assert len({r[2] for r in rows}) == 8
    assert len({r[3] for r in rows}) == 8
    assert not seen
    assert io.get_worker_info() is None

    def broken(worker: int) -> None:
        raise KeyError("init")

    with pytest.raises(KeyError, match="init"):
        list(io.DataLoader(Where(8), num_workers=1, worker_init_fn=broken))


def test_persistent_workers_stay() -> None:
    loader = io.DataLoader(
        Where(8), batch_size=2, num_workers=2, persistent_workers=True
    )
    first = {b[0].numpy()[0] for b in loader}
    iterator = iter(loader)
    next(iterator)
    iterator.close()  # type: ignore[attr-defined]  # a generator: an epoch is given up
    second = {b[0].numpy()[0] for b in loader}
    assert first == second
    plain = io.DataLoader(Where(8), batch_size=2, num_workers=2)
    assert {b[0].numpy()[0] for b in plain} != {b[0].numpy()[0] for b in plain}


def test_workers_end_with_the_iterator_and_the_loader() -> None:
    before = children()
    loader = io.DataLoader(Images(200), batch_size=1, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    assert len(children() - before) == 2
    del iterator
    gc.collect()
    assert children() <= before
    persistent = io.DataLoader(Images(), num_workers=2, persistent_workers=True)
    next(iter(persistent))
    assert len(children() - before) == 2
    del persistent
    gc.collect()
    assert children() <= before


SCRIPT = """
    import os, sys, time
    import numpy as np
    from proa import io

    class Slow(io.Dataset):
        def __getitem__(self, i):
            time.sleep(0.05)
            return np.zeros(4)
        def __len__(self):
            return 1000

    for batch in io.DataLoader(Slow(), batch_size=1, num_workers=2):
        kids = open(f"/proc/self/task/{os.getpid()}/children").read()
        print("ready", kids, flush=True)
"""


@pytest.mark.feature("L236")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_every_worker_ends_with_its_loader(how: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(SCRIPT))
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("ready"), process.communicate()[1]
    workers = [int(w) for w in line.split()[1:]]
    assert len(workers) == 2
    process.send_signal(how)
    _, errors = process.communicate(timeout=20)
    if how == signal.SIGINT:
        assert "KeyboardInterrupt" in errors
        assert errors.count("Traceback") == 1
    end = time.monotonic() + 10
    while time.monotonic() < end and any(Path(f"/proc/{w}").exists() for w in workers):
        time.sleep(0.1)
    assert not any(Path(f"/proc/{w}").exists() for w in workers)


class Nested(Images):
    def __getitem__(self, idx: int) -> Any:
        return {
            "image": np.full(5000, idx, np.float32),
            "pair": [idx, (float(idx), f"text {idx}")],
            "deep": {"none": None, "flag": idx % 2 == 0},
        }


@pytest.mark.feature("L235")
@pytest.mark.parametrize("workers", WORKERS)
def test_nested_samples_keep_their_structure(workers: int) -> None:
    loader = io.DataLoader(Nested(5), batch_size=2, num_workers=workers)
    batches = list(loader)
    assert [b["image"].shape for b in batches] == [[2, 5000], [2, 5000], [1, 5000]]
    number, (value, text) = batches[1]["pair"]
    assert number.tolist() == value.tolist() == [2, 3]
    assert text == ["text 2", "text 3"]
    assert batches[2]["deep"]["none"] == [None]
    assert batches[0]["deep"]["flag"].tolist() == [True, False]


ENDS = """
    import sys
    import numpy as np
    from proa import io

    class Data(io.Dataset):
        def __getitem__(self, i):
            return np.zeros(100_000, np.float32)
        def __len__(self):
            return 100

    loader = io.DataLoader(Data(), batch_size=2, num_workers=2, persistent_workers={})
    kept = iter(loader)
    next(kept), next(kept)
    {}
"""


@pytest.mark.feature("L236")
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "del kept"])
def test_a_program_may_end_in_the_middle(
    end: str, persistent: bool, tmp_path: Path
) -> None:
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(ENDS.format(persistent, end)))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)], capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


class Work(Images):
    """Samples that take some time to make, by the framework's own ops."""

    def __getitem__(self, idx: int) -> Any:
        x = proa.full([64, 64], float(idx))
        for _ in range(3):
            x = proa.tanh(x @ x / 64.0)
        return x, idx


@pytest.mark.feature("L237")
def test_workers_may_use_the_frameworks_ops_before_and_after_the_parent() -> None:
    proa.matmul(proa.ones([300, 300]), proa.ones([300, 300]))  # starts the threads
    expected = [x.numpy() for x, _ in map(Work(8).__getitem__, range(8))]
    for _ in range(2):
        got = list(io.DataLoader(Work(8), batch_size=2, num_workers=2))
        images = np.concatenate([x.numpy() for x, _ in got])
        np.testing.assert_array_equal(images, np.stack(expected))


@pytest.mark.feature("L238", how="mechanism")
def test_workers_work_ahead_while_the_caller_is_busy() -> None:
    class Stamped(Images):
        def __getitem__(self, idx: int) -> Any:
            return np.float64(time.time())

    iterator = iter(
        io.DataLoader(Stamped(8), batch_size=1, num_workers=1, prefetch_factor=4)
    )
    next(iterator)
    time.sleep(0.5)
    started = time.time()
    results = [next(iterator).item() for _ in range(3)]
    assert all(stamp < started for stamp in results)  # before they were requested


def test_invalid_settings_are_rejected() -> None:
    for settings in ({"num_workers": -1}, {"prefetch_factor": 0}, {"timeout": -1}):
        with pytest.raises(InvalidArgumentError, match="must be at least"):
            io.DataLoader(Images(), **settings)  # type: ignore[arg-type]  # by name
