"""Flags of recorded episodes: each fault is flagged by its name, and a sound data set has no flag."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from robo_rl.core import ArraySpec, EnvSpec
from robo_rl.recording.description import describe, print_description
from robo_rl.recording.quality import FLAGS, EpisodeQuality, measure, motion_delay, moving
from robo_rl.replay import EpisodeArrays, EpisodeRecord, EpisodeStore

from ..rigs.replay_episodes import SPEC, make_episode

STEPS = 40
EPISODES = 9
FAULTY = 4

Arrays = dict[str, Any]


def spec_of(action_space: str = "end_effector_delta") -> EnvSpec:
    return dataclasses.replace(
        SPEC, action=ArraySpec((3,), low=-1, high=1, names=("x", "y", "gripper")), action_space=action_space
    )


def recorded(seed: int, steps: int = STEPS, delay: int = 0) -> Arrays:
    """A smooth motion of which the observed state is the integral, with a picture that shows the state."""
    rng = np.random.default_rng(seed)
    phase = np.arange(steps)[:, None] / 6 + rng.uniform(0, 6, 3)
    actions = (0.6 * np.sin(phase) + 0.05 * rng.standard_normal((steps, 3))).astype(np.float32)
    actions[:, 2] = 1
    moved = np.vstack([np.zeros((delay, 3)), actions])[:steps]
    state = np.vstack([np.zeros(3), np.cumsum(moved, axis=0)]).astype(np.float32)
    pictures = np.full((steps + 1, 24, 24, 3), 120, np.uint8)
    pictures[:, 0, 0] = np.arange(steps + 1)[:, None] % 250
    return {
        "observation": {"state": state, "images/front": pictures},
        "proposed_action": actions,
        "executed_action": actions,
        "stamp_ns": np.arange(steps) * 100_000_000,
        "success": True,
    }


def episode_of(arrays: Arrays) -> EpisodeArrays:
    steps = len(arrays["stamp_ns"])
    zeros = np.zeros(steps)
    record = make_record(steps, arrays.pop("success"))
    return EpisodeArrays(
        record=record,
        rewards={"success": zeros, "distance": zeros},
        terminated=zeros.astype(bool),
        truncated=zeros.astype(bool),
        source=zeros.astype(np.uint8),
        success=zeros.astype(np.int8),
        policy_version=zeros.astype(np.int64),
        **arrays,
    )


def make_record(steps: int, success: bool | None) -> EpisodeRecord:
    return EpisodeRecord(steps, "robot", 0, 0, 0, success, {"human": steps}, {})


def failed(arrays: Arrays) -> None:
    arrays["success"] = False


def cut(arrays: Arrays) -> None:
    arrays |= {"stamp_ns": arrays["stamp_ns"][:12], "proposed_action": arrays["proposed_action"][:12]}
    arrays |= {"executed_action": arrays["executed_action"][:12]}
    arrays["observation"] = {key: rows[:13] for key, rows in arrays["observation"].items()}


def lost_time(arrays: Arrays) -> None:
    arrays["stamp_ns"][20:] += 400_000_000


def clock_put_back(arrays: Arrays) -> None:
    arrays["stamp_ns"][20:] -= 500_000_000


def stick_at_its_end(arrays: Arrays) -> None:
    arrays["proposed_action"][:, :2] = 1


def stand_still(arrays: Arrays) -> None:
    arrays["proposed_action"][15:28, :2] = 0


def late_start(arrays: Arrays) -> None:
    arrays["proposed_action"][:14, :2] = 0


def trembling(arrays: Arrays) -> None:
    arrays["proposed_action"][:, :2] += np.where(np.arange(STEPS)[:, None] % 2, 0.35, -0.35)


def frozen_encoder(arrays: Arrays) -> None:
    arrays["observation"]["state"][10:20] = arrays["observation"]["state"][10]


def frozen_camera(arrays: Arrays) -> None:
    arrays["observation"]["images/front"][10:20] = arrays["observation"]["images/front"][10]


def automatic_exposure(arrays: Arrays) -> None:
    arrays["observation"]["images/front"][20:] += 60


FAULTS: dict[str, Callable[[Arrays], None]] = {
    "failure": failed,
    "length": cut,
    "gap": lost_time,
    "clock": clock_put_back,
    "saturation": stick_at_its_end,
    "pause": stand_still,
    "idle": late_start,
    "jerk": trembling,
    "frozen_state": frozen_encoder,
    "repeated_pictures": frozen_camera,
    "exposure": automatic_exposure,
}


def measured(change: Callable[[Arrays], None] | None) -> list[EpisodeQuality]:
    episodes = [recorded(number, STEPS + number % 5) for number in range(EPISODES)]
    if change is not None:
        episodes[FAULTY] = recorded(FAULTY)
        change(episodes[FAULTY])
    return measure(map(episode_of, episodes), spec_of())


def test_sound_episodes_have_no_flag() -> None:
    assert [episode.flags for episode in measured(None)] == [{}] * EPISODES


def test_every_flag_has_a_fault_in_these_tests() -> None:
    assert FAULTS.keys() == FLAGS.keys()


@pytest.mark.parametrize("flag", FAULTS)
def test_a_fault_is_flagged_by_its_name_and_only_where_it_is(flag: str) -> None:
    flags = {episode.number: list(episode.flags) for episode in measured(FAULTS[flag]) if episode.flags}
    assert flags == {FAULTY: [flag]}


def test_a_gap_names_its_seconds_and_a_pause_its_step() -> None:
    assert "0.5 s between two steps" in measured(lost_time)[FAULTY].flags["gap"]
    assert measured(stand_still)[FAULTY].flags["pause"] == "1.3 s without motion from step 15"


def test_motion_is_a_deflection_and_a_change_in_spaces_of_positions() -> None:
    actions = np.array([[0.5, 0, 1], [0.5, 0, 1], [0, 0, 1], [0, 0, -1], [0, 0, -1]])
    assert moving(actions, spec_of()).tolist() == [True, True, False, True, False]
    assert moving(actions, spec_of("joint_position")).tolist() == [False, False, True, True, False]


@pytest.mark.parametrize("space", ["joint_velocity", "steering_throttle", "gymnasium"])
def test_a_constant_velocity_is_motion(space: str) -> None:
    arrays = recorded(0)
    arrays["proposed_action"][5:30] = 0.5
    assert measure([episode_of(arrays)], spec_of(space))[0].flags == {}


@pytest.mark.parametrize("delay", [0, 1, 4])
def test_the_delay_of_motion_is_found(delay: int) -> None:
    episodes = [episode_of(recorded(number, delay=delay)) for number in range(4)]
    assert motion_delay(episodes, spec_of()) == pytest.approx(delay / SPEC.control_rate)


def test_no_delay_is_stated_where_nothing_moves_with_the_actions() -> None:
    episodes = [recorded(number) for number in range(4)]
    for number, arrays in enumerate(episodes):
        arrays["observation"]["state"] = np.random.default_rng(number).standard_normal((STEPS + 1, 3))
    assert motion_delay([episode_of(arrays) for arrays in episodes], spec_of()) is None


def test_a_description_counts_what_was_recorded_and_prints_the_way_on(tmp_path, capsys) -> None:
    with EpisodeStore.create(tmp_path / "data", SPEC) as store:
        for number in range(3):
            *steps, last = make_episode(number, 10 + number)
            store.append_episode([*steps, dataclasses.replace(last, success=number != 1)])
        description = describe(store)
        assert (
            describe(store, pictures=False).episodes[0].brightness_jump == 0 < description.episodes[0].brightness_jump
        )
        executed = np.concatenate([store.arrays(number).executed_action for number in range(3)])
    assert description.steps == (10, 11, 12)
    assert [each.name for each in description.actions] == ["0", "1"]
    assert description.actions[0].mean == pytest.approx(executed[:, 0].mean())
    assert description.summary.episodes == 3
    assert [episode.number for episode in description.flagged] == [1]
    print_description(Console(width=200), "data", description)
    printed = capsys.readouterr().out
    assert "test, 3 episodes, 33 steps" in printed
    assert (
        "1  failure: not successful\nWithout them: robo-rl data edit path=data output=NEW drop_flagged=[failure]"
        in printed
    )
