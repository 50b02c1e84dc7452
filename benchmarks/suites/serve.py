"""Servers under closed-loop load: CPU of the server for each request of y = 2 * x.

The times are the server's own CPU seconds, of all its threads, as they depend least on
what else the machine does. Requests/s and latencies are in the facts of each row.
Each server has one core, and the client another: otherwise they take turns as the
scheduler likes, and figures of two runs differ by a factor of two.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import Case

from proa_serving.http2 import frames
from proa_serving.protocol import rpc, rpc_bytes
from proa_serving.protocol.messages import InferRequest, Tensor
from proa_serving.protocol.rest import HEADER_LENGTH, encode_request

HERE = Path(__file__).resolve().parent.parent
CONNECTIONS = (1, 8, 32)
SIZES = {"1k": 1024, "600k": 602_112}
SECONDS = 0.6
_TICKS = os.sysconf("SC_CLK_TCK")
_CORES = sorted(os.sched_getaffinity(0))
_PATH = b"/inference.GRPCInferenceService/ModelInfer"


def _on_core(at: int) -> None:
    """Keep the calling process on one core, where there are two."""
    if len(_CORES) > 1:
        os.sched_setaffinity(0, {_CORES[at]})


class Server:
    """A server in a process of its own.

    Args:
        arguments: Those of benchmarks/serve_peers.py, which prints its port when ready.
    """

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        atexit.register(self._end)
        self.start()

    def start(self) -> None:
        """Start it, or start it again."""
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "serve_peers.py"), *self._arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            preexec_fn=functools.partial(_on_core, 0),
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def is_running(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process.poll() is None

    def _end(self) -> None:
        """Kill it and the processes it started, which are its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def cpu(self) -> float:
        """Seconds that it and its processes have used."""
        total = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:  # It ended meanwhile.
                continue
            if int(fields[2]) == self._process.pid:  # the process group
                total += int(fields[11]) + int(fields[12])
        return total / _TICKS


@functools.cache
def _server(*arguments: str) -> Server:
    return Server(*arguments)


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="proa-serve-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def _client() -> Path | None:
    """The load generator, where there is a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    program = _folder() / "serve_load"
    source = HERE / "serve_load.c"
    subprocess.run([compiler, "-O2", str(source), "-o", str(program)], check=True)
    return program


def _request(size: int) -> InferRequest:
    x = np.ones((1, size // 4), np.float32)
    return InferRequest("m", [Tensor.of("x", x)], binary_output=True)


def _http(size: int) -> tuple[bytes, bytes]:
    body, length = encode_request(_request(size), True)
    head = (
        f"POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\n"
        f"{HEADER_LENGTH}: {length}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return (head.encode() + body,) * 2


def _field(name: bytes, value: bytes) -> bytes:
    """A header that the peer's table shall keep (RFC 7541, section 6.2.1)."""
    return b"\x40" + bytes([len(name)]) + name + bytes([len(value)]) + value


def _grpc(size: int) -> tuple[bytes, bytes]:
    message = rpc.encode_request(_request(size), True).SerializeToString()
    assert rpc_bytes.decode_request(message).inputs[0].array.nbytes == size
    body = b"\0" + len(message).to_bytes(4, "big") + message
    first = b"\x83\x86" + b"".join(
        _field(name, value)
        for name, value in (
            (b":path", _PATH),
            (b":authority", b"localhost"),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
        )
    )
    later = b"\x83\x86\xc1\xc0\xbf\xbe"  # the same, by their places in the table
    start = (
        frames.PREFACE
        + frames.settings({frames.INITIAL_WINDOW_SIZE: 2**30})
        + frames.window_update(0, 2**30)
    )
    return start + _call(first, body), _call(later, body)


def _call(block: bytes, body: bytes) -> bytes:
    sent = frames.head(len(block), frames.HEADERS, frames.END_HEADERS, 1) + block
    for at in range(0, len(body), frames.MIN_FRAME):
        part = body[at : at + frames.MIN_FRAME]
        last = frames.END_STREAM if at + frames.MIN_FRAME >= len(body) else 0
        sent += frames.head(len(part), frames.DATA, last, 1) + part
    return sent


def _work(
    server: Server,
    protocol: str,
    size: int,
    connections: int,
    note: Callable[[list[Any]], None],
) -> Callable[[], float]:
    make = {"http": _http, "grpc": _grpc}[protocol]
    paths = []
    for which, data in zip(("first", "later"), make(size), strict=True):
        path = _folder() / f"{protocol}-{size}-{which}"
        path.write_bytes(data)
        paths.append(str(path))
    found: list[tuple[float, float, float]] = []

    def run() -> float:
        for left in (2, 1, 0):
            given = [protocol, str(server.port), str(connections), str(SECONDS)]
            before = server.cpu()
            done = subprocess.run(
                [str(_client()), *given, *paths],
                capture_output=True,
                text=True,
                preexec_fn=functools.partial(_on_core, 1),
            )
            if done.returncode == 0:
                break
            # Triton has ended when clients went away within a request.
            print(f"{' '.join(given)}: {done.stderr.strip()}", file=sys.stderr)
            if not left:
                done.check_returncode()
            if not server.is_running():
                server.start()
        count, seconds, median, p99 = map(float, done.stdout.split())
        found.append((count / seconds, median, p99))
        note(found)
        return (server.cpu() - before) / count

    return run


def _contenders(protocol: str) -> dict[str, tuple[str, ...]]:
    found = {"proa": (f"{protocol}-native",)}
    if importlib.util.find_spec("uvloop") is not None:
        found["proa python"] = (f"{protocol}-python",)
    else:
        found["proa python"] = (f"{protocol}-asyncio",)
    if shutil.which("tritonserver") is not None:
        found["triton"] = (f"{protocol}-triton",)
    if protocol == "grpc":
        found["grpcio"] = ("grpc-grpcio",)
        return found
    for peer in ("uvicorn", "mosec"):
        if importlib.util.find_spec(peer) is not None:
            found[peer] = (f"http-{peer}",)
    return found


def _note(facts: dict[str, Any], who: str, runs: list[Any]) -> None:
    """Requests/s and latencies, as medians of the rounds so far."""
    for at, name in enumerate(("requests_per_s", "p50_us", "p99_us")):
        median = statistics.median(each[at] for each in runs)
        facts.setdefault(name, {})[who] = round(median, 1)


def cases() -> Iterator[tuple[Case, dict[str, object]]]:
    """HTTP and gRPC, 1 KB and 600 KB, at 1, 8 and 32 connections."""
    if _client() is None or not Path("/proc/self/stat").exists():
        return
    for protocol in ("http", "grpc"):
        for label, size in SIZES.items():
            for connections in CONNECTIONS:
                facts: dict[str, Any] = {}
                works = {}
                for who, given in _contenders(protocol).items():
                    note = functools.partial(_note, facts, who)
                    with contextlib.suppress(ValueError):  # It did not start.
                        works[who] = _work(
                            _server(*given), protocol, size, connections, note
                        )
                name = f"serve_{protocol}_{label}_c{connections}"
                yield Case(name, works, rounds=5, returns_seconds=True), facts
                print(json.dumps(facts), flush=True)
