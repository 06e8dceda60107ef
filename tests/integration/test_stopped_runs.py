"""Runs that a person, the robot or a useless policy stops: what was learned is kept, what is counted is true."""

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robo_rl.agents.parts.policy import TanhGaussianPolicy
from robo_rl.agents.sac.agent import SAC
from robo_rl.app import run_config
from robo_rl.cli import main
from robo_rl.core import DataError, EmergencyStop, RenderingError, SafetyStop, Step
from robo_rl.evaluation.runs import load_run
from robo_rl.learner import CheckpointFolder
from robo_rl.replay import EpisodeStore
from robo_rl.safety import SafeBackend
from robo_rl.telemetry import Command, LiveWatch
from robo_rl.training import evaluations

from ..rigs.command_line import exit_code
from ..rigs.run_folder import newest_state, records

QUICK = [
    "task=reach",
    "demonstrations.episodes=0",
    "agent.hidden=[16]",
    "agent.implementation=torch",
    "agent.ensemble_size=2",
    "agent.update_to_data=1",
    "agent.batch_size=16",
    "agent.learning_starts=1000",
    "run.env_steps=70",
    "run.evaluation_interval=0",
    "run.evaluation_episodes=1",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "runtime.threads=1",
    "logging.progress=false",
]


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., int]:
    def call(*words: str) -> int:
        return exit_code(
            "train", *QUICK, f"run.dir={tmp_path}/run", f"safety.emergency_stop.file={tmp_path}/stop", *words
        )

    return call


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run" / "summary.json").read_text())
    return found


def stop_at(monkeypatch: pytest.MonkeyPatch, method: str, first: int, last: int) -> None:
    """Let calls number ``first`` to ``last`` of a method of SafeBackend end as those on a false observation do."""
    true, count = getattr(SafeBackend, method), [0]

    def call(self: SafeBackend, *arguments: Any) -> Step:
        count[0] += 1
        if first <= count[0] <= last:
            self.stop("a test")
            raise SafetyStop("observation_invalid", "a test")
        step: Step = true(self, *arguments)
        return step

    monkeypatch.setattr(SafeBackend, method, call)


def test_a_stopped_episode_is_counted_by_itself(tmp_path, train, monkeypatch):
    stop_at(monkeypatch, "step", 11, 11)
    assert train("agent.random_steps=70", "reward.others=1", "task.max_episode_steps=20") == 0
    first, *others = records(tmp_path / "run", "episode")
    assert (first["length"], first["stopped"], first["success"]) == (10, "observation_invalid", None)
    assert [line["length"] for line in others] == [20, 20, 20]
    for line in (first, *others):
        terms = {key: value for key, value in line.items() if key.startswith("reward/")}
        assert len(terms) > 1
        assert line["episode_return"] == pytest.approx(sum(terms.values()), rel=1e-5)


def test_rewards_of_whole_episodes_are_those_of_their_episode(tmp_path, train, monkeypatch):
    """The expert takes over at every second step or so; an episode that is stopped has its own takeovers."""
    stop_at(monkeypatch, "step", 11, 11)
    words = ["reward=composed", "+reward/module@reward.modules.taken_over=interventions", "task.max_episode_steps=20"]
    assert train(*words, "intervention.criterion=random", "intervention.probability=0.5", "intervention.hold=3") == 0
    found = records(tmp_path / "run", "episode")
    assert any(line["stopped"] == "observation_invalid" for line in found)
    state = CheckpointFolder(tmp_path / "run" / "checkpoints").load_newest().parts["replay"]
    facts = json.loads(state["facts"].tobytes())
    slots = np.sort(state["order"][: facts["count"]])
    rewards = state["terms"][slots, facts["reward_terms"].index("taken_over")]
    segments = np.split(rewards, np.flatnonzero(np.diff(slots) > 1) + 1)  # a final observation lies between episodes
    assert min(rewards) == -1
    assert [line["length"] for line in found] == [len(segment) for segment in segments]
    assert [line["reward/taken_over"] for line in found] == [segment.sum() for segment in segments]


def test_a_reset_that_fails_is_no_episode_and_the_third_ends_the_run_with_a_checkpoint(
    tmp_path, train, monkeypatch, capsys
):
    stop_at(monkeypatch, "reset", 3, 99)
    assert train("agent.random_steps=70", "task.max_episode_steps=20") == 2
    assert "stopped 3 times in a row without a step in between" in capsys.readouterr().err
    assert [line["length"] for line in records(tmp_path / "run", "episode")] == [20, 20]
    assert CheckpointFolder(tmp_path / "run" / "checkpoints").load_newest().step == 40
    assert summary(tmp_path)["status"] == "interrupted"
    monkeypatch.undo()
    true, found = evaluations.evaluate, []

    def evaluate(*arguments: Any, **options: Any) -> Any:
        found.append((tmp_path / "run" / "summary.json").exists())
        return true(*arguments, **options)

    monkeypatch.setattr(evaluations, "evaluate", evaluate)
    assert not exit_code("train", f"resume={tmp_path}/run", "logging.progress=false")
    assert found == [False], "while it goes on nothing tells how it ended"
    assert summary(tmp_path)["env_steps"] == 70


