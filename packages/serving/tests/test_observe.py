"""What the server reports of its requests: statistics, traces, timeline, log, page."""

import hashlib
import http.client
import itertools
import json
import shutil
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
import small_models
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from google.protobuf import json_format
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from tritonclient.utils import InferenceServerException

from proa_serving.client import GrpcClient, HttpClient
from proa_serving.observe.access_log import AccessLog
from proa_serving.observe.trace import TraceParent
from proa_serving.protocol.errors import (
    InvalidRequestError,
    ModelFailedError,
    NotFoundError,
    QueueFullError,
    TooLargeError,
    UnauthenticatedError,
)
from proa_serving.schedule.queue import Limits

X = np.ones((3, 4), np.float32)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def get(address, path):
    connection = http.client.HTTPConnection(address)
    connection.request("GET", path)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, data


@pytest.mark.parametrize("kind", [triton_http, triton_grpc])
def test_tritonclient_reads_statistics_and_configuration(serve, tmp_path, kind):
    model = small_models.write_linear(tmp_path / "m.linear", sleep=0.01)
    limits = Limits(max_batch=8)
    with serve({"m": model}, limits=limits) as server:
        with GrpcClient(server.grpc_address) as client:
            for _ in range(5):
                client.infer("m", {"x": X})
            with pytest.raises(ModelFailedError):
                client.infer("m", {"x": X * np.nan})
        address = server.http_address if kind is triton_http else server.grpc_address
        with kind.InferenceServerClient(address) as client:
            if kind is triton_http:
                held = client.get_inference_statistics("m")["model_stats"]
                config = client.get_model_config("m")
            else:
                message = client.get_inference_statistics("m")
                as_dict = json_format.MessageToDict
                held = as_dict(message, preserving_proto_field_name=True)["model_stats"]
                config = as_dict(
                    client.get_model_config("m").config,
                    preserving_proto_field_name=True,
                )
    (one,) = held
    assert (one["name"], one["version"]) == ("m", "1")
    assert int(one["inference_count"]) == 15  # rows
    assert int(one["execution_count"]) == 5
    stats = one["inference_stats"]
    assert int(stats["success"]["count"]) == 5
    assert int(stats["fail"]["count"]) == 1
    assert int(stats["compute_infer"]["count"]) == 5
    computed = int(stats["compute_infer"]["ns"])
    assert 50e6 <= computed <= int(stats["success"]["ns"])
    assert int(stats["queue"]["count"]) == 6
    (batch,) = one["batch_stats"]
    assert int(batch["batch_size"]) == 3
    assert int(batch["compute_infer"]["ns"]) == computed
    assert abs(int(one["last_inference"]) / 1e3 - time.time()) < 60
    assert config["max_batch_size"] == 8
    assert config["input"][0]["name"] == "x"
    assert config["input"][0]["data_type"] == "TYPE_FP32"
    assert [int(size) for size in config["input"][0]["dims"]] == [4]


def test_statistics_of_all_models_and_of_none(server):
    status, data = get(server.http_address, "/v2/models/stats")
    assert status == 200
    names = {held["name"] for held in json.loads(data)["model_stats"]}
    assert names == {"linear", "fixed", "text"}
    status, data = get(server.http_address, "/v2/models/absent/stats")
    assert status == 404
    assert "got 'absent'" in json.loads(data)["error"]


@pytest.mark.feature("L669")
def test_a_timeline_shows_the_stages_of_each_request(serve, tmp_path):
    """In the Trace Event Format that Chrome and Perfetto draw."""
    model = small_models.write_linear(tmp_path / "m.linear", sleep=0.1)
    path = tmp_path / "timeline.json"
    options = {"timeline": path, "trace_share": 1.0, "limits": Limits(max_batch=1)}
    with serve({"m": model}, **options) as server:
        with HttpClient(server.http_address) as client:
            client.infer("m", {"x": X}, id="first")

        together = threading.Barrier(4)

        def infer(_):
            with GrpcClient(server.grpc_address) as client:
                assert client.live()  # connected
                together.wait()
                client.infer("m", {"x": X})

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(infer, range(4)))
        live = json.loads(get(server.http_address, "/timeline")[1])
    written = json.loads(path.read_text())
    assert written == live
    events = [event for event in written["traceEvents"] if event["ph"] == "X"]
    requests = [event for event in events if event["name"] == "request"]
    assert len(requests) == 5
    assert requests[0]["args"]["id"] == "first"
    assert requests[0]["args"]["protocol"] == "http"
    named = [event for event in written["traceEvents"] if event["ph"] == "M"]
    assert named[0]["args"]["name"] == "m"
    for request in requests:
        begin, end = request["ts"], request["ts"] + request["dur"]
        inside = [
            event
            for event in events
            if event["tid"] == request["tid"]
            and begin - 1 <= event["ts"] <= end
            and event is not request
        ]
        assert [event["name"] for event in inside] == [
            *("decode", "queue", "compute", "answer")
        ]
        computed = next(event for event in inside if event["name"] == "compute")
        assert computed["dur"] >= 100_000  # microseconds
        for event, after in itertools.pairwise(inside):
            assert event["ts"] + event["dur"] <= after["ts"] + 1
    # Four at one time: each waits for those before it, the last for three.
    queued = sorted(event["dur"] for event in events if event["name"] == "queue")
    assert queued[-1] > 250_000
    assert len({request["tid"] for request in requests}) == 4


