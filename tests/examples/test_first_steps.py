"""docs/guide/first_run.md and demonstrations.md: their commands, with small networks and few steps."""

import json

from ..rigs.guide import SMALL, Reader


def test_a_first_run_is_trained_evaluated_and_resumed(tmp_path):
    reader = Reader("first_run.md", tmp_path)
    reader.follow("robo-rl train task=pick_cube run.dir", *SMALL)
    assert "2 episodes" in reader.follow("robo-rl eval", "episodes=2", "video=null")
    reader.follow("robo-rl train resume", "run.env_steps=220")
    assert json.loads((tmp_path / "runs/first/summary.json").read_text())["env_steps"] == 220


def test_demonstrations_are_recorded_read_and_trained_with(tmp_path):
    reader = Reader("demonstrations.md", tmp_path)
    reader.follow("robo-rl record task=pick_cube record.source=human_like", "record.episodes=3")
    assert " True [" in reader.run_python()
    reader.follow("robo-rl train task=pick_cube demonstrations", *SMALL)
    assert "demonstrations" not in {path.name for path in (tmp_path / "runs/mine").iterdir()}, "none were recorded anew"
    reader.follow(
        "robo-rl train task=pick_cube agent=bc",
        "agent.pretrain_steps=20",
        *(word for word in SMALL if "agent" not in word),
    )
