"""System shared memory, by Triton's unmodified clients, and by hostile ones."""

import contextlib
import gc
import json
import os
import random
import threading
import time
import uuid
from pathlib import Path

import numpy as np
import pytest
import small_models
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from proa_serving.client import GrpcClient, HttpClient
from proa_serving.models.shared_memory import SharedMemory
from proa_serving.protocol.errors import InvalidRequestError, NotFoundError
from proa_serving.protocol.generated import open_inference_pb2 as pb
from proa_serving.protocol.messages import RegionSlice, SharedInput, Tensor

X = np.random.default_rng(4).normal(size=(5, 4)).astype(np.float32)


def new_key():
    return f"/proa-test-{uuid.uuid4().hex}"


@pytest.fixture(scope="module")
def sharing(serve, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    (folder / "text.length").write_text("")
    models = {
        "m": small_models.write_linear(folder / "m.linear"),
        "slow": small_models.write_linear(folder / "s.linear", sleep=0.001),
        "text": folder / "text.length",
    }
    with serve(models, shared_memory=True, max_request_bytes=2**23) as server:
        yield server


@pytest.fixture(params=["http", "grpc"])
def triton(request, sharing):
    kind = {"http": triton_http, "grpc": triton_grpc}[request.param]
    client = kind.InferenceServerClient(getattr(sharing, f"{request.param}_address"))
    yield kind, client
    client.unregister_system_shared_memory()
    client.close()
    del client
    gc.collect()


@pytest.fixture
def region():
    """Makes a region of shared memory, as Triton's examples do."""
    with contextlib.ExitStack() as ended:

        def make(name, size, key=None):
            key = key or new_key()
            handle = shm.create_shared_memory_region(name, key, size)
            ended.callback(shm.destroy_shared_memory_region, handle)
            return handle, key

        yield make


@pytest.mark.parametrize("model", ["m", "slow"])
@pytest.mark.parametrize("rows", [5, 100_000])
def test_inputs_and_outputs_in_regions(triton, region, rows, model):
    kind, client = triton
    x = np.random.default_rng(rows).normal(size=(rows, 4)).astype(np.float32)
    pad = 64  # the tensors are within their regions, not at their beginning
    source, source_key = region("in", x.nbytes + pad)
    target, target_key = region("out", rows * 12 + pad)
    shm.set_shared_memory_region(source, [x], offset=pad)
    client.register_system_shared_memory("in", source_key, x.nbytes + pad)
    client.register_system_shared_memory("out", target_key, rows * 12, offset=pad)
    tensor = kind.InferInput("x", x.shape, "FP32")
    tensor.set_shared_memory("in", x.nbytes, offset=pad)
    y = kind.InferRequestedOutput("y")
    y.set_shared_memory("out", rows * 12)
    for _ in range(6):
        shm.set_shared_memory_region(target, [np.zeros(rows * 3, np.float32)], pad)
        outputs = [y, kind.InferRequestedOutput("label")]
        result = client.infer(model, [tensor], outputs=outputs)
        held = result.get_output("y")
        if kind is triton_http:
            assert held["parameters"]["shared_memory_byte_size"] == rows * 12
            assert "binary_data_size" not in held["parameters"]
        else:
            assert held.parameters["shared_memory_region"].string_param == "out"
        found = shm.get_contents_as_numpy(target, np.float32, [rows, 3], offset=pad)
        want = small_models.linear(x)
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
        # The output that is not shared comes as ever.
        np.testing.assert_array_equal(result.as_numpy("label"), found.argmax(1))


def test_strings_in_regions(triton, region):
    kind, client = triton
    text = np.array([b"ab", b"", "zoë".encode()], object)
    from tritonclient.utils import serialize_byte_tensor, serialized_byte_size

    packed = serialize_byte_tensor(text)
    size = serialized_byte_size(packed)
    source, key = region("in", size)
    shm.set_shared_memory_region(source, [packed])
    client.register_system_shared_memory("in", key, size)
    tensor = kind.InferInput("text", text.shape, "BYTES")
    tensor.set_shared_memory("in", size)
    result = client.infer("text", [tensor])
    assert result.as_numpy("length").tolist() == [2, 0, 4]


def test_register_status_and_unregister(triton, region, sharing):
    kind, client = triton
    as_json = {} if kind is triton_http else {"as_json": True}
    assert "system_shared_memory" in client.get_server_metadata(**as_json)["extensions"]
    _, key = region("a", 128)
    client.register_system_shared_memory("a", key, 64, offset=64)
    client.register_system_shared_memory("b", key, 128)

    def status(name=""):
        found = client.get_system_shared_memory_status(name, **as_json)
        if kind is triton_grpc:
            found = found.get("regions", {}).values()
        return {
            (
                each["name"],
                each["key"],
                int(each.get("offset", 0)),
                int(each["byte_size"]),
            )
            for each in found
        }

    a, b = ("a", key, 64, 64), ("b", key, 0, 128)
    assert status() == {a, b}
    assert status("a") == {a}
    with pytest.raises(InferenceServerException, match="must not be registered twice"):
        client.register_system_shared_memory("a", key, 1)
    client.unregister_system_shared_memory("a")
    assert status() == {b}
    with pytest.raises(InferenceServerException, match="a region that is registered"):
        status("a")
    client.unregister_system_shared_memory()
    assert status() == set()


@pytest.mark.parametrize(
    ("key", "offset", "size", "message"),
    [
        ("/../../etc/passwd", 0, 1, "key must be /NAME"),
        ("//etc/passwd", 0, 1, "key must be /NAME"),
        ("..", 0, 1, "key must be /NAME"),
        ("/.", 0, 1, "key must be /NAME"),
        ("/a\0b", 0, 1, "key must be /NAME"),
        ("/" + "a" * 300, 0, 1, "key must be /NAME"),
        ("/proa-test-absent", 0, 1, "cannot open"),
        (None, 0, 129, "must be within the 128 bytes"),
        (None, 128, 1, "must be within the 128 bytes"),
        (None, 0, 0, "must be within the 128 bytes"),
        (None, 2**63, 2**63, "must be within the 128 bytes"),
        (None, 2**64 - 1, 2, "must be within the 128 bytes"),
    ],
)
def test_regions_that_are_refused(triton, region, key, offset, size, message):
    _, client = triton
    _, own = region("a", 128)
    with pytest.raises(InferenceServerException, match=message):
        client.register_system_shared_memory(
            "r", own if key is None else key, size, offset
        )


def test_what_is_no_shared_memory_is_not_opened(tmp_path):
    memory = SharedMemory(tmp_path)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "shm").mkdir()
    inner = SharedMemory(tmp_path / "shm")
    (tmp_path / "shm" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "shm" / "folder").mkdir()
    os.mkfifo(tmp_path / "shm" / "fifo")
    for key in ("/link", "/folder", "/fifo", "/../secret", "/shm/../secret"):
        with pytest.raises(InvalidRequestError):
            inner.register("r", key, 0, 1)
    memory.register("r", "/secret", 0, 6)
    memory.unregister()


