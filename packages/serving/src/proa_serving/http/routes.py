"""Which path means what."""

from __future__ import annotations

import re
from dataclasses import dataclass

from proa_serving.protocol.errors import MethodNotAllowedError, NotFoundError


@dataclass(frozen=True, slots=True)
class Route:
    """The action of a request, and its model or its region of shared memory."""

    action: str
    model: str = ""
    version: str = ""


_PLAIN = {
    "/v2": ("GET", "server_metadata"),
    "/v2/": ("GET", "server_metadata"),
    "/v2/health/live": ("GET", "live"),
    "/v2/health/ready": ("GET", "ready"),
    "/v2/repository/index": ("POST", "index"),
    "/v2/models/stats": ("GET", "statistics"),
    "/v2/trace/setting": ("GET POST", "trace_setting"),
    "/": ("GET", "v1_alive"),
    "/v1/models": ("GET", "v1_models"),
    "/metrics": ("GET", "metrics"),
    "/status": ("GET", "status"),
    "/timeline": ("GET", "timeline"),
}
# What may follow /v2/models/NAME or /v2/models/NAME/versions/VERSION.
_MODEL = {
    "": ("GET", "model_metadata"),
    "ready": ("GET", "model_ready"),
    "infer": ("POST", "infer"),
    "stats": ("GET", "statistics"),
    "config": ("GET", "model_config"),
    "shadow": ("GET", "shadow"),
}
# What may follow /v2/systemsharedmemory or /v2/systemsharedmemory/region/NAME.
_MEMORY = {
    "status": ("GET", "memory_status"),
    "register": ("POST", "memory_register"),
    "unregister": ("POST", "memory_unregister"),
}
# What may follow /v1/models/NAME or /v1/models/NAME/versions/VERSION.
_V1_MODEL = {
    "": ("GET", "v1_status"),
    "/metadata": ("GET", "v1_metadata"),
    ":predict": ("POST", "v1_predict"),
}
_V1_PATH = re.compile(
    r"/v1/models/(?P<model>[^/:]+)(?:/versions/(?P<version>[^/:]+))?(?P<rest>.*)"
)
_REPOSITORY = {"load": ("POST", "load"), "unload": ("POST", "unload")}


def find_route(method: str, path: str) -> Route:
    """The route of a request.

    Raises:
        NotFoundError: If no path is such.
        MethodNotAllowedError: If the path wants another method.
    """
    name = version = ""
    wanted = _PLAIN.get(path)
    if wanted is None:
        parts = path.split("/")
        if parts[:3] == ["", "v2", "models"] and len(parts) > 3:
            name, rest = parts[3], parts[4:]
            if rest[:1] == ["versions"] and len(rest) > 1:
                version, rest = rest[1], rest[2:]
            wanted = _MODEL.get("/".join(rest)) if rest != [""] else None
        elif parts[:4] == ["", "v2", "repository", "models"] and len(parts) == 6:
            name = parts[4]
            wanted = _REPOSITORY.get(parts[5])
        elif parts[:3] == ["", "v2", "systemsharedmemory"]:
            rest = parts[3:]
            if rest[:1] == ["region"] and len(rest) == 3:
                name, rest = rest[1], rest[2:]
            wanted = _MEMORY.get("/".join(rest))
        elif match := _V1_PATH.fullmatch(path):
            name, version = match["model"], match["version"] or ""
            wanted = _V1_MODEL.get(match["rest"])
    if wanted is None:
        raise NotFoundError(
            "http", f"expected a path of the protocol, got {path!r:.120}"
        )
    allowed, action = wanted
    if method not in allowed.split() and not (method == "HEAD" and allowed == "GET"):
        raise MethodNotAllowedError(
            "http",
            f"expected {allowed.replace(' ', ' or ')} {path:.120}, got another method",
        )
    return Route(action, name, version)
