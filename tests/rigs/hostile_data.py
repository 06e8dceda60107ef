"""Data sets that an attacker, or a broken disk, may leave."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .data_page import recorded


def _change(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    facts = json.loads((path / "dataset.json").read_text())
    change(facts)
    (path / "dataset.json").write_text(json.dumps(facts))


def _pipes(path: Path) -> None:
    """Named pipes: opening one waits for a writer."""
    for name in ("episodes.jsonl", "arrays.zarr/stamp_ns/zarr.json"):
        (path / name).unlink()
        os.mkfifo(path / name)


def _pipe_of_rows(path: Path) -> None:
    (path / "arrays.zarr/rewards/c.0.0").unlink()
    os.mkfifo(path / "arrays.zarr/rewards/c.0.0")


def _sparse(path: Path) -> None:
    for name in ("dataset.json", "episodes.jsonl", "labels.json"):
        with (path / name).open("ab") as stream:
            stream.truncate(3 << 30)


def _nested(path: Path) -> None:
    (path / "dataset.json").write_text('{"format": ' + "[" * 100_000)


def _nested_episodes(path: Path) -> None:
    (path / "episodes.jsonl").write_text('{"steps": ' + "[" * 100_000 + "\n")


def _many_values(path: Path) -> None:
    """Two megabytes, during whose parsing no other thread would run for a second."""
    text = ",".join(["[]"] * 700_000)
    (path / "dataset.json").write_text((path / "dataset.json").read_text().rstrip("}\n") + f', "x": [{text}]}}}}')


def _many_values_in_a_line(path: Path) -> None:
    line = (path / "episodes.jsonl").read_text().splitlines()[0]
    (path / "episodes.jsonl").write_text(f'{line}\n{line[:-1]}, "x": [{",".join(["[]"] * 100_000)}]}}\n')


def _secret(path: Path) -> Path:
    secret = path.parent.parent / "secret"
    if not secret.exists():
        recorded(secret / "private", (3,))
        _change(secret / "private", lambda facts: facts["spec"].update(task="TOP-SECRET"))
    return secret / "private"


def _linked_facts(path: Path) -> None:
    """A link to a file that the reader may read and the author of the folder may not."""
    (path / "episodes.jsonl").unlink()
    (path / "episodes.jsonl").symlink_to(_secret(path) / "episodes.jsonl")


def _linked_arrays(path: Path) -> None:
    shutil.rmtree(path / "arrays.zarr")
    (path / "arrays.zarr").symlink_to(_secret(path) / "arrays.zarr")


def _huge_pictures(path: Path) -> None:
    _change(path, lambda facts: facts["spec"]["observation"]["images/front"].update(shape=[100_000, 100_000, 3]))


def _huge_episodes(path: Path) -> None:
    line = json.loads((path / "episodes.jsonl").read_text().splitlines()[0])
    (path / "episodes.jsonl").write_text(json.dumps(line | {"steps": 10**12}) + "\n")


def _wrong_types(path: Path) -> None:
    _change(path, lambda facts: facts.update(spec=[1], metadata="x"))


def _no_rate(path: Path) -> None:
    _change(path, lambda facts: facts["spec"].update(control_rate=0))


def _texts(path: Path) -> None:
    """Long texts with control characters and markup."""
    text = "<img src=x onerror=alert(1)>\x1b[2J\u202e" + "x" * 100_000
    _change(path, lambda facts: (facts["spec"].update(task=text), facts["metadata"].update(instructions=[text] * 3)))


def _damaged_rows(path: Path) -> None:
    for file in (path / "arrays.zarr").rglob("c.*"):
        file.write_bytes(b"\0" * 1000)


KINDS = {
    make.__name__.removeprefix("_"): make
    for make in (
        *(_pipes, _pipe_of_rows, _sparse, _nested, _nested_episodes, _linked_facts, _linked_arrays, _huge_pictures),
        *(_many_values, _many_values_in_a_line, _huge_episodes, _wrong_types, _no_rate, _texts, _damaged_rows),
    )
}


def make_hostile_data(folder: Path, kind: str) -> Path:
    """Make a data set of this kind in ``folder``; return its path."""
    path = folder / kind
    recorded(path)
    KINDS[kind](path)
    return path
