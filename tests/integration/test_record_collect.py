"""robo-rl record and collect by scripts and policies: what stands in the data set afterwards."""

import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import kstest, norm

from robo_rl.app import load_policy
from robo_rl.cli import main
from robo_rl.core import (
    DataError,
    EnvBackend,
    Observation,
    Source,
    derive_seed,
)
from robo_rl.recording import episodes as recording
from robo_rl.recording.disk_space import SPARE_BYTES, DiskSpace
from robo_rl.recording.episodes import PolicyChooser
from robo_rl.recording.scripts import ExpertChooser
from robo_rl.recording.teleoperation import SOURCES, record_expert
from robo_rl.replay import EpisodeStore
from robo_rl.sim import make_backend

from ..rigs.command_line import heeding


@pytest.fixture(scope="module")
def backend() -> EnvBackend:
    return make_backend("reach")


def command(*arguments: str) -> int:
    """Run ``robo-rl`` in this process; return its exit code."""
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    return int(caught.value.code or 0)


def executed(path: Path) -> list[np.ndarray]:
    store = EpisodeStore.open(path)
    return [np.stack([step.executed_action for step in store.episode(number)]) for number in range(len(store))]


@pytest.mark.parametrize("other", [{}, {"collected_from": {"run": "b", "step": 5}}])
def test_nothing_is_added_to_what_another_policy_collected(
    backend: EnvBackend, tmp_path: Path, other: dict[str, object]
) -> None:
    origin = {"collected_from": {"run": "a", "step": 5}}
    EpisodeStore.create(tmp_path / "data", backend.spec, origin).close()
    with (
        pytest.raises(DataError, match=r"was collected from another policy: .* merge"),
        recording.open_data_set(tmp_path / "data", backend.spec, "append", other),
    ):
        pass
    with recording.open_data_set(tmp_path / "data", backend.spec, "append", origin) as store:
        assert store.metadata["collected_from"] == origin["collected_from"]


def test_the_data_is_what_the_simulator_does_for_these_actions(backend: EnvBackend, tmp_path: Path) -> None:
    """Reset with the episode's seed and given the stored actions, a fresh simulator repeats the stored episode."""
    record_expert(backend, tmp_path / "data", 3, noise=0.3, seed=5)
    store, fresh = EpisodeStore.open(tmp_path / "data"), make_backend("reach")
    assert store.summary().sources == {"script": store.summary().steps}
    for number, record in enumerate(store.records):
        seed = derive_seed(derive_seed(5, "record", "expert", record.session), "episode", "expert", 0)
        step = fresh.reset(seed)
        expert = fresh.expert(0)
        expert.reset()
        for transition in store.episode(number):
            assert transition.source == Source.SCRIPT
            for key, value in transition.observation.items():
                np.testing.assert_array_equal(value, step.observation[key])
            # What the expert wanted is stored free of the noise on what was executed.
            np.testing.assert_array_equal(transition.proposed_action, expert.act(step.observation))
            assert not np.array_equal(transition.proposed_action, transition.executed_action)
            step = fresh.step(transition.executed_action)
            assert (transition.terminated, transition.truncated) == (step.terminated, step.truncated)
            assert transition.rewards == pytest.approx(step.rewards)
        assert step.ended and record.success is True


class Still:
    """An expert that stays where it is."""

    def reset(self) -> None: ...

    def act(self, observation: Observation) -> np.ndarray:
        return np.array([0.0, 0.9], np.float32)


def test_noise_is_gaussian_and_stays_within_the_actions() -> None:
    chooser = ExpertChooser(Still(), 0.2, np.random.default_rng(0))
    actions = np.stack([chooser({}).action for _ in range(4000)])
    assert actions.dtype == np.float32
    assert actions[:, 0].std() == pytest.approx(0.2, rel=0.05)
    assert actions[:, 0].mean() == pytest.approx(0.0, abs=0.02)
    assert kstest(actions[:, 0] / 0.2, "norm").pvalue > 0.01
    assert actions.max() == 1, "cut at the largest action"
    assert (actions[:, 1] == 1).mean() == pytest.approx(norm.sf(0.1 / 0.2), abs=0.03)
    plain = ExpertChooser(Still(), 0.0, np.random.default_rng(0))
    np.testing.assert_array_equal(plain({}).action, Still().act({}))


