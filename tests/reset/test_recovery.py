"""Recovery: bounded, counted, and never a transition; on a toy vehicle, then on the simulated car."""

import dataclasses
import itertools

import numpy as np
import pytest

from robo_rl.actor import ActionChoice, Actor
from robo_rl.core import ArraySpec, ConfigError, EnvSpec, ManualClock, Source, Step, Transition
from robo_rl.replay import ReplayRing
from robo_rl.reset.config import RecoveryConfig
from robo_rl.reset.recovery import RecoveryReset
from robo_rl.reset.states import PracticeState

RATE = 10.0
NAMES = ("velocity_x", "up_z", "checkpoint1_x", "checkpoint1_y")


class ToyVehicle:
    """A vehicle on a line: throttle is its speed. A wall at 1 m is a crash; without motion it is stuck at once.

    Attributes:
        log: what was called: ``reset`` or the throttle of a step.
    """

    spec = EnvSpec(
        task="toy",
        observation={"state": ArraySpec((4,), names=NAMES)},
        action=ArraySpec((2,), low=-1, high=1, names=("steering", "throttle")),
        action_space="steering_throttle",
        action_frame="base",
        control_rate=RATE,
        max_episode_steps=None,
        reward_terms=("progress", "crashed", "flipped", "stuck"),
    )

    def __init__(self, held: bool = False) -> None:
        self.clock = ManualClock()
        self.held = held  # whether it cannot move, as on its back
        self.position = 0.0
        self.speed = 0.0
        self.running = False
        self.log: list[str | float] = []

    def reset(self, seed: int | None = None) -> Step:
        self.log.append("reset" if seed is None else "placed")
        self.running = True
        if seed is not None:
            self.position, self.held = 0.0, False
        return self._step(False, {} if seed is None else {"placed": True})

    def step(self, action: np.ndarray) -> Step:
        assert self.running
        self.speed = 0.0 if self.held else float(action[1])
        self.log.append(round(float(action[1]), 3))
        self.position += self.speed / RATE
        crashed = self.position > 0.999
        self.position = min(self.position, 1.0)
        self.running = not crashed
        return self._step(crashed, {})

    def _step(self, crashed: bool, info: dict[str, object]) -> Step:
        state = np.array([self.speed, 0.2 if self.held else 1.0, 2.0 - self.position, 0.0], np.float32)
        rewards = {"progress": self.speed, "crashed": float(crashed), "flipped": 0.0, "stuck": 0.0}
        return Step({"state": state}, rewards, crashed, False, 0, None, info=info)


def practise(vehicle: ToyVehicle, config: RecoveryConfig | None = None) -> tuple[Actor, RecoveryReset]:
    resets = RecoveryReset(config or RecoveryConfig(), vehicle.spec, seed=0)
    return Actor(vehicle, 0, resets=resets), resets  # type: ignore[arg-type]


def ahead(observation: object) -> ActionChoice:
    return ActionChoice(np.array([0, 1], np.float32), Source.POLICY, 0)


def drive(actor: Actor, resets: RecoveryReset, steps: int) -> list[Transition]:
    transitions = []
    for _ in range(steps):
        transitions.append(actor.take_step(ahead))
        resets.note(transitions[-1])
    return transitions


def test_no_transition_is_made_of_a_recovery_and_none_pairs_across_it():
    vehicle = ToyVehicle()
    actor, resets = practise(vehicle)
    transitions = drive(actor, resets, 25)
    ends = [index for index, transition in enumerate(transitions) if transition.terminated]
    assert ends, "it crashed"
    assert [transition.sequence for transition in transitions] == list(range(25))
    assert all(transition.executed_action[1] == 1.0 for transition in transitions), "recovery drives backwards"
    ring = ReplayRing(100, vehicle.spec)
    ring.append(transitions)
    assert len(ring) == 25
    for before, after in itertools.pairwise(transitions):
        if before.terminated:
            assert after.episode == before.episode + 1
            assert not after.follows(before)
            # It came back in between, so nothing that is stored may say that one observation led to the other.
            assert after.observation["state"][2] > before.next_observation["state"][2] + 0.2
        else:
            assert after.follows(before)
            np.testing.assert_array_equal(after.observation["state"], before.next_observation["state"])
    assert vehicle.log.count("placed") == 1
    assert resets.metrics()["practice/manual_resets"] == 0
    assert resets.metrics()["practice/crashes"] == len(ends)


def test_recovery_takes_as_long_as_configured_and_is_timed_in_robot_time():
    vehicle = ToyVehicle()
    config = RecoveryConfig(seconds=1.5, rest_seconds=0.2, throttle=0.4)
    actor, resets = practise(vehicle, config)
    drive(actor, resets, 10)
    assert resets.practice_state is PracticeState.CRASHED
    begin = len(vehicle.log)
    drive(actor, resets, 1)
    # It begins where it stands, brakes for two steps, drives back for 15, brakes for two, and begins to learn again.
    assert vehicle.log[begin] == "reset"
    driven = [entry for entry in vehicle.log[begin:] if entry != "reset"]
    assert driven[2:17] == [-0.4] * 15
    assert driven[19:] == [1.0]
    assert vehicle.log[-2:] == ["reset", 1.0]
    assert resets.practice_state is PracticeState.LEARNING
    metrics = resets.metrics()
    assert metrics["practice/recovery_seconds"] == pytest.approx(0.2 + 1.5 + 0.2)
    assert metrics["practice/learning_seconds"] == pytest.approx(1.1)
    assert metrics["practice/recovery_attempts"] == 1


