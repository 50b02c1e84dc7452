"""Lets a request in, or says why not, before its body is read."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from proa_serving.protocol.errors import ForbiddenError, UnauthenticatedError
from proa_serving.security.keys import ApiKeys, Caller
from proa_serving.security.rate import RateLimiter

if TYPE_CHECKING:
    from proa_serving.config import ServerConfig

_BEARER = b"bearer "
# One customer has as many addresses of IPv6 (RFC 6177).
_IPV6_PREFIX = 64


class Guard:
    """Checks keys and rates for every front end of one server.

    Args:
        config: The file of keys, and the rate; either may be absent.

    Raises:
        InvalidRequestError: If the file of keys cannot be used.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._keys = ApiKeys(config.api_keys) if config.api_keys else None
        self._limiter = RateLimiter(config.rate_limit) if config.rate_limit else None
        # Whether it lets everything in.
        self.is_open = self._keys is None and self._limiter is None

    def refresh(self) -> None:
        """Read the keys again if their file changed."""
        if self._keys is not None:
            self._keys.refresh()

    def admit(self, authorization: bytes, api_key: bytes, client: str) -> Caller:
        """Who calls.

        Args:
            authorization: ``Bearer KEY``, or nothing.
            api_key: The key by itself, or nothing.
            client: The address that it comes from.

        Raises:
            UnauthenticatedError: If a key is wanted and this is none.
            RateLimitedError: If there were too many requests of the caller's.
        """
        caller: Caller | None = Caller(client)
        if self._keys is not None:
            key = api_key
            if not key and authorization[: len(_BEARER)].lower() == _BEARER:
                key = authorization[len(_BEARER) :].strip()
            caller = self._keys.find(key)
        if self._limiter is not None:
            # Guesses of keys are limited too, by their address.
            self._limiter.take(f":{client}" if caller is None else caller.name)
        if caller is None:
            raise UnauthenticatedError(
                "server", "the request needs an API key that is known"
            )
        return caller

    def check_control(self, caller: Caller | None, allowed: bool) -> None:
        """Whether ``caller`` may load and unload models.

        Args:
            caller: What :meth:`admit` found.
            allowed: Whether that is served at all, at this address.

        Raises:
            ForbiddenError: If it may not.
        """
        if not allowed:
            raise ForbiddenError(
                "server",
                "models are loaded and unloaded at the admin port, or here if the "
                "server was started with --model-control",
            )
        if self._keys is not None and not (caller is not None and caller.is_admin):
            raise ForbiddenError("server", "the request needs an admin's API key")


def address_of(transport: Any) -> str:
    """The client's address, as far as its rate is concerned.

    Args:
        transport: The ``asyncio.Transport`` of its connection.
    """
    peer = transport.get_extra_info("peername")
    if not isinstance(peer, tuple):
        return "unix"
    try:
        address = ipaddress.ip_address(peer[0].partition("%")[0])
    except ValueError:
        return str(peer[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
    return str(address)
