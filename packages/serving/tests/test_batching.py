"""Requests that come together run together, and answers stay their own."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import small_models
from prometheus_client.parser import text_string_to_metric_families

from proa_serving.client import GrpcClient, HttpClient
from proa_serving.protocol.errors import ModelFailedError, QueueFullError
from proa_serving.schedule.queue import Job, JobQueue, Limits

RNG = np.random.default_rng(3)


def samples(client):
    """{(sample name, labels as sorted pairs): value} of the server's metrics."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(client.metrics())
        for sample in family.samples
    }


def value(found, name, model, **labels):
    labels = {"model": model, "version": "1", **labels}
    return found[(f"proa_serve_{name}", *sorted(labels.items()))]


def test_requests_at_one_time_share_batches(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear", sleep=0.02)
    batches = [RNG.normal(size=(1 + at % 3, 4)).astype(np.float32) for at in range(40)]
    limits = Limits(max_batch=16, max_delay_us=2000)
    with serve({"m": model}, limits=limits) as server:
        client = GrpcClient(server.grpc_address)
        with client, ThreadPoolExecutor(40) as pool:
            infer_once = lambda x: client.infer("m", {"x": x})["y"]  # noqa: E731
            answers = list(pool.map(infer_once, batches))
        for x, y in zip(batches, answers, strict=True):
            np.testing.assert_allclose(y, small_models.linear(x), rtol=1e-4, atol=1e-6)
        with HttpClient(server.http_address) as client:
            found = samples(client)
    rows = sum(len(x) for x in batches)
    runs = value(found, "batch_rows_count", "m")
    assert value(found, "batch_rows_sum", "m") == rows
    assert runs < len(batches) / 2
    assert value(found, "batch_rows_bucket", "m", le="16.0") == runs  # the bound holds
    assert value(found, "requests_total", "m", protocol="grpc") == 40
    assert value(found, "queue_seconds_count", "m") == 40
    assert value(found, "request_seconds_count", "m") == 40
    assert value(found, "compute_seconds_count", "m") == runs
    assert value(found, "in_flight", "m") == 0
    assert value(found, "queue_depth", "m") == 0


def test_one_bad_request_does_not_fail_its_neighbours(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear")
    x = RNG.normal(size=(1, 4)).astype(np.float32)
    limits = Limits(max_batch=8, max_delay_us=200_000)
    with serve({"m": model}, limits=limits) as server:
        client = GrpcClient(server.grpc_address)
        with client, ThreadPoolExecutor(8) as pool:
            jobs = [
                pool.submit(client.infer, "m", {"x": x * (np.nan if at == 3 else at)})
                for at in range(8)
            ]
            for at, job in enumerate(jobs):
                if at == 3:
                    with pytest.raises(ModelFailedError):
                        job.result()
                else:
                    want = small_models.linear(x * at)
                    np.testing.assert_allclose(job.result()["y"], want, rtol=1e-5)


@pytest.mark.parametrize("kind", [HttpClient, GrpcClient])
def test_a_full_queue_refuses_and_recovers(serve, tmp_path, kind):
    model = small_models.write_linear(tmp_path / "m.linear", sleep=0.2)
    x = np.ones((1, 4), np.float32)
    with serve({"m": model}, limits=Limits(max_batch=1, queue=2)) as server:
        address = {HttpClient: server.http_address, GrpcClient: server.grpc_address}[
            kind
        ]

        def infer_once(_):
            with kind(address) as client:
                try:
                    return client.infer("m", {"x": x})["y"].shape
                except QueueFullError as error:
                    assert "at most 2 requests may wait" in str(error)
                    return "refused"

        with ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(infer_once, range(12)))
        assert 2 <= answers.count((1, 3)) <= 4
        assert answers.count("refused") == 12 - answers.count((1, 3))
        assert infer_once(0) == (1, 3)


def test_instances_run_at_one_time(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear", sleep=1.0)
    x = np.ones((1, 4), np.float32)
    with serve({"m": model}, instances=4, limits=Limits(max_batch=1)) as server:
        client = GrpcClient(server.grpc_address)
        with client, ThreadPoolExecutor(4) as pool:
            client.ready()
            began = time.monotonic()
            list(pool.map(lambda _: client.infer("m", {"x": x}), range(4)))
            assert time.monotonic() - began < 3.0  # 4 s one after another


def job(rows, key="k"):
    return Job({}, rows, key, lambda *_: None)


def test_the_queue_waits_for_the_delay():
    queue = JobQueue("m", Limits(max_batch=8, max_delay_us=500_000))
    first, second = job(1), job(1)
    began = time.monotonic()
    queue.put(first)
    threading.Timer(0.01, queue.put, [second]).start()
    assert queue.take() == [first, second]
    assert time.monotonic() - began >= 0.5


def test_the_queue_returns_a_full_batch_at_once_in_order():
    queue = JobQueue("m", Limits(max_batch=4, max_delay_us=60_000_000))
    jobs = [job(2), job(1), job(2), job(9)]
    for held in jobs:
        queue.put(held)
    assert queue.take() == jobs[:2]  # a third would be the fifth row
    assert queue.take() == jobs[2:3]
    assert queue.take() == jobs[3:]  # beyond the bound by itself, so alone


def test_the_queue_keeps_keys_apart_and_drains_when_closed():
    queue = JobQueue("m", Limits(max_batch=4, max_delay_us=60_000_000))
    jobs = [job(1, "a"), job(1, "b"), job(1, "a")]
    for held in jobs:
        queue.put(held)
    assert queue.remove(jobs[1])
    assert not queue.remove(jobs[1])
    queue.close()
    assert queue.take() == [jobs[0], jobs[2]]
    assert queue.take() is None
