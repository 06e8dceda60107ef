"""A file system that does not answer, as a network share whose server is gone."""

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest


def make_slow(monkeypatch: pytest.MonkeyPatch, part: str, *names: str) -> threading.Event:
    """Let functions of ``os`` wait for paths that contain ``part``; return the event that ends the waiting."""
    over = threading.Event()

    def slowed(function: Callable[..., Any]) -> Callable[..., Any]:
        def wait_for(path: Any, *rest: Any, **options: Any) -> Any:
            if part in str(path):
                over.wait()
            return function(path, *rest, **options)

        return wait_for

    for name in names:
        monkeypatch.setattr(os, name, slowed(getattr(os, name)))
    return over
