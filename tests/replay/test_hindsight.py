"""Hindsight experience replay: goals, ends, places in the buffer, resumption."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from robo_rl.actor import ActionChoice, Actor
from robo_rl.core import ConfigError, EnvBackend, HistoryBackend, RewardWeights, Source
from robo_rl.learner import CheckpointFolder
from robo_rl.replay import Hindsight, ReplayRing
from robo_rl.sim.gymnasium_backend import GymnasiumBackend
from robo_rl.sim.gymnasium_options import GymnasiumConfig
from robo_rl.training.experience import Experience, make_hindsight

from ..rigs.command_line import exit_code
from ..rigs.goal_world import RADIUS

REWARD = RewardWeights({"reward": 1.0})
ACHIEVED, DESIRED, DIFFERENCE = slice(0, 2), slice(2, 4), slice(6, 8)
TASK = ["task=gymnasium", "task.env_id=tests.rigs.goal_world:GoalWorld-v0"]
SMALL = ["agent.hidden=[16]", "agent.ensemble_size=2", "agent.implementation=torch", "agent.learning_starts=40"]
SMALL += ["agent.update_to_data=1", "agent.batch_size=32"]


def make_backend(**options: bool) -> GymnasiumBackend:
    return GymnasiumBackend(GymnasiumConfig("tests.rigs.goal_world:GoalWorld-v0", **options))


def act(backend: EnvBackend, ring: ReplayRing, hindsight: Hindsight, steps: int, seed: int = 0) -> None:
    """Append random steps and the copies of their episodes."""
    actor, rng = Actor(backend, seed), np.random.default_rng(seed)
    for _ in range(steps):
        action = rng.uniform(-1, 1, 2).astype(np.float32)
        transition = actor.take_step(lambda _, action=action: ActionChoice(action, Source.POLICY))
        ring.append([transition])
        hindsight.add(transition)


def test_columns_of_the_state_are_those_that_tests_here_read() -> None:
    names = make_backend().spec.observation["state"].names
    assert names[ACHIEVED] == ("achieved_goal[0]", "achieved_goal[1]")
    assert names[DESIRED] == ("desired_goal[0]", "desired_goal[1]")
    assert names[DIFFERENCE] == ("desired_goal-achieved_goal[0]", "desired_goal-achieved_goal[1]")


@pytest.mark.parametrize("ends", [False, True])
def test_copies_are_what_the_environment_would_have_returned_for_their_goal(ends: bool) -> None:
    backend = make_backend(terminate_on_success=ends)
    ring = ReplayRing(1000, backend.spec)
    act(backend, ring, Hindsight(ring, backend.relabel, copies=3, seed=0), steps=30)
    slots = np.sort(ring.rows.available.members)
    own, copies = ring.rows.rows(slots[slots < 31]), ring.rows.rows(slots[slots >= 31])
    ended = copies["terminated"] | copies["truncated"]
    assert ended.sum() == 3, "one end of each copy"
    first = 0
    for end in np.flatnonzero(ended):
        part = slice(first, end + 1)
        state, following = copies["observation/state"][part], copies["next_observation/state"][part]
        goal = state[0, DESIRED]
        np.testing.assert_array_equal(own["action"][: len(state)], copies["action"][part])
        np.testing.assert_array_equal(own["observation/state"][: len(state), ACHIEVED], state[:, ACHIEVED])
        for each in (state, following):
            assert (each[:, DESIRED] == goal).all()
            np.testing.assert_allclose(each[:, DIFFERENCE], goal - each[:, ACHIEVED], atol=1e-6)
        near = np.linalg.norm(following[:, ACHIEVED] - goal, axis=1) <= RADIUS
        np.testing.assert_array_equal(copies["term/reward"][part], near - 1.0)
        np.testing.assert_array_equal(copies["term/success"][part], near)
        assert (copies["success"][part] == -1).all(), "no success of the policy's own"
        assert near[-1], "a copy achieves its goal"
        assert copies["terminated"][end] == ends
        assert near.sum() == 1 or not ends, "and ends there if the task does"
        first = end + 1


def test_goals_are_drawn_from_the_whole_future_of_a_step() -> None:
    backend = make_backend()
    ring = ReplayRing(20_000, backend.spec)
    act(backend, ring, Hindsight(ring, backend.relabel, copies=200, seed=0), steps=30)
    slots = np.sort(ring.rows.available.members)
    rows = ring.rows.rows(slots[slots >= 31])
    ends = np.flatnonzero(rows["truncated"])
    lengths = np.diff(ends, prepend=-1)
    assert set(lengths) == set(range(1, 31))


def test_a_copy_is_one_segment() -> None:
    backend = make_backend()
    ring = ReplayRing(1000, backend.spec)
    act(backend, ring, Hindsight(ring, backend.relabel, copies=1, seed=3), steps=30)
    slots = np.sort(ring.rows.available.members)
    copy = slots[slots >= 31]
    batch = ring.rows.gather(copy[:1], gamma=0.5, n_step=len(copy), reward=REWARD, action_chunk=2)
    assert batch["discount"][0] == 0.5 ** len(copy)
    assert batch["action"].shape == (1, 4)


def test_an_episode_with_a_gap_and_one_that_fills_the_buffer_are_not_bridged() -> None:
    backend = make_backend()
    ring = ReplayRing(1000, backend.spec)
    hindsight = Hindsight(ring, backend.relabel, copies=50, seed=0)
    actor = Actor(backend, 0)
    steps = [actor.take_step(lambda _: ActionChoice(np.ones(2, np.float32), Source.POLICY)) for _ in range(30)]
    for step in (*steps[:10], *steps[12:]):
        ring.append([step])
        hindsight.add(step)
    rows = ring.rows.rows(np.sort(ring.rows.available.members))
    copies = rows["observation/state"][28:]
    assert (copies[0, ACHIEVED] == steps[12].observation["state"][ACHIEVED]).all(), "only what came after the gap"
    small = ReplayRing(20, backend.spec)
    hindsight = Hindsight(small, backend.relabel, copies=1, seed=0)
    act(backend, small, hindsight, steps=30)
    assert len(small) == 19, "no copies"


def test_steps_that_another_actor_has_overwritten_are_not_joined() -> None:
    backends = [make_backend() for _ in range(2)]
    ring = ReplayRing(60, backends[0].spec)
    hindsight = Hindsight(ring, backends[0].relabel, copies=1, seed=0)
    actors, real = [Actor(backend, number) for number, backend in enumerate(backends)], set()
    for number in range(90):
        actor = actors[number % 3 > 0]
        action = np.full(2, 0.001 * number, np.float32)
        step = actor.take_step(lambda _, action=action: ActionChoice(action, Source.POLICY))
        step = dataclasses.replace(step, actor=str(number % 3 > 0))
        real.add((step.observation["state"][ACHIEVED].tobytes(), step.next_observation["state"][ACHIEVED].tobytes()))
        ring.append([step])
        hindsight.add(step)
    rows = ring.rows.rows(ring.rows.available.members.copy())
    pairs = zip(rows["observation/state"][:, ACHIEVED], rows["next_observation/state"][:, ACHIEVED], strict=True)
    assert {(before.tobytes(), after.tobytes()) for before, after in pairs} <= real


def test_an_end_without_regard_to_the_goal_remains_one() -> None:
    backend = GymnasiumBackend(GymnasiumConfig("tests.rigs.goal_world:GoalWorld-v0", env_kwargs={"fall": 10}))
    ring = ReplayRing(2000, backend.spec)
    act(backend, ring, Hindsight(ring, backend.relabel, copies=30, seed=0), steps=10)
    rows = ring.rows.rows(np.sort(ring.rows.available.members))
    fallen = rows["next_observation/state"][9, ACHIEVED]
    falls = (rows["next_observation/state"][:, ACHIEVED] == fallen).all(axis=1)
    assert falls.sum() > 1
    np.testing.assert_array_equal(rows["terminated"], falls)


def test_a_dense_reward_is_not_relabelled() -> None:
    env = GymnasiumConfig("tests.rigs.goal_world:GoalWorld-v0", env_kwargs={"dense": True})
    assert GymnasiumBackend(env).relabel is None


def test_an_episode_that_is_cut_is_copied_and_an_open_one_is_resumed() -> None:
    rings = []
    for resumes in (False, True):
        backend = make_backend()
        ring = ReplayRing(1000, backend.spec)
        hindsight = Hindsight(ring, backend.relabel, copies=2, seed=5)
        actor, rng = Actor(backend, 0), np.random.default_rng(0)
        for number in range(45):
            action = rng.uniform(-1, 1, 2).astype(np.float32)
            transition = actor.take_step(lambda _, action=action: ActionChoice(action, Source.POLICY))
            ring.append([transition])
            hindsight.add(transition)
            if resumes and number == 40:
                state = {name: array.copy() for name, array in hindsight.state().items()}
                hindsight = Hindsight(ring, backend.relabel, copies=2, seed=5)
                hindsight.load(state)
        ring.end_episodes()
        hindsight.end()
        rings.append(ring.state())
    assert rings[0].keys() == rings[1].keys()
    for name, array in rings[0].items():
        np.testing.assert_array_equal(array, rings[1][name], err_msg=name)


def test_stored_episodes_are_copied_again_when_a_run_goes_on() -> None:
    backend = make_backend()
    ring = ReplayRing(1000, backend.spec)
    parts = SimpleNamespace(reward=SimpleNamespace(scorer=None), agent=SimpleNamespace(config=SimpleNamespace(gamma=0)))
    experience = Experience(parts, ring, None, None, 0, Hindsight(ring, backend.relabel, copies=3, seed=0))
    actor = Actor(backend, 0)
    steps = [actor.take_step(lambda _: ActionChoice(np.ones(2, np.float32), Source.POLICY)) for _ in range(20)]
    assert experience.recover(steps) == 20, "a piece of an episode"
    assert experience.recover([]) == 0
    rows = ring.rows.rows(np.sort(ring.rows.available.members))
    assert rows["truncated"].sum() == 3


def test_a_run_stores_copies_and_goes_on_bit_for_bit(tmp_path: Path) -> None:
    common = [*TASK, *SMALL, "run.hindsight=4", "run.evaluation_interval=0", "run.final_evaluation_episodes=1"]
    common += ["run.video_episodes=0", "runtime.threads=1"]
    for words in (
        [*common, "run.env_steps=45", f"run.dir={tmp_path}/run"],
        [f"resume={tmp_path}/run", "allow=[tests]", "run.env_steps=80"],
        [*common, "run.env_steps=80", f"run.dir={tmp_path}/unbroken"],
    ):
        assert not exit_code("train", *words)
    resumed, unbroken = (
        CheckpointFolder(tmp_path / name / "checkpoints").load_newest().parts for name in ("run", "unbroken")
    )
    assert len(unbroken["replay"]["order"]) > 1.5 * 80
    for part in ("agent", "hindsight", "replay"):
        for name, array in unbroken[part].items():
            np.testing.assert_array_equal(array, resumed[part][name], err_msg=f"{part}/{name}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["task=pick_cube", "demonstrations.episodes=0"], "run.hindsight=4 needs a task that observes its goal"),
        ([*TASK, "reward=novelty"], "run.hindsight=4 needs the task's own rewards"),
        ([*TASK, "run.hindsight=-1"], "run.hindsight"),
    ],
)
def test_what_cannot_be_relabelled_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert exit_code("train", "run.hindsight=4", *words, *SMALL, f"run.dir={tmp_path}/run") == 2
    assert message in capsys.readouterr().err


def test_a_history_of_states_does_not_prevent_copies() -> None:
    """It holds differences of states, which do not depend on the goal."""
    backend = HistoryBackend(make_backend(), 2)
    agent = SimpleNamespace(observed=("history", "state"))
    parts = SimpleNamespace(evaluation_backend=lambda: backend, agent=agent, reward=SimpleNamespace(scorer=None))
    ring = ReplayRing(1000, backend.spec)
    hindsight = make_hindsight(parts, ring, 4, 0)
    act(backend, ring, hindsight, 100)
    assert len(ring) > 100


def test_an_agent_that_sees_the_goal_in_pictures_is_refused() -> None:
    backend = make_backend()
    agent = SimpleNamespace(observed=("images/view", "state"))
    parts = SimpleNamespace(evaluation_backend=lambda: backend, agent=agent)
    with pytest.raises(ConfigError, match=r"learns from images/view, which may show the goal"):
        make_hindsight(parts, ReplayRing(100, backend.spec), 4, 0)
