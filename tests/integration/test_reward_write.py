"""robo-rl reward write: a model (scripted, over HTTP) writes a reward, which then trains an agent."""

from pathlib import Path

import pytest

from ..rigs.command_line import exit_code
from ..rigs.run_folder import records
from ..rigs.vlm_server import requests, vlm_server

CODE = """def reward(to_goal_x, to_goal_y, to_goal_z):
    return -hypot(hypot(to_goal_x, to_goal_y), to_goal_z)
"""


def run(*arguments: str) -> None:
    assert not exit_code(*arguments)


def test_code_is_written_improved_and_trained_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, first, second = tmp_path / "server", tmp_path / "first.py", tmp_path / "second.py"
    with vlm_server(folder) as url:
        options = ["task=reach", "code.goal=move the gripper to the ball", "code.episodes=5"]
        options += [f"writer.endpoint.{key}" for key in (f"url={url}", "model=writer", f"cache={tmp_path / 'cache'}")]
        (folder / "writer.txt").write_text("```python\ndef reward(end_effector_z):\n    return end_effector_z\n```")
        run("reward", "write", *options, f"code.output={first}")
        assert first.read_text() == "def reward(end_effector_z):\n    return end_effector_z\n"
        (request,) = requests(folder)
        described = {line.partition(":")[0] for line in request["text"].splitlines()}
        assert {"action_x", "before_end_effector_x", "to_goal_z"} <= described
        (folder / "writer.txt").write_text(f"```python\n{CODE}```")
        run("reward", "write", *options, f"code.output={second}", f"code.previous={first}", "code.feedback=look at it")
        assert "look at it" in requests(folder)[-1]["text"]
    assert second.read_text() == CODE
    # The task's progress falls with the distance, which is what this code returns.
    assert "rank correlation with true progress on 5 episodes: 1.00" in capsys.readouterr().out

    training = tmp_path / "run"
    small = ["agent.hidden=[16]", "agent.implementation=torch", "agent.batch_size=16", "agent.learning_starts=10"]
    small += ["demonstrations.episodes=1", "run.evaluation_interval=0", "run.final_evaluation_episodes=1"]
    small += ["run.video_episodes=0", "runtime.threads=1", "logging.progress=false", "run.env_steps=60"]
    run("train", "task=reach", "reward=code", f"reward.modules.code.file={second}", *small, f"run.dir={training}")
    episodes = records(training, "episode")
    assert episodes and all(episode["reward/code"] < 0 for episode in episodes)
