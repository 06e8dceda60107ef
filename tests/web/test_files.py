"""Files of runs at secret addresses: what is sent, in which portions, and what never is."""

import asyncio
import http
import os
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("websockets")

from robo_rl.evaluation.runs import load_run
from robo_rl.monitoring.watched_runs import file_facts, kind_of
from robo_rl.web import WebConfig, files
from robo_rl.web.files import FileAnswer, FolderFiles
from robo_rl.web.server import PageServer

from ..rigs.slow_disk import make_slow

CONTENT = bytes(range(256)) * 8


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    (run / "videos").mkdir(parents=True)
    for name in ("report.html", "config.yaml", "videos/a b.mp4", "videos/a.jpg", "videos/notes.txt"):
        (run / name).write_bytes(CONTENT)
    return run


def answer(run: Path, name: str, byte_range: str | None = None) -> FileAnswer:
    """Return the answer to a request for ``name``, quoted, in the folder ``run``."""
    shared = FolderFiles(kind_of)
    return asyncio.run(shared.answer(shared.address(run) + name, byte_range))


def test_reports_and_videos_are_sent_and_nothing_else(run: Path) -> None:
    whole = answer(run, "report.html")
    assert (whole.status, whole.body, whole.kind) == (http.HTTPStatus.OK, CONTENT, "text/html; charset=utf-8")
    assert answer(run, "videos/a%20b.mp4").body == CONTENT and answer(run, "videos/a.jpg").kind == "image/jpeg"
    (run / "videos" / "link.mp4").symlink_to(run / "config.yaml")
    os.mkfifo(run / "videos" / "pipe.mp4")
    (run / "videos" / "folder.mp4").mkdir()
    for name in (
        *("config.yaml", "videos/notes.txt", "videos/missing.mp4", "videos/link.mp4", "videos/pipe.mp4", "", "videos/"),
        *("videos/folder.mp4", "videos/../report.html", "../run/report.html", "%2e%2e/run/report.html", "/report.html"),
        *(
            "videos/..%2freport.html",
            "report.html/",
            "videos/a.jpg%00.mp4",
            "videos/inner/a.mp4",
            "videos%2f..%2fa.mp4",
        ),
    ):
        assert answer(run, name).status == http.HTTPStatus.NOT_FOUND, name


def test_names_that_are_no_text_lead_to_their_files(run: Path) -> None:
    (run / "videos" / os.fsdecode(b"\xff?.mp4")).write_bytes(b"odd")
    (video,) = (each for each in file_facts(load_run(run))["videos"] if "%FF" in each["address"])
    assert answer(run, video["address"].partition("?")[0]).body == b"odd"
    assert video["caption"].isprintable()


def test_an_address_leads_to_one_folder_and_cannot_be_guessed(run: Path, tmp_path: Path) -> None:
    shared = FolderFiles(kind_of)
    address, other = shared.address(run), shared.address(tmp_path)
    assert address != other and address == shared.address(run) and len(address) > 40
    for wrong in (f"{files.PREFIX}report.html", f"{files.PREFIX}/report.html", f"{address[:-2]}/report.html"):
        assert asyncio.run(shared.answer(wrong, None)).status == http.HTTPStatus.NOT_FOUND


@pytest.mark.parametrize(
    ("byte_range", "first", "last"),
    [
        ("bytes=0-", 0, 999),
        ("bytes=0-9", 0, 9),
        ("bytes=2000-", 2000, 2047),
        ("bytes=2000-999999999", 2000, 2047),
        ("bytes=-48", 2000, 2047),
        ("bytes=-999999", 0, 999),
    ],
)
def test_ranges_are_sent_in_bounded_portions(
    run: Path, byte_range: str, first: int, last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PORTION_BYTES", 1000)
    portion = answer(run, "videos/a%20b.mp4", byte_range)
    assert portion.status == http.HTTPStatus.PARTIAL_CONTENT and portion.body == CONTENT[first : last + 1]
    assert ("Content-Range", f"bytes {first}-{last}/2048") in portion.headers


@pytest.mark.parametrize("byte_range", ["bytes=2048-", "bytes=9-8", "bytes=-0"])
def test_ranges_outside_a_file_are_refused(run: Path, byte_range: str) -> None:
    refused = answer(run, "videos/a%20b.mp4", byte_range)
    assert refused.status == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and not refused.body


@pytest.mark.parametrize(
    "byte_range", ["bytes=-", "bytes=0-1,3-4", "lines=0-1", "bytes=a-b", "bytes=" + "9" * 5000 + "-"]
)
def test_what_is_no_single_range_is_ignored(run: Path, byte_range: str) -> None:
    assert answer(run, "report.html", byte_range).body == CONTENT


def test_large_files_are_sent_in_portions_alone(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "WHOLE_BYTES", 1000)
    refused = answer(run, "report.html")
    assert refused.status == http.HTTPStatus.NOT_FOUND and b"open the file itself" in refused.body
    assert answer(run, "videos/a.jpg", "bytes=0-").body == CONTENT


def test_a_folder_that_never_answers_costs_one_thread(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "READ_SECONDS", 0.2)
    shared = FolderFiles(kind_of)

    async def ask() -> list[FileAnswer]:
        return [await shared.answer(f"{shared.address(run)}report.html", None) for _ in range(3)]

    over = make_slow(monkeypatch, "run", "open")
    try:
        began = time.monotonic()
        answers = asyncio.run(ask())
        assert all(b"no answer of its file system" in each.body for each in answers)
        assert time.monotonic() - began < 30 and len(shared._readers._late) == 1
    finally:
        over.set()


def test_files_run_no_scripts_and_cannot_use_the_pages(run: Path) -> None:
    shared = FolderFiles(kind_of)

    async def visit() -> None:
        server = PageServer(WebConfig("127.0.0.1:0"), {"/": "runs.html"}, lambda _: asyncio.sleep(0), files=shared)
        async with server.serving():
            address = f"{server.origin}{shared.address(run)}"

            def get(name: str, **headers: str) -> tuple[int, bytes, str]:
                with urllib.request.urlopen(urllib.request.Request(address + name, headers=headers)) as response:
                    return response.status, response.read(), response.headers["Content-Security-Policy"]

            status, body, policy = await asyncio.to_thread(get, "report.html")
            assert (status, body) == (200, CONTENT)
            directives = dict(each.strip().partition(" ")[::2] for each in policy.split(";"))
            assert directives["sandbox"] == "" and directives["default-src"] == "'none'"
            assert "script-src" not in directives and "connect-src" not in directives
            assert (await asyncio.to_thread(get, "videos/a.jpg", Range="bytes=1-2"))[:2] == (206, CONTENT[1:3])
            with pytest.raises(urllib.error.HTTPError, match="404"):
                await asyncio.to_thread(get, "config.yaml")

    asyncio.run(visit())
