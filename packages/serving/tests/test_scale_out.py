"""Several servers and clients that spread their requests: one goes, nothing fails."""

import contextlib
import signal
from collections import Counter

import small_models
from server_process import Process
from steady_load import SteadyLoad, X, pool_of

from proa_serving.client import ClientPool


def test_a_server_that_is_shut_down_takes_no_request_with_it(tmp_path):
    """SIGTERM to one of two; then to the other, once a third took its place."""
    model = small_models.write_linear(tmp_path / "m.linear", sleep=0.001)
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(Process(model, "--http", 0))
        two = stack.enter_context(Process(model, "--http", 0))
        load = stack.enter_context(SteadyLoad(pool_of(one.http, two.http)))
        load.wait_for(200)
        one.held.send_signal(signal.SIGTERM)
        assert one.end() == 0, one.stderr
        load.wait_for(200)
        port = one.http.rpartition(":")[2]
        three = Process(model, "--http", port)
        stack.callback(three.__exit__)
        two.held.send_signal(signal.SIGTERM)
        assert two.end() == 0, two.stderr
        load.wait_for(200)
        load.stop()
        assert load.found.keys() == {"ok"}, load.found


def test_a_server_that_is_killed_fails_no_request(tmp_path):
    """Its requests in flight are sent to the other."""
    model = small_models.write_linear(tmp_path / "m.linear", sleep=0.001)
    with Process(model, "--http", 0) as one, Process(model, "--http", 0) as two:
        with SteadyLoad(pool_of(one.http, two.http)) as load:
            load.wait_for(200)
            one.held.kill()
            one.held.wait()
            load.wait_for(500)
        assert load.found.keys() == {"ok"}, load.found


def test_weights_share_the_requests_of_real_servers(tmp_path):
    found = Counter()
    models = [
        small_models.write_linear(tmp_path / str(scale) / "m.linear", scale=scale)
        for scale in (1, 2)
    ]
    with (
        Process(models[0], "--http", 0) as one,
        Process(models[1], "--http", 0) as two,
        ClientPool({one.http: 3, two.http: 1}) as pool,
    ):
        for _ in range(40):
            y = pool.infer("m", {"x": X})["y"]
            found[round(float((y / small_models.linear(X)).mean()))] += 1
    assert found == {1: 30, 2: 10}
