"""The scripted stand-in for a person: slow to react, quantised, sometimes wrong, with no hidden labels."""

from pathlib import Path

import numpy as np
import pytest

from robo_rl.actor import human_like
from robo_rl.actor.human_like import LEVELS, HumanLikeChooser
from robo_rl.core import EnvSpec, Observation, generator
from robo_rl.recording.teleoperation import record_expert
from robo_rl.replay import EpisodeStore
from robo_rl.sim import make_backend


class Switching:
    """An expert that moves one way, then the other, and closes the gripper at the turn."""

    def __init__(self, turn: int = 20) -> None:
        self._turn = turn
        self.steps = 0

    def reset(self) -> None:
        self.steps = 0

    def act(self, observation: Observation) -> np.ndarray:
        self.steps += 1
        forward = self.steps <= self._turn
        return np.array([1, 0, 0, 1] if forward else [-1, 0, 0, -1], np.float32)


@pytest.fixture(scope="module")
def spec() -> EnvSpec:
    backend = make_backend("pick_cube")
    try:
        return backend.spec
    finally:
        backend.close()


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pauses or fails."""
    monkeypatch.setattr(human_like, "FAILURE_SHARE", 0.0)
    monkeypatch.setattr(human_like, "PAUSES_PER_SECOND", 0.0)


def commands(spec: EnvSpec, seed: int, steps: int = 40) -> np.ndarray:
    chooser = HumanLikeChooser(Switching(), spec, np.random.default_rng(seed))
    choices = [chooser({}) for _ in range(steps)]
    assert all(choice.proposed is None for choice in choices), "what is executed is what was wanted: no hidden labels"
    return np.stack([choice.action for choice in choices])


@pytest.mark.usefixtures("steady")
@pytest.mark.parametrize("seed", range(8))
def test_the_hand_starts_turns_and_presses_buttons_late(spec: EnvSpec, seed: int) -> None:
    actions = commands(spec, seed)
    moving, gripper = actions[:, 0], actions[:, 3]
    first = int(np.argmax(np.abs(moving) > 0))
    assert 2 <= first <= 3, "0.2 to 0.3 s at 10 Hz"
    turned, pressed = int(np.argmax(moving < -0.3)), int(np.argmax(gripper < 0))
    assert 22 <= pressed <= 24 and 22 <= turned <= 26
    assert (moving[20:22] > 0.2).all(), "it goes on as before until it reacts: it overshoots"


@pytest.mark.usefixtures("steady")
def test_commands_are_quantised_and_bounded_and_the_ways_differ(spec: EnvSpec) -> None:
    runs = [commands(spec, seed) for seed in range(20)]
    for actions in runs:
        assert actions.dtype == np.float32 and np.abs(actions).max() <= 1
        np.testing.assert_allclose(actions * LEVELS, np.round(actions * LEVELS), atol=1e-5)
    sideways = np.array([actions[5:20, 1].mean() for actions in runs])
    assert (sideways > 0.02).any() and (sideways < -0.02).any(), "some go round on the left, some on the right"
    speeds = np.array([actions[8:20, 0].mean() for actions in runs])
    assert speeds.min() < 0.75 < speeds.max()


def test_the_same_generator_gives_the_same_commands(spec: EnvSpec) -> None:
    assert np.array_equal(commands(spec, 3), commands(spec, 3)) and not np.array_equal(
        commands(spec, 3), commands(spec, 4)
    )


def test_about_one_episode_in_ten_is_given_up_as_a_failure(spec: EnvSpec) -> None:
    def gives_up(seed: int) -> bool:
        chooser = HumanLikeChooser(Switching(), spec, generator(seed))
        for _ in range(60):
            chooser({})
            if chooser.button() is not None:
                assert chooser.button() == "failure"
                return True
        return False

    assert 15 <= sum(gives_up(seed) for seed in range(250)) <= 37


def test_failures_are_stored_and_demonstrations_are_slower_than_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(human_like, "FAILURE_SHARE", 0.4)
    lengths = {}
    for source in ("human_like", "expert"):
        backend = make_backend("pick_cube")
        record_expert(backend, tmp_path / source, 12, noise=0.0, seed=3, source=source)
        backend.close()
        store = EpisodeStore.open(tmp_path / source)
        assert ("noise" in store.metadata) == (source == "expert")
        successes = [record.success for record in store.records]
        assert all(successes) == (source == "expert")
        lengths[source] = np.median([record.steps for record in store.records if record.success])
    assert lengths["human_like"] > 1.5 * lengths["expert"]
