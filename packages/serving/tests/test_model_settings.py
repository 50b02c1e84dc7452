"""Settings of models: the files they come from, and what is wrong with them."""

import contextlib
import json

import numpy as np
import pytest
import small_models
from google.protobuf import json_format, text_format
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from proa_serving.client import HttpClient
from proa_serving.models.cores import available_cores, share_cores
from proa_serving.models.pbtxt import parse_pbtxt
from proa_serving.models.settings import ModelSettings, VersionPolicy, read_settings
from proa_serving.models.settings_file import load_settings
from proa_serving.protocol.errors import ModelLoadError
from proa_serving.schedule.queue import Limits

TRITON = """
# A comment.
name: "m" platform: "onnxruntime_onnx"
max_batch_size: 0x10
input [
  { name: "x" data_type: TYPE_FP32 dims: [ 4 ] },
  { name: 'te' "xt" data_type: TYPE_STRING dims: -1 }
]
output < name: "y"; data_type: TYPE_FP32; dims: [3] >
version_policy { specific { versions: [1, 3] } }
instance_group [ { count: 2 kind: KIND_CPU }, { count: 1 } ]
dynamic_batching {
  preferred_batch_size: [ 4, 8 ]
  max_queue_delay_microseconds: 100
  priority_levels: 3
  default_priority_level: 2
  default_queue_policy { default_timeout_microseconds: 5000 max_queue_size: 7 }
}
response_cache { enable: true }
model_warmup { name: "w" batch_size: 2 count: 3
  inputs { key: "x" value { data_type: TYPE_FP32 dims: 4 random_data: true } } }
parameters { key: "note" value { string_value: "a\\tb\\x21\\041" } }
"""


def as_protobuf(text):
    """What Google's parser reads, in the form of ours."""
    message = text_format.Parse(text, model_config_pb2.ModelConfig())
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def test_the_text_format_is_read_as_protobuf_reads_it():
    ours, theirs = parse_pbtxt(TRITON, "t"), as_protobuf(TRITON)
    assert ours.keys() == theirs.keys()
    assert ours["max_batch_size"] == [theirs["max_batch_size"]]
    for name in ("input", "output"):
        for mine, held in zip(ours[name], theirs[name], strict=True):
            assert mine["name"] == [held["name"]]
            assert mine["data_type"] == [held["data_type"]]
            assert mine["dims"] == [int(size) for size in held["dims"]]
    batching = ours["dynamic_batching"][0]
    held = theirs["dynamic_batching"]
    assert batching["preferred_batch_size"] == held["preferred_batch_size"]
    said = ours["parameters"][0]["value"][0]["string_value"]
    assert said == [theirs["parameters"]["note"]["string_value"]]


def test_a_triton_configuration_becomes_our_settings(tmp_path):
    path = tmp_path / "config.pbtxt"
    path.write_text(TRITON)
    found = load_settings(path, "m", ModelSettings())
    assert found.limits == Limits(
        max_batch=16,
        max_delay_us=100,
        queue=7,
        preferred=(4, 8),
        priorities=3,
        priority=2,
        wait_us=5000,
    )
    assert found.versions == VersionPolicy(only=(1, 3))
    assert (found.instances, found.backend, found.cache) == (3, "onnx", True)
    assert [spec.shape for spec in found.inputs] == [(-1, 4), (-1, -1)]
    assert [spec.datatype for spec in found.inputs] == ["FP32", "BYTES"]
    assert found.warmup[0].shapes == {"x": (4,)}
    assert (found.warmup[0].rows, found.warmup[0].count) == (2, 3)
    assert found.parameters == {"note": "a\tb!!"}


def test_without_dynamic_batching_requests_run_apart_as_in_triton(tmp_path):
    path = tmp_path / "config.pbtxt"
    path.write_text("max_batch_size: 8")
    assert load_settings(path, "m", ModelSettings()).limits.max_batch == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour: 3", "not supported: .*colour"),
        ('name: "other"', "name must be that of its folder, m"),
        ("max_batch_size: 'a'", "max_batch_size must be int"),
        ("input {", "line 1: expected a field, got the end"),
        ("a: 1\nb: @", "line 2: cannot read '@'"),
        ("a 1", "expected ':' after a"),
        ("a: 099", "expected a number"),
        ("a {" * 40, "at most 32 deep"),
        ("input { reshape { shape: 1 } }", "not supported: .*reshape"),
        ("instance_group { kind: KIND_GPU }", "kind must be KIND_CPU"),
        ("model_transaction_policy { decoupled: true }", "decoupled"),
        (
            "dynamic_batching { default_queue_policy { timeout_action: DELAY } }",
            "timeout_action must be REJECT",
        ),
    ],
)
def test_what_a_triton_configuration_may_not_say_is_named(tmp_path, text, message):
    path = tmp_path / "config.pbtxt"
    path.write_text(text)
    with pytest.raises(ModelLoadError, match=message):
        load_settings(path, "m", ModelSettings())


@pytest.mark.fuzz
@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(
            ["a:", "{", "}", "[", "]", "<", ">", '"x"', "1", ",", ";", "#", "\\n", "-"]
        )
    ).map(" ".join)
)
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(ModelLoadError):
        parse_pbtxt(text, "t")


