"""The learning gate: from demonstrations and a sparse reward, in minutes, to nearly every episode solved."""

import json
from pathlib import Path
from typing import Any

import pytest

from robo_rl.learner import CheckpointFolder

from ..rigs.command_line import Forked, finish

FROM_EXPERT = "demonstrations.source=expert"
"""Noisy demonstrations with labels that no person can give: the quickest to learn from."""


def robo_rl(*arguments: str, cwd: Path) -> str:
    """Run the command line in another folder, as a user does; return what it printed."""
    return finish(Forked(*arguments, folder=cwd, environment={"COLUMNS": "200"}))


@pytest.mark.rendering
def test_a_run_learns_and_leaves_everything_behind(tmp_path: Path) -> None:
    run = tmp_path / "run"
    printed = robo_rl(
        "train",
        "task=pick_cube",
        FROM_EXPERT,
        "agent.action_chunk=1",
        "agent.update_to_data=10",
        "run.env_steps=2000",
        "run.evaluation_interval=250",
        "run.final_evaluation_episodes=40",
        "run.video_episodes=1",
        "run.stop_at_success_rate=0.95",
        f"run.dir={run}",
        cwd=tmp_path,
    )
    summary = json.loads((run / "summary.json").read_text())
    assert summary["success_rate"]["value"] >= 0.85, summary
    assert summary["env_steps"] == pytest.approx(summary["robot_minutes"] * 600)
    for left in ("config.yaml", "metrics.jsonl", "curve.png", "report.html", "videos/final.mp4"):
        assert (run / left).stat().st_size > 0
        assert left.endswith((".yaml", ".jsonl")) or left in printed
    assert_shown(run, summary["success_rate"])
    assert list((run / "tensorboard").iterdir())
    assert CheckpointFolder(run / "checkpoints").best() is not None

    output = tmp_path / "result.json"
    again = robo_rl("eval", f"run={run}", "episodes=40", f"output={output}", cwd=tmp_path)
    assert json.loads(output.read_text())["success_rate"]["value"] >= 0.85
    assert "Success" in again


def assert_shown(run: Path, rate: dict[str, Any]) -> None:
    """The report shows the policy before and after from the same start states, all start states and a failure."""
    episodes = json.loads((run / "evaluation.json").read_text())["episodes"]
    assert len({episode["start"]["cube_x"] for episode in episodes}) == 40
    failures = [episode["index"] for episode in episodes if episode["success"] is False]
    assert len(failures) == round(40 * (1 - rate["value"]))
    expected = {"start", "final", *(f"failure_{index + 1:03}" for index in failures[:1])}
    for suffix in (".mp4", ".jpg"):
        assert {file.stem for file in (run / "videos").glob(f"*{suffix}")} == expected
    page = (run / "report.html").read_text()
    assert page.index("before the first step</figcaption>") < page.index("at the end</figcaption>")
    assert f"{40 - len(failures)} of 40 start states solved" in page
    assert page.count('<path class="failure"') == len(failures)
    assert 'poster="videos/start.jpg"' in page


def test_the_default_agent_begins_well_from_demonstrations_as_people_give_them(tmp_path: Path) -> None:
    """Before its first step: 86 and 82 % with seeds 0 and 1; single actions, which people's do not fit, 54 and 62 %."""
    options = ("run.env_steps=0", "run.final_evaluation_episodes=50", "run.video_episodes=0")
    robo_rl("train", "task=pick_cube", *options, f"run.dir={tmp_path}/run", cwd=tmp_path)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["success_rate"]["value"] >= 0.7, summary


def test_behaviour_cloning_is_a_baseline_that_takes_no_steps(tmp_path: Path) -> None:
    run = tmp_path / "run"
    robo_rl(
        "train",
        "task=open_door",
        "agent=bc",
        FROM_EXPERT,
        "agent.pretrain_steps=2000",
        "run.final_evaluation_episodes=10",
        "run.video_episodes=0",
        f"run.dir={run}",
        cwd=tmp_path,
    )
    summary = json.loads((run / "summary.json").read_text())
    assert summary["env_steps"] == 0
    assert summary["success_rate"]["value"] >= 0.8


def test_a_gymnasium_environment_is_learned_from_its_rewards(tmp_path: Path) -> None:
    run = tmp_path / "run"
    robo_rl(
        "train",
        "task=gymnasium",
        "task.env_id=Pendulum-v1",
        "agent.hidden=[64,64]",
        "agent.update_to_data=5",
        "agent.random_steps=500",
        "agent.learning_starts=500",
        "run.env_steps=6000",
        "run.evaluation_interval=500",
        "run.evaluation_episodes=10",
        "run.final_evaluation_episodes=10",
        "run.stop_at_return=-250",
        "run.video_episodes=0",
        f"run.dir={run}",
        cwd=tmp_path,
    )
    summary = json.loads((run / "summary.json").read_text())
    assert summary["status"] == "reached", summary
    assert summary["return_mean"] >= -600, "a policy that does not swing the pendulum up is at -1,200"
