"""docs/guide/planner.md: a planner records demonstrations of a task, from which a run learns."""

from pathlib import Path

import pytest

from robo_rl.cli import main
from robo_rl.replay import EpisodeStore

from ..rigs.guide import SMALL, Reader, command

FEW = ["planner.samples=12", "planner.iterations=1", "planner.horizon=5"]
RUN = [word for word in SMALL if not word.startswith(("demonstrations", "run.env_steps"))] + ["run.env_steps=10"]


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    reader = Reader("planner.md", tmp_path)
    task = ["task=reach", "task.max_episode_steps=40"]
    output = reader.follow("robo-rl record", *task, *FEW, "record.episodes=2")
    assert "holds 2 episodes, 2 successful" in output
    with EpisodeStore.open(tmp_path / "datasets" / "planned") as store:
        assert store.metadata["source"] == "planner" and "noise" not in store.metadata
    reader.follow("robo-rl train task=open_door", *task, *RUN)
    options = [*FEW, *RUN, "demonstrations.source=planner", "demonstrations.episodes=1", "run.dir=runs/planned"]
    output = reader.run(["robo-rl", "train", *task, *options])
    assert "Recording 1 demonstration by a planner" in output


def test_the_reward_of_the_page_plays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = command("planner.md", "robo-rl play task=push_cube source=planner planner.reward")
    with pytest.raises(SystemExit):
        main([*words[1:], "--cfg", "job"])
    assert "behind: 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["task=reach", "task.randomisation.latency=0.02"], "cannot be copied, as planning requires"),
        (["task=reach", "robot=virtual"], "not possible with robot=NAME"),
        (["task=gymnasium", "task.env_id=Pusher-v5", "reward@planner.reward=environment"], "cannot be copied"),
        (["task=reach", "planner.samples=1"], "planner.samples must be"),
    ],
)
def test_what_cannot_be_planned_is_refused(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = f"record.output={tmp_path / 'data'}"
    with pytest.raises(SystemExit) as ended:
        main(["record", *words, "record.source=planner", "record.episodes=1", output])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
