"""Certificates for tests, signed by an authority of their own."""

from __future__ import annotations

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

HOUR = datetime.timedelta(hours=1)


def _name(text):
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


class Authority:
    """Signs certificates; its own is ``path``."""

    def __init__(self, folder, name="test authority"):
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.path = folder / f"{name.replace(' ', '-')}.pem"
        held = self._builder(name, self._key, is_ca=True).sign(
            self._key, hashes.SHA256()
        )
        self.path.write_bytes(held.public_bytes(serialization.Encoding.PEM))

    def _builder(self, name, key, is_ca):
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name(self._name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - HOUR)
            .not_valid_after(now + HOUR)
            .add_extension(x509.BasicConstraints(is_ca, None), critical=True)
        )
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        names = x509.SubjectAlternativeName([address])
        return builder if is_ca else builder.add_extension(names, critical=False)

    def issue(self, name, file=None):
        """Paths of a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        held = self._builder(name, key, is_ca=False).sign(self._key, hashes.SHA256())
        paths = [self._folder / f"{file or name}.{kind}" for kind in ("pem", "key")]
        paths[0].write_bytes(held.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return paths