@pytest.mark.parametrize(
    ("slice_", "message"),
    [
        (("absent", 0, 80), "a region that is registered"),
        (("in", 0, 81), "must be within the 80 bytes of region"),
        (("in", 80, 1), "must be within the 80 bytes of region"),
        (("in", 2**61, 80), "must be within the 80 bytes of region"),
        (("in", 0, 79), "must be 80 bytes"),
    ],
)
def test_slices_are_within_their_region(triton, region, slice_, message):
    kind, client = triton
    source, key = region("in", 80)
    shm.set_shared_memory_region(source, [X])
    client.register_system_shared_memory("in", key, 80)
    name, offset, size = slice_
    tensor = kind.InferInput("x", X.shape, "FP32")
    tensor.set_shared_memory(name, size, offset=offset)
    with pytest.raises(InferenceServerException, match=message):
        client.infer("m", [tensor])


def test_outputs_that_do_not_fit_are_refused_and_not_written(triton, region):
    kind, client = triton
    target, key = region("out", 64)
    shm.set_shared_memory_region(target, [np.full(16, 7, np.float32)])
    client.register_system_shared_memory("out", key, 32)
    tensor = kind.InferInput("x", X.shape, "FP32")
    tensor.set_data_from_numpy(X)
    for size in (59, 60):  # less than the output, and more than the region
        y = kind.InferRequestedOutput("y")
        y.set_shared_memory("out", size)
        with pytest.raises(InferenceServerException, match="must be"):
            client.infer("m", [tensor], outputs=[y])
    held = shm.get_contents_as_numpy(target, np.float32, [16])
    assert (held == 7).all()


