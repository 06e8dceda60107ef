"""docs/guide/planner.md: a planner records demonstrations of a task, from which a run learns."""

from contextlib import closing
from pathlib import Path

import pytest
from omegaconf import DictConfig

from robo_rl.app import build_backend, planned, with_source
from robo_rl.cli import main
from robo_rl.core import EnvBackend
from robo_rl.replay import EpisodeStore

from ..rigs.composition import composed_config
from ..rigs.guide import EXAMPLES, SMALL, Reader, command

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
        (["task=reach", "task.observation.relative=true"], "task.observation.relative"),
        (["task=reach", f"task.machine={EXAMPLES / 'stages' / 'gates.yaml'}"], "leave out task.machine"),
        (["task=reach", "reward@planner.reward=novelty"], "a module of its reward learns"),
        (["task=reach", "reward@planner.reward=interventions"], "a reward that also changes other sections"),
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


def test_a_run_does_not_begin_without_the_demonstrations_that_it_was_to_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    source = ["demonstrations.source=planner", "demonstrations.episodes=1", f"run.dir={folder}"]
    with pytest.raises(SystemExit) as ended:
        main(["train", "task=reach", "task.randomisation.latency=0.02", *FEW, *RUN, *source])
    assert ended.value.code == 2 and "cannot be copied" in capsys.readouterr().err
    assert not (folder / "demonstrations").exists() and not list(folder.glob("checkpoints/*"))


def test_the_copy_renders_no_images_unless_a_module_may_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, built = tmp_path / "reward.py", []
    code.write_text("def reward(action_x):\n    return -square(action_x)\n")

    def build(config: DictConfig, simulated: bool = False) -> EnvBackend:
        built.append(build_backend(config, simulated))
        return built[-1]

    monkeypatch.setattr(planned, "build_backend", build)
    module = ["reward@planner.reward=code", f"planner.reward.modules.code.file={code}"]
    for reward, expected in (([], False), (module, True)):
        config = composed_config("record", "task=reach", "task.observation.cameras=[front]", *reward)
        with closing(with_source(build_backend(config), config, "planner")) as backend:
            backend.expert(0)
            copied = built[-1].spec.observation
            assert "images/front" in backend.spec.observation and ("images/front" in copied) == expected
