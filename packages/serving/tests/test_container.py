"""What a container runtime does to a server, and what it must bear.

The server gets KServe's arguments as a user of its own who may do nothing, on a root
that is mounted read-only. No image is built.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import small_models
from server_process import PROGRAM, Process
from steady_load import SteadyLoad, X

from proa_serving.client import HttpClient

USER = 65532
# Exit code 97 says that the root was writable after all, and 98 that it could not be
# mounted.
CONFINE = """
mount --make-rprivate / && mount -o remount,bind,ro / || exit 98
if touch /written-by-a-test 2>/dev/null; then exit 97; fi
exec "$@"
"""
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
}


def as_nobody():
    """A command that becomes a user without rights.

    Where Python itself is in a folder that others may not enter, the user may read all
    files: an image has no such folder.
    """
    drop = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    bare = [*drop, "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]
    probe = [sys.executable, "-c", f"open({str(PROGRAM)!r})"]
    if subprocess.run([*bare, *probe], capture_output=True).returncode == 0:
        return bare
    read = "-all,+dac_read_search"
    return [*drop, f"--inh-caps={read}", f"--ambient-caps={read}", "--no-new-privs"]


@pytest.fixture(scope="module")
def confined():
    """A command that starts another as in a container."""
    # The tests need no root; the rights that a container lacks only root can drop.
    if os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("setpriv")):
        pytest.skip("needs root, unshare and setpriv, to take rights away")
    confine = ["unshare", "--mount", "--", "sh", "-c", CONFINE, "sh", *as_nobody()]
    done = subprocess.run([*confine, "id", "-u"], capture_output=True, text=True)
    # Sandboxes that are containers themselves often refuse unshare, even to root.
    if done.returncode:
        pytest.skip(f"namespaces cannot be made here: {done.stderr[-200:]}")
    assert done.stdout.strip() == str(USER)
    return confine


@pytest.fixture
def models():
    """A folder that every user may read, as a volume is mounted."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path


def kserve(models, *more):
    return ["--model_name=m", f"--model_dir={models}", "--http_port=0", *more]


@pytest.mark.parametrize("layout", ["file.linear", "3/model.linear"])
def test_kserves_arguments_start_it_as_a_container_does(confined, models, layout):
    small_models.write_linear(models / layout)
    arguments = kserve(models, "--grpc_port=0", "--v1", "--host=0.0.0.0")
    with Process(*arguments, prefix=confined, env=ENVIRONMENT) as process:
        assert process.line.startswith("proa-serve ready"), process.end()
        status = Path(f"/proc/{process.held.pid}/status").read_text()
        assert f"Uid:\t{USER}\t{USER}\t{USER}\t{USER}" in status
        assert "NoNewPrivs:\t1" in status
        with HttpClient(process.http.replace("0.0.0.0", "127.0.0.1")) as client:
            assert client.live()
            assert client.ready()
            version = layout[0] if layout[0].isdigit() else "1"
            assert list(client.model_metadata("m").versions) == [version]
            y = client.infer("m", {"x": X})["y"]
            np.testing.assert_allclose(y, small_models.linear(X), rtol=1e-5)
        process.held.send_signal(signal.SIGTERM)
        assert process.end() == 0, process.stderr
        assert "Traceback" not in process.stderr


@pytest.mark.parametrize("sleep", [0.0, 0.01])
def test_sigterm_under_load_fails_nothing_that_was_accepted(confined, models, sleep):
    small_models.write_linear(models / "m.linear", sleep=sleep)
    with Process(*kserve(models), prefix=confined, env=ENVIRONMENT) as process:
        with SteadyLoad(lambda: HttpClient(process.http), threads=8) as load:
            load.wait_for(200)
            process.held.send_signal(signal.SIGTERM)
            assert process.end() == 0, process.stderr
        assert load.found.keys() <= {"ok", "UnavailableError"}, load.found


def test_knative_says_where_to_listen(models):
    small_models.write_linear(models / "m.linear")
    path = os.pathsep.join(sys.path)
    env = {**os.environ, "PYTHONPATH": path, "PORT": "0"}
    with Process(models / "m.linear", env=env) as process:
        with HttpClient(process.http) as client:
            assert client.ready()
        process.held.send_signal(signal.SIGTERM)
        assert process.end() == 0
    with Process(models / "m.linear", env={**env, "PORT": "web"}) as process:
        assert process.end() == 1
        assert "[PORT] must be 0 to 65535, got web" in process.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model_name=m"], "must have both --model_name and --model_dir"),
        (["--model_name=m", "--model_dir={}"], "expected VERSION/model.proa"),
        (["--model_name=m", "--model_dir={}/absent"], "expected a file, got"),
        (["--model_name=a/b", "--model_dir={}"], "must be letters, digits"),
    ],
)
def test_a_folder_without_a_model_is_reported(models, arguments, message):
    filled = [text.format(models) for text in arguments]
    with Process(*filled, "--http_port=0") as process:
        assert process.end() == 1
        assert message in process.stderr
        assert "Traceback" not in process.stderr


def test_two_model_files_in_a_folder_are_not_guessed_between(models):
    for name in ("a", "b"):
        small_models.write_linear(models / f"{name}.linear")
    with Process(*kserve(models)) as process:
        assert process.end() == 1
        assert "expected VERSION/model.proa" in process.stderr
