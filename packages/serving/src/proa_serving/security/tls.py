"""TLS: the server's certificate, and which clients' certificates are trusted."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

from proa_serving.protocol.errors import InvalidRequestError
from proa_serving.security.watched import WatchedFiles

log = logging.getLogger("proa_serving")
# RFC 9113, section 9.2: with TLS 1.2, ephemeral keys and authenticated encryption.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


@dataclass(frozen=True)
class TlsFiles:
    """PEM files.

    Args:
        certificate: The server's chain, its own certificate first.
        key: The private key, not encrypted.
        client_ca: Certificates that sign clients'; with it, mutual TLS is required.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None


class Tls:
    """The TLS context of one protocol, replaced when its files change.

    Args:
        files: What to load.
        protocol: The one that is negotiated by ALPN (RFC 7301).

    Raises:
        InvalidRequestError: If the files cannot be used, and why.
    """

    def __init__(self, files: TlsFiles, protocol: str) -> None:
        self._files, self._protocol = files, protocol
        paths = (files.certificate, files.key, files.client_ca)
        self._watched = WatchedFiles(*(path for path in paths if path is not None))
        self._watched.changed()
        self.context = self._load()

    def refresh(self) -> None:
        """Load the files again if they changed; those that are wrong are not used.

        Connections that are open keep what they began with.
        """
        if not self._watched.changed():
            return
        try:
            self.context = self._load()
        except InvalidRequestError as error:
            log.error("the old certificate stays in use: %s", error)
        else:
            log.info("%s: the certificate was loaded again", self._protocol)

    def _load(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        context.set_ciphers(_CIPHERS)
        context.set_alpn_protocols([self._protocol])
        try:
            # Without a password OpenSSL would prompt for one.
            context.load_cert_chain(files.certificate, files.key, password="")
            if files.client_ca is not None:
                context.load_verify_locations(files.client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ValueError) as error:
            raise InvalidRequestError(
                "tls",
                f"{files.certificate} and {files.key} must be a certificate and its "
                f"key, in PEM: {error}",
            ) from error
        return context
