"""Training on preferences that a model answers over HTTP: late answers, the budget over a resume, a key kept secret."""

from pathlib import Path

import pytest

from ..rigs.command_line import exit_code
from ..rigs.run_folder import records
from ..rigs.vlm_server import requests, vlm_server


def train(*arguments: str) -> None:
    assert not exit_code("train", *arguments)


SMALL = [
    "agent=sac",
    "agent.hidden=[16]",
    "agent.implementation=torch",
    "agent.batch_size=16",
    "agent.update_to_data=1",
]
SMALL += ["agent.learning_starts=10", "demonstrations.episodes=0", "run.evaluation_interval=0", "run.video_episodes=0"]
SMALL += ["run.final_evaluation_episodes=1", "runtime.threads=1", "logging.progress=false"]
VIEW = ["task.observation.cameras=[front]", "task.observation.width=32", "task.observation.height=32"]


@pytest.mark.rendering
def test_a_run_learns_from_a_model_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELS_KEY", "sk-very-secret")
    folder, run = tmp_path / "server", tmp_path / "run"
    module = "reward.modules.preferences"
    with vlm_server(folder) as url:
        endpoint = {"url": url, "model": "brightness", "cache": tmp_path / "cache", "key_variable": "MODELS_KEY"}
        options = [f"{module}.endpoint.{key}={value}" for key, value in endpoint.items()]
        options += [f"{module}.oracle=endpoint", f"{module}.goal=it is bright", f"{module}.endpoint.most_requests=24"]
        options += [f"{module}.length=1", f"{module}.queries=4", f"{module}.interval=10", f"{module}.epochs=1"]
        train("task=reach", "reward=preferences", *VIEW, *SMALL, *options, f"run.dir={run}", "run.env_steps=40")
        before = [each["preferences/requests"] for each in records(run, "reward")]  # none if no answer came in time
        train(f"resume={run}", "run.env_steps=100", "allow=[MODELS_KEY]")
    seen = requests(folder)
    assert {each["key"] for each in seen} == {"Bearer sk-very-secret"}
    after = records(run, "reward")[-1]["preferences/requests"]
    assert 0 < after <= 24 and max(before, default=0) <= after
    assert len(seen) <= 24
    for file in [each for each in tmp_path.rglob("*") if each.is_file() and folder not in each.parents]:
        assert b"very-secret" not in file.read_bytes(), file


@pytest.mark.rendering
@pytest.mark.parametrize(
    ("module", "answer"), [("preferences", "1"), ("annotations", "7"), ("keypoints", "[[3, 5], [9, 2]]")]
)
def test_a_robot_never_waits_for_an_answer(module: str, answer: str, tmp_path: Path) -> None:
    """A run goes all its way while nobody answers, and learns from what it asked when it goes on and somebody does."""
    folder, run = tmp_path / "server", tmp_path / "run"
    folder.mkdir()
    (folder / "waiting.txt").write_text(answer)
    path = f"reward.modules.{module}"
    options = [f"reward={module}", f"{path}.goal=it is bright", f"{path}.endpoint.model=waiting"]
    if module == "preferences":
        options += [f"{path}.oracle=endpoint", f"{path}.length=1", f"{path}.analysis=false"]
    if module != "keypoints":
        options += [f"{path}.queries=4", f"{path}.interval=10", f"{path}.epochs=1"]
    with vlm_server(folder) as url:
        options += [f"{path}.endpoint.url={url}", f"run.dir={run}", "run.env_steps=60"]
        train("task=reach", *VIEW, *SMALL, *options)
        assert requests(folder)
        before = len(records(run, "episode"))
        assert before == 2
        (folder / "go").touch()
        train(f"resume={run}", "run.env_steps=160")
    if module != "keypoints":
        assert records(run, "reward")[-1][f"{module}/answers"] >= 4
    else:
        worth = [line["reward/keypoints"] for line in records(run, "episode")]
        assert worth[:before] == [0, 0]
        assert any(worth[before:])


@pytest.mark.rendering
def test_offline_learning_from_a_model_that_compares_pictures_of_a_data_set(tmp_path: Path) -> None:
    """Every pair is asked about before anything is learned, and nothing after."""
    folder, run, module = tmp_path / "server", tmp_path / "run", "reward.modules.preferences"
    with vlm_server(folder) as url:
        options = ["agent=iql", "agent.hidden=[16]", "agent.pretrain_steps=100", "demonstrations.episodes=4"]
        options += [f"{module}.oracle=endpoint", f"{module}.goal=it is bright", f"{module}.demonstration_queries=12"]
        options += [f"{module}.most_queries=12", f"{module}.length=1", f"{module}.epochs=1"]
        options += [f"{module}.endpoint.url={url}", f"{module}.endpoint.model=brightness"]
        options += ["run.video_episodes=0", "run.final_evaluation_episodes=1", "runtime.threads=1"]
        train("task=reach", "reward=preferences", *VIEW, *options, "logging.progress=false", f"run.dir={run}")
    count = len(requests(folder))
    assert 2 <= count <= 24, "a question and one about what was said"
    reward = records(run, "reward")[-1]
    assert reward["preferences/requests"] == count and 1 <= reward["preferences/answers"] <= 12
    assert records(run, "train")[-1]["pretrain_update"] == 100
