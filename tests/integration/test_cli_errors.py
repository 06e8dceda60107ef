"""What a user can get wrong ends in one exact line and exit code 2, without a traceback."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from robo_rl.cli import COMMANDS, main
from robo_rl.command_line import application
from robo_rl.commands import report, train
from robo_rl.core import DataError, RoboRLError
from robo_rl.training import run as training


def fails(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run ``robo-rl`` and return its one line of complaint."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    captured = capsys.readouterr()
    assert caught.value.code == 2
    assert "Traceback" not in captured.err + captured.out
    (line,) = captured.err.splitlines()
    return line


CONFIG = "seed: 5\nchoices: {}\nrun: {}\n"
TASKS = "bin_relocate, cable_route, dm_control, drive, fake_arm, gymnasium, humanoid, meta_world, ogbench, "
TASKS += "open_door, peg_insert, pick_cube, pick_cube_so101, plug_insert, push_cube, push_cube_so101, "
TASKS += "reach, reach_so101, regrasp, stack_cubes, wipe"
AGENTS = "bc, cpl, crossq, drq, dsrl, flow, fql, hg_dagger, iql, qc, redq, residual, rlpd, rlpd_driving, "
AGENTS += "rlpd_published, rlpd_without_demonstrations, sac, simbav2, xqc"


@pytest.mark.parametrize(
    ("arguments", "beginning"),
    [
        # Words of the command itself, and choices that it has not, are also names of groups.
        (
            ["robot", "task=reach", "virtual.state_rat=5"],
            "robo-rl: unknown option 'virtual.state_rat': did you mean 'st",
        ),
        (
            ["reward", "publish", "robot=virtual", "publish.rat=5"],
            "robo-rl: unknown option 'publish.rat': did you mean",
        ),
        (["train", "steering=ros2", "steering.nam=x"], "robo-rl: unknown option 'steering.nam': did you mean 'name'?"),
        (
            ["train", "reward=vice", "+reward/module@reward.modules.mine=vice", "reward.modules.mine.keep=1"],
            "robo-rl: unknown option 'reward.modules.mine.keep': did you mean 'keys'?",
        ),
        (
            ["collect", "policy=x", "task=reach"],
            "robo-rl: unknown option 'task': Valid: allow, checkpoint, episodes, ",
        ),
        (
            ["eval", "run=x", "task=reach"],
            "robo-rl: 'task' is not a choice of this command: set its options one by one",
        ),
        (
            ["eval", "run=x", "task.size=1"],
            "robo-rl: unknown option 'task.size'; a new one is given as +task.size=VALUE",
        ),
        (["train", "-m", "seed=0,1", "--cfg", "job"], "robo-rl: Only one of --run, --multirun, --cfg"),
        (["train", "reward.weights={near: 1}"], "robo-rl: reward.weights is null with these choices: choose others"),
        (["train", "run.dir=/proc/nowhere/x"], "robo-rl: run.dir=/proc/nowhere/x cannot be made: No such file or dir"),
        (
            ["eval", "run=x", "episodes=abc"],
            "robo-rl: episodes: expected a whole number, such as 10000, 10_000 or 1e4, got abc",
        ),
        (
            ["eval", "run=x", "decision_periods=[1,4,2]"],
            "robo-rl: decision_periods must be whole numbers of 1 or more, each above the one before, got [1, 4, 2]",
        ),
        (
            ["train", "agent.action_chunk=4", "agent.n_step=3"],
            "robo-rl: agent.n_step must be 1 or agent.action_chunk = 4, as returns are those of whole chunks "
            "(set agent.action_chunk=1 for n-step returns of single actions), got 3",
        ),
        (["eval", "run=x", "video_episodes=-1"], "robo-rl: video_episodes must be 1 or more, got -1"),
        (["keys", "days=abc"], "robo-rl: days: expected a whole number, such as 10000, 10_000 or 1e4, got abc"),
        (["keys", "output=/dev/null/keys"], "robo-rl: /dev/null/keys: Not a directory (--debug shows where)"),
        (
            ["export", "path=x", "output=y", "instruction=it's open, now"],
            'robo-rl: cannot read "instruction=it\'s open, now": put a value with punctuation',
        ),
        (["view", "path=x", "episodes=[1"], "robo-rl: cannot read 'episodes=[1': put a value with punctuation"),
        (["train", "..."], "robo-rl: cannot read '...': put a value with punctuation"),
        (
            ["vision", "pretrain", "output=x", "pictures.tasks=reach"],
            "robo-rl: pictures.tasks: expected a list, as pictures.tasks=[a,b]",
        ),
        (
            ["vision", "pretrain", "output=x", "+pictures.times.raech=2"],
            "robo-rl: pictures.times: there is no task 'raech': did you mean 'reach'",
        ),
        (
            ["train", "task=reach", "+agent.update_too_data=2"],
            "robo-rl: agent.update_too_data: there is no such option: did you mean 'update_to_data'",
        ),
        (["train", "+seedz=1", "--cfg", "job"], "robo-rl: seedz: there is no such option: did you mean 'seed'"),
        (["train", "+reset.home=1"], "robo-rl: reset.home: there is no such option: there are none here"),
        (
            ["train", "task=reach", "+reward.terms.near.weight=2"],
            "robo-rl: reward.terms: there is no such option: did you mean 'others'? Valid: constraints, offset, "
            "others, weights",
        ),
        (
            ["eval", "runs/2026-11-25_reach"],
            "robo-rl: cannot read 'runs/2026-11-25_reach': an override is KEY=VALUE, fo",
        ),
        (["train", "--env_steps", "60"], "robo-rl: there is no flag '--env_steps': options have the form KEY=VALUE"),
        # A value in the place of a section, and of a choice.
        (["train", "run=runs/a"], "robo-rl: run: a section of options, not a value; set them one by one, as run.dir="),
        (["train", "task=reach", "web=8080"], "robo-rl: web: a section of options, not a value; set them one by one"),
        (["train", "demonstrations=null"], "robo-rl: demonstrations: a section of options, not a value; set them"),
        (["train", "task.arm=3"], "robo-rl: task.arm: a section of options, not a value; set them one by one, as"),
        (["control", "send=pause", "transport=localhost:1"], "robo-rl: transport: a section of options, not a value"),
        (["label", "label=x"], "robo-rl: label: a section of options, not a value; set them one by one, as label.pat"),
        (["train", "task=null"], "robo-rl: task=null: expected one of bin_relocate, cable_route, dm_control, "),
        (["train", "task=reach", "steering=null"], "robo-rl: steering=null: expected one of ros2; leave it out to ha"),
        (["train", "resume=true"], "robo-rl: True is not a run folder: it has no config.yaml. Give a folder that"),
        (["control", "send=pause", "run=5"], "robo-rl: run=5: no run is active there; robo-rl top lists active runs"),
        (["export", "path=5", "output=x"], "robo-rl: 5: there is no data set"),
        # Groups of which nothing is chosen are groups all the same, where the command reads them.
        (
            ["train", "robt=virtual"],
            "robo-rl: unknown option 'robt': did you mean 'robot'? Valid: agent, allow, base, demon",
        ),
        (["train", "+robt=virtual"], "robo-rl: robt: there is no such option: did you mean 'robot'? Valid: agent, al"),
        (["train", "robot.namespace=left"], "robo-rl: robot.namespace: the group robot has no choice yet: add robot=N"),
        (
            ["record", "robt=virtual"],
            "robo-rl: unknown option 'robt': did you mean 'robot'? Valid: planner, record, ro",
        ),
        (["control", "send=stopp"], "robo-rl: send: there is no command 'stopp': did you mean 'stop'? Valid: actors N"),
        (["control", "send=pause", "run=x"], "robo-rl: run=x: no run is active there; robo-rl top lists active runs"),
        (["control", "send=actors 2", "run=x"], "robo-rl: 'actors 2' is only for a learner: set transport.address,"),
        (["record", "agent=drq"], "robo-rl: robo-rl record does not read agent: leave out 'agent=drq'"),
        (["robot", "task=reach", "reward.weights={near: 1}"], "robo-rl: robo-rl robot does not read reward: leave out"),
        # In quotes of its own the sentence is read, and the next mistake told.
        (["export", "path=x", "output=y", 'instruction="it\'s open, now"'], "robo-rl: x: there is no data set"),
        (
            ["view", "path=x", "port=abc"],
            "robo-rl: port: expected a whole number, such as 10000, 10_000 or 1e4, got abc",
        ),
    ],
)
def test_one_line_begins_with_the_fault(
    arguments: list[str], beginning: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fails(arguments, capsys).startswith(beginning)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["trian"],
            f"robo-rl: unknown command 'trian': did you mean 'train'? Valid: {', '.join(sorted(COMMANDS))}",
        ),
        (
            ["train", "task=rech"],
            f"robo-rl: unknown task 'rech': did you mean 'reach'? Valid: {TASKS}. For files of your own, add "
            "--config-dir FOLDER, or export ROBO_RL_CONFIG_PATH=FOLDER",
        ),
        (["train", "agent=rldp"], f"robo-rl: unknown agent 'rldp': did you mean 'rlpd'? Valid: {AGENTS}"),
        (["train", "agent.gama=0.9"], "robo-rl: unknown option 'agent.gama': did you mean 'gamma'? Valid: "),
        (
            ["train", "tsk=reach"],
            "robo-rl: unknown option 'tsk': did you mean 'task'? "
            "Valid: agent, allow, base, demonstrations, intervention, logging, planner, reset, resume, reward, robot, "
            "run, runtime, safety, seed, start, steering, task, teleop, web",
        ),
        (
            ["train", "agent.batch_size=many"],
            "robo-rl: agent.batch_size=many: expected a whole number, such as 10000, 10_000 or 1e4, got many",
        ),
        (["train", "reach"], "robo-rl: cannot read 'reach': an override is KEY=VALUE, for example task=reach"),
        (["eval", "run=nowhere"], "robo-rl: nowhere is not a run folder: it has no config.yaml. "),
        (["eval"], "robo-rl: run is required: set it as run=VALUE"),
        (["label"], "robo-rl: label.path is required: set it as label.path=VALUE"),
        (["train", "agent.hidden=256"], "robo-rl: agent.hidden: expected a list, as agent.hidden=[256]"),
        (["reward"], "robo-rl: reward is followed by one of: answer, benchmark, inspect, publish, write"),
        (
            ["reward", "inspct"],
            "robo-rl: unknown command 'reward inspct': did you mean 'inspect'? "
            "Valid: answer, benchmark, inspect, publish, write",
        ),
        (["train", "resume=nowhere"], "robo-rl: nowhere is not a run folder: it has no config.yaml. "),
        (
            ["train", "task=reach", "task.arm.home_opening=2", "task.arm.force_limit=-1", "agent.gamma=1.5"],
            "robo-rl: agent.gamma must be in [0, 1], got 1.5; arm.home_opening must be in [0, 1], got 2.0; "
            "arm.force_limit must be positive, got -1.0",
        ),
    ],
)
def test_one_line_names_the_fault(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = fails(arguments, capsys)
    assert line == message or (message.endswith(" ") and line.startswith(message))


def test_a_file_that_no_command_searches_for_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine/task").mkdir(parents=True)
    (tmp_path / "mine/task/reach_mine.yaml").write_text("defaults: [reach]\n")
    monkeypatch.chdir(tmp_path)
    line = fails(["train", "task=reach_mine"], capsys)
    folder = tmp_path / "mine"
    assert line.endswith(
        f". There is mine/task/reach_mine.yaml: add --config-dir {folder}, or export ROBO_RL_CONFIG_PATH={folder} for "
        "all commands"
    )


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("run.env_steps=-1", "robo-rl: run.env_steps must be 0 or more, got -1"),
        ("run.stop_at_success_rate=95", "robo-rl: run.stop_at_success_rate must be null or in (0, 1], got 95.0"),
        ("demonstrations.noise=2", "robo-rl: demonstrations.noise must be in [0, 1], got 2.0"),
        ("agent.gamma=1.5", "robo-rl: agent.gamma must be in [0, 1], got 1.5"),
        ("agent.target_subset=11", "robo-rl: agent.target_subset must be at most agent.ensemble_size = 5, got 11"),
        ("runtime.threads=0", "robo-rl: runtime.threads must be null or 1 or more, got 0"),
    ],
)
def test_values_out_of_range_are_named(
    override: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fails(["train", "task=reach", override, f"run.dir={tmp_path / 'runs' / 'run'}"], capsys) == message
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("logging.wandb.project=arm", "logging.wandb.project='arm' needs the package wandb"),
        ("teleop.device=gamepad", "teleop.device=gamepad needs pygame: pip install 'robo-rl[teleop]'"),
        ("teleop.device=keyboard", "teleop.device=keyboard draws in a terminal"),
        ("intervention.criterion=value", "intervention.reference must be a run folder"),
    ],
)
@pytest.mark.parametrize("runtime", ["local", "async"])
def test_what_is_missing_is_said_before_demonstrations_are_recorded(
    runtime: str, override: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(training, "load_demonstrations", None)
    for package in ("wandb", "pygame"):
        monkeypatch.setitem(sys.modules, package, None)
    words = ["train", "task=reach", f"runtime={runtime}", "teleop.screen=null", override, f"run.dir={tmp_path / 'run'}"]
    assert fails(words, capsys).startswith(f"robo-rl: {message}")


@pytest.mark.parametrize("seed", ["abc", "1.5", "1e-3", "null", "-1", "[0,1]"])
def test_seeds_are_whole_numbers(seed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    commands = (["train", f"run.dir={folder}"], ["record", f"record.output={folder}"], ["eval", "run=x"])
    for words in (*commands, ["collect", "policy=x"]):
        assert fails([*words, f"seed={seed}"], capsys).startswith("robo-rl: seed")
    assert not folder.exists()


def test_critics_are_not_pretrained_on_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "task=reach", "agent=qc", "demonstrations.episodes=0"]
    assert fails([*words, f"run.dir={tmp_path / 'run'}"], capsys) == (
        "robo-rl: agent.offline_steps=1000: these steps learn from demonstrations, and this run has none. "
        "Give some by demonstrations.path, or set agent.offline_steps=0"
    )


def test_dictionaries_take_new_keys_without_a_plus(capsys: pytest.CaptureFixture[str]) -> None:
    for words, found in (
        (["runtime=ray", "runtime.learner_resources={CPU:8,learner:1}"], "learner: 1.0"),
        (["task=gymnasium", "task.env_kwargs.reward_type=sparse"], "reward_type: sparse"),
        (["reward=shaped", "reward.weights.near=0.2"], "near: 0.2"),
    ):
        with pytest.raises(SystemExit):
            main(["train", *words, "--cfg", "job"])
        assert found in capsys.readouterr().out


def test_paths_may_begin_with_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shells put it in the place of ~ at the start of a word alone. In names of ROS 2 it stands for the node."""
    monkeypatch.setenv("HOME", str(tmp_path))
    given: list[DictConfig] = []

    def run(config: DictConfig) -> int:
        given.append(config)
        return 0

    monkeypatch.setattr(train, "run", run)
    monkeypatch.setattr(report, "run", run)
    trains = ["train", "run.dir=~/my runs/${seed}", "demonstrations.path=~", "task.arm.model='a~/b'"]
    reports = ["report", "runs=[~/runs/a,runs/b]", "output='~/a.html'"]
    for words in ([*trains, "robot=virtual", "robot.sources.joints.topic=~/joints"], reports):
        with pytest.raises(SystemExit):
            main(words)
    trained, reported = given
    assert (trained.run.dir, trained.demonstrations.path) == (f"{tmp_path}/my runs/0", str(tmp_path))
    assert (trained.task.arm.model, trained.robot.sources.joints.topic) == ("a~/b", "~/joints")
    assert (reported.runs, reported.output) == ([f"{tmp_path}/runs/a", "runs/b"], f"{tmp_path}/a.html")


