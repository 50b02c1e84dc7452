"""A model with a loop is exported once; every runtime takes the requested rounds."""

from __future__ import annotations

import numpy as np
import pytest

import proa
from proa import nn
from proa.static import InputSpec
from proa.static import nn as snn
from proa_inference import Config, create_predictor
from proa_serving.app import BackgroundServer
from proa_serving.client import HttpClient
from proa_serving.config import ModelSource, ServerConfig
from proa_serving.protocol.errors import RequestTimeoutError

SPEC = [InputSpec([None, 8], "float32", "x"), InputSpec([None], "int64", "n")]


class Decoder(nn.Layer):
    """Rows of x, and n[0] times the next row behind them, of a cell on the last."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))

    def forward(self, x, n):
        def step(i, rows):
            row = self.cell(rows[-1:])
            row = snn.cond(row.abs().sum() > 3, lambda: row / 2, lambda: row * 2)
            return i + 1, proa.concat([rows, row])

        last = n[0]
        return snn.while_loop(lambda i, rows: i < last, step, [last * 0, x])[1]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    proa.seed(5)
    decoder = Decoder()
    decoder.eval()
    path = tmp_path_factory.mktemp("flow") / "decoder.proa"
    proa.jit.save(decoder, str(path), input_spec=SPEC)
    return decoder, path


def rows(count):
    return np.random.default_rng(count).standard_normal((count, 8)).astype(np.float32)


def test_every_runtime_loops_as_often_as_the_input_requires(exported):
    decoder, path = exported
    predictor = create_predictor(Config(path))
    config = ServerConfig(
        models=(ModelSource("d", path),), http_port=0, grpc_port=0, timeout_s=1.0
    )
    with BackgroundServer(config) as server, HttpClient(server.http_address) as client:
        (name,) = predictor.get_output_names()
        for count, n in [(1, 0), (2, 3), (1, 30)]:
            x, rounds = rows(count), np.array([n])
            want = decoder(proa.to_tensor(x), proa.to_tensor(rounds)).numpy()
            assert want.shape == (count + n, 8)
            for got in (
                predictor.run([x, rounds])[0],
                client.infer("d", {"x": x, "n": rounds})[name],
            ):
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_an_endless_request_does_not_block_the_server(tmp_path):
    def count(n):
        return snn.while_loop(lambda i: i < n, lambda i: [i + 1], [n * 0])[0]

    path = tmp_path / "count.proa"
    proa.jit.save(count, str(path), input_spec=[InputSpec([1], "int64", "n")])
    config = ServerConfig(
        models=(ModelSource("c", path),), http_port=0, grpc_port=0, timeout_s=1.0
    )
    with BackgroundServer(config) as server, HttpClient(server.http_address) as client:
        with pytest.raises(RequestTimeoutError):
            client.infer("c", {"n": np.array([2**62])})
        (answer,) = client.infer("c", {"n": np.array([7])}).as_dict().values()
        np.testing.assert_array_equal(answer, [7])