def test_without_a_timeline_the_path_says_how_to_get_one(server):
    status, data = get(server.http_address, "/timeline")
    assert status == 404
    assert "--timeline" in json.loads(data)["error"]


def test_only_sampled_requests_are_traced(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear")
    options = {"timeline": tmp_path / "t.json", "trace_share": 0.0}
    with serve({"m": model}, **options) as server:
        with HttpClient(server.http_address) as client:
            client.infer("m", {"x": X})
            client.infer("m", {"x": X}, parameters={"traceparent": PARENT[:-1] + "0"})
            client.infer("m", {"x": X}, parameters={"traceparent": PARENT})
        live = json.loads(get(server.http_address, "/timeline")[1])
    (request,) = [e for e in live["traceEvents"] if e["name"] == "request"]
    assert request["args"]["trace_id"] == PARENT.split("-")[1]


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        (PARENT, True),
        (PARENT.replace("00-0a", "cc-0a") + "-what-comes-later", True),
        (PARENT + "-x", False),  # version 00 has four fields
        (PARENT.replace("00-0a", "cc-0a") + "x", False),
        (PARENT.replace("00-0a", "ff-0a"), False),
        (PARENT.upper(), False),
        ("00-" + "0" * 32 + "-b7ad6b7169203331-01", False),
        ("00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01", False),
        ("", False),
    ],
)
def test_traceparent_is_read_as_the_standard_says(text, parsed):
    found = TraceParent.parse(text)
    assert (found is not None) == parsed
    if parsed:
        assert found.span_id == "b7ad6b7169203331"
        assert found.sampled


