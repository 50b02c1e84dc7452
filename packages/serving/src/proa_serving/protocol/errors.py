"""What can go wrong, once: a type, its HTTP status and its gRPC code.

The server raises these and the client raises them again from the answer. They are
here, and not in ``proa.errors``, so that a client needs nothing but this package.
"""

from typing import ClassVar as _ClassVar

__all__ = [
    "AddressInUseError",
    "ForbiddenError",
    "HeadTooLargeError",
    "InvalidRequestError",
    "MethodNotAllowedError",
    "ModelFailedError",
    "ModelLoadError",
    "NotFoundError",
    "QueueFullError",
    "RateLimitedError",
    "RequestTimeoutError",
    "RetiredError",
    "ServingError",
    "SlowRequestError",
    "TooLargeError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnsupportedError",
    "error_from_code",
    "error_from_status",
]


def __dir__() -> list[str]:
    return __all__


class ServingError(Exception):
    """The server could not serve a request.

    Args:
        where: The part that is speaking; it is put in brackets before the message.
        message: What must hold, and what was got.
    """

    http_status: _ClassVar[int] = 500
    grpc_code: _ClassVar[str] = "INTERNAL"
    reason: _ClassVar[str] = "internal"

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"[{where}] {message}" if where else message)


class InvalidRequestError(ServingError, ValueError):
    """The request is malformed, or does not fit the model."""

    http_status = 400
    grpc_code = "INVALID_ARGUMENT"
    reason = "invalid"


class UnauthenticatedError(ServingError, PermissionError):
    """The request has no API key that the server knows."""

    http_status = 401
    grpc_code = "UNAUTHENTICATED"
    reason = "unauthenticated"


class ForbiddenError(ServingError, PermissionError):
    """The server was started without leave to do this."""

    http_status = 403
    grpc_code = "PERMISSION_DENIED"
    reason = "forbidden"


class NotFoundError(ServingError, LookupError):
    """No such model, version or path."""

    http_status = 404
    grpc_code = "NOT_FOUND"
    reason = "not_found"


class MethodNotAllowedError(ServingError):
    """The path exists, but not for this HTTP method."""

    http_status = 405
    grpc_code = "UNIMPLEMENTED"
    reason = "method"


class ModelLoadError(ServingError):
    """A model file cannot be used."""

    http_status = 409
    grpc_code = "FAILED_PRECONDITION"
    reason = "load"


class TooLargeError(ServingError):
    """The request is larger than the server allows."""

    http_status = 413
    grpc_code = "OUT_OF_RANGE"
    reason = "too_large"


class HeadTooLargeError(TooLargeError):
    """The request line and the headers are larger than the server allows."""

    http_status = 431


class UnsupportedError(ServingError, NotImplementedError):
    """The protocol knows it; this server does not."""

    http_status = 415
    grpc_code = "UNIMPLEMENTED"
    reason = "unsupported"


class QueueFullError(ServingError):
    """Too many requests wait already; the client should slow down."""

    http_status = 429
    grpc_code = "RESOURCE_EXHAUSTED"
    reason = "queue_full"


class RateLimitedError(QueueFullError):
    """The client sends more requests a second than it may.

    Args:
        seconds: Until the next is allowed.
        rate: Requests a second that are.
    """

    reason = "rate_limited"

    def __init__(self, seconds: float, rate: float) -> None:
        super().__init__(
            "server",
            f"one client may send {rate:g} requests/s; try again in {seconds:.3g} s",
        )
        self.seconds = seconds


class ModelFailedError(ServingError):
    """The model raised while it ran."""

    http_status = 500
    grpc_code = "INTERNAL"
    reason = "model"


class UnavailableError(ServingError):
    """The model or the server is not ready, or is shutting down."""

    http_status = 503
    grpc_code = "UNAVAILABLE"
    reason = "unavailable"


class RetiredError(UnavailableError):
    """This load of the model takes no more requests; another may have replaced it."""


class RequestTimeoutError(ServingError, TimeoutError):
    """The answer was not ready in time."""

    http_status = 504
    grpc_code = "DEADLINE_EXCEEDED"
    reason = "timeout"


class SlowRequestError(RequestTimeoutError):
    """The head or the body of a request took too long to arrive."""

    http_status = 408


class AddressInUseError(ServingError, OSError):
    """The server cannot listen on its address."""


_TYPES: tuple[type[ServingError], ...] = (
    InvalidRequestError,
    UnauthenticatedError,
    ForbiddenError,
    NotFoundError,
    MethodNotAllowedError,
    ModelLoadError,
    TooLargeError,
    HeadTooLargeError,
    UnsupportedError,
    QueueFullError,
    ModelFailedError,
    UnavailableError,
    RequestTimeoutError,
    SlowRequestError,
)
_BY_STATUS = {kind.http_status: kind for kind in _TYPES}
_BY_CODE = {kind.grpc_code: kind for kind in reversed(_TYPES)}


def error_from_status(status: int, message: str) -> ServingError:
    """The error of an HTTP response with ``status``."""
    return _BY_STATUS.get(status, ServingError)("", message)


def error_from_code(code: str, message: str) -> ServingError:
    """The error of a gRPC response with the code named ``code``."""
    return _BY_CODE.get(code, ServingError)("", message)
