"""Runs one server of the suite serve; prints its port when it is ready.

python benchmarks/serve_peers.py http-native|http-python|http-asyncio|
                                 http-uvicorn|http-mosec|http-triton|
                                 grpc-native|grpc-python|grpc-asyncio|
                                 grpc-grpcio|grpc-triton

native and python are what reads and writes sockets, on uvloop where it is installed;
asyncio is the latter without it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from proa_serving.app import Server, ServerConfig
from proa_serving.backends.base import BackendOptions
from proa_serving.backends.registry import register_backend
from proa_serving.config import ModelSource
from proa_serving.protocol.messages import Array, TensorSpec

OUTPUTS = 1024  # elements that are answered at most


def double(x: Array) -> Array:
    """What every server computes."""
    return np.multiply(x[:, :OUTPUTS], 2)


class Double:
    """y = 2 * x, as a model."""

    platform = "numpy"
    inputs = (TensorSpec("x", "FP32", (-1, -1)),)
    outputs = (TensorSpec("y", "FP32", (-1, -1)),)

    def instance(self) -> Callable[[Mapping[str, Array]], Mapping[str, Array]]:
        return lambda arrays: {"y": double(arrays["x"])}


class DoubleBackend:
    """Makes the model of any file."""

    def load(self, path: Path, options: BackendOptions) -> Double:
        return Double()


def serve_proa(protocol: str, engine: str) -> None:
    """Our own server."""
    if engine == "asyncio":
        sys.modules["uvloop"] = None  # type: ignore[assignment]  # not to be found
    from proa_serving.app import new_event_loop

    register_backend("double", DoubleBackend)
    path = Path(tempfile.mkdtemp()) / "m.double"
    path.touch()
    config = ServerConfig(
        models=(ModelSource("m", path),),
        http_port=0 if protocol == "http" else None,
        grpc_port=0 if protocol == "grpc" else None,
        grpc_engine="grpcio" if engine == "grpcio" else "asyncio",
        engine="native" if engine == "native" else "python",
    )

    async def run() -> None:
        server = Server(config)
        await server.start()
        address = server.http_address or server.grpc_address or ""
        print(address.rpartition(":")[2], flush=True)
        await asyncio.Event().wait()

    sys.setswitchinterval(5e-4)
    new_event_loop().run_until_complete(run())


def _doubled(request: Any, data: bytes) -> tuple[bytes, bytes]:
    """The JSON and the tensor that answer a request of JSON and ``data``."""
    shape = request["inputs"][0]["shape"]
    y = double(np.frombuffer(data, np.float32).reshape(shape))
    raw = y.tobytes()
    output = {"name": "y", "datatype": "FP32", "shape": list(y.shape)}
    output["parameters"] = {"binary_data_size": len(raw)}
    return json.dumps({"model_name": "m", "outputs": [output]}).encode(), raw


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    """The least that answers a binary request, on ASGI."""
    if scope["type"] != "http":
        return
    parts, more = [], True
    while more:
        event = await receive()
        parts.append(event.get("body", b""))
        more = event.get("more_body", False)
    body = b"".join(parts)
    size = int(dict(scope["headers"])[b"inference-header-content-length"])
    head, raw = _doubled(json.loads(body[:size]), body[size:])
    headers = [
        (b"content-length", str(len(head) + len(raw)).encode()),
        (b"inference-header-content-length", str(len(head)).encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": head + raw})


def serve_uvicorn() -> None:
    """uvicorn without a framework."""
    import uvicorn

    held = socket.create_server(("127.0.0.1", 0))
    print(held.getsockname()[1], flush=True)
    config = uvicorn.Config(_answer, log_level="critical", access_log=False)
    uvicorn.Server(config).run([held])


def serve_mosec() -> None:
    """Mosec with one worker, which does not see the headers of a request."""
    import mosec

    class Worker(mosec.Worker):
        def deserialize(self, data: bytes) -> Any:
            request, size = json.JSONDecoder().raw_decode(data[:512].decode("latin-1"))
            return request, data[size:]

        def forward(self, data: Any) -> Any:
            return _doubled(*data)

        def serialize(self, data: Any) -> bytes:
            return b"".join(data)

    port = _free_port()
    _say_when_it_listens(port)
    sys.argv[1:] = ["--port", str(port), "--log-level", "error"]
    server = mosec.Server()
    server.append_worker(Worker, num=1, route="/v2/models/m/infer", start_method="fork")
    server.run()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port: int = held.getsockname()[1]
    return port


def _say_when_it_listens(port: int) -> None:
    """Print ``port`` once it takes connections, in a child process."""
    if os.fork():
        # What the server prints is not for the benchmark.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return
    for _ in range(600):
        time.sleep(0.1)
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            continue
        time.sleep(1.0)
        print(port, flush=True)
        break
    os._exit(0)


_TRITON_MODEL = """
name: "m" backend: "double" max_batch_size: 0
input { name: "x" data_type: TYPE_FP32 dims: [-1, -1] }
output { name: "y" data_type: TYPE_FP32 dims: [-1, -1] }
instance_group { kind: KIND_CPU count: 1 }
"""


def serve_triton(protocol: str) -> None:
    """The program ``tritonserver``, with a model in C (triton_double.c)."""
    program, compiler = shutil.which("tritonserver"), shutil.which("cc")
    if program is None or compiler is None:
        sys.exit("tritonserver and a C compiler must be on PATH")
    folder = Path(tempfile.mkdtemp())
    (folder / "models" / "m" / "1").mkdir(parents=True)
    (folder / "models" / "m" / "config.pbtxt").write_text(_TRITON_MODEL)
    library = folder / "backends" / "double" / "libtriton_double.so"
    library.parent.mkdir(parents=True)
    source = Path(__file__).parent / "triton_double.c"
    subprocess.run(
        [compiler, "-O3", "-shared", "-fPIC", str(source), "-o", str(library)],
        check=True,
    )
    port = _free_port()
    _say_when_it_listens(port)
    other = "grpc" if protocol == "http" else "http"
    options = [
        f"--model-repository={folder / 'models'}",
        f"--backend-directory={folder / 'backends'}",
        f"--{protocol}-port={port}",
        f"--allow-{other}=false",
        "--allow-metrics=false",
        "--log-info=false",
    ]
    os.execv(program, [program, *options])


def main() -> None:
    """Serve until killed."""
    protocol, _, engine = sys.argv[1].partition("-")
    if engine == "uvicorn":
        serve_uvicorn()
    elif engine == "mosec":
        serve_mosec()
    elif engine == "triton":
        serve_triton(protocol)
    else:
        serve_proa(protocol, engine)


if __name__ == "__main__":
    main()