def test_a_region_that_shrinks_is_an_error_and_kills_nobody(triton, region):
    """A mapped region would raise SIGBUS."""
    kind, client = triton
    _, key = region("in", 2**21)
    client.register_system_shared_memory("in", key, 2**21)
    tensor = kind.InferInput("x", [2**17, 4], "FP32")
    tensor.set_shared_memory("in", 2**21)
    os.truncate(f"/dev/shm{key}", 4096)
    with pytest.raises(InferenceServerException, match="was shortened"):
        client.infer("m", [tensor])
    y = kind.InferRequestedOutput("y")
    y.set_shared_memory("in", 60, offset=8192)
    small = kind.InferInput("x", X.shape, "FP32")
    small.set_data_from_numpy(X)
    with pytest.raises(InferenceServerException, match="was shortened"):
        client.infer("m", [small], outputs=[y])
    assert os.stat(f"/dev/shm{key}").st_size == 4096
    assert client.is_server_live()


def test_shared_inputs_count_as_the_requests_bytes(triton, region):
    kind, client = triton
    _, key = region("in", 2**24)
    client.register_system_shared_memory("in", key, 2**24)
    tensor = kind.InferInput("x", [2**20, 4], "FP32")
    tensor.set_shared_memory("in", 2**24)
    with pytest.raises(InferenceServerException, match="at most 8388608 bytes"):
        client.infer("m", [tensor])


def test_without_the_option_it_is_refused(server):
    with triton_http.InferenceServerClient(server.http_address) as client:
        with pytest.raises(InferenceServerException, match="--shared-memory"):
            client.register_system_shared_memory("a", "/a", 1)
        tensor = triton_http.InferInput("x", X.shape, "FP32")
        tensor.set_shared_memory("a", 80)
        with pytest.raises(InferenceServerException, match="--shared-memory"):
            client.infer("linear", [tensor])


def test_regions_are_bounded_and_leave_no_descriptor(tmp_path):
    (tmp_path / "a").write_bytes(bytes(8))
    memory = SharedMemory(tmp_path)
    for at in range(256):
        memory.register(str(at), "/a", 0, 8)
    for _ in range(5):
        with pytest.raises(InvalidRequestError, match="at most 256 regions"):
            memory.register("more", "/a", 0, 8)
        with pytest.raises(InvalidRequestError):
            memory.register("0", "/a", 0, 9)
    memory.unregister()
    opened = Path("/proc/self/fd")
    assert str(tmp_path / "a") not in [os.path.realpath(fd) for fd in opened.iterdir()]


def test_regions_that_are_unregistered_while_they_are_read(tmp_path):
    """No copy ever reads a descriptor that has come to mean another file."""
    (tmp_path / "a").write_bytes(b"a" * 2**20)
    (tmp_path / "other").write_bytes(b"o" * 2**20)
    memory, ended = SharedMemory(tmp_path), threading.Event()

    def change():
        while not ended.is_set():
            memory.unregister("r")
            with open(tmp_path / "other", "rb"):  # takes the descriptor
                pass
            memory.register("r", "/a", 0, 2**20)
            time.sleep(2e-4)

    thread = threading.Thread(target=change)
    thread.start()
    wanted = [SharedInput("x", "UINT8", (2**20,), RegionSlice("r", 0, 2**20))]
    seen = 0
    try:
        while seen < 100:
            with contextlib.suppress(NotFoundError):
                (tensor,) = memory.read(wanted)
                assert (tensor.array == ord("a")).all()
                seen += 1
                memory.write(Tensor("y", "UINT8", tensor.array), wanted[0].slice)
    finally:
        ended.set()
        thread.join()
    memory.unregister()


