"""Fixtures that several files of these tests share."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """A data set, open, and its episodes; see :func:`tests.rigs.interchange.record`."""
    from ..rigs.interchange import record  # only here: its libraries take long to import

    store, episodes = record(tmp_path_factory.mktemp("data") / "set")
    with store:
        yield store, episodes
