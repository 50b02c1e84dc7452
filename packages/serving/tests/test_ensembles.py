"""Models made of models: graphs in a file and pipelines in Python."""

import numpy as np
import pytest
import small_models

from proa_serving.client import GrpcClient, HttpClient
from proa_serving.protocol.errors import (
    ForbiddenError,
    InvalidRequestError,
    ModelFailedError,
    ModelLoadError,
    RequestTimeoutError,
    UnavailableError,
)

X = np.random.default_rng(5).normal(size=(2, 4)).astype(np.float32)
PYTHON = """
import numpy as np
inputs = [("v", "FP32", (-1, {size}))]
outputs = [("w", "FP32", (-1, {size}))]
def run(inputs):
    return {{"w": inputs["v"] {change}}}
"""
GATE = """
import numpy as np
inputs = [("v", "FP32", (-1, 4))]
outputs = [("high", "BOOL", (1,))]
def run(inputs):
    return {"high": np.array([inputs["v"].sum() > 0])}
"""


def write(root, name, text, settings=None):
    path = root / name / "1" / "model.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    if settings is not None:
        (root / name / "config.toml").write_text(settings)


@pytest.fixture
def models(tmp_path):
    small_models.write_linear(tmp_path / "linear" / "1" / "model.linear")
    write(tmp_path, "double", PYTHON.format(size=4, change="* 2"))
    write(tmp_path, "negate", PYTHON.format(size=3, change="* -1"))
    write(tmp_path, "gate", GATE)
    return tmp_path


def ensemble(root, text, name="all"):
    (root / name).mkdir()
    (root / name / "config.toml").write_text(text)


CHAIN = """
[[inputs]]
name = "image"
datatype = "FP32"
shape = [-1, 4]
[[outputs]]
name = "scores"
datatype = "FP32"
shape = [-1, 3]
[[outputs]]
name = "raw"
datatype = "FP32"
shape = [-1, 3]
[[steps]]
model = "negate"
inputs = {v = "y"}
outputs = {w = "scores"}
[[steps]]
model = "double"
inputs = {v = "image"}
outputs = {w = "twice"}
[[steps]]
model = "linear"
inputs = {x = "twice"}
outputs = {y = "y"}
[[steps]]
model = "linear"
inputs = {x = "image"}
outputs = {y = "raw"}
"""


@pytest.mark.parametrize("kind", [HttpClient, GrpcClient])
def test_a_graph_of_models_is_one_model(serve, models, kind):
    ensemble(models, CHAIN)
    with serve(repository=models, python_models=True) as server:
        address = server.http_address if kind is HttpClient else server.grpc_address
        with kind(address) as client:
            assert client.model_metadata("all").platform == "ensemble"
            answer = client.infer("all", {"image": X})
            np.testing.assert_allclose(
                answer["scores"], -small_models.linear(2 * X), rtol=1e-5
            )
            np.testing.assert_allclose(answer["raw"], small_models.linear(X), rtol=1e-5)
            only = client.infer("all", {"image": X}, outputs=["raw"])
            assert list(only.as_dict()) == ["raw"]
            with pytest.raises(InvalidRequestError, match=r"shape must be \[-1, 4\]"):
                client.infer("all", {"image": X[:, :3]})


def test_tritons_ensemble_is_read(serve, models):
    ensemble(models, "")
    (models / "all" / "config.toml").unlink()
    (models / "all" / "1").mkdir()
    (models / "all" / "config.pbtxt").write_text(
        'platform: "ensemble" max_batch_size: 8\n'
        'input { name: "image" data_type: TYPE_FP32 dims: 4 }\n'
        'output { name: "scores" data_type: TYPE_FP32 dims: 3 }\n'
        "ensemble_scheduling { step ["
        '{ model_name: "double" model_version: -1 input_map { key: "v" value: "image" }'
        ' output_map { key: "w" value: "twice" } },'
        '{ model_name: "linear" model_version: 1 input_map { key: "x" value: "twice" }'
        ' output_map { key: "y" value: "scores" } } ] }'
    )
    with (
        serve(repository=models, python_models=True) as server,
        HttpClient(server.http_address) as client,
    ):
        answer = client.infer("all", {"image": X})
    np.testing.assert_allclose(answer["scores"], small_models.linear(2 * X), rtol=1e-5)


BRANCHES = """
inputs = [{name = "image", datatype = "FP32", shape = [-1, 4]}]
outputs = [{name = "y", datatype = "FP32", shape = [-1, 3]},
           {name = "extra", datatype = "FP32", shape = [-1, 3]}]
[[steps]]
model = "gate"
inputs = {v = "image"}
outputs = {high = "high"}
[[steps]]
model = "double"
inputs = {v = "image"}
outputs = {w = "used"}
when = "high"
[[steps]]
model = "same"
inputs = {v = "image"}
outputs = {w = "used"}
unless = "high"
[[steps]]
model = "linear"
inputs = {x = "used"}
outputs = {y = "y"}
[[steps]]
model = "negate"
inputs = {v = "y"}
outputs = {w = "extra"}
when = "high"
"""


