"""Threads, forks and Ctrl-C: nothing hangs, crashes or gets mixed up."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import proa

from ..processes import run_python


def test_ctrl_c_ends_a_long_loop_and_a_long_backward():
    done = run_python("""
        import os, signal, threading, time
        import proa

        def interrupt(after):
            def later():
                time.sleep(after)
                os.kill(os.getpid(), signal.SIGINT)
            threading.Thread(target=later, daemon=True).start()

        a = proa.ones([200, 200])
        interrupt(0.2)
        try:
            while True:
                proa.matmul(a, a)
        except KeyboardInterrupt:
            pass
        x = proa.ones([1])
        x.stop_gradient = False
        y = x
        for _ in range(300_000):
            y = y * 1.0
        calls = []
        y.register_hook(lambda g: os.kill(os.getpid(), signal.SIGINT))
        try:
            y.backward()
        except KeyboardInterrupt:
            assert x.grad is None, "the walk went on to its end"
        else:
            raise SystemExit("not interrupted")
        (a + 1).sum().item()
    """)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_fork_computes_after_its_parents_threads_did():
    done = run_python(
        """
        import os
        import proa

        a = proa.ones([700, 700])
        want = proa.matmul(a, a).sum().item()
        for _ in range(8):
            child = os.fork()
            if child == 0:
                ok = proa.matmul(a, a).sum().item() == want
                x = proa.ones([300, 300])
                x.stop_gradient = False
                proa.matmul(x, x).sum().backward()
                os._exit(0 if ok and x.grad is not None else 1)
            assert os.waitpid(child, 0)[1] == 0
            assert proa.matmul(a, a).sum().item() == want
        """,
        PROA_NUM_THREADS="4",
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_threads_compute_and_differentiate_side_by_side():
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            rng = np.random.default_rng(number)
            a = rng.standard_normal((150, 150))
            for _ in range(10):
                x = proa.to_tensor(a, stop_gradient=False)
                proa.matmul(x, x).sum().backward()
                # d sum(x @ x) / dx[i, j] = sum over k of x[j, k] + x[k, i].
                want = a.sum(1)[None, :] + a.sum(0)[:, None]
                if not np.allclose(x.grad.numpy(), want):
                    wrong.append(number)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_tensor_may_lose_its_memory_while_another_thread_reads_it():
    x = proa.full([600, 600], 1.0)
    stop = threading.Event()
    seen: set[float] = set()

    def read() -> None:
        while not stop.is_set():
            seen.update(np.unique(proa.exp(x).numpy()).tolist())

    thread = threading.Thread(target=read)
    thread.start()
    for i in range(200):
        x._share_from(proa.full([600, 600], float(i % 2)))
    stop.set()
    thread.join()
    assert seen and all(min(abs(v - 1), abs(v - np.e)) < 1e-5 for v in seen)


def test_tensors_may_end_in_another_thread_than_they_began_in():
    gc.collect()
    before = proa.device.memory_allocated()
    for _ in range(20):
        result = [proa.ones([10]) for _ in range(500)]
        thread = threading.Thread(target=result.clear)
        thread.start()
        thread.join()
    del result
    assert proa.device.memory_allocated() == before


def test_grad_mode_belongs_to_its_thread():
    inside = threading.Event()
    done = threading.Event()

    def other() -> None:
        with proa.no_grad():
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(10)
    x = proa.ones([1])
    x.stop_gradient = False
    assert not (x * 2).stop_gradient
    done.set()
    thread.join()


@pytest.mark.parametrize("exit_by", ["pass", "raise SystemExit", "os._exit(0)"])
def test_a_process_ends_quietly_with_threads_and_tensors_alive(exit_by):
    done = run_python(f"""
        import os, threading, time
        import proa

        x = proa.ones([400, 400])
        x.stop_gradient = False
        x.register_hook(lambda g: g)
        y = proa.matmul(x, x)

        def forever():
            while True:
                proa.matmul(x, x)

        threading.Thread(target=forever, daemon=True).start()
        time.sleep(0.05)
        {exit_by}
    """)
    assert done.returncode == 0 and done.stderr == "", done.stderr[-2000:]


@pytest.mark.parametrize("place", [4, -1, 1 << 30])
def test_indices_of_pooling_outside_their_plane_are_refused(place):
    x = proa.ones([1, 1, 2, 2])
    index = proa.to_tensor(np.full((1, 1, 1, 1), place, "int32"))
    with pytest.raises(IndexError, match="pool_gather"):
        proa._core.ops.pool_gather(x, index)
    with pytest.raises(IndexError, match="pool_scatter"):
        proa._core.ops.pool_scatter(proa.ones([1, 1, 1, 1]), index, x)
    with pytest.raises(ValueError, match="pool_gather"):
        proa._core.ops.pool_gather(x, proa.zeros([1, 1, 1, 1], "bool"))
