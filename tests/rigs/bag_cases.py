"""Bags as people record them: their topics, and the episodes that are read from them."""

from pathlib import Path

from omegaconf import OmegaConf

from robo_rl.replay.interchange import ForeignConfig, Rosbag
from robo_rl.replay.interchange.rosbag_messages import TopicConfig

from .bags import joint_state, number
from .command_line import exit_code

CASES = Path(__file__).parents[1] / "data/cases/rosbag"
JOINTS = ("shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint")
STATE = TopicConfig(topic="joints", gives="state", fields=("position",))
COMMAND = TopicConfig(topic="command", gives="action", fields=("data",))


def case_topics(name):
    topics = OmegaConf.load(CASES / f"cfg/format/{name}.yaml").topics
    return {key: TopicConfig(**{**topic, "fields": tuple(topic.get("fields", ()))}) for key, topic in topics.items()}


def load(path, *topics, incomplete=False, **options):
    """Read bags; return their episodes and what is said of them."""
    config = ForeignConfig(**{"control_rate": 10.0, **options})
    data = Rosbag(topics=dict(enumerate(topics)), incomplete=incomplete).load(path, config)
    return list(data.episodes()), data.notes.lines()


def run_import(name, path, output, *options):
    """Run robo-rl import with a configuration of the cases; return the exit code."""
    words = ["import", "--config-dir", str(CASES / "cfg"), f"path={path}", f"output={output}", f"format={name}"]
    return exit_code(*words, "foreign.control_rate=10", *options)


def joints(names=("a", "b"), count=50, position=None):
    """Return messages of joints at 50 Hz, and of commands."""
    states = [("/joints", n / 50, joint_state(names, position or [n] * len(names))) for n in range(count)]
    return sorted(states + commands(count / 50), key=lambda message: message[1])


def commands(seconds=1.0):
    return [("/command", n / 50 + 0.001, number(0.5)) for n in range(round(50 * seconds))]
