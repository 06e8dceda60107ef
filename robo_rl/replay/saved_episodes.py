"""Episodes in a saved replay buffer, which is part of a run's checkpoint."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from robo_rl.core import CheckpointError, EnvSpec, Source, State, Transition, parse_json, reading, whole_number

from .encoding import decode_success
from .ring import ReplayRing

ACTOR = "replay"
"""Actor of transitions for which the buffer has stored no actor."""
_ADVICE = "use another checkpoint"


class SavedEpisodes:
    """Episodes in the state of a :class:`.ReplayRing`, without those that were not yet available for sampling.

    An episode whose beginning the buffer has overwritten begins later. Copies with other goals (hindsight) count as
    separate episodes.

    Args:
        state: state of the buffer, from any source.
        spec: spec of the environment that the buffer was filled in.

    Attributes:
        spec: ``spec`` with the names of all reward terms that the buffer holds, computed ones included.

    Raises:
        CheckpointError: if the state is not that of a buffer for ``spec``.
    """

    def __init__(self, state: State, spec: EnvSpec) -> None:
        with reading("replay", CheckpointError, _ADVICE):
            facts = parse_json(state["facts"].tobytes(), "replay", finite=False)
            capacity = whole_number(facts["capacity"], 2)
            terms = tuple(map(str, facts["reward_terms"]))
        self.spec = dataclasses.replace(spec, reward_terms=terms)
        versions = "terms_version"  # only held by buffers with computed terms
        self._arrays = {name: array for name, array in state.items() if name != versions}
        self._ring = ReplayRing(capacity, self.spec)
        self._ring.load(self._arrays)
        self._slots = np.sort(self._ring.rows.available.members)

    def __len__(self) -> int:
        """Return the number of transitions."""
        return len(self._slots)

    def __iter__(self) -> Iterator[list[Transition]]:
        """Yield the transitions of one episode after another."""
        following = self._arrays["next"]
        remaining = set(self._slots.tolist())
        beginnings = np.setdiff1d(self._slots, following.take(self._slots))
        for number, slot in enumerate(beginnings.tolist()):
            chain = []
            while slot in remaining:
                remaining.remove(slot)
                chain.append(slot)
                slot = int(following[slot])
            yield self._episode(number, [*chain, slot])

    def _episode(self, number: int, slots: list[int]) -> list[Transition]:
        """Return the transitions that begin in all ``slots`` but the last, which holds the final observation."""
        arrays = self._arrays
        observations = [{key: arrays[f"observation/{key}"][slot] for key in self.spec.observation} for slot in slots]
        with reading("replay", CheckpointError, _ADVICE):
            return [
                Transition(
                    observation=observations[step],
                    proposed_action=arrays["proposed_action"][slot],
                    executed_action=arrays["action"][slot],
                    rewards=dict(zip(self.spec.reward_terms, arrays["terms"][slot].tolist(), strict=True)),
                    next_observation=observations[step + 1],
                    terminated=bool(arrays["terminated"][slot]),
                    truncated=bool(arrays["truncated"][slot]),
                    source=Source(int(arrays["source"][slot])),
                    actor=ACTOR,
                    session=0,
                    episode=number,
                    sequence=step,
                    policy_version=int(arrays["policy_version"][slot]),
                    stamp_ns=0,
                    success=decode_success(int(arrays["success"][slot])),
                )
                for step, slot in enumerate(slots[:-1])
            ]