def test_what_a_policy_wanted_is_stored_free_of_the_noise_on_what_was_executed() -> None:
    wanted = np.full(3, 0.5, np.float32)
    policy = SimpleNamespace(act=lambda observation, explore: wanted, forget_plan=lambda explore: None)
    choice = PolicyChooser(policy, 1, False, 0.3, np.random.default_rng(0))({})
    assert choice.proposed is wanted and not np.array_equal(choice.action, wanted)


def test_the_seed_decides_everything(backend: EnvBackend, tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        record_expert(backend, tmp_path / name, 2, noise=0.1, seed=seed)
    one, same, other = (executed(tmp_path / name) for name in ("one", "same", "other"))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one[0][0], other[0][0])


def test_a_data_set_that_exists_is_appended_to_or_replaced_only_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data"
    record = ["record", "task=reach", f"record.output={path}", "record.episodes=2"]
    assert command(*record) == 0
    first = executed(path)
    assert command(*record) == 2
    assert "or record.if_exists=append to add" in capsys.readouterr().err
    assert command(*record, "record.if_exists=append") == 0
    both = executed(path)
    assert len(both) == 4
    assert all(np.array_equal(a, b) for a, b in zip(first, both[:2], strict=True))
    assert not any(np.array_equal(actions, first[0]) for actions in both[2:]), "appended episodes are new ones"
    assert command(*record, "record.if_exists=append", "task.controller.translation_scale=0.02") == 2
    assert command(*record, "record.if_exists=overwrite") == 0
    assert all(np.array_equal(a, b) for a, b in zip(first, executed(path), strict=True))


