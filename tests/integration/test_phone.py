"""robo-rl phone: the pages of robo-rl web at the address in the local network, and a guide to its certificate."""

from typing import Any

import pytest

pytest.importorskip("websockets")
pytest.importorskip("segno", reason="the extra 'web' is not installed")
pytest.importorskip("cryptography", reason="the extra 'web' is not installed")

from robo_rl.commands import web
from robo_rl.operators import page_address

from ..rigs.command_line import exit_code, refusal


def test_the_pages_are_served_in_the_network_with_a_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []
    monkeypatch.setattr(page_address, "network_address", lambda: "192.168.1.5")
    monkeypatch.setattr(web, "serve", lambda *arguments: served.append(arguments) or 0)
    assert exit_code("phone", "runs=elsewhere") == 0
    ((config, settings, guide),) = served
    assert config.runs == "elsewhere" and config.data == ["datasets"]
    assert settings.address == "192.168.1.5:8090" and settings.certificates
    assert "Certificate Trust Settings" in guide and "scan the code" in guide


def test_a_machine_without_a_network_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(page_address, "ROUTED", ())
    assert "this machine has no network with a default route" in refusal(capsys, "phone")


def test_an_address_that_no_phone_reaches_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "can be reached from this machine alone" in refusal(capsys, "phone", "web.address=127.0.0.1:0")
