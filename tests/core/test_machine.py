"""Reward machines: their files, their steps, and the backend that observes their state."""

from pathlib import Path

import numpy as np
import pytest

from robo_rl.app import build_backend
from robo_rl.core import MACHINE, ConfigError, MachineBackend, Step, machine_states, read_machine
from robo_rl.sim import make_backend

from ..rigs.composition import composed_config
from ..rigs.stage_world import STAGES, StageWorld, staged

UNITS = {"x": None, "y": None, "force": "N", "far": None, "task_success": None}
TO_THE_LEFT, TO_THE_RIGHT = (np.array([x, 0], np.float32) for x in (-1, 1))
UP = np.array([0, 1], np.float32)


def state_of(backend: MachineBackend, step: Step) -> str:
    return machine_states(backend.spec)[int(step.observation[MACHINE].argmax())]


def walk(backend: MachineBackend, *actions: np.ndarray) -> list[Step]:
    backend.reset(seed=0)
    return [backend.step(action) for action in actions]


def test_a_machine_takes_the_first_edge_that_holds_and_otherwise_stays(tmp_path: Path) -> None:
    machine = staged(tmp_path).steps.machine
    assert machine.states == ("left", "right", "goal", "done", "lost")
    rows = {
        ("left", -0.2, 0.0, 0.5, 0.0): ("right", 0.25),  # both edges hold
        ("left", 0.0, 0.0, 0.5, 0.0): ("lost", 0.0),
        ("left", -0.1, 0.0, 0.0, 0.0): ("left", 0.0),  # equality does not hold
        ("right", 0.2, 0.0, 0.0, 1.0): ("right", 0.0),
        ("right", 0.2, 0.25, 0.0, 0.0): ("goal", 0.0),
        ("right", 0.0, 0.25, 0.0, 0.0): ("left", -0.5),
        ("goal", 0.0, 0.0, 0.0, 1.0): ("done", 2.0),
        ("done", -1.0, 0.25, 1.0, 1.0): ("done", 0.0),
        ("lost", -1.0, 0.25, 1.0, 1.0): ("lost", 0.0),
    }
    names = ("x", "y", "far", "task_success")
    signals = {name: np.array([row[1 + place] for row in rows]) for place, name in enumerate(names)}
    states, rewards = machine.advance(np.array([machine.states.index(row[0]) for row in rows]), signals)
    assert [(machine.states[state], reward) for state, reward in zip(states, rewards, strict=True)] == [*rows.values()]


def test_progress_counts_the_edges_to_success(tmp_path: Path) -> None:
    np.testing.assert_allclose(staged(tmp_path).steps.machine.progress, [0, 1 / 3, 2 / 3, 1, 0], rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (
            "states: {a: [{when: z > 1, to: b}, {when: x > 1, to: c}, {when: force > 1 m, to: b}], b: []}\nsucess: [b]",
            [
                "unknown key 'sucess': did you mean 'success'?",
                "no state is a success: name one in 'success'",
                "state 'a', edge 1: the specification names 'z', which is not a signal",
                "state 'a', edge 2: there is no state 'c'",
                "state 'a', edge 3: the specification compares 'force' [N] and a number [m]",
                "state 'b' has no edges and is neither a success nor a failure",
            ],
        ),
        (
            "states: {a: [{when: x >, to: b, pay: 1}, {when: always x > 1, to: b}, {to: b}], b: [{when: x > 1, to: a}]}"
            "\nsuccess: [b]\nfailure: [b]",
            [
                "state 'b' is a success and a failure",
                "state 'b' ends the task and has edges",
                "state 'a', edge 1: unknown key 'pay'",
                "expected a number at character 4",
                "'always x > 1' refers to several moments",
                "state 'a', edge 3: expected {when: CONDITION, to: STATE, reward: NUMBER}",
            ],
        ),
        (
            "states: {a: [{when: x > 1, to: b}], c: [{when: x > 1, to: b}], b: [{when: x > 1, to: a}]}\nsuccess: [d]",
            [
                "state 'c' cannot be reached from 'a'",
                "state 'd' cannot be reached from 'a'",
                "no way leads from state 'a' to a success: name it in 'failure'",
                "no way leads from state 'b' to a success: name it in 'failure'",
            ],
        ),
        (
            "states: 3\nsuccess: 4\nfailure: [2]",
            ["'states' must be", "'success' must be", "'failure' must be", "no state"],
        ),
        ("states: {1 a: [{when: 2, to: d, reward: .nan}]}\nsuccess: [d]", ["no name of a state", "got 2", "finite"]),
    ],
)
def test_all_problems_of_a_file_are_listed_at_once(tmp_path: Path, text: str, problems: list[str]) -> None:
    (tmp_path / "file.yaml").write_text(text)
    with pytest.raises(ConfigError) as error:
        read_machine(tmp_path / "file.yaml", UNITS)
    lines = str(error.value).splitlines()
    for problem in problems:
        assert any(problem in line for line in lines), (problem, lines)
    assert len(lines) == 1 + len(problems)


