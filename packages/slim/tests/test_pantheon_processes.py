"""Teachers in processes of their own, which send knowledge by actors of Ray."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from pantheon_teacher import SAMPLES, images, network

import proa
from proa import nn
from proa.errors import AlreadyExistsError, NotFoundError, UnavailableError
from proa_slim import distill
from proa_slim.pantheon import Student, Teacher

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.full  # processes take seconds to start
SCRIPT = Path(__file__).with_name("pantheon_teacher.py")
HEADER = ["teachers in processes of their own", "goal", "measured"]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    context = ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=100 << 20,
        configure_logging=False,
    )
    yield context.address_info["address"]
    ray.shutdown()


@pytest.fixture
def teacher(cluster):
    """Starts a teacher's process."""
    started = []

    def start(**options):
        environment = {**os.environ, "RAY_ADDRESS": cluster}
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), json.dumps(options)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def student_of(*addresses, timeout=120.0, **strategy):
    student = Student(strategy or None, timeout=timeout)
    for address in addresses:
        student.register_teacher(in_address=address)
    student.start()
    return student


def trained(batches):
    """A student's parameters after one pass over (x, knowledge) batches."""
    proa.seed(9)
    net = nn.Linear(6, 3)
    sgd = proa.optimizer.SGD(0.1, parameters=net.parameters())
    for x, knowledge in batches:
        target = proa.to_tensor(knowledge)
        distill.kl_loss(target, net(proa.to_tensor(x)), temperature=2.0).backward()
        sgd.step()
        sgd.clear_grad()
    return [p.numpy().copy() for p in net.parameters()]


@pytest.mark.feature("L486")
@pytest.mark.feature("L488")
@pytest.mark.feature("L492")
def test_two_teachers_equal_distillation_in_one_process(teacher, record_table):
    teacher(seed=1, out_port=7001)
    teacher(seed=2, out_port=7002, channels=2)
    student = student_of("127.0.0.1:7001", "127.0.0.1:7002", logits="mean")
    got = list(student.get_knowledge_generator(16))
    assert [len(b["logits"]) for b in got] == [16, 16, 16, 2]
    slices = [images()[i : i + 16] for i in range(0, SAMPLES, 16)]
    remote = trained(zip(slices, (b["logits"] for b in got), strict=True))
    networks = [network(seed) for seed in (1, 2)]

    def knowledge(x):
        return np.mean([n(proa.to_tensor(x)).numpy() for n in networks], 0)

    local = trained((x, knowledge(x)) for x in slices)
    difference = max(np.abs(a - b).max() for a, b in zip(remote, local, strict=True))
    record_table("pantheon", HEADER, [[
        "parameters of a student of two, against distillation in one process: greatest "
        "difference", "1e-6", f"{difference:.0e}" if difference else "0",
    ]])  # fmt: skip
    assert difference <= 1e-6


def test_a_killed_teacher_comes_back_and_nothing_is_lost_or_sent_twice(
    teacher, tmp_path, record_table
):
    log = tmp_path / "log"
    options = {"seed": 1, "out_port": 7003, "resume": True, "log": str(log)}
    process = teacher(**options, delay=0.3)
    student = student_of("localhost:7003")
    batches = student.get_knowledge_generator(7)
    got = [next(batches)["logits"] for _ in range(2)]
    process.send_signal(signal.SIGKILL)
    process.wait()
    sent = len(log.read_text().splitlines())
    again = teacher(**options)
    got += [b["logits"] for b in batches]
    want = network(1)(proa.to_tensor(images())).numpy()
    np.testing.assert_allclose(np.concatenate(got), want, atol=1e-6)
    record_table("pantheon", HEADER, [[
        "samples that a student got of one that was killed and started again",
        f"{SAMPLES} of {SAMPLES}", f"{len(np.concatenate(got))} of {SAMPLES}",
    ]])  # fmt: skip
    again.wait(60)
    computed = [line.split() for line in log.read_text().splitlines()]
    # It described its knowledge by the first batch, then went on where it had been.
    assert 2 <= sent < 8 and len(computed) < sent + 8
    # A third one finds all of its work done.
    serve(1, out_port=7003, resume=True)


def serve(seed, buf_size=10, **options):
    """A teacher in this process; channels hold all that it sends."""
    service = options.pop("service", {})
    teacher = Teacher(**options)
    teacher.start(buf_size)
    batches = [(images()[i : i + 7],) for i in range(0, SAMPLES, 7)]
    reader = {"batch_generator": lambda: iter(batches)}
    teacher.start_knowledge_service(
        [0], {"logits": ""}, network(seed), reader, **service
    )
    return teacher


