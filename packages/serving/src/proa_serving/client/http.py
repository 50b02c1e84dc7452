"""A client that speaks REST over one kept connection."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from proa_serving.client.base import Client, key_headers, parse_address
from proa_serving.protocol.errors import (
    RequestTimeoutError,
    UnavailableError,
    error_from_status,
)
from proa_serving.protocol.messages import (
    IndexEntry,
    InferRequest,
    InferResponse,
    ModelMetadata,
    ServerMetadata,
    TensorSpec,
)
from proa_serving.protocol.rest import (
    BINARY_TYPE,
    HEADER_LENGTH,
    JSON_TYPE,
    decode_response,
    encode_request,
)


class HttpClient(Client):
    """Sends requests to a server. Not thread-safe: give each thread its own.

    Args:
        address: host:port, or unix:path.
        timeout: Seconds that any answer may take.
        tls: Speak TLS, and trust what this context does.
        api_key: The key that the server wants.

    Raises:
        InvalidRequestError: If the address is none.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float = 60.0,
        tls: ssl.SSLContext | None = None,
        api_key: str | None = None,
    ) -> None:
        self._address = address
        self._headers = key_headers(api_key)
        place = parse_address(address)
        self._connection: http.client.HTTPConnection
        if isinstance(place, str):
            self._connection = _UnixConnection(place, timeout)
        elif tls is not None:
            self._connection = http.client.HTTPSConnection(
                *place, timeout=timeout, context=tls
            )
        else:
            self._connection = http.client.HTTPConnection(*place, timeout=timeout)

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        self._connection.close()

    def set_timeout(self, seconds: float) -> None:
        """From now on an answer may take as long."""
        self._connection.timeout = seconds
        if self._connection.sock is not None:
            self._connection.sock.settimeout(seconds)

    def _infer(self, request: InferRequest) -> InferResponse:
        path, headers, body = infer_call(request)
        data, length = self._round_trip("POST", path, body, headers)
        return decode_response(data, length)

    def live(self) -> bool:
        return self._status("/v2/health/live") == 200

    def ready(self) -> bool:
        return self._status("/v2/health/ready") == 200

    def model_ready(self, model: str, version: str = "") -> bool:
        """Whether the model answers; False also if it is not known."""
        return self._status(model_path(model, version, "/ready")) == 200

    def server_metadata(self) -> ServerMetadata:
        held = self._json("GET", "/v2")
        return ServerMetadata(held["name"], held["version"], tuple(held["extensions"]))

    def model_metadata(self, model: str, version: str = "") -> ModelMetadata:
        return metadata_from_json(self._json("GET", model_path(model, version, "")))

    def repository_index(self, ready_only: bool = False) -> list[IndexEntry]:
        body = json.dumps({"ready": ready_only}).encode()
        lines = self._json("POST", "/v2/repository/index", body)
        return [
            IndexEntry(
                line["name"],
                line.get("version", ""),
                line.get("state", ""),
                line.get("reason", ""),
            )
            for line in lines
        ]

    def load_model(self, model: str) -> None:
        self._round_trip("POST", f"/v2/repository/models/{quote(model)}/load", b"")

    def unload_model(self, model: str) -> None:
        self._round_trip("POST", f"/v2/repository/models/{quote(model)}/unload", b"")

    def metrics(self) -> str:
        """The server's metrics in Prometheus' text format."""
        return self._round_trip("GET", "/metrics")[0].decode()

    def _json(self, method: str, path: str, body: bytes | None = None) -> Any:
        return json.loads(self._round_trip(method, path, body)[0])

    def _status(self, path: str) -> int:
        return self._send("GET", path, None, {})[0]

    def _round_trip(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[bytes, str | None]:
        status, data, length = self._send(method, path, body, headers or {})
        raise_for_status(status, data)
        return data, length

    def _send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes, str | None]:
        # A server may close a connection that idled; that, seen before any answer
        # on a connection used before, is tried once more.
        reused = self._connection.sock is not None
        try:
            return self._exchange(method, path, body, headers)
        except TimeoutError as error:
            self.close()
            raise RequestTimeoutError(
                "client", f"{self._address} did not answer in time"
            ) from error
        except (http.client.HTTPException, OSError) as error:
            self.close()
            gone = isinstance(error, http.client.RemoteDisconnected | BrokenPipeError)
            if not (reused and gone):
                raise UnavailableError(
                    "client", f"{self._address} did not answer: {error!r:.200}"
                ) from error
        try:
            return self._exchange(method, path, body, headers)
        except (http.client.HTTPException, OSError) as error:
            self.close()
            raise UnavailableError(
                "client", f"{self._address} did not answer: {error!r:.200}"
            ) from error

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes, str | None]:
        connection = self._connection
        if connection.sock is None:
            connection.connect()
            # Head and body leave as two writes, which must not wait for each other.
            _hurry(connection.sock)
        connection.request(method, path, body, {**self._headers, **headers})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.getheader(HEADER_LENGTH)


def model_path(model: str, version: str, rest: str) -> str:
    """The path of a model, or of one version where ``version`` is not empty."""
    path = f"/v2/models/{quote(model, safe='')}"
    if version:
        path += f"/versions/{quote(version, safe='')}"
    return path + rest


def infer_call(request: InferRequest) -> tuple[str, dict[str, str], bytes]:
    """The path, the headers and the body that carry ``request``."""
    body, json_size = encode_request(request, request.binary_output)
    headers = {"Content-Type": JSON_TYPE}
    if json_size is not None:
        headers = {"Content-Type": BINARY_TYPE, HEADER_LENGTH: str(json_size)}
    return model_path(request.model, request.version, "/infer"), headers, body


def metadata_from_json(held: Mapping[str, Any]) -> ModelMetadata:
    """A model's description, as REST gives it."""
    return ModelMetadata(
        held["name"],
        tuple(held["versions"]),
        held["platform"],
        tuple(TensorSpec.from_json(spec) for spec in held["inputs"]),
        tuple(TensorSpec.from_json(spec) for spec in held["outputs"]),
    )


def raise_for_status(status: int, data: bytes) -> None:
    """Raise the error that an answer's body reports, unless ``status`` is 200."""
    if status == 200:
        return
    try:
        message = str(json.loads(data)["error"])
    except (ValueError, KeyError, TypeError):
        message = data[:500].decode("utf-8", "replace")
    raise error_from_status(status, message)


class _UnixConnection(http.client.HTTPConnection):
    """Speaks HTTP over the Unix socket at ``path``."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _hurry(held: socket.socket | None) -> None:
    if held is not None and held.family != socket.AF_UNIX:
        held.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
