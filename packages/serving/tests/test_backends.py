"""A backend of another package, found by its entry point."""

import os

import numpy as np
from server_process import Process

from proa_serving.client import HttpClient

BACKEND = '''
from proa_serving.protocol.messages import TensorSpec


class Backend:
    """Multiplies by the number in the file."""

    platform = "scaling"
    inputs = outputs = (TensorSpec("x", "FP32", (-1, 2)),)

    def load(self, path, options):
        self.by = float(path.read_text()) * float(options.parameters.get("also", 1))
        return self

    def instance(self):
        return lambda arrays: {"x": arrays["x"] * self.by}
'''


def test_an_installed_package_brings_a_backend(tmp_path):
    site = tmp_path / "site"
    held = site / "scaling-1.0.dist-info"
    held.mkdir(parents=True)
    (site / "scaling_backend.py").write_text(BACKEND)
    (held / "METADATA").write_text("Metadata-Version: 2.1\nName: scaling\nVersion: 1.0")
    (held / "entry_points.txt").write_text(
        "[proa_serving.backends]\nscaled = scaling_backend:Backend\n"
    )
    model = tmp_path / "models" / "m"
    (model / "1").mkdir(parents=True)
    (model / "1" / "model.scaled").write_text("3")
    (model / "config.toml").write_text('parameters = {also = "2"}')
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path.rstrip(os.pathsep)}
    options = ("--repository", model.parent, "--http", 0)
    x = np.ones((2, 2), np.float32)
    with Process(*options, env=env) as process, HttpClient(process.http) as client:
        assert client.model_metadata("m").platform == "scaling"
        np.testing.assert_array_equal(client.infer("m", {"x": x})["x"], 6 * x)