@pytest.mark.feature("L491")
def test_half_precision_halves_what_is_sent(record_table):
    sent = {}
    for port, fp16 in ((7004, False), (7005, True)):
        sent[fp16] = serve(1, out_port=port, service={"use_fp16": fp16}).bytes_sent
        (got,) = student_of(f"localhost:{port}").get_knowledge_generator(SAMPLES)
        want = network(1)(proa.to_tensor(images())).numpy()
        if fp16:
            want = want.astype(np.float16)
        assert got["logits"].dtype == np.float32
        np.testing.assert_allclose(got["logits"], want, atol=1e-3 if fp16 else 1e-6)
    record_table("pantheon", HEADER, [[
        "bytes sent in float16, of those in float32", "0.50",
        f"{sent[True] / sent[False]:.2f}",
    ]])  # fmt: skip
    assert sent == {False: SAMPLES * 3 * 4, True: SAMPLES * 3 * 2}


@pytest.mark.feature("L489")
def test_one_teacher_may_be_online_and_another_offline(tmp_path):
    serve(1, out_path=tmp_path)
    serve(2, out_path=tmp_path / "both", out_port=7007)
    student = Student({"logits": "sum"}, timeout=120.0)
    student.register_teacher(in_path=tmp_path)
    student.register_teacher(in_address="localhost:7007")
    student.register_teacher(in_path=tmp_path / "both")
    student.start()
    got = np.concatenate([b["logits"] for b in student.get_knowledge_generator(9)])
    x = proa.to_tensor(images())
    want = network(1)(x).numpy() + 2 * network(2)(x).numpy()
    np.testing.assert_allclose(got, want, atol=2e-6)


def test_messages_go_in_both_directions():
    teacher = serve(1, out_port=7008)
    student = student_of("localhost:7008")
    teacher.send({"epoch": 3})
    assert student.recv(0) == {"epoch": 3}
    student.send(["ready", np.arange(3)])
    word, array = teacher.recv()
    assert word == "ready" and array.tolist() == [0, 1, 2]
    time.sleep(0.1)
    assert student.get_knowledge_qsize() <= 4
    (got,) = student.get_knowledge_generator(SAMPLES)
    assert got["logits"].shape == (SAMPLES, 3)


def test_ports_in_use_and_absent_teachers_are_errors():
    first = Teacher(out_port=7009)
    first.start()
    with pytest.raises(AlreadyExistsError, match="no unfinished teacher"):
        Teacher(out_port=7009).start()
    with pytest.raises(NotFoundError, match="expected a teacher at localhost:7010"):
        student_of("localhost:7010", timeout=0.3)
    with pytest.raises(UnavailableError, match=r"to answer within 0\.3 s"):
        student_of("localhost:7009", timeout=0.3)


def pinned(core):
    """Let this process use one core; returns those that it had."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    return before


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs pinned cores")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs a core for the teacher")
def test_an_online_student_is_nearly_as_fast_as_an_offline_one(
    teacher, tmp_path, record_table
):
    # The teacher has a core of its own, and is throttled to be faster than the student
    # as one with a device of its own would be: 5 ms for a batch against 40 ms.
    service = {"times": 10}
    seconds = {}
    cores = sorted(os.sched_getaffinity(0))
    before = pinned(cores[0])
    try:
        serve(1, out_path=tmp_path, service=service)
        teacher(seed=1, out_port=7011, delay=0.005, service=service, core=cores[1])
        for mode in ("offline", "online"):
            student = Student(timeout=120.0)
            where = {"in_path": tmp_path} if mode == "offline" else {}
            student.register_teacher(**(where or {"in_address": "localhost:7011"}))
            student.start()
            batches = student.get_knowledge_generator(7)
            next(batches)  # the teacher's process has started
            begin = time.perf_counter()
            for _ in batches:
                until = time.perf_counter() + 0.04
                while time.perf_counter() < until:  # a step of the student
                    pass
            seconds[mode] = time.perf_counter() - begin
    finally:
        os.sched_setaffinity(0, before)
    ratio = seconds["offline"] / seconds["online"]
    record_table("pantheon", HEADER, [[
        "speed of a student online, of its speed offline", "0.85", f"{ratio:.2f}",
    ]])  # fmt: skip
    assert ratio >= 0.85
