"""Broken and hostile HTTP: good clients are served meanwhile, and nothing is kept."""

import os
import threading
import time

import numpy as np
import pytest
import small_models
from hostile_http import attack
from prometheus_client.parser import text_string_to_metric_families

from proa_serving.client import HttpClient


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.fuzz
def test_good_clients_are_served_among_hostile_ones(serve, tmp_path, caplog):
    model = small_models.write_linear(tmp_path / "m.linear")
    options = {"head_timeout_s": 0.5, "idle_timeout_s": 1.0, "timeout_s": 5.0}
    x = np.ones((1, 4), np.float32)
    with serve({"m": model}, max_connections=50, **options) as server:
        address = server.http_address
        with HttpClient(address) as client:
            client.infer("m", {"x": x})
        before = descriptors()
        threads = [
            threading.Thread(target=attack, args=(address, seed, 300))
            for seed in range(3)
        ]
        for thread in threads:
            thread.start()
        served = 0
        while any(thread.is_alive() for thread in threads):
            with HttpClient(address) as client:
                for _ in range(20):
                    y = client.infer("m", {"x": x})["y"]
                    np.testing.assert_allclose(y, small_models.linear(x), rtol=1e-5)
                    served += 1
        assert served > 100
        end = time.monotonic() + 10
        while descriptors() > before and time.monotonic() < end:
            time.sleep(0.05)
        assert descriptors() <= before
        with HttpClient(address) as client:
            text = client.metrics()
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["proa_serve_in_flight"] == 0
    assert found["proa_serve_in_flight_bytes"] == 0
    assert not [line for line in caplog.records if line.exc_info]