def test_the_access_log_has_a_line_for_each_request(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear")
    path = tmp_path / "access.jsonl"
    with serve({"m": model}, access_log=path) as server:
        with HttpClient(server.http_address) as client:
            client.infer("m", {"x": X}, id="é1")
            with pytest.raises(InvalidRequestError):
                client.infer("m", {"x": X[:, :2]})
        with GrpcClient(server.grpc_address) as client:
            client.infer("m", {"x": X}, parameters={"traceparent": PARENT})
    good, bad, grpc = (json.loads(line) for line in path.read_text().splitlines())
    assert (good["model"], good["version"], good["id"]) == ("m", "1", "é1")
    assert (good["status"], good["protocol"]) == ("ok", "http")
    assert good["ms"] >= good["compute_ms"]
    assert bad["status"] == "invalid"
    assert "shape must be" in bad["error"]
    assert grpc["protocol"] == "grpc"
    assert grpc["trace_id"] == PARENT.split("-")[1]


@pytest.mark.parametrize("engine", ["asyncio", "grpcio"])
def test_requests_that_reach_no_model_are_logged_and_counted(serve, tmp_path, engine):
    """With who sent them: the name of an API key, or an address."""
    model = small_models.write_linear(tmp_path / "m.linear")
    keys, path = tmp_path / "keys", tmp_path / "access.jsonl"
    keys.write_text(f"ann sha256:{hashlib.sha256(b'secret').hexdigest()}\n")
    limits = {"max_request_bytes": 2**20, "max_in_flight_bytes": 2**20}
    wide = np.zeros((2**16, 4), np.float32)
    with serve(
        {"m": model}, access_log=path, api_keys=keys, grpc_engine=engine, **limits
    ) as server:
        places = ((HttpClient, server.http_address), (GrpcClient, server.grpc_address))
        for kind, address in places:
            with kind(address) as client, pytest.raises(UnauthenticatedError):
                client.infer("m", {"x": X})
            with kind(address, api_key="secret") as client:
                with pytest.raises(NotFoundError):
                    client.infer("absent", {"x": X})
                with pytest.raises((TooLargeError, QueueFullError)):
                    client.infer("m", {"x": wide})
                client.infer("m", {"x": X})
        with socket.create_connection(server.http_address.split(":")) as held:
            held.sendall(b"POST /v2/models/m/infer HTTP/1.1\r\n\r\n")
            assert held.recv(1000).startswith(b"HTTP/1.1 400 ")
        with HttpClient(server.http_address, api_key="secret") as client:
            counted = client.metrics()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    keys = ("protocol", "client", "status")
    found = [tuple(line[key] for key in keys) for line in lines]
    # grpcio receives a message before its call is admitted.
    full = "ann" if engine == "asyncio" else "127.0.0.1"
    assert found == [
        ("http", "127.0.0.1", "unauthenticated"),
        ("http", "ann", "not_found"),
        ("http", "ann", "too_large"),
        ("http", "ann", "ok"),
        ("grpc", "127.0.0.1", "unauthenticated"),
        ("grpc", "ann", "not_found"),
        ("grpc", full, "queue_full"),
        ("grpc", "ann", "ok"),
        ("http", "127.0.0.1", "invalid"),
    ]
    assert [line["model"] for line in lines[:4]] == ["m", "absent", "m", "m"]
    assert "must have a Host" in lines[-1]["error"]
    for protocol, _, status in found:
        if status not in ("ok", "not_found"):
            labels = f'model="",protocol="{protocol}",reason="{status}",version=""'
            assert f"request_failures_total{{{labels}}} 1.0" in counted


def test_an_access_log_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(InvalidRequestError, match="the file cannot be written"):
        AccessLog(tmp_path / "absent" / "log")


class Collector(BaseHTTPRequestHandler):
    """Takes what an OTLP exporter sends."""

    def do_POST(self):
        size = int(self.headers["Content-Length"])
        self.server.bodies.append((self.path, self.rfile.read(size)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_traces_reach_a_collector_with_their_callers_context(serve, tmp_path):
    pytest.importorskip("opentelemetry.sdk", reason="needs proa-serving[otlp]")
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

    collector = HTTPServer(("127.0.0.1", 0), Collector)
    collector.bodies = []
    thread = threading.Thread(target=collector.serve_forever)
    thread.start()
    model = small_models.write_linear(tmp_path / "m.linear", sleep=0.01)
    url = f"http://127.0.0.1:{collector.server_port}/v1/traces"
    try:
        with (
            serve({"m": model}, otlp=url) as server,
            HttpClient(server.http_address) as client,
        ):
            parameters = {"traceparent": PARENT}
            client.infer("m", {"x": X}, parameters=parameters)
            with pytest.raises(ModelFailedError):
                client.infer("m", {"x": X * np.nan}, parameters=parameters)
    finally:
        collector.shutdown()
        thread.join()
        collector.server_close()
    spans = []
    for path, body in collector.bodies:
        assert path == "/v1/traces"
        message = trace_service_pb2.ExportTraceServiceRequest.FromString(body)
        for resource in message.resource_spans:
            for scope in resource.scope_spans:
                spans += scope.spans
    good, bad = (span for span in spans if span.name == "infer m")
    for span in (good, bad):
        assert span.trace_id.hex() == PARENT.split("-")[1]
        assert span.parent_span_id.hex() == PARENT.split("-")[2]
    assert bad.status.code == bad.status.STATUS_CODE_ERROR
    inside = {span.name: span for span in spans if span.parent_span_id == good.span_id}
    assert inside.keys() == {"decode", "queue", "compute", "answer"}
    computed = inside["compute"]
    assert computed.end_time_unix_nano - computed.start_time_unix_nano >= 10_000_000


def test_a_collector_that_is_gone_does_not_hold_up_the_end(serve, tmp_path, caplog):
    pytest.importorskip("opentelemetry.sdk", reason="needs proa-serving[otlp]")
    model = small_models.write_linear(tmp_path / "m.linear")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces"
        server = serve({"m": model}, otlp=url).__enter__()
        with HttpClient(server.http_address) as client:
            client.infer("m", {"x": X}, parameters={"traceparent": PARENT})
        began = time.monotonic()
        assert server.stop()
        assert time.monotonic() - began < 5
    assert "the last traces were not sent within 2 s" in caplog.text


def test_the_status_page_is_there(server):
    status, data = get(server.http_address, "/status")
    assert status == 200
    assert data.startswith(b"<!doctype html>")


# Runs the script of the page as a browser does, twice, with requests in between.
BROWSER = """
const [base, request] = process.argv.slice(1);
const element = () => ({
  children: [],
  appendChild(child) { this.children.push(child); return child; },
  replaceChildren(...all) { this.children = all; },
});
const held = {models: element(), state: element()};
const page = {createElement: element, getElementById: name => held[name]};
const texts = line => line.children.map(cell => cell.textContent);
const rows = () => held.models.children.map(l => [l.className || "", ...texts(l)]);
const post = {method: "POST", body: request};
let looks = 0;
async function later(look) {
  if (++looks > 1) {
    console.log(JSON.stringify([rows(), held.state.textContent]));
    return;
  }
  for (let i = 0; i < 3; i++)
    await fetch(base + "/v2/models/linear/infer", post).then(r => r.text());
  look();
}
const html = await (await fetch(base + "/status")).text();
const script = html.match(/<script>([^]*)<\\/script>/)[1];
const run = new Function("document", "fetch", "setTimeout", script);
run(page, (path, options) => fetch(base + path, options), later);
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node, to run the page")
def test_the_status_page_shows_what_models_do(serve, tmp_path):
    small_models.write_linear(tmp_path / "linear" / "1" / "model.linear")
    broken = small_models.write_linear(tmp_path / "broken" / "1" / "model.linear")
    broken.write_text("{")
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
    with serve(repository=tmp_path) as server:
        address = f"http://{server.http_address}"
        request = json.dumps({"inputs": [tensor]})
        command = ["node", "--input-type=module", "-e", BROWSER, address, request]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (bad, good), state = json.loads(done.stdout)
    assert bad[:3] == ["bad", "broken", ""]
    assert "must be a linear model" in bad[3]
    look, name, version, ready, answers, failures, mean, wait, run, rows, count = good
    assert (look, name, version, ready) == ("", "linear", "1", "READY")
    assert (float(failures), float(rows), int(count)) == (0.0, 1.0, 3)
    assert float(answers) > 0
    assert min(float(mean), float(wait), float(run)) >= 0
    assert state.startswith("Of the last ")


def test_tritons_client_changes_how_many_requests_are_traced(serve, tmp_path):
    model = small_models.write_linear(tmp_path / "m.linear")
    options = {"timeline": tmp_path / "timeline.json", "model_control": True}
    x = np.ones((1, 4), np.float32)
    with (
        serve({"m": model}, **options) as server,
        triton_http.InferenceServerClient(server.http_address) as client,
        HttpClient(server.http_address) as own,
    ):
        assert client.get_trace_settings()["trace_level"] == ["OFF"]
        settings = {"trace_level": ["TIMESTAMPS"], "trace_rate": "1"}
        assert client.update_trace_settings(settings=settings)["trace_rate"] == "1"
        for _ in range(3):
            own.infer("m", {"x": x})
        client.update_trace_settings(settings={"trace_level": "OFF"})
        own.infer("m", {"x": x})
        events = own._json("GET", "/timeline")["traceEvents"]
        for settings, message in (
            ({"trace_rate": "0"}, "trace_rate must be a number from 1"),
            ({"trace_level": ["TENSORS"]}, "trace_level must be OFF or TIMESTAMPS"),
            ({"trace_file": "x"}, "trace_level and trace_rate can be set"),
        ):
            with pytest.raises(InferenceServerException, match=message):
                client.update_trace_settings(settings=settings)
    assert sum(event["name"] == "decode" for event in events) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_control": True}, "must be started with --timeline"),
        ({}, "--model-control|--admin"),
    ],
)
def test_trace_settings_need_traces_and_leave(serve, tmp_path, options, message):
    model = small_models.write_linear(tmp_path / "m.linear")
    with (
        serve({"m": model}, **options) as server,
        triton_http.InferenceServerClient(server.http_address) as client,
    ):
        assert client.get_trace_settings()["trace_level"] == ["OFF"]
        with pytest.raises(InferenceServerException, match=message):
            client.update_trace_settings(settings={"trace_level": "TIMESTAMPS"})


def test_metrics_have_the_type_of_the_format_that_writes_them(serve, tmp_path):
    with serve({"m": small_models.write_linear(tmp_path / "m.linear")}) as server:
        connection = http.client.HTTPConnection(server.http_address, timeout=10)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.getheader("content-type") == CONTENT_TYPE_PLAIN_0_0_4
        assert b'proa_serve_requests_total{model="m"' in answer.read()
        connection.close()
