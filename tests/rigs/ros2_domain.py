"""Domains of ROS 2 for tests that run beside each other."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