def test_what_was_asked_while_an_episode_was_begun_does_not_end_it(tmp_path, train, monkeypatch):
    true = SafeBackend.reset

    def reset(self: SafeBackend, seed: int) -> Step:
        with contextlib.suppress(DataError):  # the final evaluation, in which the run takes none
            LiveWatch(tmp_path / "run").send(Command("reset", "local"))
        return true(self, seed)

    monkeypatch.setattr(SafeBackend, "reset", reset)
    assert train("agent.random_steps=70", "task.max_episode_steps=20") == 0
    assert [line["length"] for line in records(tmp_path / "run", "episode")] == [20, 20, 20]


def test_an_emergency_stop_during_an_evaluation_is_waited_for(tmp_path, train, monkeypatch):
    button, true, calls = EmergencyStop(tmp_path / "stop"), evaluations.evaluate, []

    def evaluate(*arguments: Any, **options: Any) -> Any:
        calls.append(button.pressed())
        if len(calls) == 1:
            button.press("a test")
        elif len(calls) == 3:
            button.rearm()
        return true(*arguments, **options)

    monkeypatch.setattr(evaluations, "evaluate", evaluate)
    assert train("agent.random_steps=70", "run.evaluation_interval=35") == 0
    assert calls == [None, "a test", "a test", None, None, None]
    assert [line["step"] for line in records(tmp_path / "run", "evaluation")] == [0, 35, 70, 70]


def test_a_final_evaluation_that_is_broken_off_costs_no_steps(tmp_path, train, monkeypatch):
    def evaluate(*arguments: Any, **options: Any) -> Any:
        raise KeyboardInterrupt  # a second Ctrl-C

    monkeypatch.setattr(evaluations, "evaluate", evaluate)
    assert train("agent.random_steps=70") == 130
    assert CheckpointFolder(tmp_path / "run" / "checkpoints").load_newest().step == 70
    assert summary(tmp_path)["status"] == "interrupted"
    monkeypatch.undo()
    with pytest.raises(SystemExit) as ended:
        main(["train", f"resume={tmp_path}/run"])
    assert not ended.value.code and summary(tmp_path)["status"] == "completed"


def test_a_video_that_cannot_be_made_is_left_out(tmp_path, train, monkeypatch, capsys):
    def render(*_: Any) -> Any:
        raise RenderingError("no graphics here")

    monkeypatch.setattr(SafeBackend, "render", render)
    assert train("agent.random_steps=70", "run.video_episodes=1") == 0
    assert "No video: no graphics here" in capsys.readouterr().out
    assert summary(tmp_path)["status"] == "completed"


def spoil(monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    """Let updates of these numbers, of all that are tried, begin with a weight that is no number."""
    true, count = SAC.update, [0]

    def update(self: SAC, batch: Any) -> Any:
        count[0] += 1
        if count[0] in numbers:
            self._parameters["critic/0/weight"].fill_(np.nan)
        return true(self, batch)

    monkeypatch.setattr(SAC, "update", update)


LEARNING = ["agent.learning_starts=10", "run.checkpoint_interval=20"]


def test_an_agent_that_diverges_goes_on_from_its_newest_checkpoint(tmp_path, train, monkeypatch, capsys):
    ends = []
    for numbers in ((), (25,), (25,)):
        monkeypatch.undo()
        spoil(monkeypatch, *numbers)
        assert train(*LEARNING, "run.overwrite=true") == 0
        ends.append(newest_state(tmp_path / "run"))
        rollbacks = [line for line in records(tmp_path / "run", "train") if "rolled_back_to" in line]
        assert [(line["step"], line["rolled_back_to"], line["rollbacks_in_a_row"]) for line in rollbacks] == [
            (34, 20, 1) for _ in numbers
        ]
    assert "Diverged at step 34, the agent continues from step 20 (rollback 1 of 3 in a row)" in (
        capsys.readouterr().out
    )
    undisturbed, one, other = ends
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)
    assert all(np.isfinite(value).all() for name, value in one.items() if name.startswith("agent/"))
    for stream in ("agent/generator/update", "run/sampler"):
        np.testing.assert_array_equal(one[stream], undisturbed[stream])
    assert (undisturbed["agent/updates"], one["agent/updates"]) == (61, 47)
    assert summary(tmp_path)["status"] == "completed"


