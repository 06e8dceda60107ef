"""The pages as an app on the home screen of a phone: the manifest, the icon, and the access of an installed page."""

import json
import re
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("websockets")

from robo_rl.web import WebConfig
from robo_rl.web.server import STATIC, PageServer

from ..rigs.browser import wait_until
from ..rigs.server_thread import ServerThread

PAGES = sorted(file.name for file in STATIC.glob("*.html"))
FILES = {"/": "answer.html"} | {f"/{file.name}": file.name for file in STATIC.iterdir() if file.suffix != ".png"}
del FILES["/manifest.webmanifest"]  # and the icon: every server has them, whatever its pages


async def stay(page: Any) -> None:
    await page.send("{}")
    async for _ in page:
        pass


@pytest.fixture(scope="module")
def pages() -> Iterator[PageServer]:
    """A server of all pages."""
    thread = ServerThread(lambda: PageServer(WebConfig("127.0.0.1:0"), FILES, stay, lambda _: None))
    yield thread.server
    thread.stop()


def fetched(address: str) -> tuple[str, bytes]:
    """Return media type and content of a file."""
    with urllib.request.urlopen(address) as answer:
        assert answer.headers["Cache-Control"] == "no-store"
        return answer.headers["Content-Type"], answer.read()


def test_the_manifest_names_an_app_without_a_secret(pages: PageServer) -> None:
    kind, content = fetched(f"{pages.origin}/manifest.webmanifest")
    manifest = json.loads(content)
    assert kind == "application/manifest+json"
    assert (manifest["display"], manifest["start_url"], manifest["scope"]) == ("standalone", "/", "/")
    assert pages.link.partition("#")[2].encode() not in content
    for icon in manifest["icons"]:
        kind, content = fetched(f"{pages.origin}{icon['src']}")
        assert kind == icon["type"] == "image/png" and content.startswith(b"\x89PNG")
        width, height = (int.from_bytes(content[start : start + 4], "big") for start in (16, 20))
        assert icon["sizes"] == f"{width}x{height}"
        assert len(content) < 10_000


@pytest.mark.parametrize("page", PAGES)
def test_a_browser_can_install_every_page(browser: Any, pages: PageServer, page: str) -> None:
    browser.get(f"{pages.origin}/{page}")
    found = wait_until(lambda: browser.execute_cdp_cmd("Page.getAppManifest", {}))
    assert found["url"] == f"{pages.origin}/manifest.webmanifest"
    assert found["errors"] == []
    problems = browser.execute_cdp_cmd("Page.getInstallabilityErrors", {})["installabilityErrors"]
    # Chromium installs nothing from a window without a profile of its own to keep it.
    assert [problem for problem in problems if problem["errorId"] != "in-incognito"] == []
    touch = browser.find_element("css selector", "link[rel=apple-touch-icon]").get_attribute("href")
    assert touch == f"{pages.origin}/icon.png"
    logged = [line["message"] for line in browser.get_log("browser")]
    assert not [text for text in logged if re.search("Content Security Policy|manifest", text)]


@pytest.mark.parametrize("pasted", ["address", "token"])
def test_an_installed_page_asks_for_the_token(browser: Any, pages: PageServer, pasted: str) -> None:
    browser.get(f"{pages.origin}/")
    browser.execute_script("sessionStorage.clear()")
    browser.refresh()
    field = browser.find_element("css selector", "#token")
    wait_until(field.is_displayed)
    field.send_keys(pages.link if pasted == "address" else pages.link.partition("#")[2])
    browser.find_element("css selector", "#ask button").click()
    wait_until(lambda: browser.find_element("css selector", "#connection").text == "connected")
    assert browser.current_url == f"{pages.origin}/"
