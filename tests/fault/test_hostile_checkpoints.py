"""Checkpoints whose hashes are right and whose content is not: refused when they are loaded, not used."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robo_rl.actor import Actor
from robo_rl.core import CheckpointError, DataError, Source, Step, Verdict, parse_json, reading
from robo_rl.evaluation.hacking import RewardWatch
from robo_rl.learner import Checkpoint, CheckpointFolder
from robo_rl.replay import MixedSampler, ReplayRing
from robo_rl.training.earnings import Earnings
from robo_rl.training.rollback import Rollbacks
from robo_rl.training.safety_record import SafetyRecord

from ..rigs.deployed import make_agent
from ..rigs.replay_episodes import SPEC, make_episode
from .test_wrong_types import check


def test_an_agent_that_is_not_finite_or_has_an_impossible_plan() -> None:
    agent = make_agent("sac", action_chunk=4)
    state, policy = agent.state(), agent.policy_state()
    agent.load(state)
    name = next(name for name in policy if name.endswith("weight"))
    for value in (np.nan, np.inf):
        damaged = np.full_like(policy[name], value)
        with pytest.raises(CheckpointError, match=f"the policy: '{name}' is not finite"):
            agent.load_policy(policy | {name: damaged})
        with pytest.raises(CheckpointError, match=f"the agent: '{name}' is not finite"):
            agent.load(state | {name: damaged})
    for left in (-1, 99, np.iinfo(np.int64).max):
        with pytest.raises(CheckpointError, match=f"{left} remaining actions"):
            agent.load(state | {"plan/left": np.array([left])})


def test_the_newest_checkpoint_has_a_finite_agent(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.save(Checkpoint(5, {"agent": {"a": np.zeros(3)}}, {}))
    folder.save(Checkpoint(6, {"agent": {"a": np.array([0.0, np.nan])}}, {}))
    assert folder.load_newest().step == 5
    folder.save(Checkpoint(4, {"agent": {"a": np.array([np.inf])}}, {}))  # deletes the later ones
    with pytest.raises(CheckpointError, match="'a' of its agent is not finite"):
        folder.load_newest()


def test_a_random_generator_that_returns_one_number_for_ever() -> None:
    """With an even increment and state 0 every draw is 0, and a draw below a bound is repeated without end."""
    sampler = MixedSampler.__new__(MixedSampler)
    sampler._rng = np.random.default_rng(0)
    sampler.load(saved := sampler.state())
    with pytest.raises(CheckpointError, match="its increment is even"):
        sampler.load({"generator": saved["generator"] * np.uint64(0)})


def test_an_interrupted_episode_that_has_more_actions_than_its_time_limit() -> None:
    actor = Actor(Limited(), seed=1)
    state = {"counters": np.array([0, 5, 1]), "actions": np.zeros((50, 1), np.float32)}
    with pytest.raises(CheckpointError, match="ended after 3 of its 50 actions"):
        actor.load(state)


class Limited:
    """An environment whose episodes end after three steps."""

    def reset(self, seed: int | None = None) -> Step:
        self.count = 0
        return Step({"state": np.zeros(1, np.float32)}, {}, False, False, 0)

    def step(self, action: Any) -> Step:
        self.count += 1
        return Step({"state": np.zeros(1, np.float32)}, {}, False, self.count == 3, 0)


def _saved_ring(**changes: Any) -> dict[str, Any]:
    ring = ReplayRing(20, SPEC)
    for number in range(3):
        ring.append(make_episode(number, 4, end="" if number == 2 else "terminated"))
    state = {name: array.copy() for name, array in ring.state().items()}
    facts = json.loads(state["facts"].tobytes())
    for name, value in changes.items():
        if name in facts:
            facts[name] = value
        else:
            state[name] = value(state[name].copy())
    return state | {"facts": np.frombuffer(json.dumps(facts).encode(), np.uint8)}


def _with_value(place: int, value: float) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array[place] = value
        return array

    return change


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        *(({name: lambda array: array[:-2]}, "equal length") for name in ("action", "terminated", "next", "order")),
        ({"observation/state": lambda array: array[:0]}, "equal length"),
        ({"observation/state": _with_value(3, np.nan)}, "'observation/state' holds values that are not finite"),
        ({"action": _with_value(3, np.inf)}, "'action' holds values that are not finite"),
        ({"terms": _with_value(3, np.nan)}, "'terms' holds values that are not finite"),
        ({"source": _with_value(3, 200)}, "unknown sources"),
        ({"success": _with_value(3, 7)}, "unknown values"),
        ({"next": _with_value(3, -1)}, "links slots beyond"),
        ({"next": _with_value(3, 18)}, "links slots beyond"),
        ({"next": _with_value(3, 1)}, "to an older one"),
        ({"next": _with_value(3, 3)}, "to an older one"),
        ({"next": _with_value(2, 4)}, "two slots to the same one"),
        ({"order": _with_value(0, 19)}, "names slots beyond"),
        ({"order": _with_value(0, -1)}, "names slots beyond"),
        ({"order": _with_value(0, 1)}, "names a slot twice"),
        ({"cursor": 20}, "expected a whole number"),
        ({"cursor": 3}, "is the next one"),
        ({"held": [25]}, "names slots beyond"),
        ({"held": [-1]}, "expected a whole number"),
        ({"held": [1]}, "names a slot twice"),
        ({"tails": {"robot": [3, 2, 2003, 25]}}, "names slots beyond"),
        ({"tails": {"robot": [3, 2, 2003, 1]}}, "names a slot twice"),
    ],
)
def test_what_a_replay_saved_is_whole_or_refused(changes: dict[str, Any], reason: str) -> None:
    """Links in a circle would be followed for ever, and rows that are missing would be zeros."""
    ReplayRing(20, SPEC).load(_saved_ring())
    with pytest.raises(CheckpointError, match=reason):
        ReplayRing(20, SPEC).load(_saved_ring(**changes))


def test_the_counts_in_a_checkpoint() -> None:
    """Each is used after it was loaded: a value of a wrong type would fail in the middle of the run that goes on."""
    mean = {"value": 0.5, "error": 0.1}
    interval = {"step": 3, "reward": mean, "success": 0.5, "held_out": {"a": mean}}
    episode = {"number": 3, "reward": 0.5, "success": True, "held_out": {"a": 0.5}}
    document = {
        "safety": {"changed_steps": 1, "stopped_episodes": 1, "reasons": {"workspace": 2}},
        "rollbacks": {"in_a_row": 1, "step": 5},
        "earnings": {
            "episode_return": 0.5,
            "episode_discounted": 0.5,
            "episode_terms": dict.fromkeys(SPEC.reward_terms, 0.5),
            "episode_interventions": [1, 1, True],
        },
        "watch": {"episodes": [episode] * 2, "intervals": [interval] * 4},
    }

    def read(text: str) -> None:
        with reading("it"):
            values = parse_json(text, "it", finite=False)
            safety, earnings, watch = SafetyRecord(values["safety"]), Earnings(Sums(), SPEC.reward_terms), RewardWatch()
            Rollbacks.load(rollbacks := Rollbacks.__new__(Rollbacks), values["rollbacks"])
            earnings.load(values["earnings"])
            watch.load(values["watch"])
        safety.count(Verdict(changed=True, reasons=("workspace",)))
        assert rollbacks.in_a_row + rollbacks._step >= 0
        earnings.add(np.ones((2, len(SPEC.reward_terms)), np.float32), 0.9)
        earnings.count(Source.HUMAN)
        watch.evaluated(9, 0.1)
        json.dumps([safety.state(), earnings.state(), watch.state()], allow_nan=False)

    assert check(document, read, (DataError,)) >= 300


class Sums:
    """A reward that adds up its terms."""

    scorer = None

    def combine(self, names: Any, values: Any, gamma: float) -> Any:
        return values.sum(1)
