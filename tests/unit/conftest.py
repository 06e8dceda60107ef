"""What several files of unit tests share."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """A data set, open, and its episodes; see :func:`tests.interchange.record`."""
    from ..interchange import record  # only here: its libraries take long to import

    store, episodes = record(tmp_path_factory.mktemp("data") / "set")
    with store:
        yield store, episodes
