"""Fixtures that several files of these tests share."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..rigs.browser import open_browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real browser with an empty profile."""
    with open_browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def phone(browser: Any) -> None:
    """Give the browser the screen of a phone."""
    from ..rigs.driven_page import make_phone  # only here: it needs the package websockets

    make_phone(browser)


@pytest.fixture
def driven() -> Iterator[Any]:
    """The simulated arm, and a page that drives it."""
    from ..rigs.driven_page import Driven  # only here: it needs the package websockets

    driven = Driven()
    yield driven
    driven.close()


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Any]:
    """The page of the runs in ``folder / "runs"``, a fixture of the file of tests."""
    from ..rigs.web_page import ServedDashboard  # only here: it needs the package websockets

    served = ServedDashboard(folder / "runs", folder)
    served.start()
    yield served
    served.stop()
