"""What all tests share."""

from collections.abc import Iterator

import pytest

from .ros2_domain import free_domain


@pytest.fixture(autouse=True)
def own_emergency_stop(tmp_path_factory, monkeypatch):
    """An emergency stop that somebody pressed on this machine does not fail the tests, and theirs stops nobody."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))


@pytest.fixture
def domain(monkeypatch) -> Iterator[dict[str, str]]:
    """The environment, of this process too, of a ROS 2 domain that no other test uses meanwhile."""
    with free_domain() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield environment
