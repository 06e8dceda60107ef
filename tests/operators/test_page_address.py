"""Addresses of pages for phones in the same network."""

import contextlib
import socket
import ssl
import stat
import unicodedata
from datetime import timedelta
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from omegaconf import OmegaConf

pytest.importorskip("segno", reason="the extra 'web' is not installed")
pytest.importorskip("cryptography", reason="the extra 'web' is not installed")

from cryptography.hazmat.primitives.hashes import SHA256

from robo_rl.core import ConfigError
from robo_rl.operators import page_address
from robo_rl.operators.page_address import link_text, network_address, page_settings
from robo_rl.transport import certifies, keys, make_keys
from robo_rl.transport.certificates import certificate
from robo_rl.web import WebConfig


class Socket:
    """A datagram socket on a machine whose default routes have the addresses ``found``, by family."""

    found: dict[Any, str]

    def __init__(self, family: Any, kind: Any) -> None:
        self._family = family

    def __enter__(self) -> "Socket":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def connect(self, _: tuple[str, int]) -> None:
        if self._family not in self.found:
            raise OSError("Network is unreachable")

    def getsockname(self) -> tuple[str, int]:
        return self.found[self._family], 40000


def settings_for(address: str, monkeypatch: pytest.MonkeyPatch, host: str, **options: str) -> WebConfig:
    monkeypatch.setattr(page_address, "network_address", lambda: host)
    return page_settings(OmegaConf.create({"web": OmegaConf.structured(WebConfig(address, **options))}))


