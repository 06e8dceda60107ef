"""A real browser for tests of pages: Debian's Chromium, without a window, which reaches nothing but this machine."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from .tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from robo_rl.web.server import PageServer

CHROMIUM, DRIVER = "chromium", "chromedriver"
PATIENCE_SECONDS = 240.0
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--enable-unsafe-swiftshader",  # WebGL without a graphics card
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
    "--no-proxy-server",
    "--ignore-certificate-errors",
)

NOTICES_NO_SILENCE = """
const every = window.setInterval;
window.setInterval = (does, milliseconds) => milliseconds === 500 ? 0 : every(does, milliseconds);
"""
"""Takes away the look after a connection that is silent (``Link.watch``): so long a robot must not move on."""


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


@contextmanager
def before_pages(browser: Any, script: str) -> Iterator[None]:
    """Run ``script`` before those of every page that is opened meanwhile."""
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": added["identifier"]})


@contextmanager
def proxied(server: "PageServer") -> Iterator[TcpProxy]:
    """Have pages reach ``server`` by a network that fails when it is told to."""
    port = urlsplit(server.origin).port
    assert port
    proxy = TcpProxy(port)
    server._port = proxy.port  # the pages' address, and their origin
    try:
        yield proxy
    finally:
        server._port = port
        proxy.close()


def press_stop_on_a_dead_network(browser: Any, proxy: TcpProxy, pressed: Callable[[], Any]) -> None:
    """Press the page's emergency stop while nothing comes through and nobody is told; once it is mended, it does."""
    alert = browser.find_element("css selector", "#unconfirmed")
    proxy.swallow()
    assert not alert.is_displayed()
    browser.execute_script("window.taps = setInterval(() => document.getElementById('emergency').click(), 100)")
    wait_until(alert.is_displayed)
    browser.execute_script("clearInterval(taps)")
    assert "NOT CONFIRMED" in alert.text
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    assert not pressed()
    proxy.mend()
    wait_until(pressed)
    wait_until(lambda: not alert.is_displayed())
    chip = "return document.querySelector('#connection').textContent"
    wait_until(lambda: browser.execute_script(chip) == "connected")
