"""Run folders that an attacker, or a broken disk, may leave."""

import json
import os
from collections.abc import Callable
from pathlib import Path

LINE = {"step": 1, "wall_seconds": 1.0, "kind": "train"}
LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 9)
)
"""A text of a few hundred bytes that stands for 400 million values."""
STATUS = {"state": "training", "paused": False, "refused": {}, "robots": []}


def _pipes(run: Path) -> None:
    """Named pipes: opening one waits for a writer."""
    for name in ("config.yaml", "summary.json"):
        os.mkfifo(run / name)
    _going_on(run)
    for name in ("live/lock", "live/status.json", "live/pictures/a@b.jpg", "live/commands/1.json"):
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)


def _sparse(run: Path) -> None:
    """Files of 3 GB that take no room on the disk."""
    _going_on(run)
    for name in ("config.yaml", "metrics.jsonl", "summary.json", "live/status.json", "live/pictures/a@b.jpg"):
        with (run / name).open("wb") as stream:
            stream.truncate(3 << 30)


def _aliases(run: Path) -> None:
    (run / "config.yaml").write_text(LAUGHS)


def _recursive(run: Path) -> None:
    (run / "config.yaml").write_text("seed: &a {b: *a}\nrun: &c [*c]\n")


def _nested_json(run: Path) -> None:
    for name in ("summary.json", "metrics.jsonl"):
        (run / name).write_text("[" * 100_000)
    with (run / "metrics.jsonl").open("a") as stream:
        stream.write("\n" + json.dumps(LINE | {"deep": 0}).replace("0}", '{"a":' * 5000 + "1" + "}" * 5001) + "\n")
    _going_on(run)
    (run / "live" / "status.json").write_text('{"robots": ' + "[" * 50_000)


def _many_values(run: Path) -> None:
    """A megabyte of empty lists in each file: no other thread runs while they are parsed."""
    text = ",".join(["[]"] * 340_000)
    (run / "summary.json").write_text(f'{{"x": [{text}]}}')
    line = json.dumps(LINE)[:-1] + f', "x": [{text[:60_000]}[]]}}'
    (run / "metrics.jsonl").write_text(f"{json.dumps(LINE)}\n" + f"{line}\n" * 20)
    _going_on(run)
    (run / "live" / "status.json").write_text(f'{{"x": [{text}]}}')


def _nested_yaml(run: Path) -> None:
    (run / "config.yaml").write_text("run: " + "[" * 50_000)


def _links(run: Path) -> None:
    """Links to files that the reader may read and the author of the folder may not."""
    secret = run.parent.parent / "secret"
    secret.mkdir(exist_ok=True)
    (secret / "private.yaml").write_text("task: {name: TOP-SECRET}\n")
    (secret / "private.jpg").write_bytes(b"TOP-SECRET")
    (secret / "watched").write_text("precious")
    (secret / "lock").write_text("precious")
    (run / "config.yaml").symlink_to(secret / "private.yaml")
    (run / "summary.json").symlink_to("/dev/zero")
    (run / "videos").mkdir()
    (run / "videos" / "a.mp4").symlink_to(secret / "private.jpg")
    (run / "live").symlink_to(secret)
    (run / "root").symlink_to("/")


def _linked_writes(run: Path) -> None:
    """Links where a watcher writes."""
    precious = run.parent.parent / "precious"
    precious.write_text("a thesis")
    _going_on(run)
    for name in ("watched", f".watched.{os.getpid()}", "commands/1.json"):
        (run / "live" / name).symlink_to(precious)


def _stop_elsewhere(run: Path) -> None:
    precious = run.parent.parent / "precious"
    precious.write_text("a thesis")
    (run / "config.yaml").write_text(f"safety: {{emergency_stop: {{file: {precious}}}}}\n")


def _wrong_types(run: Path) -> None:
    (run / "config.yaml").write_text(
        "task: 5\nagent: [1]\nchoices: x\nseed: {a: 1}\nsafety: {emergency_stop: {file: 3}}\n"
    )
    (run / "metrics.jsonl").write_text(json.dumps(LINE | {"kind": "train", "q_mean": "x", "critic_loss": [1]}) + "\n")
    _going_on(run)
    (run / "live" / "status.json").write_text(json.dumps(STATUS | {"refused": 5, "robots": [{"name": []}]}))


def _long_texts(run: Path) -> None:
    episode = LINE | {"kind": "episode", "episode_return": 1.0, "stopped": "\x1b[2J" + "x" * 50_000}
    with (run / "metrics.jsonl").open("w") as stream:
        for step in range(200):
            stream.write(json.dumps(episode | {"step": step, "stopped": f"{step}{episode['stopped']}"}) + "\n")
    (run / "config.yaml").write_text(f"task: {{name: '{'y' * 100_000}'}}\n")


def _many_files(run: Path) -> None:
    _going_on(run)
    for number in range(1000):
        (run / "live" / "commands" / f"{number}.json").write_text('{"name": "pause"}')
        (run / "live" / "pictures" / f"a@{number}.jpg").write_bytes(b"x" * 1000)


def _folders(run: Path) -> None:
    """Folders where files are expected."""
    (run / "metrics.jsonl").unlink()
    for name in ("metrics.jsonl", "summary.json", "live/lock", "live/status.json"):
        (run / name).mkdir(parents=True)
    (run / "config.yaml").write_text("seed: 1\n")


def _going_on(run: Path) -> None:
    for name in ("commands", "pictures"):
        (run / "live" / name).mkdir(parents=True, exist_ok=True)
    (run / "live" / "lock").touch()
    (run / "live" / "status.json").write_text(json.dumps(STATUS))


KINDS: dict[str, Callable[[Path], None]] = {
    make.__name__.removeprefix("_"): make
    for make in (
        *(_pipes, _sparse, _aliases, _recursive, _nested_json, _many_values, _nested_yaml, _links, _linked_writes),
        *(_stop_elsewhere, _wrong_types, _long_texts, _many_files, _folders),
    )
}


def make_hostile(folder: Path, kind: str) -> Path:
    """Make a run folder of a kind in ``folder``, named after it; return it."""
    run = folder / kind
    run.mkdir(parents=True)
    (run / "metrics.jsonl").write_text(json.dumps(LINE) + "\n")
    KINDS[kind](run)
    return run
