"""What all tests share."""

from collections.abc import Iterator

import pytest

from .ros2_domain import free_domain


@pytest.fixture(autouse=True)
def own_emergency_stop(tmp_path_factory, monkeypatch):
    """An emergency stop that somebody pressed on this machine does not fail the tests, and theirs stops nobody."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """On tensors that are small threads only wait for each other, long ones on a busy machine."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def domain(monkeypatch) -> Iterator[dict[str, str]]:
    """The environment, of this process too, of a ROS 2 domain that no other test uses meanwhile."""
    with free_domain() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield environment
