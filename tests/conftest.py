"""What all tests share."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from .rigs.ros2_domain import free_domain

# Processes of tests run beside each other: threads of one would wait for a core while those of others wait for them.
# Before PyTorch is imported, and for all processes that are started.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Hypothesis limits the time of an example and of its generation, which a busy machine exceeds. In continuous
# integration examples are the same in every run: a rare failure is found by those who run the tests, and does not
# stop a change that has nothing to do with it.
settings.register_profile(
    "robo_rl", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("robo_rl")


@pytest.fixture(scope="session")
def state_folders(tmp_path_factory) -> Iterator[Path]:
    """New folders, one per test: pytest looks through all folders that exist to name another one."""
    folder = tmp_path_factory.mktemp("states")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def own_emergency_stop(state_folders, monkeypatch):
    """A stop that somebody pressed on this machine does not fail the tests, and theirs stop nobody, nor each other."""
    folder = next(state_folders)
    folder.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))


@pytest.fixture
def domain(monkeypatch) -> Iterator[dict[str, str]]:
    """The environment, of this process too, of a ROS 2 domain that no other test uses meanwhile."""
    with free_domain() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield environment
