"""What all tests share."""

import gc
import os
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from .rigs.ros2_domain import free_domain

# Processes of tests run beside each other: threads of one would wait for a core while those of others wait for them.
# Before PyTorch is imported, and for all processes that are started.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A quarter of the time of collecting all tests is spent on looking for garbage. The first test begins with it.
gc.disable()


@pytest.fixture(autouse=True, scope="session")
def frozen_modules() -> Iterator[None]:
    """Modules and collected tests are excluded from garbage collection, also after a robot was driven.

    A robot's connection looks for garbage before it excludes what exists, and its end includes all again. Among the
    modules of all tests that takes a second each time, in which other threads stand still.
    """
    from robo_rl.drivers import real_time

    with pytest.MonkeyPatch.context() as patch:
        excluded = SimpleNamespace(collect=gc.collect, freeze=lambda: None, unfreeze=lambda: None)
        patch.setattr(real_time, "gc", excluded)
        gc.collect()
        gc.freeze()
        gc.enable()
        yield


@pytest.fixture(autouse=True)
def own_emergency_stop(tmp_path_factory, monkeypatch):
    """A stop that somebody pressed on this machine does not fail the tests, and theirs stop nobody, nor each other."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def domain(monkeypatch) -> Iterator[dict[str, str]]:
    """The environment, of this process too, of a ROS 2 domain that no other test uses meanwhile."""
    with free_domain() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield environment
