"""Bounded reading of files that somebody else may have written."""

import json
import os
import socket
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from robo_rl.core import DataError, ForeignFolder, check_yaml, parse_json, read_bytes, read_secret, write_durably
from robo_rl.core.foreign import DEPTH, YAML_NODES

from ..rigs.hostile_runs import LAUGHS


def test_files_are_read_and_replaced(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    folder = ForeignFolder(tmp_path)
    folder.replace("inner/a.json", b'{"a": [1, 2.5, null, "x"]}')
    assert folder.read_json("inner/a.json") == {"a": [1, 2.5, None, "x"]}
    folder.replace("inner/a.json", b"seed: 1")
    assert folder.read_yaml("inner/a.json") == "seed: 1"
    assert [path.name for path in (tmp_path / "inner").iterdir()] == ["a.json"]
    (tmp_path / "link").symlink_to("inner")
    assert ForeignFolder(tmp_path / "link").read_bytes("a.json", 7) == b"seed: 1", "the folder itself may be a link"
    for missing in ("b", "inner/b", "outer/a.json", "inner/a.json/b"):
        with pytest.raises(OSError):
            folder.read_bytes(missing, 10)


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "device", "link", "loop", "large", "endless"])
def test_what_is_no_small_regular_file_is_named_and_nobody_waits(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    monkeypatch.chdir(tmp_path)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("x")
    elif kind == "folder":
        path.mkdir()
    elif kind == "large":
        with path.open("wb") as stream:
            stream.truncate(3 << 30)
    else:
        path.symlink_to({"device": "/dev/null", "link": "y", "loop": "x", "endless": "/dev/zero"}[kind])
        (tmp_path / "y").write_text("secret")
    with pytest.raises(DataError, match="expected"):
        ForeignFolder(tmp_path).read_bytes("x", 1000)
    if kind == "link":
        assert read_bytes(path, 1000) == b"secret", "a file that the user named may be a link"
    else:
        with pytest.raises((DataError, OSError)):
            read_bytes(path, 1000)


def test_reading_takes_no_more_memory_than_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    assert read_bytes(path, 1 << 60) == b"abc"
    # Files of the system have no size.
    assert read_bytes(Path("/proc/self/status"), 1 << 60).startswith(b"Name:")
    with pytest.raises(DataError, match="expected at most 10 bytes, found more"):
        read_bytes(Path("/proc/self/status"), 10)


def test_no_link_below_the_folder_is_followed_and_none_listed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.jpg").write_text("secret")
    run = tmp_path / "run"
    (run / "pictures").mkdir(parents=True)
    (run / "outside").symlink_to(tmp_path / "outside")
    (run / "pictures" / "a.jpg").symlink_to(tmp_path / "outside" / "a.jpg")
    (run / "pictures" / "b.jpg").write_text("b")
    os.mkfifo(run / "pictures" / "c.jpg")
    folder = ForeignFolder(run)
    assert list(folder.files("pictures", ".jpg", 10)) == ["b.jpg"] and folder.files("outside", ".jpg", 10) == {}
    with pytest.raises(OSError):
        folder.read_bytes("outside/a.jpg", 100)
    with pytest.raises(OSError):
        folder.replace("outside/a.jpg", b"mine")
    folder.replace("pictures/a.jpg", b"mine")
    assert (tmp_path / "outside" / "a.jpg").read_text() == "secret"
    assert (run / "pictures" / "a.jpg").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, f"nested deeper than {DEPTH}"),
        ("[" * (DEPTH + 2) + "]" * (DEPTH + 2), f"nested deeper than {DEPTH}"),
        ('{"a":' * 500 + "1" + "}" * 500, f"nested deeper than {DEPTH}"),
        ('{"a": NaN}', "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("9" * 5000, "integer"),
        ("{", "Expecting"),
        ('{"fps": 30, "fps": 10}', "the key 'fps' occurs twice in an object"),
        ('[{"a": {"b": 1, "c": 2, "\\u0062": 1}}]', "the key 'b' occurs twice in an object"),
    ],
)
def test_json_that_nests_or_is_none_is_refused(text: str, reason: str) -> None:
    with pytest.raises(DataError, match=rf"^f\.json: expected JSON \(.*{reason}"):
        parse_json(text, "f.json")


