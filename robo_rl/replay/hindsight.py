"""Hindsight experience replay: copies of episodes with a goal that they achieved."""

from collections.abc import Callable

import numpy as np

from robo_rl.core import (
    Batch,
    CheckpointError,
    Source,
    State,
    Transition,
    generator,
    reading,
    saved_counts,
    whole_number,
)

from .ring import ReplayRing

ACTOR = "hindsight"
"""Actor of the copies."""


class Hindsight:
    """Adds copies of each episode to a replay buffer, as if another goal had been given (Andrychowicz et al. 2017).

    The goal of a copy is the result that the episode had achieved after a step that is drawn uniformly, and the copy
    ends with that step. The goals of a step therefore lie in its future (the strategy ``future``), and a copy is one
    segment, so that n-step returns and action chunks remain exact.

    Args:
        ring: replay buffer of the run.
        relabel: changes the goal of steps; see :class:`~robo_rl.core.GoalTask`.
        copies: number of copies of each episode.
        seed: seed of the run.
    """

    def __init__(self, ring: ReplayRing, relabel: Callable[[Batch], Batch], copies: int, seed: int) -> None:
        self._ring, self._relabel, self._copies, self._seed = ring, relabel, copies, seed
        self._open: dict[str, list[int]] = {}
        self._episodes = 0

    def add(self, transition: Transition) -> None:
        """Record a step that was just appended to the buffer, and copy its episode if it is the last."""
        slots, newest = self._open.setdefault(transition.actor, []), self._ring.newest
        if slots and not self._ring.rows.follows(slots[-1], newest):
            slots.clear()  # discards the steps before a gap
        if newest in slots:  # the episode is longer than the buffer, and its first steps are overwritten
            del slots[: slots.index(newest) + 1]
        slots.append(newest)
        if transition.terminated or transition.truncated:
            self.end(transition.actor)

    def end(self, actor: str | None = None) -> None:
        """Copy the open episode of ``actor`` (None: of all actors), which ends with the last recorded step."""
        for name in list(self._open) if actor is None else [actor]:
            slots = self._open.pop(name, [])
            # Later steps may have overwritten some of these slots, which then hold nothing or steps of another episode.
            is_whole = all(map(self._ring.rows.follows, slots, slots[1:]))
            if slots and is_whole and self._ring.rows.available.contains(np.array(slots, np.intp)).all():
                self._copy(self._ring.rows.rows(np.array(slots, np.intp)))

    def _copy(self, rows: Batch) -> None:
        rng = generator(self._seed, ACTOR, self._episodes)
        for length in rng.integers(1, len(rows["action"]), self._copies, endpoint=True):
            relabelled = self._relabel({name: array[:length] for name, array in rows.items()})
            self._ring.append(self._transitions(relabelled))
            self._episodes += 1

    def _transitions(self, rows: Batch) -> list[Transition]:
        """Return rows of one segment as transitions; the last one is marked as the end of an episode."""
        keys, count = self._ring.spec.observation, len(rows["action"])
        observations = [{key: rows[f"observation/{key}"][number] for key in keys} for number in range(count)]
        observations.append({key: rows[f"next_observation/{key}"][-1] for key in keys})
        return [
            Transition(
                observation=observations[number],
                proposed_action=rows["action"][number],
                executed_action=rows["action"][number],
                rewards={name: float(rows[f"term/{name}"][number]) for name in self._ring.spec.reward_terms},
                next_observation=observations[number + 1],
                terminated=bool(rows["terminated"][number]),
                truncated=number == count - 1 and not rows["terminated"][number],
                source=Source.POLICY,
                actor=ACTOR,
                session=0,
                episode=self._episodes,
                sequence=number,
                policy_version=-1,
                stamp_ns=0,
            )
            for number in range(count)
        ]

    def state(self) -> State:
        """Return everything that is needed to continue exactly, beside the state of the replay buffer."""
        slots = {f"open/{actor}": np.array(slots, np.intp) for actor, slots in self._open.items()}
        return {"episodes": np.array(self._episodes), **slots}

    def load(self, state: State) -> None:
        """Restore ``state``; the replay buffer must have been loaded before.

        Raises:
            CheckpointError: if it is not a state for this buffer.
        """
        prefix = "open/"
        with reading("hindsight", CheckpointError, "use another checkpoint"):
            (self._episodes,) = saved_counts(state["episodes"], 1)
            self._open = {
                name.removeprefix(prefix): [
                    whole_number(slot, 0, self._ring.capacity - 1) for slot in saved_counts(slots, slots.size)
                ]
                for name, slots in state.items()
                if name.startswith(prefix)
            }
            for actor, slots in self._open.items():
                if len(set(slots)) != len(slots):
                    raise ValueError(f"the open episode of {actor!r} has a slot twice")