def test_a_path_in_a_home_folder_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it does where there is no home
    assert fails(["train", "run.dir=~/a"], capsys).startswith("robo-rl: run.dir=~/a: there is no home folder")


def test_debug_shows_the_traceback() -> None:
    from robo_rl.core import ConfigError

    with pytest.raises(ConfigError):
        main(["train", "task=rech", "--debug"])


def test_what_a_launcher_runs_in_another_process_ends_by_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of such a process nothing else comes back: neither an exit code, nor what it changed in memory."""
    jobs: list[Callable[[object], None]] = []
    monkeypatch.setattr(application.hydra, "main", lambda **_: lambda job: lambda: jobs.append(job))
    assert application.run_command("train", []) == 0
    monkeypatch.setattr(application.os, "getpid", lambda: -1)
    codes = iter([0, 3])
    monkeypatch.setattr(train, "run", lambda config: next(codes))
    jobs[0](OmegaConf.create())
    with pytest.raises(RoboRLError, match="robo-rl train ended with exit code 3"):
        jobs[0](OmegaConf.create())

    def fail(config: object) -> int:
        raise DataError("as it was said")

    monkeypatch.setattr(train, "run", fail)
    with pytest.raises(DataError, match="as it was said"):
        jobs[0](OmegaConf.create())
