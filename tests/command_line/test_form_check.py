"""Check of a training that a page is to start: as the command checks it, in simulation, without foreign code."""

import pytest

from robo_rl.command_line import form_check
from robo_rl.command_line.form_check import MOST_SWEPT, checked_runs, form_choices, require_few
from robo_rl.command_line.usage import composed_choices
from robo_rl.core import ConfigError


def test_the_choices_are_those_of_the_command() -> None:
    choices = form_choices()
    assert choices["choices"]["task"] == composed_choices("train", ()).groups["task"]
    assert {"rlpd", "bc"} < set(choices["choices"]["agent"])
    assert choices["chosen"] == {"task": "pick_cube", "agent": "rlpd"}
    assert choices["folder"].startswith("runs/${now:")


def test_each_run_of_a_sweep_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests of this process have registered packages.
    monkeypatch.setattr(form_check, "needed_packages", lambda config: ())
    runs = checked_runs(["task=reach", "seed=1,2", "run.env_steps=70", "run.dir=new/${seed}", "-m"])
    assert runs == [{"seed": seed, "steps": 70, "folder": f"new/{seed}"} for seed in (1, 2)]
    with pytest.raises(ConfigError, match=r"agent.gamma must be in \[0, 1\], got 7"):
        checked_runs(["task=reach", "agent.gamma=0.9,7", "-m"])
    with pytest.raises(ConfigError, match=f"at most {MOST_SWEPT} runs"):
        checked_runs(["task=reach", "seed=range(0,1000000000)", "-m"])
    with pytest.raises(ConfigError, match=f"at most {MOST_SWEPT} runs"):
        require_few(["seed=shuffle(range(0,1000000000000))"])  # as a list, this would take all the memory
    with pytest.raises(ConfigError, match=r"task=glob\(\*\): a page sweeps over values that are named"):
        require_few(["task=glob(*)"])
    require_few(["seed=shuffle(range(0,4))", "agent.gamma=choice(0.9,0.99)", "task=reach,wipe"])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["task=rech"], "unknown task 'rech': did you mean 'reach'"),
        (["task=reach", "seed=-1"], "seed must be 0 or more, got -1"),
        (["task=pick_cube", "robot=virtual", "runtime=async"], "a page starts no robot"),
        (["task=reach", "teleop.device=gamepad"], "nobody could intervene"),
        (["task=reach", "base.server.address=ws://127.0.0.1:8000"], r"contacts a server \(base.server.address=ws"),
        (["task=reach", "logging=wandb"], r"contacts a server \(logging.wandb.project=robo-rl"),
        (
            ["task=reach", "reward=preferences", "reward.modules.preferences.endpoint.model=x"],
            r"contacts a server \(reward.modules.preferences.endpoint.model=x",
        ),
        (["task=gymnasium", "task.env_id=os:Env-v0"], "starts no run that names os"),
        (["task=reach", "agent._target_=os.system"], "starts no run that names os"),
    ],
)
def test_what_a_page_may_not_start_is_refused(words: list[str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        checked_runs(words)
