"""The Go client: its own tests, one of which talks to a server of this package."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import small_models

from proa_serving.client import GrpcClient, HttpClient

CLIENT = Path(__file__).parents[1] / "clients" / "go"
GO = shutil.which("go")
needs_go = pytest.mark.skipif(GO is None, reason="needs Go")


def go(*arguments, **env):
    held = {"GOPROXY": "off", "GOFLAGS": "-mod=mod"}
    done = subprocess.run(
        [GO, *arguments],
        cwd=CLIENT,
        capture_output=True,
        text=True,
        env={**os.environ, **held, **env},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_go
@pytest.mark.feature("L664")
def test_the_go_and_the_python_clients_get_what_numpy_computes(server):
    text = go(
        *("test", "-count=1", "-v", "./..."),
        PROA_SERVING_ADDRESS=server.http_address,
    )
    assert "--- PASS: TestServer " in text
    assert "SKIP" not in text
    numbers = re.search(r"^y \[(.*)\]$", text, re.MULTILINE)[1]
    got = np.array(numbers.split(), np.float32).reshape(2, 3)
    x = np.array([[0, 0, 0, 0], [1, 0, 0, 0]], np.float32)
    np.testing.assert_allclose(got, small_models.linear(x), rtol=1e-6)
    for kind, address in (
        (HttpClient, server.http_address),
        (GrpcClient, server.grpc_address),
    ):
        with kind(address) as client:
            y = client.infer("linear", {"x": x})["y"]
        np.testing.assert_allclose(y, small_models.linear(x), rtol=1e-6)


@needs_go
def test_the_go_client_is_formatted_and_vetted():
    go("vet", "./...")
    gofmt = shutil.which("gofmt")
    assert gofmt is not None
    done = subprocess.run(
        [gofmt, "-l", "."], cwd=CLIENT, capture_output=True, text=True
    )
    assert done.stdout == ""


def test_the_go_client_needs_the_standard_library_alone():
    """Names of packages outside it have a dot in their first part."""
    assert "require" not in (CLIENT / "go.mod").read_text()
    for path in CLIENT.glob("*.go"):
        block = re.search(r"^import \((.*?)^\)", path.read_text(), re.M | re.S)
        names = re.findall(r'"([^"]+)"', block[1])
        assert names
        assert not [name for name in names if "." in name.partition("/")[0]]