@pytest.mark.parametrize("part", ["[]", "{}", '{"a":1}', "[[1],{}]", '"["'])
def test_json_of_many_lists_and_objects_is_refused_before_it_is_parsed(part: str, tmp_path: Path) -> None:
    """While it is parsed no other thread runs."""
    for count, complaint in ((1000, None), (20_001, "at most 20,000 lists and objects")):
        (tmp_path / "f.json").write_text(f"[{','.join([part] * count)}]")
        read = partial(ForeignFolder(tmp_path).read_json, "f.json")
        if complaint is None:
            assert len(read()) == count
        else:
            with pytest.raises(DataError, match=complaint):
                read()


def test_json_of_some_depth_is_read() -> None:
    deep = "[" * DEPTH + "]" * DEPTH
    assert json.dumps(parse_json(deep, "f.json")) == deep


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LAUGHS, "values, counting those that aliases repeat"),
        ("a: &a [" + "1," * 1000 + "]\nb: [" + "*a," * 30 + "]", "values, counting those that aliases repeat"),
        ("[" + "1," * (YAML_NODES + 1) + "]", "values"),
        ("a: &a [*a]", "the alias 'a' refers to nothing before it"),
        ("[" * 50_000, f"nested deeper than {DEPTH}"),
        ("".join(f"{' ' * level}a:\n" for level in range(200)), f"nested deeper than {DEPTH}"),
        ("a: [", "did not find expected node content, line|expected the node content"),
        ("a: \x07", "control|special"),
        ("rate: 10\nrate: 100\n", "the key 'rate' occurs twice in a mapping"),
        ("{1: a, 1: b}", "the key '1' occurs twice in a mapping"),
        ("a: {b: [1], c: 2, 'b': 3}", "the key 'b' occurs twice in a mapping"),
        ("/**: {ros__parameters: {a: 1}}\n/**: {ros__parameters: {b: 2}}\n", "occurs twice in a mapping"),
    ],
)
def test_yaml_that_expands_or_nests_is_refused(text: str, reason: str) -> None:
    with pytest.raises(DataError, match=rf"^f\.yaml: expected YAML \(.*({reason})"):
        check_yaml(text, "f.yaml")


def test_yaml_with_a_few_aliases_is_read() -> None:
    check_yaml("a: &a {b: [1, 2]}\nc: *a\nd: {<<: *a, e: 1}\n", "f.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "a: {b: 1, c: b, d: b}\nb: a\nc: a\n",
        "- a: 1\n- a: 2\n",
        "{a: a, [a, a]: a, b: a}",
        "{1: a, '1': b, true: c, 'true': d}",
        "a: &a {b: 1}\nc: &c {d: 1}\ne: {<<: *a, <<: *c}\n",
    ],
)
def test_yaml_may_repeat_keys_in_other_mappings_and_as_values(text: str) -> None:
    check_yaml(text, "f.yaml")


@pytest.mark.parametrize("read", [ForeignFolder.read_json, ForeignFolder.read_yaml])
@pytest.mark.parametrize("text", [b'{"a": "\xff"}', b'{"\xc3(": 1}', '{"a": "é"}'.encode("latin-1"), b"\xff\xfea\x00"])
def test_text_in_another_encoding_is_refused(read: Any, text: bytes, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(text)
    with pytest.raises(DataError, match=r"/f: expected UTF-8, found the byte 0x[0-9a-f]{2} at offset \d"):
        read(ForeignFolder(tmp_path), "f")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o601, 0o666])
def test_a_secret_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "token"
    file.write_text("a secret\n")
    file.chmod(mode)
    with pytest.raises(DataError, match=rf"others can read \(mode {mode:04o}\): chmod 600"):
        read_secret(file)
    for own in (0o600, 0o400):
        file.chmod(own)
        assert read_secret(file) == "a secret\n"
    (tmp_path / "link").symlink_to(file)
    assert read_secret(tmp_path / "link") == "a secret\n"


def test_a_secret_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text("a secret\n")
    file.chmod(0o600)
    if os.getuid() == 0:
        os.chown(file, 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(DataError, match="belongs to another user"):
        read_secret(file)


def test_a_durable_file_replaces_links_and_follows_none(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("a thesis")
    (tmp_path / "a").symlink_to("precious")
    write_durably(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new" and not (tmp_path / "a").is_symlink()
    assert (tmp_path / "precious").read_text() == "a thesis"