def test_the_address_in_the_network_gets_certificates_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_for("lan:8090", monkeypatch, "192.168.1.5")
    assert settings.address == "192.168.1.5:8090"
    assert settings.certificates is not None
    folder = Path(settings.certificates)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "learner.key").stat().st_mode) == 0o600
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(folder / "learner.pem", folder / "learner.key")
    first = {file.name: file.read_bytes() for file in folder.iterdir()}

    assert settings_for("lan:8091", monkeypatch, "192.168.1.5").certificates == str(folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == first

    other = settings_for("lan:0", monkeypatch, "fd00::7")
    assert other.address == "[fd00::7]:0"
    assert certifies(folder, "fd00::7") and certifies(folder, "192.168.1.5"), "the phone has both networks"
    assert (folder / "ca.pem").read_bytes() == first["ca.pem"], "a phone trusts it already"


def test_certificates_that_expire_soon_or_lack_their_key_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(settings_for("lan:8090", monkeypatch, "192.168.1.5").certificates or "")
    (folder / "learner.key").unlink()
    assert not certifies(folder, "192.168.1.5")
    settings_for("lan:8090", monkeypatch, "192.168.1.5")
    assert certifies(folder, "192.168.1.5") and not certifies(folder, "192.168.1.6")
    own = certificate(folder, "learner")
    assert own is not None
    assert own.not_valid_after_utc - own.not_valid_before_utc <= timedelta(days=825), "longer ones, phones reject"
    monkeypatch.setattr(keys, "LEAST_DAYS", keys.VALID_DAYS + 1)
    assert not certifies(folder, "192.168.1.5")


@pytest.mark.parametrize("name", ["learner.key", "learner.pem", "ca.pem"])
def test_files_that_do_not_belong_together_are_made_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(settings_for("lan:8090", monkeypatch, "192.168.1.5").certificates or "")
    make_keys(tmp_path, ["192.168.1.5"], [])
    (folder / name).write_bytes((tmp_path / name).read_bytes())
    assert not certifies(folder, "192.168.1.5")
    if name == "ca.pem":
        (folder / "ca.key").write_bytes((tmp_path / "ca.key").read_bytes())
    settings_for("lan:8090", monkeypatch, "192.168.1.5")
    assert certifies(folder, "192.168.1.5")


def test_certificates_of_another_program_are_named(tmp_path: Path) -> None:
    make_keys(tmp_path, ["192.168.1.5"], [])
    for suffix in ("pem", "key"):  # a client's certificate is for no host
        (tmp_path / f"learner.{suffix}").write_bytes((tmp_path / f"operator.{suffix}").read_bytes())
    for call in (lambda: certifies(tmp_path, "192.168.1.5"), lambda: make_keys(tmp_path, ["192.168.1.6"], [])):
        with pytest.raises(ConfigError, match=r"learner.pem was not made by robo-rl keys"):
            call()


def handshake(folder: Path, host: str) -> None:
    """Connect in memory to a server with the certificate in ``folder``, as a client that trusts its authority."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=folder / "ca.pem")
    server.load_cert_chain(folder / "learner.pem", folder / "learner.key")
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = client.wrap_bio(down, up, server_hostname=host), server.wrap_bio(up, down, server_side=True)
    for end in ends * 3:
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()


def test_the_authority_of_a_phone_certifies_no_site_on_the_internet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(settings_for("lan:8090", monkeypatch, "192.168.1.5").certificates or "")
    handshake(folder, "192.168.1.5")
    for host in ("8.8.8.8", "bank.example", "robot.local"):  # signed with the key of the authority
        with pytest.raises(ConfigError, match="addresses in private networks"):
            make_keys(folder, [host], [], private=True)
        (folder / "learner.pem").unlink()
        make_keys(folder, [host], [])
        with pytest.raises(ssl.SSLCertVerificationError, match=r"subtree|verify failed"):
            handshake(folder, host)
        make_keys(tmp_path / host, [host], [])
        handshake(tmp_path / host, host)


def test_given_certificates_and_other_addresses_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_for("lan:8090", monkeypatch, "10.0.0.3", certificates="keys")
    assert (settings.address, settings.certificates) == ("10.0.0.3:8090", "keys")
    assert settings_for("127.0.0.1:8090", monkeypatch, "10.0.0.3") == WebConfig("127.0.0.1:8090")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"AF_INET": "192.168.1.5", "AF_INET6": "fd00::7"}, "192.168.1.5"),
        ({"AF_INET": "169.254.3.4"}, "169.254.3.4"),
        ({"AF_INET6": "fd00::7"}, "fd00::7"),
        ({}, "no network with a default route: give its address"),
        ({"AF_INET": "100.64.0.9"}, "100.64.0.9"),
        ({"AF_INET": "127.0.0.1"}, "no network with a default route"),
        ({"AF_INET": "8.8.8.8"}, "is not in a private network"),
        ({"AF_INET6": "2606:4700::1111"}, "is not in a private network"),
    ],
)
def test_only_an_address_of_a_private_network_is_used(
    found: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Socket, "found", {getattr(socket, key): host for key, host in found.items()}, False)
    monkeypatch.setattr(socket, "socket", Socket)
    if expected in found.values():
        assert network_address() == expected
    else:
        with pytest.raises(ConfigError, match=rf"web.address lan: .*{expected}"):
            network_address()


def test_a_phone_reads_the_address_from_the_terminal(tmp_path: Path) -> None:
    make_keys(tmp_path, ["192.168.1.5"], [])
    link = "https://192.168.1.5:8090/#4tTLSziT7iGz3Z2OT7FguhHbQwSgqjo1ecliLT1kC5I"
    first, *code, advice, fingerprint = link_text(link, WebConfig("192.168.1.5:8090", str(tmp_path))).splitlines()
    assert first == link
    assert "install the certificate at https://192.168.1.5:8090/ca.pem on that device, if" in advice
    authority = certificate(tmp_path, "ca")
    assert authority is not None and fingerprint.replace(":", "").lower() == authority.fingerprint(SHA256()).hex()
    assert "ca.pem" not in link_text(link, WebConfig("192.168.1.5:8090", str(tmp_path / "public")))
    halves = {"█": (1, 1), "▀": (1, 0), "▄": (0, 1), " ": (0, 0)}  # light upper and lower half of a character
    assert set("".join(code)) <= set(halves), unicodedata.name(code[0][0])
    rows = [[halves[character][half] for character in line] for line in code for half in (0, 1)]
    picture = np.kron(255 * np.array(rows, np.uint8), np.ones((8, 8), np.uint8))
    assert cv2.QRCodeDetector().detectAndDecode(picture)[0] == link
    assert link_text("http://127.0.0.1:8090/#token", WebConfig()) == "http://127.0.0.1:8090/#token"
