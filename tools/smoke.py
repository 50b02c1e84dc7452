"""Use each installed package of Proa once: `nox -s build` runs this on fresh installs.

    python tools/smoke.py

A network is trained, quantized, saved, and run by inference, lite and, over HTTP, by
serving; the commands answer. It ends with a traceback where something is amiss.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import sysconfig
import tempfile
import urllib.request
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import numpy.typing as npt
import paddle

import proa
import proa_inference
import proa_lite
import proa_slim

PACKAGES = ("proa", "proa-slim", "proa-inference", "proa-lite", "proa-serving")
SCRIPTS = Path(sysconfig.get_path("scripts"))


def trained(x: npt.NDArray[np.float32]) -> proa.nn.Layer:
    """A network after some steps that must lower its loss."""
    proa.seed(1)
    net = proa.nn.Sequential(
        proa.nn.Linear(8, 16), proa.nn.ReLU(), proa.nn.Linear(16, 4)
    )
    optimizer = proa.optimizer.Adam(0.02, parameters=net.parameters())
    wanted = proa.to_tensor(x[:, :4] * 2)
    losses = []
    for _ in range(60):
        loss = proa.nn.functional.mse_loss(net(proa.to_tensor(x)), wanted)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    assert losses[-1] < losses[0] / 3, losses
    net.eval()
    return net


def commands(model: Path) -> None:
    """Each command of the packages, as a program."""
    for line in (
        ["proa", "info"],
        ["proa-infer", "inspect", str(model)],
        ["proa-lite", "inspect", str(model)],
    ):
        done = subprocess.run(
            [str(SCRIPTS / line[0]), *line[1:]], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        print(done.stdout.partition("\n")[0])


def served(model: Path, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The model's output, from a server process."""
    values = {"name": "x", "datatype": "FP32", "shape": list(x.shape)}
    body = {"inputs": [{**values, "data": x.ravel().tolist()}]}
    command = [str(SCRIPTS / "proa-serve"), str(model), "--http", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split("http=")[1].split()[0]
            url = f"http://{address}/v2/models/net/infer"
            with urllib.request.urlopen(url, json.dumps(body).encode()) as answer:
                (output,) = json.load(answer)["outputs"]
        finally:
            server.terminate()
    assert server.returncode == 0, server.returncode
    found: npt.NDArray[np.float32] = np.array(output["data"], np.float32)
    found.shape = tuple(output["shape"])
    return found


def main() -> None:
    here = Path(proa.__file__).resolve()
    assert Path(sys.prefix).resolve() in here.parents, f"{here} is not installed"
    for name in PACKAGES:
        files = [str(f) for f in distribution(name).files or ()]
        assert any(f.endswith("licenses/LICENSE") for f in files), name
    x = np.random.default_rng(0).standard_normal((32, 8)).astype(np.float32)
    net = trained(x)
    spec = [proa.static.InputSpec([None, 8], "float32", "x")]
    expected = net(proa.to_tensor(x)).numpy()
    assert paddle.nn.Linear is proa.nn.Linear
    with tempfile.TemporaryDirectory() as folder:
        model, small = Path(folder, "net.proa"), Path(folder, "net.int8.proa")
        proa.jit.save(net, str(model), spec)
        proa_slim.quant_post_static(net, spec, [x]).save(str(small))
        for package in (proa_inference, proa_lite):
            for file, tolerance in ((model, 1e-5), (small, 0.2)):
                predictor = package.create_predictor(package.Config(str(file)))
                (got,) = predictor.run([x])
                np.testing.assert_allclose(got, expected, tolerance, tolerance)
        np.testing.assert_allclose(served(model, x), expected, 1e-5, 1e-5)
        commands(model)
    proa.utils.run_check()
    print(f"the packages work with Python {platform.python_version()}")


if __name__ == "__main__":
    main()
