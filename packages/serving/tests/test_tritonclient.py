"""The unmodified public client of the protocol as an outside witness."""

import gc

import numpy as np
import pytest
import small_models
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from proa_serving import __version__

X = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)


@pytest.fixture(params=["http", "grpc"])
def triton(request, server):
    kind = {"http": triton_http, "grpc": triton_grpc}[request.param]
    address = getattr(server, f"{request.param}_address")
    client = kind.InferenceServerClient(address)
    yield kind, client
    client.close()
    # Its finalizer must run on this thread, not on whichever collects the garbage.
    del client
    gc.collect()


def infer_once(
    triton, x=X, *, binary=True, outputs=("y", "label"), model="linear", **options
):
    kind, client = triton
    tensor = kind.InferInput("x", x.shape, "FP32")
    if kind is triton_http:
        tensor.set_data_from_numpy(x, binary_data=binary)
        wanted = [kind.InferRequestedOutput(n, binary_data=binary) for n in outputs]
    else:
        tensor.set_data_from_numpy(x)
        wanted = [kind.InferRequestedOutput(n) for n in outputs]
    return client.infer(model, [tensor], outputs=wanted, **options)


@pytest.mark.feature("L662")
@pytest.mark.feature("L663")
@pytest.mark.parametrize("binary", [True, False])
def test_infer_answers_what_numpy_computes(triton, binary):
    result = infer_once(triton, binary=binary, request_id="r1")
    np.testing.assert_allclose(result.as_numpy("y"), small_models.linear(X), rtol=1e-6)
    np.testing.assert_array_equal(
        result.as_numpy("label"), small_models.linear(X).argmax(1)
    )
    response = result.get_response()
    held = response["id"] if isinstance(response, dict) else response.id
    assert held == "r1"


def test_outputs_not_named_are_all_answered_binary_by_default(triton):
    kind, client = triton
    tensor = kind.InferInput("x", X.shape, "FP32")
    tensor.set_data_from_numpy(X)
    result = client.infer("linear", [tensor])
    np.testing.assert_allclose(result.as_numpy("y"), small_models.linear(X), rtol=1e-6)
    assert result.as_numpy("label").shape == (5,)


def test_one_output_is_answered_alone(triton):
    result = infer_once(triton, outputs=("label",))
    assert result.as_numpy("y") is None
    assert result.as_numpy("label").dtype == np.int64


def test_strings_travel_as_bytes(triton):
    kind, client = triton
    text = np.array([b"ab", b"", "zoë".encode()], object)
    tensor = kind.InferInput("text", text.shape, "BYTES")
    tensor.set_data_from_numpy(text)
    result = client.infer("text", [tensor])
    assert result.as_numpy("length").tolist() == [2, 0, 4]
    assert result.as_numpy("back").tolist() == [item[::-1] for item in text]


def test_a_model_without_a_batch_dim(triton):
    result = infer_once(triton, X[0], model="fixed")
    np.testing.assert_allclose(
        result.as_numpy("y"), small_models.linear(X[0]), rtol=1e-5
    )
    assert result.as_numpy("label").shape == ()


def test_an_empty_batch(triton):
    assert infer_once(triton, X[:0]).as_numpy("y").shape == (0, 3)


def test_health_and_metadata(triton):
    kind, client = triton
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("linear")
    assert client.is_model_ready("linear", "1")
    as_json = {} if kind is triton_http else {"as_json": True}
    about = client.get_server_metadata(**as_json)
    assert (about["name"], about["version"]) == ("proa-serving", __version__)
    assert "binary_tensor_data" in about["extensions"]
    model = client.get_model_metadata("linear", **as_json)
    assert model["versions"] == ["1"]
    shapes = {
        held["name"]: (held["datatype"], [int(size) for size in held["shape"]])
        for held in model["inputs"] + model["outputs"]
    }
    assert shapes == {
        "x": ("FP32", [-1, 4]),
        "y": ("FP32", [-1, 3]),
        "label": ("INT64", [-1]),
    }


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"model": "absent"}, ("404", "NOT_FOUND"), "expected a model that is served"),
        ({"model_version": "7"}, ("404", "NOT_FOUND"), "version must be one of"),
        ({"x": X[:, :3]}, ("400", "INVALID_ARGUMENT"), r"shape must be \[-1, 4\]"),
        ({"x": X[0]}, ("400", "INVALID_ARGUMENT"), r"got \[4\]"),
        ({"outputs": ("z",)}, ("400", "INVALID_ARGUMENT"), "outputs must be among"),
        ({"x": X * np.nan}, ("500", "INTERNAL"), "got a NaN"),
    ],
)
def test_errors_state_the_requirement(triton, change, status, message):
    with pytest.raises(InferenceServerException, match=message) as caught:
        infer_once(triton, **change)
    assert any(code in str(caught.value.status()) for code in status)


@pytest.mark.parametrize("how", ["gzip", "deflate"])
def test_compressed_requests(server, how):
    with triton_http.InferenceServerClient(server.http_address) as client:
        result = infer_once((triton_http, client), request_compression_algorithm=how)
    np.testing.assert_allclose(result.as_numpy("y"), small_models.linear(X), rtol=1e-6)


def test_repository_index_load_and_unload(serve, tmp_path):
    path = small_models.write_linear(tmp_path / "m" / "1" / "model.linear")
    small_models.write_linear(tmp_path / "m" / "2" / "model.linear", scale=2)
    with serve(repository=tmp_path, model_control=True) as server:
        for kind, address in (
            (triton_http, server.http_address),
            (triton_grpc, server.grpc_address),
        ):
            client = kind.InferenceServerClient(address)
            as_json = {} if kind is triton_http else {"as_json": True}
            y = infer_once((kind, client), model="m").as_numpy("y")
            np.testing.assert_allclose(y, 2 * small_models.linear(X), rtol=1e-5)
            index = client.get_model_repository_index(**as_json)
            lines = index if kind is triton_http else index["models"]
            assert [(line["name"], line["version"]) for line in lines] == [("m", "2")]
            client.unload_model("m")
            assert not client.is_model_ready("m")
            with pytest.raises(InferenceServerException, match="is not ready"):
                infer_once((kind, client), model="m")
            client.load_model("m")
            assert client.is_model_ready("m")
            client.close()
            del client
            gc.collect()
    assert path.exists()