def test_files_that_cannot_be_read_and_code_in_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_machine(tmp_path / "missing.yaml", UNITS)
    (tmp_path / "code.yaml").write_text("states: !!python/object/apply:os.system [false]")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_machine(tmp_path / "code.yaml", UNITS)


def test_the_state_is_observed_and_success_ends_the_episode(tmp_path: Path) -> None:
    world = StageWorld()
    backend = staged(tmp_path, world=world)
    first = backend.reset(seed=0)
    backend.spec.check_observation(first.observation)
    assert state_of(backend, first) == "left" and first.success is False
    steps = walk(backend, *2 * [TO_THE_LEFT], *4 * [TO_THE_RIGHT], *3 * [UP])
    names = [state_of(backend, step) for step in steps]
    assert (
        names[1] == "right" and names[-1] == "done" and names == sorted(names, key=backend.steps.machine.states.index)
    )
    last = steps[-1]
    assert last.terminated and last.success and last.rewards["success"] == 1 and last.rewards[MACHINE] == 2
    assert last.rewards["task_success"] == 1 and last.rewards["task_terminated"] == 0
    assert world.stops == ["the machine has ended the episode"], "a robot is brought to rest"
    assert backend.spec.reward_terms == tuple(last.rewards)
    with pytest.raises(RuntimeError, match="call reset"):
        backend.step(UP)
    assert state_of(backend, backend.reset(seed=1)) == "left"


def test_the_potential_is_that_of_the_states_and_zero_after_an_end(tmp_path: Path) -> None:
    steps = walk(staged(tmp_path), *2 * [TO_THE_LEFT], *4 * [TO_THE_RIGHT], *3 * [UP])
    before, after = ([step.rewards[f"machine_progress{part}"] for step in steps] for part in ("/before", ""))
    assert before[0] == 0 and before[1:] == after[:-1] and after[-1] == 0
    assert before[-1] == pytest.approx(2 / 3)


def test_failure_and_the_end_of_the_task_itself_end_the_episode(tmp_path: Path) -> None:
    lost = walk(staged(tmp_path), *4 * [TO_THE_RIGHT])[-1]
    assert lost.terminated and not lost.success and lost.rewards["task_terminated"] == 0
    pit = walk(staged(tmp_path, STAGES.replace("far > 0.4", "far > 4")), *5 * [TO_THE_RIGHT])[-1]
    assert pit.terminated and not pit.success and pit.rewards["task_terminated"] == 1


def test_success_lasts_where_it_does_not_end_the_episode(tmp_path: Path) -> None:
    actions = [*2 * [TO_THE_LEFT], *4 * [TO_THE_RIGHT], *3 * [UP], TO_THE_LEFT]
    steps = walk(staged(tmp_path, ends=False), *actions)
    assert [step.success for step in steps[-3:]] == [False, True, True] and not steps[-1].terminated
    assert steps[-1].rewards["success"] == 1 and steps[-1].rewards[MACHINE] == 0


def test_quantities_that_a_robot_does_not_measure_are_refused(tmp_path: Path) -> None:
    class Robot(StageWorld):
        unmeasured = frozenset({"success", "y"})

    with pytest.raises(ConfigError, match="'task_success' exists only in simulation") as error:
        staged(tmp_path, world=Robot())
    assert "edge 2: 'y' exists only in simulation" in str(error.value)
    text = "states: {a: [{when: x > 0.1 and far > 0, to: b}]}\nsuccess: [b]"
    assert staged(tmp_path, text, world=Robot()).spec.reports_success, "the machine knows"


def test_the_option_puts_the_machine_around_a_task_whose_own_success_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "stages.yaml").write_text("states: {a: [{when: end_effector_z < 1 cm, to: b}]}\nsuccess: [b]")
    backend = build_backend(composed_config("train", "task=reach", f"task.machine={tmp_path / 'stages.yaml'}"))
    try:
        assert isinstance(backend, MachineBackend)
        step = backend.reset(seed=0)
        while not step.rewards["task_success"]:
            action = np.clip(10 * step.observation["object"][:3], -1, 1).astype(np.float32)
            step = backend.step(action)
            assert not step.truncated
        assert not step.ended and not step.success
        assert backend.spec.differences(make_backend("reach").spec), "data of the task without it do not match"
    finally:
        backend.close()
