"""Data sets to export, in all formats."""

import dataclasses

from robo_rl.core import Verdict
from robo_rl.replay import EpisodeStore
from robo_rl.replay.interchange import LeRobot, Rlds, Robomimic, Rosbag

from .replay_episodes import METADATA, SPEC, make_episode

FORMATS = {
    "lerobot_v21": LeRobot(version="v2.1"),
    "lerobot_v3": LeRobot(version="v3.0"),
    "rlds": Rlds(),
    "robomimic": Robomimic(),
    "rosbag_mcap": Rosbag(storage="mcap"),
    "rosbag_sqlite3": Rosbag(storage="sqlite3", distribution="humble"),
}
FILES = [name for name in FORMATS if not name.startswith("rosbag")]
"""Formats whose foreign data names what it gives; topics of a bag do not."""
LENGTHS = (7, 1, 12)
TOLD = {**METADATA, "instructions": ["put the cube away", "wait", "put the cube away"]}


def record(path, spec=SPEC, metadata=TOLD, lengths=LENGTHS):
    """Make a data set; return it, open, and its episodes: a verdict in the first, none is alike."""
    ends = ("terminated", "truncated", "truncated")
    episodes = [make_episode(n, steps, spec, ends[n % 3]) for n, steps in enumerate(lengths)]
    verdict = Verdict(changed=True, reasons=("workspace",), message="0.1 m outside")
    episodes[0][3 % lengths[0]] = dataclasses.replace(episodes[0][3 % lengths[0]], verdict=verdict)
    store = EpisodeStore.create(path, spec, metadata)
    for episode in episodes:
        store.append_episode(episode)
    return store, episodes
