"""The V1 protocol: what clients of KServe's V1 and of TensorFlow Serving send."""

import base64
import gzip
import http.client
import json

import numpy as np
import pytest
import small_models

X = np.random.default_rng(2).normal(size=(5, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def v1(serve, tmp_path_factory):
    folder = tmp_path_factory.mktemp("v1")
    with serve(small_models.write_all(folder), v1=True) as running:
        yield running


def send(server, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection(server.http_address, timeout=20)
    try:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body)
        connection.request(method, path, data, headers or {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def predict(server, model, body, **options):
    return send(server, "POST", f"/v1/models/{model}:predict", body, **options)


@pytest.mark.parametrize("path", ["linear", "linear/versions/1"])
@pytest.mark.parametrize("named", [False, True])
def test_rows_are_answered_by_rows(v1, path, named):
    rows = [{"x": row} if named else row for row in X.tolist()]
    status, answer = predict(v1, path, {"instances": rows})
    assert status == 200
    assert list(answer) == ["predictions"]
    y = np.array([row["y"] for row in answer["predictions"]])
    np.testing.assert_allclose(y, small_models.linear(X), rtol=1e-5)
    labels = [row["label"] for row in answer["predictions"]]
    assert labels == small_models.linear(X).argmax(1).tolist()


@pytest.mark.parametrize("named", [False, True])
def test_columns_are_answered_by_columns(v1, named):
    inputs = {"x": X.tolist()} if named else X.tolist()
    body = {"inputs": inputs, "signature_name": "serving_default"}
    status, answer = predict(v1, "linear", body)
    assert status == 200
    assert answer["outputs"].keys() == {"y", "label"}
    np.testing.assert_allclose(
        answer["outputs"]["y"], small_models.linear(X), rtol=1e-5
    )


def test_a_model_without_rows_takes_columns_alone(v1):
    status, answer = predict(v1, "fixed", {"inputs": X[0].tolist()})
    assert status == 200
    np.testing.assert_allclose(
        answer["outputs"]["y"], small_models.linear(X[0]), rtol=1e-5
    )
    status, answer = predict(v1, "fixed", {"instances": X[0].tolist()})
    assert status == 400
    assert "must be sent inputs rather than instances" in answer["error"]


def test_bytes_are_text_or_base64(v1):
    raw = b"\xff\x00\x80"
    rows = ["ab", {"b64": base64.b64encode(raw).decode()}, {"text": "zoë"}]
    status, answer = predict(v1, "text", {"instances": rows})
    assert status == 200
    back = base64.b64encode("zoë".encode()[::-1]).decode()
    assert answer["predictions"] == [
        {"length": 2, "back": "ba"},
        {"length": 3, "back": {"b64": base64.b64encode(raw[::-1]).decode()}},
        {"length": 4, "back": {"b64": back}},
    ]


def test_many_rows_and_compressed_ones(v1):
    rows = np.tile(X, (2000, 1))
    body = json.dumps({"instances": rows.tolist()}).encode()
    assert len(body) > 2**16
    for data, headers in (
        (body, {}),
        (gzip.compress(body), {"Content-Encoding": "gzip"}),
    ):
        status, answer = predict(v1, "linear", data, headers=headers)
        assert status == 200
        y = [row["y"] for row in answer["predictions"]]
        np.testing.assert_allclose(y, small_models.linear(rows), rtol=1e-4)


@pytest.mark.parametrize(
    ("model", "body", "message"),
    [
        ("linear", b"{", "must be a JSON object"),
        ("linear", {}, "must have either instances or inputs"),
        ("linear", {"instances": [[1]], "inputs": [[1]]}, "either instances or inputs"),
        ("linear", {"instances": []}, "must be a list of one or more"),
        ("linear", {"instances": 3}, "must be a list of one or more"),
        ("linear", {"instances": [[1, 2, 3]]}, r"shape must be [-1, 4]"),
        ("linear", {"instances": [[1] * 4, [1] * 3]}, "must be of a regular shape"),
        ("linear", {"instances": [{"z": [1] * 4}]}, "inputs must be ['x']"),
        ("linear", {"instances": [{"x": [1] * 4, "z": 1}]}, "inputs must be ['x']"),
        ("linear", {"instances": [["a"] * 4]}, "must be numbers that FP32 holds"),
        ("linear", {"instances": [[None] * 4]}, "must be numbers that FP32 holds"),
        ("linear", {"instances": [[{}] * 4]}, "must be numbers that FP32 holds"),
        ("linear", {"inputs": [[1] * 4], "signature_name": "a"}, "signature_name must"),
        ("text", {"instances": [1]}, "must be strings or b64"),
        ("text", {"instances": [{"b64": "?"}]}, "b64 must be base64"),
        ("text", {"instances": [{"b64": 3}]}, "b64 must be base64"),
        ("text", {"inputs": ["a", ["b"]]}, "must be of a regular shape"),
        ("text", {"inputs": [["a"], []]}, "must be of a regular shape"),
        ("text", {"inputs": "a"}, "shape must be [-1]"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_reported(v1, model, body, message):
    status, answer = predict(v1, model, body)
    assert status == (415 if "signature" in message else 400)
    assert message in answer["error"]


def test_unknown_models_paths_and_methods(v1):
    body = {"instances": [[1] * 4]}
    assert predict(v1, "absent", body)[0] == 404
    assert predict(v1, "linear/versions/7", body)[0] == 404
    assert send(v1, "GET", "/v1/models/linear:predict")[0] == 405
    assert send(v1, "POST", "/v1/models/linear:classify", body)[0] == 404
    assert send(v1, "GET", "/v1/models/absent")[0] == 404


def test_the_state_and_signature_of_models(v1):
    assert send(v1, "GET", "/") == (200, {"status": "alive"})
    assert send(v1, "GET", "/v1/models")[1] == {"models": ["linear", "fixed", "text"]}
    status, held = send(v1, "GET", "/v1/models/linear")
    assert (status, held["name"], held["ready"]) == (200, "linear", True)
    assert held["model_version_status"] == [
        {
            "version": "1",
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
    ]
    held = send(v1, "GET", "/v1/models/linear/versions/1/metadata")[1]
    assert held["model_spec"] == {
        "name": "linear",
        "signature_name": "",
        "version": "1",
    }
    signature = held["metadata"]["signature_def"]["signature_def"]["serving_default"]
    shape = [{"size": "-1", "name": ""}, {"size": "4", "name": ""}]
    assert signature["inputs"]["x"]["dtype"] == "DT_FLOAT"
    assert signature["inputs"]["x"]["tensor_shape"]["dim"] == shape
    assert signature["outputs"]["label"]["dtype"] == "DT_INT64"


def test_a_model_that_is_unloaded_is_unavailable(serve, tmp_path):
    small_models.write_linear(tmp_path / "m" / "1" / "model.linear")
    with serve(repository=tmp_path, model_control=True, v1=True) as server:
        send(server, "POST", "/v2/repository/models/m/unload", {})
        status, held = send(server, "GET", "/v1/models/m")
        assert (status, held["ready"]) == (503, False)
        assert predict(server, "m", {"instances": [[1] * 4]})[0] == 503


def test_without_the_option_there_is_no_such_path(server):
    for method, path in (("GET", "/v1/models"), ("POST", "/v1/models/linear:predict")):
        status, answer = send(server, method, path, {} if method == "POST" else None)
        assert status == 404
        assert "must be started with --v1" in answer["error"]
