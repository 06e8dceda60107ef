"""Evaluations of copies of a policy in a thread, and what a run with actors apart makes of them."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from robo_rl.app import RunConfig
from robo_rl.core import RewardWeights, SafetyStop, State, Step, derive_seed
from robo_rl.evaluation.hacking import RewardWatch
from robo_rl.learner import Checkpoint, CheckpointFolder
from robo_rl.training.arrivals import StoredSteps
from robo_rl.training.evaluations import BackgroundEvaluations, Evaluations
from robo_rl.training.schedule import BackgroundSchedule

from ..evaluation.test_rollout import Line

EPISODES, LIMIT = 8, 6
PATIENCE_SECONDS = 30.0


class World(Line):
    """The line of the other tests, which stands still from the second step of an episode on until it may go on."""

    def __init__(self) -> None:
        super().__init__(limit=LIMIT)
        self.may_go_on = threading.Event()
        self.stops: list[SafetyStop] = []

    def step(self, action: NDArray[np.float32]) -> Step:
        assert self.may_go_on.wait(PATIENCE_SECONDS)
        if self.stops:
            raise self.stops.pop()
        step: Step = super().step(action)
        return step


class Agent:
    """Moves right by as much as it was told last."""

    def __init__(self, action: float = 0.0) -> None:
        self.action = np.array([action], np.float32)

    def act(self, observation: Any, *, explore: bool) -> NDArray[np.float32]:
        return self.action.copy()

    def forget_plan(self, *, explore: bool) -> None:
        pass

    def policy_state(self) -> State:
        return {"action": self.action.copy()}

    state = policy_state

    def load_policy(self, state: State) -> None:
        self.action[:] = state["action"]

    load = load_policy


class Rig:
    """A run around evaluations: its world, its agent, and what it logged at which second."""

    def __init__(self, wanted: float | None = None) -> None:
        self.world, self.agent, self.clock = World(), Agent(), 0.0
        self.logged: list[tuple[str, int, dict[str, Any]]] = []
        self.logger: Any = SimpleNamespace(
            log=lambda kind, step, **values: self.logged.append((kind, step, values)), message=lambda text: None
        )
        self.settings = RunConfig(
            dir="none", evaluation_episodes=EPISODES, stop_at_success_rate=wanted, evaluation_interval=10
        )
        self.parts: Any = SimpleNamespace(
            reward=RewardWeights(), agent=self.agent, evaluation_backend=lambda: self.world
        )
        self.interruption: Any = SimpleNamespace(signal=None)

    def at(self, seconds: float) -> None:
        self.logger.wall_seconds = seconds

    @cached_property
    def evaluations(self) -> Evaluations:
        return Evaluations(self.settings, self.parts, self.logger, self.interruption)

    @contextlib.contextmanager
    def background(self) -> Iterator[BackgroundEvaluations]:
        evaluations = BackgroundEvaluations(self.evaluations, self.settings, self.logger, cast(Any, Agent))
        try:
            yield evaluations
        finally:
            self.world.may_go_on.set()
            evaluations.close()


def solved(action: float, seed: int) -> float:
    """Return the share of episodes that moves of 0.1 ``action`` bring beyond 1 in time, by their start states alone."""
    starts = [np.random.default_rng(derive_seed(seed, "evaluation", index)).random() for index in range(EPISODES)]
    return sum(start + LIMIT * 0.1 * action > 1 for start in starts) / EPISODES


def wait_until_done(evaluations: BackgroundEvaluations) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not evaluations.is_done():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_what_was_handed_over_is_evaluated_whatever_is_learned_meanwhile() -> None:
    """It is what an evaluation at once comes to, told of the step and second of its beginning."""
    at_once, apart = Rig(), Rig()
    rate = solved(0.8, seed=3)
    assert 0 < rate < 1
    at_once.world.may_go_on.set()
    at_once.at(5.0)
    at_once.agent.action[:] = 0.8
    at_once.evaluations(20, 7, 3, EPISODES)
    with apart.background() as evaluations:
        apart.at(5.0)
        evaluations.begin(20, 7, 3, {"action": np.array([0.8], np.float32)})
        apart.at(9.0)
        apart.agent.action[:] = 0.0
        assert not evaluations.is_done() and not apart.logged
        with pytest.raises(RuntimeError, match="an evaluation is running"):
            evaluations.begin(30, 9, 3, apart.agent.policy_state())
        apart.world.may_go_on.set()
        wait_until_done(evaluations)
        assert evaluations.finish() is False
        assert not evaluations.is_done()
        assert apart.evaluations.score(7) == rate and apart.evaluations.score(8) is None
    assert apart.logged == at_once.logged
    ((kind, step, values),) = apart.logged
    assert (kind, step, values["wall_seconds"], values["success_rate"]) == ("evaluation", 20, 5.0, rate)


def test_the_return_of_a_task_without_success_is_no_score_where_modules_make_the_reward() -> None:
    rig = Rig()
    rig.world.reports_success = False
    rig.world.may_go_on.set()
    rig.at(5.0)
    result = rig.evaluations(20, 7, 3, EPISODES)
    assert rig.evaluations.score(7) == result.return_mean
    del rig.evaluations
    rig.evaluations.watch = RewardWatch()
    rig.evaluations(20, 7, 3, EPISODES)
    assert rig.evaluations.score(7) is None


def test_one_that_is_cancelled_ends_with_its_episode_and_another_may_begin() -> None:
    rig = Rig(wanted=0.9)
    rig.at(0.0)
    with rig.background() as evaluations:
        evaluations.cancel()  # there is none
        evaluations.begin(20, 7, 3, {"action": np.ones(1, np.float32)})
        threading.Timer(0.05, rig.world.may_go_on.set).start()
        evaluations.cancel()
        assert len(rig.world.seeds) == 1 and not evaluations.is_done() and not rig.logged
        evaluations.begin(30, 9, 3, {"action": np.full(1, 10, np.float32)})
        wait_until_done(evaluations)
        assert evaluations.finish() is True, "all episodes are solved"
        assert rig.evaluations.steps_to_95 == 30


def test_a_stop_comes_to_the_learner_and_that_of_a_person_is_waited_for() -> None:
    rig = Rig()
    rig.at(0.0)
    rig.world.may_go_on.set()
    person = SafetyStop("emergency_stop", "pressed")
    with rig.background() as evaluations:
        rig.world.stops = [person, person]
        evaluations.begin(20, 7, 3, {"action": np.ones(1, np.float32)})
        wait_until_done(evaluations)
        evaluations.finish()
        assert len(rig.world.seeds) == EPISODES + 2, "it began anew, twice"
        rig.world.stops = [person] * 1000
        evaluations.begin(30, 9, 3, {"action": np.ones(1, np.float32)})
        evaluations.cancel()
        rig.world.stops = []
        rig.interruption.signal = 2
        rig.world.stops = [person]
        evaluations.begin(40, 9, 3, {"action": np.ones(1, np.float32)})
        wait_until_done(evaluations)
        with pytest.raises(SafetyStop, match="pressed"):
            evaluations.finish()


class Run:
    """A run without actors, at a step of one's choice, with checkpoints on the disk."""

    def __init__(self, folder: Path, rig: Rig, background: BackgroundEvaluations) -> None:
        self.agent, self.settings, self.interruption = rig.agent, rig.settings, rig.interruption
        self.rig, self.evaluations = rig, rig.evaluations
        self.config = SimpleNamespace(seed=3)
        self.experience = SimpleNamespace(scorer=None)
        self.learner = SimpleNamespace(updates=0)
        self.checkpoints = CheckpointFolder(folder)
        self.step = self.policy_version = self.held = self.found = 0
        self.reached = False
        stored: Any = SimpleNamespace(totals=lambda: SimpleNamespace(stored=self.found))
        pace: Any = SimpleNamespace(learned=0.0)
        self.pace, self.stored = pace, StoredSteps(cast(Any, self), stored, pace)
        self.schedule = BackgroundSchedule(cast(Any, self), background, pace, self.stored.evaluated, cast(Any, self))

    def hold(self, env_steps: int) -> None:
        assert env_steps == self.step
        self.held += 1

    def report(self, state: str) -> None:
        assert state == "evaluating"

    def attempt(self, write: Callable[[], None]) -> None:
        write()

    def save(self) -> None:
        facts: dict[str, Any] = {"reached": self.reached}
        self.stored.save({}, facts)
        facts |= self.evaluations.state(self.learner.updates)
        self.checkpoints.save(Checkpoint(self.step, {"agent": self.rig.agent.state()}, facts))

    def learn(self, step: int, action: float) -> bool:
        """Have learned from ``step`` steps to move by ``action``; return whether the run is to end."""
        self.step = self.learner.updates = step
        self.pace.learned = float(step)
        self.rig.at(float(step))
        self.rig.agent.action[:] = action
        return self.schedule.evaluate_or_save()

    def facts(self) -> dict[int, tuple[float | None, float, bool]]:
        """Return score, steps learned from at the last evaluation, and whether that was the end, by checkpoint."""
        manifests = [json.loads((folder / "manifest.json").read_text()) for folder in self.checkpoints.folders()]
        return {
            each["step"]: (each["facts"]["score"], each["facts"]["learned_evaluation"], each["facts"]["reached"])
            for each in manifests
        }