@pytest.mark.parametrize("source", ["browser", "expert"])
def test_what_is_to_be_overwritten_stays_until_something_is_recorded(source: str, tmp_path: Path) -> None:
    """A port that is taken, or an expert that never succeeds, costs nobody the demonstrations of before."""
    path = tmp_path / "data"
    assert command("record", "task=reach", f"record.output={path}", "record.episodes=1") == 0
    before = executed(path)
    again = ["record", "task=reach", f"record.output={path}", "record.if_exists=overwrite", f"record.source={source}"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"web.address=127.0.0.1:{taken.getsockname()[1]}"
        assert (
            command(*again, *([address] if source == "browser" else ["record.episodes=1", "task.max_episode_steps=1"]))
            == 2
        )
    assert all(np.array_equal(a, b) for a, b in zip(before, executed(path), strict=True))
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


def test_what_a_killed_recording_was_to_replace_is_not_removed(backend: EnvBackend, tmp_path: Path) -> None:
    path, replaced = tmp_path / "data", tmp_path / "data.replaced"
    record_expert(backend, path, 1, noise=0.1, seed=1)
    path.rename(replaced)
    left = r"data\.replaced was left by a recording that was killed while it replaced the data set"
    with pytest.raises(DataError, match=f"{left}: remove it, or move it to .*data$"):
        record_expert(backend, path, 1, noise=0.1, seed=2)
    EpisodeStore.create(path, backend.spec).close()
    record_expert(backend, path, 1, noise=0.1, seed=2, if_exists="append")
    before = executed(replaced)
    with pytest.raises(DataError, match=f"{left}: remove it, or if .*data is not what you want to keep, remove that"):
        record_expert(backend, path, 1, noise=0.1, seed=3, if_exists="overwrite")
    assert np.array_equal(executed(replaced)[0], before[0]) and len(executed(path)) == 1


def test_square_brackets_in_a_path_are_no_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "[bold]" / "[" / "b]"
    assert command("record", "task=reach", f"record.output='{path}'", "record.episodes=1") == 0
    assert f"{path} holds 1 episode," in capsys.readouterr().out


def test_overwrite_removes_nothing_but_data_sets(tmp_path: Path) -> None:
    precious = tmp_path / "thesis.tex"
    precious.write_text("years of work")
    assert command("record", "task=reach", f"record.output={tmp_path}", "record.if_exists=overwrite") == 2
    assert precious.read_text() == "years of work"


def test_failures_are_left_out_and_too_many_are_an_error(tmp_path: Path) -> None:
    hopeless = make_backend("reach", max_episode_steps=1)
    with pytest.raises(DataError, match=r"only 0 of 10 .* success, but 2 were requested\. Use record\.only"):
        record_expert(hopeless, tmp_path / "none", 2, noise=0.1, seed=0)
    with pytest.raises(DataError, match=r"2 were requested\. Use less noise$"):  # for commands without these options
        record_expert(hopeless, tmp_path / "none", 2, noise=0.1, seed=0, section=None)
    assert not (tmp_path / "none").exists(), "an empty data set is removed"
    record_expert(hopeless, tmp_path / "all", 2, noise=0.1, seed=0, only_successful=False)
    assert [record.success for record in EpisodeStore.open(tmp_path / "all").records] == [False, False]


def test_a_recording_ends_before_the_disk_is_full(
    backend: EnvBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there is counted, and an episode is begun only if it fits however long it becomes."""
    path = tmp_path / "data"
    observation = sum(array.nbytes for array in backend.spec.observation.values())
    longest = (backend.spec.max_episode_steps + 1) * observation
    free = [10e9]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free[0]))
    record_expert(backend, path, 4, noise=0.1, seed=1)
    with EpisodeStore.open(path) as store:
        size = sum(file.stat().st_size for file in path.rglob("*")) / 4
        description = DiskSpace(store).describe()
        assert re.match(r"10\.0 GB free, about [\d,]+ more episodes", description)
        more = int(description.split()[4].replace(",", ""))
        assert more == pytest.approx((10e9 - SPARE_BYTES - longest) / size, rel=1e-3)
        free[0] = SPARE_BYTES + longest
        assert DiskSpace(store).describe() == "0.1 GB free, about 1 more episodes"
    free[0] -= 1
    with pytest.raises(DataError, match=r"0\.10 GB are free on its disk, .* The 4 stored episodes are intact"):
        record_expert(backend, path, 1, noise=0.1, seed=1, if_exists="append")
    assert len(executed(path)) == 4


def test_killed_while_recording(tmp_path: Path) -> None:
    """kill -9 leaves a data set that can be read and added to; each episode in it is whole."""
    path = tmp_path / "data"
    arguments = [sys.executable, "-m", "robo_rl.cli", "record", "task=reach", f"record.output={path}"]
    process = subprocess.Popen([*arguments, "record.episodes=100000"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(5):
        assert b"stored" in process.stdout.readline()
    process.kill()
    count = 5 + sum(b"stored" in line for line in process.stdout)
    process.wait()
    store = EpisodeStore.open(path)
    assert len(store) in (count, count + 1), "every episode that was told is there, and at most one more"
    episodes = [store.episode(number) for number in range(len(store))]
    assert all(steps[-1].terminated or steps[-1].truncated for steps in episodes)
    assert command("record", "task=reach", f"record.output={path}", "record.episodes=1", "record.if_exists=append") == 0
    assert len(EpisodeStore.open(path)) == len(episodes) + 1


def test_a_recording_that_is_terminated_cleans_up(tmp_path: Path) -> None:
    """SIGTERM while a person is awaited: what was to be replaced is back, and nothing stays beside it."""
    path = tmp_path / "data"
    assert command("record", "task=reach", f"record.output={path}", "record.episodes=1") == 0
    before = executed(path)
    arguments = [sys.executable, "-m", "robo_rl.cli", "record", "task=reach", f"record.output={path}"]
    arguments += ["record.if_exists=overwrite", "record.source=browser", "web.address=127.0.0.1:0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()  # says where the page is
        assert (tmp_path / "data.replaced").exists()
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert [file.name for file in tmp_path.iterdir()] == ["data"]
    np.testing.assert_array_equal(executed(path), before)


def test_ctrl_c_keeps_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "data"
    words = ["record", "task=reach", f"record.output={path}", "record.episodes=100000"]
    command = heeding(sys.executable, "-m", "robo_rl.cli", *words)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in errors
    assert len(EpisodeStore.open(path)) >= 1


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    overrides = ["task=reach", "agent=bc", "agent.hidden=[16]", "agent.pretrain_steps=10", "demonstrations.episodes=2"]
    evaluation = ["run.final_evaluation_episodes=1", "run.video_episodes=0"]
    assert command("train", *overrides, *evaluation, f"run.dir={folder}") == 0
    return folder


def test_collected_actions_are_the_policys(run_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "data"
    assert command("collect", f"policy={run_folder}", f"output={path}", "episodes=2") == 0
    store = EpisodeStore.open(path)
    policy = load_policy(run_folder, store.spec).policy
    assert len(store) == 2
    for number in range(2):
        for step in store.episode(number):
            assert step.source == Source.POLICY
            assert step.policy_version >= 0
            expected = policy.act(step.observation, explore=False)
            np.testing.assert_allclose(step.executed_action, expected, atol=1e-6)
    assert store.metadata["policy"] == str(run_folder)


def test_the_program_of_the_documentation_runs_a_policy(run_folder: Path) -> None:
    """In a process of its own, which has nothing but what the program imports."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "commands.md").read_text()
    (program,) = re.findall(r"```python\n([^`]*load_policy[^`]*)```", page)
    assert 'Path("runs/demo")' in program and 'make_backend("pick_cube")' in program
    program = program.replace('"runs/demo"', repr(str(run_folder))).replace("pick_cube", "reach")
    program += "print(trained.spec.task)\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    success, task = done.stdout.split()
    assert success in ("True", "False") and task == "reach"


@pytest.mark.parametrize("option", ["video", "output"])
def test_no_episode_is_evaluated_for_a_file_that_cannot_be(
    option: str, run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("eval", f"run={run_folder}", "episodes=1", f"{option}={tmp_path}") == 2
    output = capsys.readouterr()
    assert "Success" not in output.out
    assert f"{option} must be a file to write, not a folder, got '{tmp_path}'" in output.err


def test_collect_explores_when_asked(run_folder: Path, tmp_path: Path) -> None:
    for name, option in (("mode", "explore=false"), ("noise", "noise=0.2")):
        assert command("collect", f"policy={run_folder}", f"output={tmp_path / name}", "episodes=1", option) == 0
    mode, noisy = executed(tmp_path / "mode")[0], executed(tmp_path / "noise")[0]
    assert not np.array_equal(mode[0], noisy[0])
    assert np.abs(noisy).max() <= 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["record", "record.source=keybord"], f"record.source must be one of {', '.join(SOURCES)}, got 'keybord'"),
        (["record", "record.noise=2"], "record.noise must be in [0, 1], got 2.0"),
        (["record", "record.if_exists=ask"], "record.if_exists must be one of fail, append, overwrite, got 'ask'"),
        (["record", "record.episodes=0"], "record.episodes must be 1 or more, got 0"),
        (["collect", "policy=nowhere", "episodes=0"], "episodes must be 1 or more, got 0"),
        (["collect"], "policy is required: set it as policy=VALUE"),
    ],
)
def test_wrong_options_end_in_one_line(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(*arguments) == 2
    assert capsys.readouterr().err == f"robo-rl: {line}\n"


def test_a_recording_that_ctrl_c_ends_says_what_is_stored(tmp_path, capsys, monkeypatch):
    true = recording.EpisodePrinter.__call__

    def end(self, stored, outcome):
        true(self, stored, outcome)
        raise KeyboardInterrupt

    monkeypatch.setattr(recording.EpisodePrinter, "__call__", end)
    with pytest.raises(SystemExit) as ended:
        main(["record", "task=reach", f"record.output={tmp_path}/mine", "record.only_successful=false"])
    assert ended.value.code == 130
    assert f"{tmp_path}/mine holds 1 episode, " in capsys.readouterr().out