# Values of every parameter, good ones among them.
VALUES = ("in", "out", "", "absent", 0, 1, 80, 81, -1, 2**62, 2**70, 1.5, True, None)


@pytest.mark.fuzz
def test_fuzzed_requests_are_answered_and_keep_nothing(sharing, region):
    rng = random.Random(7)
    keys = {name: region(name, 80)[1] for name in ("in", "out")}
    names = [f"shared_memory_{each}" for each in ("region", "offset", "byte_size")]
    answers = set()
    with HttpClient(sharing.http_address) as client:

        def post(path, held):
            return client._send("POST", path, json.dumps(held).encode(), {})[0]

        for at in range(600):
            given = {name: rng.choice(VALUES) for name in names if rng.randrange(8)}
            wanted = {name: rng.choice(VALUES) for name in names if rng.randrange(8)}
            if rng.randrange(3) == 0:
                given = dict(zip(names, ("in", 0, 80), strict=True))
            tensor = {"name": "x", "datatype": "FP32", "shape": [5, 4]}
            body = {
                "inputs": [{**tensor, "parameters": given}],
                "outputs": [{"name": "y", "parameters": wanted}],
            }
            if rng.randrange(5) == 0:
                body["inputs"].append({**tensor, "data": [1.0] * 20})
            answers.add(
                client._send(
                    "POST", "/v2/models/m/infer", json.dumps(body).encode(), {}
                )[0]
            )
            where = f"/v2/systemsharedmemory/region/{rng.choice(['in', 'out', 'x'])}"
            change = {"key": rng.choice([*keys.values(), *VALUES])}
            change["byte_size"] = rng.choice([80, 80, *VALUES])
            if rng.randrange(2):
                change["offset"] = rng.choice([0, *VALUES])
            action = "register" if at % 4 else "unregister"
            path = f"{where}/{action}"
            answers.add(post(path, change))
        assert client.live()
        assert post("/v2/systemsharedmemory/unregister", {}) == 200
    assert answers == {200, 400, 404}
    assert sharing._server._service.budget.used == 0


@pytest.mark.fuzz
def test_fuzzed_messages_are_answered_and_keep_nothing(sharing, region):
    rng = random.Random(8)
    _, key = region("in", 80)
    message = pb.ModelInferRequest(model_name="m")
    tensor = message.inputs.add(name="x", datatype="FP32", shape=[5, 4])
    tensor.parameters["shared_memory_region"].string_param = "in"
    tensor.parameters["shared_memory_byte_size"].int64_param = 80
    output = message.outputs.add(name="y")
    output.parameters["shared_memory_region"].string_param = "in"
    output.parameters["shared_memory_byte_size"].int64_param = 60
    sent = message.SerializeToString()
    with triton_grpc.InferenceServerClient(sharing.grpc_address) as client:
        client.register_system_shared_memory("in", key, 80)
        channel = client._channel
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        codes = set()
        for at in range(600):
            changed = bytearray(sent)
            for _ in range(min(at, rng.randrange(4))):
                changed[rng.randrange(len(changed))] = rng.randrange(256)
            try:
                infer(bytes(changed), timeout=10)
                codes.add("OK")
            except Exception as error:
                codes.add(error.code().name)
        client.unregister_system_shared_memory()
    assert "OK" in codes
    assert "INTERNAL" not in codes
    assert codes <= {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED"}
    with GrpcClient(sharing.grpc_address) as client:
        assert client.live()
    assert sharing._server._service.budget.used == 0