def test_a_checkpoint_has_its_score_when_the_evaluation_ends_and_the_next_waits_for_that(tmp_path: Path) -> None:
    rig = Rig()
    with rig.background() as evaluations:
        run = Run(tmp_path, rig, evaluations)
        assert not run.learn(9, 0.8)
        assert run.facts() == {}
        assert not run.learn(10, 0.8)
        for step in range(11, 20):
            assert not run.learn(step, 0.0), "it learns meanwhile"
        assert run.facts() == {10: (None, 0.0, False)} and not rig.logged and not run.held
        threading.Timer(0.05, rig.world.may_go_on.set).start()
        assert not run.learn(20, 0.0)
        assert run.held == 1
        rate = solved(0.8, seed=3)
        assert run.facts() == {10: (rate, 10.0, False), 20: (None, 10.0, False)}
        wait_until_done(evaluations)
        assert not run.learn(21, 0.0)
        assert run.facts()[20] == (0.0, 20.0, False)
        assert [step for _, step, _ in rig.logged] == [10, 20]
        best = run.checkpoints.best()
        assert best is not None and best.name == "step_000000010"


@pytest.mark.parametrize(("stored", "anew", "kept"), [(27, False, [10, 27]), (25, True, [10, 25])])
def test_a_run_that_goes_on_from_before_its_last_evaluation_makes_it_anew(
    tmp_path: Path, stored: int, anew: bool, kept: list[int]
) -> None:
    """Steps of open episodes were with actors that are gone, and the log ends before that evaluation."""
    rig = Rig()
    rig.world.may_go_on.set()
    with rig.background() as evaluations:
        run = Run(tmp_path, rig, evaluations)
        for step in (10, 27):
            run.learn(step, 0.8)
            wait_until_done(evaluations)
            run.learn(step, 0.8)
        run.found = stored
        run.stored.load(run.checkpoints.load_newest())
        assert run.step == stored
        run.learn(run.step, 0.8)
        assert run.schedule.is_evaluating == anew
        assert sorted(run.facts()) == kept


