"""Private certificate authority and its certificates. Requires the package ``cryptography``."""

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from robo_rl.core import ConfigError

AUTHORITY = "ca"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Authority:
    """Certificate authority that makes keys and their certificates. An authority that exists in ``folder`` is reused.

    The authority's own certificate is valid twice as long as those that it makes. If it would expire before new
    certificates, it is renewed with the same key, so that older certificates remain valid.

    Args:
        folder: folder for ``NAME.pem`` and ``NAME.key``, which only their owner can read.
        days: validity of the certificates [days].
        networks: networks whose addresses a new authority may certify, and no names; empty: any host.

    Attributes:
        written: files that were written.

    Raises:
        ConfigError: if the authority in ``folder`` belongs to another program, or is incomplete or damaged.
    """

    def __init__(self, folder: Path, days: int, networks: Sequence[Network] = ()) -> None:
        self._folder = folder
        now = datetime.datetime.now(datetime.UTC)
        self._begins = now - datetime.timedelta(hours=1)  # in the past, because the clocks of robots differ
        self._ends = self._begins + datetime.timedelta(days=days)  # phones reject certificates of more than 825 days
        self.written: list[Path] = []
        self._key = self._open_key()
        present = certificate(folder, AUTHORITY)
        if present is None or present.not_valid_after_utc < self._ends:
            basic = x509.BasicConstraints(ca=True, path_length=0)
            builder = self._builder(AUTHORITY, self._key, basic, now + datetime.timedelta(days=2 * days))
            if networks:
                builder = builder.add_extension(_limits(networks), critical=True)
            self._save_certificate(AUTHORITY, builder)

    def _open_key(self) -> ec.EllipticCurvePrivateKey:
        """Return the signing key. It is saved before its certificate, so that an interrupted call can be completed."""
        file = self._folder / f"{AUTHORITY}.key"
        if not file.exists():
            if (self._folder / f"{AUTHORITY}.pem").exists():
                raise ConfigError(
                    f"{file} is missing, and only its key can sign for {AUTHORITY}.pem: copy it from where it was "
                    "created, or choose another folder"
                )
            key = ec.generate_private_key(ec.SECP256R1())
            self._save_key(AUTHORITY, key)
            return key
        return load_key(self._folder, AUTHORITY)

    def certify_client(self, name: str) -> None:
        """Make a key and a certificate for the client ``name`` of the learner."""
        self._certify(name, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def certify_server(self, name: str, hosts: Sequence[str]) -> None:
        """Make a key and a certificate for the learner, valid for ``hosts`` and the hosts of its last certificate."""
        wanted = [*map(_host, hosts)]
        if (present := certificate(self._folder, name)) is not None:
            present_hosts = _hosts(self._folder, name, present)
            wanted = [*present_hosts, *(host for host in wanted if host not in present_hosts)]
        self._certify(name, ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(wanted))

    def _certify(self, name: str, usage: x509.ObjectIdentifier, hosts: x509.SubjectAlternativeName | None) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(name, key, x509.BasicConstraints(ca=False, path_length=None), self._ends)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
        if hosts is not None:
            builder = builder.add_extension(hosts, critical=False)
        self._save_key(name, key)
        self._save_certificate(name, builder)

    def _builder(
        self, name: str, key: ec.EllipticCurvePrivateKey, basic: x509.BasicConstraints, ends: datetime.datetime
    ) -> x509.CertificateBuilder:
        """Return a builder with the fields that all certificates have."""
        authority_key, public_key = self._key.public_key(), key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(_common_name(name))
            .issuer_name(_common_name(AUTHORITY))
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._begins)
            .not_valid_after(ends)
            .add_extension(basic, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key), critical=False)
        )

    def _save_key(self, name: str, key: ec.EllipticCurvePrivateKey) -> None:
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        self._write(f"{name}.key", key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))

    def _save_certificate(self, name: str, builder: x509.CertificateBuilder) -> None:
        certificate = builder.sign(self._key, hashes.SHA256())
        self._write(f"{name}.pem", certificate.public_bytes(serialization.Encoding.PEM))

    def _write(self, name: str, data: bytes) -> None:
        file, partial = self._folder / name, self._folder / f"{name}.partial"
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(file)
        self.written.append(file)


def _limits(networks: Sequence[Network]) -> x509.NameConstraints:
    """Return the extension that limits an authority to addresses in ``networks``."""
    # An empty name excludes all names (CA/Browser Forum Baseline Requirements, section 7.1.5).
    return x509.NameConstraints([x509.IPAddress(network) for network in networks], [x509.DNSName("")])


def certificate(folder: Path, name: str) -> x509.Certificate | None:
    """Return the certificate of ``name`` in ``folder``, or None if there is none.

    Raises:
        ConfigError: if it is damaged.
    """
    file = folder / f"{name}.pem"
    if not file.exists():
        return None
    try:
        return x509.load_pem_x509_certificate(file.read_bytes())
    except ValueError as error:
        raise ConfigError(f"{file} is damaged ({error}); restore it or remove it") from error


def is_certified(folder: Path, name: str, host: str, days: int) -> bool:
    """Return whether ``folder`` has a certificate of the server ``name`` for ``host``, with its key and its authority.

    It has to be valid now and for at least ``days`` more days.

    Raises:
        ConfigError: if a certificate or the key is damaged.
    """
    own, authority = certificate(folder, name), certificate(folder, AUTHORITY)
    if own is None or authority is None or not (folder / f"{name}.key").exists():
        return False
    try:
        own.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    now = datetime.datetime.now(datetime.UTC)
    is_current = own.not_valid_before_utc <= now
    ends = min(own.not_valid_after_utc, authority.not_valid_after_utc)
    is_long_enough = ends >= now + datetime.timedelta(days=days)
    is_matching = load_key(folder, name).public_key() == own.public_key()
    return is_current and is_long_enough and is_matching and _host(host) in _hosts(folder, name, own)


def load_key(folder: Path, name: str) -> ec.EllipticCurvePrivateKey:
    """Return the private key of ``name`` in ``folder``.

    Raises:
        ConfigError: if it is damaged, or another program's.
    """
    file = folder / f"{name}.key"
    try:
        loaded = serialization.load_pem_private_key(file.read_bytes(), None)
    except (ValueError, TypeError):  # damaged, or with a password
        loaded = None
    if not isinstance(loaded, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{file} was not made by robo-rl keys; choose another folder")
    return loaded


def _hosts(folder: Path, name: str, present: x509.Certificate) -> x509.SubjectAlternativeName:
    try:
        return present.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound as error:
        raise ConfigError(f"{folder / name}.pem was not made by robo-rl keys; choose another folder") from error


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
