"""Large JSON: the values of Python's own parser, without holding other threads."""

import http.client
import json
import threading
import time

import numpy as np
import pytest
import small_models
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proa_serving.protocol import large_json
from proa_serving.protocol.large_json import parse_large_json

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=20,
)

FUZZ = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def short_chunks(monkeypatch):
    monkeypatch.setattr(large_json, "_CHUNK", 7)


@pytest.mark.usefixtures("short_chunks")
@FUZZ
@given(value=values, indent=st.none() | st.integers(0, 2))
def test_any_json_is_what_python_parses(value, indent):
    text = json.dumps(value, indent=indent)
    assert parse_large_json(text) == json.loads(text)


@pytest.mark.usefixtures("short_chunks")
@FUZZ
@given(text=st.text(alphabet='[]{},:"\\ 12.e-ntu', max_size=24))
def test_any_text_is_refused_where_python_refuses_it(text):
    try:
        want = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError):
            parse_large_json(text)
    else:
        assert parse_large_json(text) == want


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize(
    "data",
    [
        list(range(100)),
        [1.5, 2] * 50,
        np.arange(120).reshape(5, 4, 6).tolist(),
        [[1.25, -3e9]] * 40,
        [2**63 + at for at in range(3)] + [1, 2, 3] * 9,
        [-1, 2, 3] * 20,
        [],
        [[], []],
    ],
)
def test_data_becomes_the_array_that_numpy_makes(data):
    found = parse_large_json(json.dumps({"data": data}))["data"]
    want = np.array(data)
    found = np.asarray(found)
    assert (found.dtype, found.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(found, want)


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize("data", ["[[1,2],[3]]", "[[1,2],[3,4],5,[6,7]]"])
def test_irregular_data_is_refused(data):
    with pytest.raises(ValueError, match="regular list"):
        parse_large_json(f'{{"data": {data}}}')


@pytest.mark.parametrize("body", ["[" * 70 + "]" * 70, '{"a":' * 70 + "1" + "}" * 70])
def test_depth_is_bounded(body):
    with pytest.raises(ValueError, match="at most 64 deep"):
        parse_large_json(body)
    assert parse_large_json("[" * 64 + "]" * 64)


def test_objects_are_counted():
    with pytest.raises(ValueError, match="at most 4096 objects"):
        parse_large_json("[" + "{}," * 5000 + "{}]")


MIB = 2**20
BODIES = {
    "objects": '{"inputs":[' + "{}," * (8 * MIB // 3) + "{}]}",
    "numbers": '{"inputs":[{"name":"x","datatype":"FP32","shape":[524288,4],"data":['
    + "1.5," * (2 * MIB - 1)
    + "1.5]}]}",
    "rows": '{"inputs":[{"name":"x","datatype":"FP32","shape":[524288,4],"data":['
    + "[1,2,3,4]," * (MIB // 2 - 1)
    + "[1,2,3,4]]}]}",
    "strings": '{"inputs":["' + "a" * 8 * MIB + '"]}',
}


@pytest.mark.parametrize("kind", BODIES)
def test_liveness_is_answered_while_large_json_is_parsed(serve, tmp_path, kind):
    model = small_models.write_linear(tmp_path / "m.linear")
    waits, ended = [0.0], threading.Event()

    def probe(address):
        while not ended.is_set():
            began = time.monotonic()
            connection = http.client.HTTPConnection(address)
            connection.request("GET", "/v2/health/live")
            connection.getresponse().read()
            connection.close()
            waits.append(time.monotonic() - began)
            time.sleep(0.005)

    with serve({"m": model}) as server:
        thread = threading.Thread(target=probe, args=(server.http_address,))
        thread.start()
        connection = http.client.HTTPConnection(server.http_address)
        connection.request("POST", "/v2/models/m/infer", BODIES[kind])
        answer = connection.getresponse()
        text = answer.read()
        ended.set()
        thread.join(20)
        if kind in ("numbers", "rows"):
            assert answer.status == 200
            y = np.array(json.loads(text)["outputs"][0]["data"]).reshape(-1, 3)
            row = [1.5] * 4 if kind == "numbers" else [1, 2, 3, 4]
            want = np.broadcast_to(small_models.linear(row), y.shape)
            np.testing.assert_allclose(y, want, rtol=1e-5)
        else:
            assert answer.status == 400
    assert max(waits) < 0.5  # seconds; held in one go it would be more


def test_json_beyond_its_limit_is_refused(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear")
    with serve({"m": model}, max_json_bytes=MIB) as server:
        connection = http.client.HTTPConnection(server.http_address)
        connection.request("POST", "/v2/models/m/infer", BODIES["rows"])
        answer = connection.getresponse()
        assert answer.status == 413
        assert "JSON must be at most 1048576 bytes" in json.load(answer)["error"]