def test_toml_and_json_say_the_same(tmp_path):
    toml = tmp_path / "config.toml"
    toml.write_text(
        'max_batch = 4\ninstances = "auto"\nversions = {latest = 2}\n'
        '[[inputs]]\nname = "x"\ndatatype = "FP32"\nshape = [-1, 4]\n'
        '[traffic]\nweights = {1 = 9, 2 = 1}\nsticky = "X-User"\n'
    )
    json_path = tmp_path / "config.json"
    json_path.write_text(
        json.dumps(
            {
                "max_batch": 4,
                "instances": "auto",
                "versions": {"latest": 2},
                "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
                "traffic": {"weights": {"1": 9, "2": 1}, "sticky": "X-User"},
            }
        )
    )
    one, two = (load_settings(p, "m", ModelSettings()) for p in (toml, json_path))
    assert one == two
    assert one.instances == 0
    assert one.traffic.weights == {"1": 9.0, "2": 1.0}
    assert one.traffic.sticky == "x-user"


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ({"max_bach": 4}, "not known: max_bach"),
        ({"max_batch": "4"}, "max_batch must be a whole number, got '4'"),
        ({"max_batch": 0}, "max_batch must be at least 1, got 0"),
        ({"max_batch": 4, "preferred": [8]}, "preferred must be at most max_batch"),
        ({"priority": 2}, "priority must be at most priorities"),
        ({"versions": "some"}, "versions must be"),
        ({"file": "../x"}, "file must be a plain name"),
        ({"inputs": [{"name": "x", "datatype": "FLOAT", "shape": []}]}, "datatype"),
        ({"steps": [{"model": "a", "outputs": {"y": "y"}}]}, "inputs and outputs"),
        ({"traffic": {"weights": {}}}, "weights must have a sum above 0"),
        ({"traffic": {"weights": {"new": 1}}}, "versions must be numbers"),
        ({"buckets": [{"input": "x"}]}, "must have an input and sizes"),
        ({"sequence": {"controls": [{"input": "a", "kind": "z"}]}}, "kind must be"),
        ({"cache": True, "sequence": {}}, "cache must be off"),
        ([], "must be a table"),
    ],
)
def test_what_settings_may_not_say_is_named(held, message):
    with pytest.raises(ModelLoadError, match=message):
        read_settings(held, ModelSettings(), "model m")


def test_two_settings_files_are_one_too_many(serve, tmp_path):
    small_models.write_linear(tmp_path / "m" / "1" / "model.linear")
    for name in ("config.toml", "config.json"):
        (tmp_path / "m" / name).write_text("")
    with pytest.raises(ModelLoadError, match=r"config\.toml, config\.json"):
        serve(repository=tmp_path).__enter__()


def test_declared_inputs_must_be_the_models(serve, tmp_path):
    small_models.write_linear(tmp_path / "m" / "1" / "model.linear")
    (tmp_path / "m" / "config.pbtxt").write_text(
        'input { name: "x" data_type: TYPE_FP64 dims: [-1, 4] }'
    )
    with pytest.raises(ModelLoadError, match=r"input x is FP32 \[-1, 4\] in the model"):
        serve(repository=tmp_path).__enter__()


def test_a_triton_repository_is_served(serve, tmp_path):
    small_models.write_linear(tmp_path / "m" / "1" / "weights.linear")
    (tmp_path / "m" / "config.pbtxt").write_text(
        'name: "m" max_batch_size: 8 default_model_filename: "weights.linear"\n'
        'input { name: "x" data_type: TYPE_FP32 dims: [4] }\n'
        'output [{ name: "y" data_type: TYPE_FP32 dims: [3] },\n'
        '{ name: "label" data_type: TYPE_INT64 dims: [] }]\n'
        "dynamic_batching { }\n"
    )
    x = np.ones((2, 4), np.float32)
    with (
        serve(repository=tmp_path) as server,
        HttpClient(server.http_address) as client,
    ):
        y = client.infer("m", {"x": x})["y"]
    np.testing.assert_allclose(y, small_models.linear(x), rtol=1e-6)


def test_a_containers_limit_counts(tmp_path):
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert available_cores(tmp_path) <= 2
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert available_cores(tmp_path) == 1
    (tmp_path / "cpu.max").write_text("max 100000\n")
    unlimited = available_cores(tmp_path)
    (tmp_path / "cpu.max").unlink()
    assert available_cores(tmp_path) == unlimited
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("100000")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert available_cores(tmp_path) == 1


def test_limits_of_the_groups_around_the_process_count(tmp_path):
    membership = tmp_path / "membership"

    def cores(lines):
        membership.write_text(lines)
        return available_cores(tmp_path, membership)

    inner = tmp_path / "pod" / "server"
    inner.mkdir(parents=True)
    unlimited = cores("0::/pod/server\n")
    (inner / "cpu.max").write_text("max 100000\n")
    (tmp_path / "pod" / "cpu.max").write_text("100000 100000\n")
    assert cores("0::/pod/server\n") == 1  # of the group around it
    assert cores("0::/pod\n") == 1
    assert cores("0::/other\n") == unlimited  # is in another group
    assert cores("0::/\n") == unlimited
    old = tmp_path / "cpu,cpuacct" / "jobs"
    (old / "one").mkdir(parents=True)
    (old / "one" / "cpu.cfs_quota_us").write_text("-1\n")
    (old / "one" / "cpu.cfs_period_us").write_text("100000\n")
    (old / "cpu.cfs_quota_us").write_text("50000\n")
    (old / "cpu.cfs_period_us").write_text("100000\n")
    assert cores("5:cpuset:/\n4:cpu,cpuacct:/jobs/one\n0::/none\n") == 1
    assert cores("4:memory:/jobs/one\n") == unlimited
    assert cores("no line of groups\n") == unlimited


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ((0, 0), (8, 1)),
        ((2, 0), (2, 4)),
        ((0, 4), (2, 4)),
        ((3, 3), (3, 3)),
        ((0, 16), (1, 16)),
    ],
)
def test_cores_are_shared_between_instances(given, found):
    assert share_cores(*given, cores=8) == found
