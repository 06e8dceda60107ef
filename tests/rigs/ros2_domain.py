"""Domains of ROS 2 for tests that run beside each other."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .ros2_rig import peer


@contextmanager
def free_domain() -> Iterator[dict[str, str]]:
    """Give the environment of a domain that no other test on this machine uses meanwhile."""
    folder = Path(tempfile.gettempdir()) / f"robo_rl_ros_domains_{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for domain in range(1, 201):
        with (folder / str(domain)).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            yield {"ROS_DOMAIN_ID": str(domain), "ROS_LOCALHOST_ONLY": "1"}
            return
    raise RuntimeError("all domains are in use")


@contextmanager
def domain_of_peer() -> Iterator[dict[str, str]]:
    """Set the environment of a domain in which a peer serves; yield the variables."""
    with free_domain() as environment, peer(environment), pytest.MonkeyPatch.context() as monkeypatch:
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        yield environment