@pytest.mark.parametrize("rollbacks", [0, 3])
def test_an_agent_that_diverges_again_and_again_ends_the_run(tmp_path, train, monkeypatch, rollbacks):
    spoil(monkeypatch, *range(25, 100))
    assert train(*LEARNING, f"run.rollbacks={rollbacks}") == 1
    assert summary(tmp_path)["status"] == "diverged"
    assert summary(tmp_path)["env_steps"] == 34 + rollbacks


def test_a_learner_apart_goes_back_too_and_its_actors_hear_of_it(tmp_path, train, monkeypatch, capsys):
    spoil(monkeypatch, 30)
    assert train(*LEARNING, "runtime=async") == 0
    (rollback,) = [line for line in records(tmp_path / "run", "train") if "rolled_back_to" in line]
    assert 0 <= rollback["rolled_back_to"] <= rollback["step"]
    assert all(np.isfinite(value).all() for value in newest_state(tmp_path / "run").values() if value.dtype.kind == "f")
    assert summary(tmp_path)["status"] == "completed"


def test_a_policy_that_proposes_nan_ends_the_run_as_diverged(tmp_path, train, monkeypatch):
    true, count = TanhGaussianPolicy.act, [0]

    def act(self: TanhGaussianPolicy, observation: Any, *, explore: bool) -> np.ndarray:
        count[0] += 1
        action = true(self, observation, explore=explore)
        return action if count[0] < 13 else np.full_like(action, np.nan)

    monkeypatch.setattr(TanhGaussianPolicy, "act", act)
    assert train("run.checkpoint_interval=5") == 1
    assert summary(tmp_path)["status"] == "diverged"
    assert summary(tmp_path)["env_steps"] == 12
    assert CheckpointFolder(tmp_path / "run" / "checkpoints").load_newest().step == 10


def test_what_was_given_when_a_run_was_resumed_holds_from_then_on(tmp_path, train):
    folder = tmp_path / "run"

    def resume(*words: str) -> int:
        return exit_code("train", f"resume={folder}", *words)

    assert train("agent.random_steps=70") == 0
    seconds = summary(tmp_path)["wall_seconds"]
    assert resume("run.env_steps=-1") == 2
    assert run_config(folder).run.env_steps == 70
    assert resume("run.env_steps=75") == 0
    assert resume() == 0
    assert summary(tmp_path)["env_steps"] == 75 and summary(tmp_path)["wall_seconds"] > seconds
    run = load_run(folder)
    assert (run.config["run"]["env_steps"], run.wanted_steps) == (70, 75), "what it began with is still told"


def test_a_finished_run_that_is_resumed_took_no_less_time(tmp_path, train, monkeypatch):
    assert train("agent.random_steps=70") == 0
    with (tmp_path / "run" / "metrics.jsonl").open("r+") as file:
        file.truncate(0)  # no record tells the time of what came after the last step
    seconds = summary(tmp_path)["wall_seconds"]
    with pytest.raises(SystemExit):
        main(["train", f"resume={tmp_path}/run"])
    assert summary(tmp_path)["wall_seconds"] >= seconds


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew(tmp_path, train, capsys):
    folder, words = tmp_path / "run", ["demonstrations.episodes=2", "agent.random_steps=70"]
    assert train(*words) == 0
    shutil.rmtree(folder / "checkpoints")
    (folder / "summary.json").unlink()
    with pytest.raises(SystemExit) as ended:
        main(["train", f"resume={folder}"])
    assert ended.value.code == 2 and "has no checkpoint to resume from, but took 70 steps" in capsys.readouterr().err
    shutil.rmtree(folder / "demonstrations")
    (folder / "demonstrations").mkdir()  # a part
    (folder / "metrics.jsonl").write_text(json.dumps({"step": 0, "wall_seconds": 1.0, "kind": "train"}) + "\n{")
    with pytest.raises(SystemExit) as ended:
        main(["train", f"resume={folder}"])
    assert not ended.value.code and summary(tmp_path)["env_steps"] == 70
    assert len(EpisodeStore.open(folder / "demonstrations")) == 2


def test_a_run_that_ends_early_says_why(tmp_path, train, capsys):
    words = ["run.evaluation_interval=20", "run.stop_at_return=-1000", "logging.progress=true"]
    assert train("agent.random_steps=70", *words) == 0
    *_, before, evaluating, _, taken, _, _, _, _ = capsys.readouterr().out.splitlines()
    assert before.startswith("reach  20/70 steps") and evaluating == "Evaluating: 1 episode"
    assert taken.endswith("; it ended early because an evaluation reached run.stop_at_return=-1000")
