"""The settings of a server."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from proa_serving.protocol.errors import InvalidRequestError
from proa_serving.schedule.queue import Limits
from proa_serving.security.rate import RateLimit
from proa_serving.security.tls import TlsFiles

MIB = 2**20
GRPC_ENGINES = ("asyncio", "grpcio")
ENGINES = ("auto", "native", "python")
# Names are part of URLs and are folders of a repository, so they are kept simple.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
# As browsers send it (RFC 6454, section 6.2); they omit a scheme's own port.
_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/\s]+")


def check_name(name: str) -> str:
    """``name``, if it may name a model."""
    if not _NAME.fullmatch(name):
        raise InvalidRequestError(
            "model name", f"must be letters, digits and _ . -, got {name!r:.80}"
        )
    return name


@dataclass(frozen=True)
class ModelSource:
    """A model and the name to serve it under.

    ``path`` is its file; or a folder with that file alone, or with versions and
    settings as the folder of a model in a repository.
    """

    name: str
    path: Path

    @classmethod
    def parse(cls, text: str) -> ModelSource:
        """From ``path``, named by the file up to its first dot, or ``name=path``."""
        name, equals, path = text.partition("=")
        if not equals:
            return cls(check_name(Path(text).name.partition(".")[0]), Path(text))
        return cls(check_name(name), Path(path))


@dataclass(frozen=True)
class ServerConfig:
    """Everything that can be chosen about a server.

    Args:
        models: Model files, or folders of one model each, to serve.
        repository: A folder of NAME/VERSION/model.proa to serve too.
        all_versions: Serve every version of the repository, not the newest alone.
        model_control: Let clients load and unload models.
        poll_s: Seconds between looks for changes of the repository; 0 for none.
        python_models: Serve Python files, which loading runs.
        cache_bytes: Answers that are kept, for models that have that on, hold at most
            this many bytes together.
        host: Address to listen on.
        http_port: Port for REST; 0 picks one, None does without.
        grpc_port: Port for gRPC; the same.
        instances: Worker threads for each model; 0 for as many as the cores allow.
        threads: Threads that each instance uses for its mathematics; the same.
        limits: Limits of queue and batch, for each model.
        max_request_bytes: A request body larger than this is refused.
        max_json_bytes: As much of a body may be JSON, which costs many times its size.
        max_in_flight_bytes: Requests that are received and served hold at most this
            many bytes together; one that would hold more is refused.
        timeout_s: Seconds until a request that is not answered fails.
        grace_s: Seconds that a shutdown waits for requests in flight.
        max_connections: At one time, over all protocols; grpcio counts its calls.
        head_timeout_s: Seconds in which the head of an HTTP request must arrive; its
            body may take ``timeout_s``.
        idle_timeout_s: Seconds after which a connection without a request is closed.
        trace_share: Share of requests that are traced without their client saying so.
        timeline: A file for a timeline of the traced requests, or None.
        access_log: A file for a line on each request, ``-`` for standard error.
        otlp: URL of a collector that traces are sent to; none if empty.
        grpc_engine: What carries gRPC: "asyncio", our own HTTP/2, or "grpcio".
        engine: What reads and writes sockets without TLS: "native", "python", or
            "auto", which is native where it was built.
        http_socket: Path of a Unix socket for REST.
        grpc_socket: Path of a Unix socket for gRPC.
        admin_port: Port for REST that may load and unload models, whatever
            ``model_control`` is; None does without.
        admin_host: Address to listen on for that; the host alone unless it is changed.
        tls: The certificate of all TCP ports; None serves them in the clear.
        api_keys: File of the keys that clients must present (``security/keys.py``).
        rate_limit: Limit of each client.
        cors_origins: Origins of web pages that may call, or "*" for any.
        shared_memory: Let clients put tensors in system shared memory.
        v1: Answer the V1 protocol of KServe and TensorFlow Serving too.
    """

    models: tuple[ModelSource, ...] = ()
    repository: Path | None = None
    all_versions: bool = False
    model_control: bool = False
    poll_s: float = 0.0
    python_models: bool = False
    cache_bytes: int = 64 * MIB
    host: str = "127.0.0.1"
    http_port: int | None = 8000
    grpc_port: int | None = None
    instances: int = 1
    threads: int = 1
    limits: Limits = field(default_factory=Limits)
    max_request_bytes: int = 64 * MIB
    max_json_bytes: int = 16 * MIB
    max_in_flight_bytes: int = 512 * MIB
    timeout_s: float = 30.0
    grace_s: float = 10.0
    max_connections: int = 1024
    head_timeout_s: float = 10.0
    idle_timeout_s: float = 75.0
    grpc_engine: str = "asyncio"
    engine: str = "auto"
    trace_share: float = 0.0
    timeline: Path | None = None
    access_log: Path | None = None
    otlp: str = ""
    http_socket: Path | None = None
    grpc_socket: Path | None = None
    admin_port: int | None = None
    admin_host: str = "127.0.0.1"
    tls: TlsFiles | None = None
    api_keys: Path | None = None
    rate_limit: RateLimit | None = None
    cors_origins: tuple[str, ...] = ()
    shared_memory: bool = False
    v1: bool = False

    def __post_init__(self) -> None:
        minimum = {
            "instances": (self.instances, 0),
            "threads": (self.threads, 0),
            "poll_s": (self.poll_s, 0),
            "cache_bytes": (self.cache_bytes, 0),
            "max_batch": (self.limits.max_batch, 1),
            "max_delay_us": (self.limits.max_delay_us, 0),
            "queue": (self.limits.queue, 1),
            "max_request_bytes": (self.max_request_bytes, 1),
            "max_json_bytes": (self.max_json_bytes, 1),
            "max_in_flight_bytes": (self.max_in_flight_bytes, 1),
            "timeout_s": (self.timeout_s, 1e-3),
            "head_timeout_s": (self.head_timeout_s, 1e-3),
            "idle_timeout_s": (self.idle_timeout_s, 1e-3),
            "grace_s": (self.grace_s, 0),
            "max_connections": (self.max_connections, 1),
        }
        for name, (value, low) in minimum.items():
            if not low <= value < float("inf"):
                raise InvalidRequestError(
                    "config", f"{name} must be at least {low}, got {value}"
                )
        if self.max_in_flight_bytes < self.max_request_bytes:
            raise InvalidRequestError(
                "config",
                "max_in_flight_bytes must be at least max_request_bytes, "
                f"{self.max_request_bytes}, got {self.max_in_flight_bytes}",
            )
        if wrong := [each for each in self.cors_origins if not _ORIGIN.fullmatch(each)]:
            raise InvalidRequestError(
                "config",
                'cors_origins must be "*" or as https://host:port, without a path, '
                f"got {wrong[0]!r:.80}",
            )
        if not 0 <= self.trace_share <= 1:
            raise InvalidRequestError(
                "config", f"trace_share must be 0 to 1, got {self.trace_share}"
            )
        for name, chosen, allowed in (
            ("grpc_engine", self.grpc_engine, GRPC_ENGINES),
            ("engine", self.engine, ENGINES),
        ):
            if chosen not in allowed:
                raise InvalidRequestError(
                    "config",
                    f"{name} must be one of {', '.join(allowed)}, got {chosen!r:.40}",
                )
        if not self.models and self.repository is None:
            raise InvalidRequestError("config", "must name a model or a repository")
        places = (self.http_port, self.grpc_port, self.http_socket, self.grpc_socket)
        if places == (None,) * 4:
            raise InvalidRequestError("config", "must have an HTTP or a gRPC port")
