"""A private authority and what it certifies. Needs the package ``cryptography``."""

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from robo_rl.core import ConfigError

AUTHORITY = "ca"


class Authority:
    """Makes keys, and certificates for them. One that ``folder`` holds already is used; else it is made.

    Args:
        folder: where to write ``NAME.pem`` and ``NAME.key``, which its owner alone can read.
        days: how long certificates are valid.

    Attributes:
        written: the files that were written.

    Raises:
        ConfigError: if the authority in ``folder`` is another program's.
    """

    def __init__(self, folder: Path, days: int) -> None:
        self._folder = folder
        now = datetime.datetime.now(datetime.UTC)
        self._begins = now - datetime.timedelta(hours=1)  # clocks of robots differ
        self._ends = now + datetime.timedelta(days=days)
        self.written: list[Path] = []
        file = folder / f"{AUTHORITY}.key"
        if file.exists():
            loaded = serialization.load_pem_private_key(file.read_bytes(), None)
            if not isinstance(loaded, ec.EllipticCurvePrivateKey):
                raise ConfigError(f"{file} was not made by robo-rl keys; choose another folder")
            self._key = loaded
        else:
            self._key = ec.generate_private_key(ec.SECP256R1())
            basic = x509.BasicConstraints(ca=True, path_length=0)
            self._save(AUTHORITY, self._key, self._builder(AUTHORITY, self._key, basic))

    def certify_client(self, name: str) -> None:
        """Make a key for a client of the learner, and a certificate that it is ``name``."""
        self._certify(name, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def certify_server(self, name: str, hosts: Sequence[str]) -> None:
        """Make a key for the learner, which clients reach by ``hosts``: names and addresses."""
        self._certify(name, ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName([*map(_host, hosts)]))

    def _certify(self, name: str, usage: x509.ObjectIdentifier, hosts: x509.SubjectAlternativeName | None) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(name, key, x509.BasicConstraints(ca=False, path_length=None))
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
        if hosts is not None:
            builder = builder.add_extension(hosts, critical=False)
        self._save(name, key, builder)

    def _builder(
        self, name: str, key: ec.EllipticCurvePrivateKey, basic: x509.BasicConstraints
    ) -> x509.CertificateBuilder:
        """Return what every certificate says."""
        ours, theirs = self._key.public_key(), key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(_common_name(name))
            .issuer_name(_common_name(AUTHORITY))
            .public_key(theirs)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._begins)
            .not_valid_after(self._ends)
            .add_extension(basic, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(theirs), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ours), critical=False)
        )

    def _save(self, name: str, key: ec.EllipticCurvePrivateKey, builder: x509.CertificateBuilder) -> None:
        pem = serialization.Encoding.PEM
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        self._write(f"{name}.key", private)
        self._write(f"{name}.pem", builder.sign(self._key, hashes.SHA256()).public_bytes(pem))

    def _write(self, name: str, data: bytes) -> None:
        file, partial = self._folder / name, self._folder / f"{name}.partial"
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        partial.replace(file)
        self.written.append(file)


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
