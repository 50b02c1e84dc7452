"""The commands of docs/serving-clients.md, as they are written there."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import small_models

PAGE = Path(__file__).parents[3] / "docs" / "serving-clients.md"
pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")


@pytest.fixture(scope="module")
def answers(serve, tmp_path_factory):
    """What each command prints; variables of one are those of the next."""
    path = small_models.write_linear(tmp_path_factory.mktemp("c") / "m.linear")
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines)
    with serve({"linear": path}, v1=True) as server:
        script = "\n".join(f"{line[2:]}\nprintf '\\036'" for line in lines)
        script = script.replace("127.0.0.1:8000", server.http_address)
        done = subprocess.run(["bash", "-euc", script], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = done.stdout.split(b"\x1e")[:-1]
    return dict(zip(lines, found, strict=True))


def answer_to(answers, part):
    (found,) = [data for line, data in answers.items() if part in line]
    return found


def outputs(data):
    return {held["name"]: held for held in json.loads(data)["outputs"]}


def test_health_and_metadata(answers):
    assert json.loads(answer_to(answers, "health/ready")) == {"ready": True}
    about = json.loads(answers["$ curl -s http://127.0.0.1:8000/v2/models/linear"])
    assert about["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    stats = json.loads(answer_to(answers, "models/stats"))
    assert stats["model_stats"][0]["name"] == "linear"
    assert b"proa_serve_requests_total" in answer_to(answers, "/metrics")


def test_inference(answers):
    x = np.arange(1, 9).reshape(2, 4)
    held = outputs(answer_to(answers, "v2/models/linear/infer -d"))
    assert held["y"]["shape"] == [2, 3]
    y = np.array(held["y"]["data"]).reshape(2, 3)
    np.testing.assert_allclose(y, small_models.linear(x), rtol=1e-5)
    held = outputs(answer_to(answers, "versions/1/infer"))
    assert held.keys() == {"y"}
    np.testing.assert_allclose(held["y"]["data"], y[0], rtol=1e-6)
    rows = json.loads(answer_to(answers, ":predict"))["predictions"]
    np.testing.assert_allclose([row["y"] for row in rows], y, rtol=1e-6)


def test_raw_bytes(answers):
    held = outputs(answer_to(answers, "--data-binary"))
    np.testing.assert_allclose(held["y"]["data"], small_models.BIAS, rtol=1e-6)
