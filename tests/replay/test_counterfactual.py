"""Counterfactual rows equal what stepping the machine from the other state gives."""

from pathlib import Path

import numpy as np
import pytest

from robo_rl.actor import ActionChoice, Actor
from robo_rl.core import BEFORE, MACHINE, Batch, EnvSpec, MachineBackend, Reward, RewardWeights, Source, generator
from robo_rl.replay import Counterfactual, MixedSampler, ReplayRing
from robo_rl.rewards.composition import ComposedRewardConfig

from ..rigs.stage_world import staged

GAMMA = 0.9
EDGES = RewardWeights({MACHINE: 1.0, "success": 0.5, "far": 0.1}, offset=-0.01)
SHAPED = {MACHINE: {"weight": 1.0}, "machine_progress": {"weight": 2.0, "potential": True}}


def reward_of(spec: EnvSpec, shaped: bool) -> Reward:
    return ComposedRewardConfig(terms=SHAPED).make(spec, 0) if shaped else EDGES


def filled(backend: MachineBackend, steps: int = 300) -> ReplayRing:
    """Return a buffer with episodes of a random walk."""
    ring, actor, rng = ReplayRing(500, backend.spec), Actor(backend, 0), np.random.default_rng(0)
    for _ in range(steps):
        action = rng.uniform(-1, 1, 2).astype(np.float32)
        ring.append([actor.take_step(lambda _, action=action: ActionChoice(action, Source.POLICY))])
    return ring


def stepped(backend: MachineBackend, ring: ReplayRing, slot: int, state: int, n_step: int, reward: Reward) -> Batch:
    """Return the row that begins in ``slot`` with the machine in ``state``, one step after the other, by hand."""
    machine, total, discount = backend.steps.machine, 0.0, 1.0
    ending = machine.failure | machine.success
    for step in range(n_step):
        rows = ring.rows.rows(np.array([slot]))
        x, y = rows["next_observation/state"][0].astype(float)
        signals = {"x": x, "y": y, "far": rows["term/far"][0], "task_success": rows["term/task_success"][0]}
        targets, rewards = machine.advance(
            np.array([state]), {name: np.array([float(v)]) for name, v in signals.items()}
        )
        target = int(targets[0])
        terminated = target in ending or rows["term/task_terminated"][0] > 0
        result = {name: float(rows[f"term/{name}"][0]) for name in ring.spec.reward_terms} | {
            MACHINE: float(rewards[0]),
            "success": float(target in machine.success),
            "machine_progress": 0.0 if terminated else float(machine.progress[target]),
            "machine_progress" + BEFORE: float(machine.progress[state]),
        }
        values = np.array([[result[name] for name in ring.terms]], np.float32)
        total += GAMMA**step * float(reward.combine(ring.terms, values, GAMMA)[0])
        discount, state = 0.0 if terminated else discount * GAMMA, target
        following, continues = ring.rows.following(np.array([slot]))
        if terminated or not continues[0]:
            break
        slot = int(following[0])
    return {"reward": np.float32(total), "discount": np.float32(discount), "next": np.intp(state)}  # type: ignore[dict-item]


@pytest.mark.parametrize("n_step", [1, 4])
@pytest.mark.parametrize("shaped", [False, True])
def test_every_row_equals_a_step_of_the_machine_from_its_state(tmp_path: Path, n_step: int, shaped: bool) -> None:
    backend = staged(tmp_path)
    ring, reward = filled(backend), reward_of(backend.spec, shaped)
    slots = np.sort(ring.rows.available.members)
    options = {"gamma": GAMMA, "n_step": n_step, "reward": reward}
    out = ring.rows.gather(slots, **options)
    own = {name: array.copy() for name, array in out.items()}
    Counterfactual(backend.steps, 1.0).apply(ring, slots, out, **options, rng=generator(0, "rows"))
    states = out[f"observation/{MACHINE}"].argmax(-1)
    assert set(states.tolist()) == {0, 1, 2}, "all states in which an episode goes on"
    for row, slot in enumerate(slots.tolist()):
        expected = stepped(backend, ring, slot, int(states[row]), n_step, reward)
        assert out["reward"][row] == pytest.approx(expected["reward"], abs=1e-5)
        assert out["discount"][row] == pytest.approx(expected["discount"], abs=1e-6)
        assert out[f"next_observation/{MACHINE}"][row].argmax() == expected["next"]
    unchanged = states == own[f"observation/{MACHINE}"].argmax(-1)
    assert 0.2 < unchanged.mean() < 0.8
    for name, array in out.items():
        np.testing.assert_array_equal(array[unchanged], own[name][unchanged], err_msg=name)
        if MACHINE not in name and name not in ("reward", "discount"):
            np.testing.assert_array_equal(array, own[name])


def test_rows_equal_the_same_steps_of_a_backend_whose_machine_is_in_the_other_state(tmp_path: Path) -> None:
    backend = staged(tmp_path)
    ring, other = filled(backend), staged(tmp_path)
    slots = np.sort(ring.rows.available.members)
    options = {"gamma": GAMMA, "n_step": 1, "reward": EDGES}
    out = ring.rows.gather(slots, **options)
    Counterfactual(backend.steps, 1.0).apply(ring, slots, out, **options, rng=generator(1, "rows"))
    for row in range(len(slots)):
        other.reset(seed=0)
        other.inner.place = out["observation/state"][row].astype(float)  # type: ignore[attr-defined]
        other._state = out[f"observation/{MACHINE}"][row : row + 1].argmax(-1)
        step = other.step(out["action"][row])
        assert out["reward"][row] == pytest.approx(EDGES.value(step.rewards), abs=1e-5)
        assert out["discount"][row] == pytest.approx(0 if step.terminated else GAMMA)
        np.testing.assert_array_equal(out[f"next_observation/{MACHINE}"][row], step.observation[MACHINE])


def test_a_share_of_the_online_rows_is_changed_and_none_of_them_is_imitated(tmp_path: Path) -> None:
    backend = staged(tmp_path)
    ring = filled(backend)

    def batches(share: float) -> Batch:
        changing = Counterfactual(backend.steps, share) if share else None
        options = {"imitate_online": True, "counterfactual": changing}
        return MixedSampler(ring, ring, 0.25, GAMMA, 2, EDGES, generator(3, "sampler"), **options).sample(400, 40)

    plain, changed = batches(0.0), batches(0.5)
    for name, array in changed.items():
        rows, own = (each.reshape(10, 40, *each.shape[1:])[0] for each in (array, plain[name]))
        np.testing.assert_array_equal(rows[:25], own[:25], err_msg=f"{name}: demonstrations, then half of the others")
    of_state = changed[f"observation/{MACHINE}"].reshape(10, 40, -1)
    assert (np.bincount(of_state[:, 25:].argmax(-1).ravel(), minlength=5)[:3] > 30).all()
    assert not changed["online_example"].reshape(10, 40)[:, 25:].any()
    np.testing.assert_array_equal(batches(0.5)["reward"], changed["reward"], err_msg="the seed decides")
