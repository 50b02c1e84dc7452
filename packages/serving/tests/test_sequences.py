"""Stateful models: what tritonclient sends as a sequence is one."""

import queue
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from proa_serving.client import GrpcClient, HttpClient
from proa_serving.protocol.errors import InvalidRequestError, QueueFullError

# The sum of a sequence, and what the server filled in.
MODEL = """
import numpy as np
batches = True
inputs = [("x", "FP32", (-1, 2)), ("sum", "FP32", (-1, 2)), ("first", "INT32", (-1, 1)),
          ("last", "BOOL", (-1,)), ("id", "UINT64", (-1,))]
outputs = [("y", "FP32", (-1, 2)), ("new_sum", "FP32", (-1, 2)),
           ("seen", "INT64", (-1, 3))]

def run(inputs):
    total = inputs["x"] + inputs["sum"]
    seen = [inputs["first"][:, 0], inputs["last"], inputs["id"]]
    return {"y": total, "new_sum": total, "seen": np.stack(seen, 1)}
"""
SETTINGS = """
name: "acc" backend: "python" max_batch_size: 8
sequence_batching {
  max_sequence_idle_microseconds: %d
  oldest { max_candidate_sequences: 4 }
  control_input [
    { name: "first" control { kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] } },
    { name: "last"
      control { kind: CONTROL_SEQUENCE_END bool_false_true: [false, true] } },
    { name: "id" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }
  ]
  state { input_name: "sum" output_name: "new_sum" data_type: TYPE_FP32 dims: 2 }
}
"""


@pytest.fixture
def stateful(serve, tmp_path):
    def make(idle_us=60_000_000):
        path = tmp_path / "acc" / "1" / "model.py"
        path.parent.mkdir(parents=True)
        path.write_text(MODEL)
        (tmp_path / "acc" / "config.pbtxt").write_text(SETTINGS % idle_us)
        return serve(repository=tmp_path, python_models=True)

    return make


@pytest.mark.parametrize("kind", [triton_http, triton_grpc])
def test_tritonclients_sequences_keep_their_own_state(stateful, kind):
    with stateful() as server:
        address = getattr(
            server, "http_address" if kind is triton_http else "grpc_address"
        )
        with kind.InferenceServerClient(address) as client:

            def send(id, value, **flags):
                tensor = kind.InferInput("x", (1, 2), "FP32")
                tensor.set_data_from_numpy(np.full((1, 2), value, np.float32))
                answer = client.infer("acc", [tensor], sequence_id=id, **flags)
                return answer.as_numpy("y")[0, 0], answer.as_numpy("seen")[0].tolist()

            assert send(7, 1, sequence_start=True) == (1, [1, 0, 7])
            assert send(8, 10, sequence_start=True) == (10, [1, 0, 8])
            assert send(7, 2) == (3, [0, 0, 7])
            assert send(8, 20) == (30, [0, 0, 8])
            assert send(7, 4, sequence_end=True) == (7, [0, 1, 7])
            with pytest.raises(InferenceServerException, match="sequence_start"):
                send(7, 1)
            assert send(8, 1, sequence_start=True) == (1, [1, 0, 8])  # begins again


def test_requests_of_a_stream_run_in_their_order(stateful):
    with stateful() as server:
        client = triton_grpc.InferenceServerClient(server.grpc_address)
        answers = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)))
        for at in range(20):
            tensor = triton_grpc.InferInput("x", (1, 2), "FP32")
            tensor.set_data_from_numpy(np.full((1, 2), at, np.float32))
            client.async_stream_infer(
                "acc", [tensor], sequence_id=5, sequence_start=at == 0
            )
        for at in range(20):
            result, error = answers.get(timeout=10)
            assert error is None
            assert result.as_numpy("y")[0, 0] == sum(range(at + 1))
        client.stop_stream()
        client.close()


def test_many_sequences_at_one_time_share_batches_without_mixing(stateful):
    with stateful() as server, GrpcClient(server.grpc_address) as client:

        def talk(id):
            total = 0.0
            for at in range(10):
                x = np.full((1, 2), id + at, np.float32)
                parameters = {"sequence_id": id, "sequence_start": at == 0}
                total += id + at
                y = client.infer("acc", {"x": x}, parameters=parameters)["y"]
                assert y.tolist() == [[total, total]]

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(talk, (1, 2, 3, 4)))


def test_what_is_no_sequence_is_refused(stateful):
    x = np.ones((1, 2), np.float32)
    with stateful(idle_us=1) as server, HttpClient(server.http_address) as client:
        infer = lambda **parameters: client.infer(  # noqa: E731
            "acc", {"x": x}, parameters=parameters
        )
        for parameters, message in (
            ({}, "sequence_id must be"),
            ({"sequence_id": 0}, "sequence_id must be"),
            ({"sequence_id": 3}, "must begin with sequence_start"),
            ({"sequence_id": 3, "sequence_start": 1}, "sequence_start must be a bool"),
            ({"sequence_id": -3, "sequence_start": True}, "must fit UINT64"),
            ({"sequence_id": "a", "sequence_start": True}, "must be a number"),
        ):
            with pytest.raises(InvalidRequestError, match=message):
                infer(**parameters)
        infer(sequence_id=4, sequence_start=True)
        with pytest.raises(InvalidRequestError, match="idle for too long"):
            infer(sequence_id=4)


def test_live_sequences_are_bounded(stateful):
    x = np.ones((1, 2), np.float32)
    with stateful() as server, HttpClient(server.http_address) as client:
        for id in range(1, 5):
            parameters = {"sequence_id": id, "sequence_start": True}
            client.infer("acc", {"x": x}, parameters=parameters)
        parameters = {"sequence_id": 9, "sequence_start": True}
        with pytest.raises(QueueFullError, match="at most 4 sequences"):
            client.infer("acc", {"x": x}, parameters=parameters)
        end = {"sequence_id": 1, "sequence_end": True}
        client.infer("acc", {"x": x}, parameters=end)
        client.infer("acc", {"x": x}, parameters=parameters)
