"""A real browser for tests of pages: Debian's Chromium, without a window, which reaches nothing but this machine."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM, DRIVER = "chromium", "chromedriver"
PATIENCE_SECONDS = 240.0
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
    "--no-proxy-server",
    "--ignore-certificate-errors",
)


@contextmanager
def open_browser(profile: Path) -> Iterator[Any]:
    """Start Chromium with an empty profile; skip the test where it, its driver or selenium is not installed."""
    missing = [name for name in (CHROMIUM, DRIVER) if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed: apt-get install chromium chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=shutil.which(DRIVER))
    browser = webdriver.Chrome(options=options, service=service)
    try:
        browser.set_script_timeout(PATIENCE_SECONDS)
        browser.set_page_load_timeout(PATIENCE_SECONDS)
        yield browser
    finally:
        browser.quit()


def wait_until(condition: Callable[[], Any]) -> Any:
    """Return the first value of ``condition`` that is true; other work may keep the machine busy."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)
    return value
