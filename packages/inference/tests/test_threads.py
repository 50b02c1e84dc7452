"""How many threads predictors take, and what they cost while they wait."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import proa
from proa import nn
from proa.static import InputSpec
from proa_inference import Config, Predictor, create_predictor

CORES = len(os.sched_getaffinity(0))
needs_two_cores = pytest.mark.skipif(CORES < 2, reason="needs two cores")


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Convolutions that take some milliseconds, and an image for them."""
    proa.seed(3)
    network = nn.Sequential(
        nn.Conv2D(3, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        *(m for _ in range(4) for m in (nn.Conv2D(32, 32, 3, padding=1), nn.ReLU())),
    )
    network.eval()
    path = tmp_path_factory.mktemp("models") / "large.proa"
    proa.jit.save(network, path, [InputSpec([None, 3, 128, 128], "float32", "x")])
    return path, np.random.default_rng(0).standard_normal((1, 3, 128, 128), "f4")


def predictor_of(path: Path, threads: int) -> Predictor:
    config = Config(path)
    config.set_cpu_math_library_num_threads(threads)
    return create_predictor(config)


@pytest.mark.parametrize("threads", [0, 2])
def test_predictors_that_wait_take_no_cpu_time(large, threads):
    path, x = large
    predictor = predictor_of(path, threads)
    clone = predictor.clone()
    for _ in range(3):
        predictor.run([x])
        clone.run([x])
    time.sleep(0.05)  # workers spin for some microseconds before they sleep
    start, before = time.perf_counter(), time.process_time()
    time.sleep(1.5)
    used = time.process_time() - before
    assert used < 0.01 * (time.perf_counter() - start)


def rate(work: list[Callable[[], object]], seconds: float) -> float:
    """Calls a second of all threads together, each of which calls its own."""
    counts, end = [0] * len(work), time.perf_counter() + seconds

    def run(i: int) -> None:
        while time.perf_counter() < end:
            work[i]()
            counts[i] += 1

    start = time.perf_counter()
    threads = [threading.Thread(target=run, args=[i]) for i in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - start)


def ratios(large, threads, rounds, seconds):
    """Two predictors at once over one on two threads, of each round."""
    path, x = large
    both = predictor_of(path, 2)
    pair = [predictor_of(path, threads) for _ in range(2)]
    calls = [lambda p=p: p.run([x]) for p in pair]
    alone = [lambda: both.run([x])]
    rate(calls, 0.1), rate(alone, 0.1)
    return [rate(calls, seconds) / rate(alone, seconds) for _ in range(rounds)]


@pytest.mark.full
@needs_two_cores
@pytest.mark.parametrize("threads", [1, 0])
def test_two_predictors_at_once_do_as_much_as_one_on_two_threads(large, threads):
    # The best of several rounds, as other programs may have taken a core.
    assert max(ratios(large, threads, 6, 0.8)) >= 0.95


@needs_two_cores
def test_a_run_leaves_the_interpreter_to_other_threads(large):
    """What two predictors at once rest on: neither waits for the other's run."""
    path, x = large
    config = Config(path)
    config.set_cpu_math_library_num_threads(1)
    predictor, image = create_predictor(config), np.repeat(x, 32, axis=0)
    predictor.run([image])
    done, steps = threading.Event(), 0
    thread = threading.Thread(target=lambda: (predictor.run([image]), done.set()))
    thread.start()
    while not done.is_set():
        steps += 1
    thread.join()
    assert steps > 1000


#: Prints how many threads the process has after a run on the pool that it shares.
_COUNT = """
import os, sys
import numpy as np
from proa_inference import Config, create_predictor
before = len(os.listdir("/proc/self/task"))
predictor = create_predictor(Config(sys.argv[1]))
for _ in range(20):
    predictor.run([np.ones((1, 3, 128, 128), "f4")])
print(1 + len(os.listdir("/proc/self/task")) - before)
"""


def threads_taken(path: Path, prepare: Callable[[], None], **variables: str) -> int:
    environment = {k: v for k, v in os.environ.items() if k != "PROA_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", _COUNT, path],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=prepare,
        env={**environment, "OPENBLAS_NUM_THREADS": "1", **variables},
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_the_shared_pool_has_the_threads_of_the_affinity(large):
    first = {min(os.sched_getaffinity(0))}
    assert threads_taken(large[0], lambda: os.sched_setaffinity(0, first)) == 1
    # All, unless these tests themselves run with a limit.
    assert threads_taken(large[0], lambda: None) <= CORES
    assert threads_taken(large[0], lambda: None, PROA_NUM_THREADS="3") == 3


@pytest.fixture
def group():
    """A control group of one CPU's time, of either version; its file of members."""
    roots = [Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu")]
    for root in roots:
        folder = root / f"proa-test-{os.getpid()}"
        version1 = (root / "cpu.cfs_quota_us").exists()
        if not version1 and not (root / "cgroup.controllers").exists():
            continue
        try:
            folder.mkdir()
            if version1:
                (folder / "cpu.cfs_period_us").write_text("100000")
                (folder / "cpu.cfs_quota_us").write_text("100000")
            else:
                (folder / "cpu.max").write_text("100000 100000")
        except OSError:
            if folder.exists():
                folder.rmdir()
            continue
        yield folder / "cgroup.procs"
        folder.rmdir()
        return
    pytest.skip("needs the right to limit the CPU time of a control group")


@needs_two_cores
def test_the_shared_pool_has_the_threads_of_the_container(large, group):
    def join() -> None:
        group.write_text(str(os.getpid()))

    assert threads_taken(large[0], join) == 1
