"""Ten thousand requests, none lost, none mixed up, no memory kept."""

import resource
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import small_models

from proa_serving.client import GrpcClient, HttpClient
from proa_serving.schedule.queue import Limits

COUNT, WORKERS = 10_000, 8


def test_ten_thousand_requests(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear")
    with serve({"m": model}, instances=2, limits=Limits(max_batch=8)) as server:

        def infer_once(worker):
            # Half by each protocol; every request has its own numbers.
            made = (HttpClient, server.http_address)
            if worker % 2:
                made = (GrpcClient, server.grpc_address)
            kind, address = made
            with kind(address) as client:
                for at in range(COUNT // WORKERS):
                    x = np.full((1, 4), worker * 10_000 + at, np.float32)
                    result = client.infer("m", {"x": x}, id=str(at))
                    assert result.id == str(at)
                    want = small_models.linear(x)
                    np.testing.assert_allclose(result["y"], want, rtol=1e-5)
            return COUNT // WORKERS

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with ThreadPoolExecutor(WORKERS) as pool:
            assert sum(pool.map(infer_once, range(WORKERS))) == COUNT
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert after - before < 100 * 1024  # KiB
