"""Certificates for mutual TLS."""

import datetime
import ipaddress
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from robo_rl.core import ConfigError, require

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

VALID_DAYS = 825
LEARNER = "learner"
OPERATOR = "operator"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def make_keys(folder: Path, hosts: Sequence[str], actors: Sequence[str], days: int = VALID_DAYS) -> list[Path]:
    """Make a private authority, and certificates of the learner, of each actor and of the operator.

    An existing authority is kept, so that actors can be added later; existing certificates are replaced.

    Args:
        folder: where to write ``NAME.pem`` and ``NAME.key`` (readable by its owner alone), and ``ca.pem``, ``ca.key``.
        hosts: names and addresses by which actors reach the learner.
        actors: names of actors.
        days: how long the certificates are valid.

    Returns:
        The files that were written.

    Raises:
        ConfigError: if a name is impossible, or the package ``cryptography`` is missing.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
    except ImportError as error:
        raise ConfigError("robo-rl keys needs the package cryptography: pip install 'robo-rl[distributed]'") from error

    require(days >= 1, "days", "1 or more", days)
    for name in actors:
        usable = NAME.fullmatch(name) is not None and name not in (LEARNER, OPERATOR, "ca")
        require(usable, "an actor's name", f"letters, digits, - _ . and not {LEARNER}, {OPERATOR} or ca", name)
    require(bool(hosts), "hosts", "one name or address at least", list(hosts))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    written = []
    now = datetime.datetime.now(datetime.UTC)

    def write(file: Path, data: bytes) -> None:
        partial = file.with_name(f"{file.name}.partial")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        partial.replace(file)
        written.append(file)

    def certificate(
        name: str, key: ec.EllipticCurvePrivateKey, issuer: x509.Name, signer: ec.EllipticCurvePrivateKey
    ) -> x509.Certificate:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        authority = name == "ca"
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if authority else issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))  # clocks of robots differ
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        )
        if not authority:
            usage = ExtendedKeyUsageOID.SERVER_AUTH if name == LEARNER else ExtendedKeyUsageOID.CLIENT_AUTH
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
        if name == LEARNER:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        return builder.sign(signer, hashes.SHA256())

    def save(name: str, key: ec.EllipticCurvePrivateKey, made: x509.Certificate) -> None:
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write(folder / f"{name}.key", private)
        write(folder / f"{name}.pem", made.public_bytes(serialization.Encoding.PEM))

    root_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
    if (folder / "ca.key").exists():
        loaded = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise ConfigError(f"{folder / 'ca.key'} was not made by robo-rl keys; choose another folder")
        root = loaded
    else:
        root = ec.generate_private_key(ec.SECP256R1())
        save("ca", root, certificate("ca", root, root_name, root))
    for name in (LEARNER, OPERATOR, *actors):
        key = ec.generate_private_key(ec.SECP256R1())
        save(name, key, certificate(name, key, root_name, root))
    return written


def _host(host: str) -> "GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
