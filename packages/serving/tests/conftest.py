import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))

import small_models

from proa_serving.app import BackgroundServer, ServerConfig
from proa_serving.config import ModelSource
from proa_serving.schedule.queue import Limits

small_models.register()

# These are about connections, so they run on everything that may carry them.
_OF_CONNECTIONS = (
    *("test_access", "test_connections", "test_draining", "test_grpc_engines"),
    *("test_hostile", "test_http2", "test_http2_hostile", "test_http_errors"),
    "test_stopping",
)


def pytest_generate_tests(metafunc):
    name = metafunc.module.__name__.rpartition(".")[2]
    if name in _OF_CONNECTIONS and "transport" in metafunc.fixturenames:
        found = importlib.util.find_spec("proa_serving._native")
        engines = ["python"] if found is None else ["native", "python"]
        metafunc.parametrize("transport", engines, indirect=True, scope="session")


@pytest.fixture(scope="session")
def transport(request):
    """What reads and writes the sockets of servers."""
    return getattr(request, "param", "auto")


@pytest.fixture(scope="session")
def serve(transport):
    """Makes a server of {name: path}; use it as a context manager."""

    def make(models=None, *, limits=None, **options):
        sources = tuple(
            ModelSource(name, path) for name, path in (models or {}).items()
        )
        config = ServerConfig(
            models=sources,
            http_port=0,
            grpc_port=0,
            limits=limits or Limits(),
            **{"engine": transport, **options},
        )
        return BackgroundServer(config)

    return make


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    """One server with a linear model and one of strings."""
    folder = tmp_path_factory.mktemp("models")
    with serve(small_models.write_all(folder), max_request_bytes=2**20) as running:
        yield running
