"""The list of pages that commands of this user serve at present."""

import stat
from pathlib import Path

import pytest

from robo_rl.core import user_folder
from robo_rl.web.open_pages import FOLDER, PAGE_BYTES, OpenPage, listed, open_pages

LOCAL = OpenPage("Drive reach", "http://127.0.0.1:8090/#token")
IN_NETWORK = OpenPage("Answer questions", "https://192.168.1.5:8091/#token")


@pytest.fixture
def folder() -> Path:
    return user_folder("state", "a test") / FOLDER


def test_a_page_is_listed_while_it_is_served(folder: Path) -> None:
    assert open_pages(local=True) == []
    with listed(LOCAL), listed(IN_NETWORK):
        assert open_pages(local=True) == [IN_NETWORK, LOCAL]
        assert open_pages(local=False) == [IN_NETWORK], "no other machine can reach the other page"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}, "they hold tokens"
    assert open_pages(local=True) == [] and not [*folder.iterdir()]


def test_a_page_of_a_process_that_was_killed_is_not_listed(folder: Path) -> None:
    folder.mkdir(parents=True)
    left = folder / "1_a.json"
    left.write_text('{"title": "Drive reach", "link": "http://127.0.0.1:8090/#token"}')
    assert open_pages(local=True) == [] and not left.exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        '{"title": "x"}',
        '{"title": "x", "link": "javascript:x"}',
        "[" * 2000,
        "x" * PAGE_BYTES * 2,
    ],
    ids=lambda text: text[:24],
)
def test_an_entry_that_is_no_page_is_left_out(folder: Path, text: str) -> None:
    with listed(LOCAL):
        (file,) = folder.iterdir()
        file.write_text(text)  # the same file: it is locked as that of a page is
        assert open_pages(local=True) == []


def test_a_user_without_a_folder_has_pages_that_are_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with listed(LOCAL):
        assert open_pages(local=True) == []