def test_attempts_are_bounded_and_then_a_person_is_called_and_counted():
    vehicle = ToyVehicle()
    actor, resets = practise(vehicle, RecoveryConfig(attempts=3))
    drive(actor, resets, 10)
    vehicle.held = True
    messages: list[str] = []
    reports: list[str] = []
    resets.watch(messages.append, reports.append)
    transition = drive(actor, resets, 1)[0]
    assert vehicle.log.count("placed") == 2, "carried back, once"
    assert transition.observation["state"][2] == 2.0
    assert resets.metrics()["practice/recovery_attempts"] == 3
    assert resets.metrics()["practice/manual_resets"] == 1
    assert messages == ["CRASHED", "RECOVERY", "TELEOP", "LEARNING"]
    assert reports == ["Reset failed in 3 attempts: the robot cannot continue from its position"]


def test_a_cut_episode_goes_on_at_once():
    vehicle = ToyVehicle()
    actor, resets = practise(vehicle)
    drive(actor, resets, 3)
    actor.abandon_episode()
    drive(actor, resets, 1)
    assert vehicle.log == ["placed", 1.0, 1.0, 1.0, "reset", 1.0]
    assert resets.metrics()["practice/recoveries"] == 0


def test_a_simulator_that_puts_the_robot_elsewhere_is_found_out():
    vehicle = ToyVehicle()
    actor, resets = practise(vehicle)
    drive(actor, resets, 3)
    actor.abandon_episode()
    place = vehicle.reset
    vehicle.reset = lambda seed=None: place(7)  # type: ignore[method-assign]
    drive(actor, resets, 1)
    assert resets.metrics()["practice/manual_resets"] == 1


def test_while_a_person_drives_it_is_teleop():
    vehicle = ToyVehicle()
    actor, resets = practise(vehicle)
    first = drive(actor, resets, 1)[0]
    resets.note(dataclasses.replace(first, source=Source.HUMAN))
    assert resets.practice_state is PracticeState.TELEOP
    resets.note(first)
    assert resets.practice_state is PracticeState.LEARNING


def test_a_failure_that_is_told_for_many_steps_is_one_once_it_ends_an_episode():
    vehicle = ToyVehicle()
    actor, resets = practise(vehicle)
    first = drive(actor, resets, 1)[0]
    for _ in range(2):
        resets.note(dataclasses.replace(first, rewards={**first.rewards, "crashed": 1.0}))
    assert resets.practice_state is PracticeState.LEARNING
    resets.note(dataclasses.replace(first, rewards={**first.rewards, "crashed": 0.3}, truncated=True))
    assert resets.practice_state is PracticeState.LEARNING, "0.3 ends no episode on a robot: nothing has crashed"
    resets.note(dataclasses.replace(first, rewards={**first.rewards, "crashed": 1.0}, truncated=True))
    assert resets.practice_state is PracticeState.CRASHED


def test_what_was_saved_goes_on_alike():
    vehicle, other = ToyVehicle(), ToyVehicle()
    actor, resets = practise(vehicle)
    drive(actor, resets, 30)
    again = RecoveryReset(RecoveryConfig(), other.spec, seed=0)
    again.load(resets.state())
    assert again.metrics() == resets.metrics()
    assert again.practice_state is resets.practice_state


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"action": ArraySpec((2,), names=("x", "y"))}, "actions of task 'toy' have no element 'steering'"),
        ({"observation": {"state": ArraySpec((1,), names=("up",))}}, "have no element 'velocity_x'"),
        ({"reward_terms": ("progress",)}, "task 'toy' has no term 'crashed'"),
    ],
)
def test_what_is_no_vehicle_is_refused_by_name(change, message):
    with pytest.raises(ConfigError, match=message):
        RecoveryReset(RecoveryConfig(), dataclasses.replace(ToyVehicle.spec, **change), seed=0)


def test_wrong_values_are_refused():
    with pytest.raises(ConfigError, match=r"reset.throttle must be in \(0, 1\]"):
        RecoveryConfig(throttle=0.0)


def test_the_simulated_car_comes_free_from_any_pose_on_the_track():
    from robo_rl.sim import make_backend

    backend = make_backend("drive", autonomous=True)
    resets = RecoveryReset(RecoveryConfig(), backend.spec, seed=0)
    rng = np.random.default_rng(0)
    crash = Transition(
        observation={}, proposed_action=np.zeros(2), executed_action=np.zeros(2), next_observation={},
        rewards={"crashed": 1.0, "flipped": 0.0, "stuck": 0.0}, terminated=True, truncated=False,
        source=Source.POLICY, actor="", session=0, episode=0, sequence=0, policy_version=0, stamp_ns=0,
    )  # fmt: skip
    backend.reset(0)
    for _ in range(20):
        along, sideways, heading = rng.uniform(0, 30), rng.uniform(-0.7, 0.7), rng.uniform(-np.pi, np.pi)
        backend.task.put(along, sideways, heading)
        resets.note(crash)
        outcome = resets.run(backend)
        assert outcome.step is not None, (along, sideways, heading)
        assert outcome.attempts <= 6
        assert outcome.step.observation["object"][0] > 0, "the next checkpoint is ahead"