def test_a_run_ends_with_what_was_found_good_enough(tmp_path: Path) -> None:
    rig = Rig(wanted=0.9)
    with rig.background() as evaluations:
        run = Run(tmp_path, rig, evaluations)
        assert not run.learn(10, 10.0)
        rig.world.may_go_on.set()
        wait_until_done(evaluations)
        assert run.learn(15, 0.0)
        assert run.facts() == {10: (1.0, 10.0, True)}
        assert rig.agent.action == 10.0 and run.learner.updates == 10 and run.step == 15


@pytest.mark.parametrize("interrupted", [False, True])
def test_the_end_of_a_run_waits_for_an_evaluation_unless_it_is_interrupted(tmp_path: Path, interrupted: bool) -> None:
    rig = Rig(wanted=0.9)
    with rig.background() as evaluations:
        run = Run(tmp_path, rig, evaluations)
        run.learn(10, 10.0)
        if interrupted:
            rig.interruption.signal = 2
        else:
            threading.Timer(0.05, rig.world.may_go_on.set).start()
        assert run.schedule.finish("completed") == ("interrupted" if interrupted else "reached")
        assert run.facts() == {10: (None, 0.0, False) if interrupted else (1.0, 10.0, True)}


def test_people_write_no_checkpoint_over_one_that_is_to_have_its_score(tmp_path: Path) -> None:
    rig = Rig()
    with rig.background() as evaluations:
        run = Run(tmp_path, rig, evaluations)
        run.learn(10, 0.8)
        rig.agent.action[:] = 0.5
        run.schedule.save()
        assert run.checkpoints.load_newest().parts["agent"]["action"] == np.float32(0.8)
        run.learn(11, 0.5)
        run.schedule.save()
        assert sorted(run.facts()) == [10, 11]