def test_steps_are_skipped_and_branches_join(serve, models):
    write(models, "same", PYTHON.format(size=4, change="* 1"))
    ensemble(models, BRANCHES)
    high, low = np.ones((1, 4), np.float32), -np.ones((1, 4), np.float32)
    with (
        serve(repository=models, python_models=True) as server,
        HttpClient(server.http_address) as client,
    ):
        answer = client.infer("all", {"image": high}).as_dict()
        np.testing.assert_allclose(
            answer["y"], small_models.linear(2 * high), rtol=1e-5
        )
        np.testing.assert_allclose(answer["extra"], -answer["y"])
        answer = client.infer("all", {"image": low}).as_dict()
        np.testing.assert_allclose(answer["y"], small_models.linear(low), rtol=1e-5)
        assert "extra" not in answer
        with pytest.raises(InvalidRequestError, match="'extra' is not given"):
            client.infer("all", {"image": low}, outputs=["extra"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('{x = "twice"}', '{x = "thrice"}', "needs 'thrice', which nothing gives"),
        ('{v = "image"}', '{v = "scores"}', "must not wait for each other"),
        ('{y = "raw"}', '{y = "image"}', "a step must give output 'raw'"),
        ('{y = "y"}', '{y = "image"}', r"no step may give its inputs \['image'\]"),
        ('model = "negate"', 'model = "all"', "must be another model"),
    ],
)
def test_a_graph_that_cannot_run_is_not_loaded(serve, models, old, new, message):
    ensemble(models, CHAIN.replace(old, new))
    with (
        serve(repository=models, python_models=True, model_control=True) as server,
        HttpClient(server.http_address) as client,
    ):
        with pytest.raises(ModelLoadError, match=message):
            client.load_model("all")
        assert client.model_ready("linear")


def test_what_goes_wrong_in_a_step_is_the_ensembles_error(serve, models):
    ensemble(models, CHAIN)
    with (
        serve(repository=models, python_models=True, model_control=True) as server,
        HttpClient(server.http_address) as client,
    ):
        with pytest.raises(ModelFailedError, match=r"model linear.*a NaN"):
            client.infer("all", {"image": X * np.nan})
        client.unload_model("double")
        with pytest.raises(UnavailableError, match=r"model double. is not ready"):
            client.infer("all", {"image": X})
        client.load_model("double")
        assert client.infer("all", {"image": X})["raw"].shape == (2, 3)


PIPELINE = """
import numpy as np
inputs = [("image", "FP32", (-1, 4))]
outputs = [("y", "FP32", (-1, 3)), ("steps", "INT64", ())]

async def run(inputs, infer):
    image, steps = inputs["image"], 1
    if image.sum() > 0:
        image = (await infer("double", {"v": image}))["w"]
        steps += 1
    found = await infer("linear", {"x": image}, outputs=["y"])
    return {"y": found["y"], "steps": steps}
"""


def test_a_pipeline_in_python_branches_as_python_does(serve, models):
    write(models, "flow", PIPELINE)
    with (
        serve(repository=models, python_models=True) as server,
        GrpcClient(server.grpc_address) as client,
    ):
        for sign, scale, steps in ((1, 2, 2), (-1, 1, 1)):
            x = sign * np.ones((1, 4), np.float32)
            answer = client.infer("flow", {"image": x})
            want = small_models.linear(scale * x)
            np.testing.assert_allclose(answer["y"], want, rtol=1e-5)
            assert answer["steps"] == steps


def test_pipelines_that_call_each_other_end(serve, models):
    circle = PIPELINE.replace('"linear", {"x"', '"{}", {{"image"')
    write(models, "a", circle.replace("{}", "b").replace("{{", "{"))
    write(models, "b", circle.replace("{}", "a").replace("{{", "{"))
    with (
        serve(repository=models, python_models=True) as server,
        HttpClient(server.http_address) as client,
        pytest.raises(ModelFailedError, match="8 deep"),
    ):
        client.infer("a", {"image": -X * X})


def test_the_time_of_a_request_covers_all_steps(serve, models):
    small_models.write_linear(models / "slow" / "1" / "model.linear", sleep=0.2)
    ensemble(models, CHAIN.replace('model = "linear"', 'model = "slow"'))
    with (
        serve(repository=models, python_models=True) as server,
        HttpClient(server.http_address) as client,
        pytest.raises(RequestTimeoutError),
    ):
        client.infer("all", {"image": X}, parameters={"timeout": 50_000})


def test_python_files_run_only_with_leave(serve, tmp_path):
    marker = tmp_path / "ran"
    code = f"open({str(marker)!r}, 'w')\n" + PYTHON.format(size=4, change="")
    write(tmp_path / "models", "evil", code)
    with pytest.raises(ForbiddenError, match="--python-models"):
        serve(repository=tmp_path / "models").__enter__()
    assert not marker.exists()


def test_a_python_file_that_is_no_model_says_why(serve, tmp_path):
    for text, message in (
        ("1/0", "failed to run: ZeroDivisionError"),
        ("", "must have inputs"),
        ("inputs = outputs = [('x', 'FP32', (1,))]", "a function run or instance"),
        ("inputs = outputs = [('x', 'FLOAT', (1,))]", "datatype must be one of"),
    ):
        path = tmp_path / "m.py"
        path.write_text(text)
        with pytest.raises(Exception, match=message):
            serve({"m": path}, python_models=True).__enter__()
