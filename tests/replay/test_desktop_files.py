"""Files that macOS and Windows leave in folders: no part of a data set of any format."""

from pathlib import Path

import numpy as np
import pytest

from robo_rl.commands.export import write_export
from robo_rl.replay import EpisodeStore
from robo_rl.replay.interchange import ForeignConfig

from ..rigs.interchange import FORMATS, LENGTHS, record
from ..rigs.replay_episodes import assert_same, make_episode


def litter(folder: Path) -> None:
    """Put such files beside each file and into each folder."""
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            for name in (".DS_Store", "Thumbs.db", "desktop.ini", "._."):
                (path / name).write_bytes(b"\0\0\0\1Bud1" * 20)
        if path != folder:
            path.with_name(f"._{path.name}").write_bytes(b"\0\5\x16\7\0\2\0\0Mac OS X" * 20)
            aside = folder / "__MACOSX" / path.relative_to(folder).parent
            aside.mkdir(parents=True, exist_ok=True)
            (aside / f"._{path.name}").write_bytes(b"\0\5\x16\7\0\2\0\0Mac OS X" * 20)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "robomimic"])
def test_imports_ignore_them(name: str, tmp_path: Path) -> None:
    store, _ = record(tmp_path / "source")
    write_export(FORMATS[name], store, None, tmp_path / "out")
    litter(tmp_path / "out")
    episodes = list(FORMATS[name].load(tmp_path / "out", ForeignConfig()).episodes())
    assert [episode.record.steps for episode in episodes] == list(LENGTHS)
    for number, episode in enumerate(episodes):
        np.testing.assert_array_equal(episode.executed_action, store.arrays(number).executed_action)


def test_a_data_set_of_robo_rl_with_them_is_read_and_added_to(tmp_path: Path) -> None:
    store, episodes = record(tmp_path / "data")
    store.close()
    litter(tmp_path / "data")
    with EpisodeStore.open(tmp_path / "data", "a") as again:
        again.append_episode(make_episode(9, 5))
    with EpisodeStore.open(tmp_path / "data") as read:
        for number, episode in enumerate([*episodes, make_episode(9, 5)]):
            assert_same(read.episode(number), episode)
