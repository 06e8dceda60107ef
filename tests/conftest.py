"""What all tests share."""

import pytest


@pytest.fixture(autouse=True)
def own_emergency_stop(tmp_path_factory, monkeypatch):
    """An emergency stop that somebody pressed on this machine does not fail the tests, and theirs stops nobody."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))
