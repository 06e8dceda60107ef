"""A comparison of policies: its plan, its episodes, and the results computed from them."""

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import (
    DataError,
    counted,
    derive_seed,
    generator,
    parse_json,
    plain_text,
    read_bytes,
    reading,
    require,
    write_durably,
)
from .cycle_time import CycleTime
from .sequential import Decision, SequentialTest, evidence
from .statistics import Interval, Proportion, bootstrap_interval

FORMAT = "robo-rl comparison 1"
FILE_BYTES = 64 << 20
"""Largest file of a comparison that is read."""
MOST_POLICIES = 10
LABEL_CHARACTERS = 300
"""Longest name of a policy, or note, in results."""


@dataclass(frozen=True)
class ComparedPolicy:
    """A policy of a comparison.

    Attributes:
        name: the policy as it was given on the command line.
        step: environment steps after which it was saved; 0 if unknown.
        fingerprint: text that changes with the policy.
    """

    name: str
    step: int
    fingerprint: str = ""

    @property
    def label(self) -> str:
        """The name as one line without control characters, because the file is not trusted."""
        return plain_text(self.name, LABEL_CHARACTERS) or "unnamed"


@dataclass(frozen=True)
class ComparisonPlan:
    """What is fixed before the first episode of a comparison.

    Attributes:
        task: name of the task.
        environment: run folder that defines environment and safety filters.
        control_rate: control steps per second [Hz].
        policies: policies in the order of the command line.
        pairs: largest number of start states; each policy acts once from each of them.
        error: largest probability that two equally good policies are declared different, over all pairs of policies.
        seed: seed of the start states.
        success: ``task`` or ``person``, whose judgement counts.
        changes: options of the task that differ from those of the environment's run.
        secret: seed of the order in which policies act.
    """

    task: str
    environment: str
    control_rate: float
    policies: tuple[ComparedPolicy, ...]
    pairs: int
    error: float
    seed: int
    success: str
    changes: Mapping[str, Any]
    secret: int

    def __post_init__(self) -> None:
        given = [each.name for each in self.policies]
        count = f"2 to {MOST_POLICIES} policies, as [runs/a,runs/b]"
        require(2 <= len(given) <= MOST_POLICIES, "policies", count, given)
        require(self.success in ("task", "person"), "success", "task or person", self.success)
        require(self.control_rate > 0, "control_rate", "above 0", self.control_rate)
        few = (
            f"enough to decide with an error of {self.test.error:.3g}, even if one policy alone succeeds every time: at"
        )
        fewest = math.ceil(math.log2(2 / self.test.error))
        require(self.pairs >= fewest, "pairs", f"{few} least {fewest}", self.pairs)

    @cached_property
    def test(self) -> SequentialTest:
        """The test of each two policies; several share the error (Bonferroni)."""
        return SequentialTest(self.pairs, self.error / (len(self.policies) * (len(self.policies) - 1) // 2))

    def order(self, start: int) -> list[int]:
        """Return the places of the policies in the order in which they act from a start state."""
        return [int(place) for place in generator(self.secret, "order", start).permutation(len(self.policies))]

    def start_seed(self, start: int) -> int:
        """Return the seed of a start state, from which each policy acts once."""
        return derive_seed(self.seed, "comparison", start)

    def describe(self, difference: float) -> str:
        """Return what the comparison can find out, for two success rates around 50 % with this difference."""
        high, low = 0.5 + difference / 2, 0.5 - difference / 2
        power = self.test.power(high, low)
        return (
            f"{self.task}: {len(self.policies)} policies, at most {self.pairs} episodes each. The probability that "
            f"equally good ones are declared different is at most {100 * self.error:.3g} %. Success of "
            f"{100 * high:.0f} % is distinguished from {100 * low:.0f} % with a probability of "
            f"{100 * power.first:.0f} %, after {power.pairs:.0f} pairs on average"
        )

    def differences(self, other: "ComparisonPlan") -> list[str]:
        """Return the names of the fields, except the secret, in which another plan differs."""
        names = [field.name for field in dataclasses.fields(self) if field.name != "secret"]
        return [name for name in names if getattr(self, name) != getattr(other, name)]

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> "ComparisonPlan":
        policies = tuple(
            ComparedPolicy(str(each["name"]), int(each["step"]), str(each.get("fingerprint", "")))
            for each in value["policies"]
        )
        kinds = {"task": str, "environment": str, "control_rate": float, "pairs": int, "error": float, "seed": int,
                 "success": str, "secret": int}  # fmt: skip
        values = {name: kind(value[name]) for name, kind in kinds.items()}
        return cls(policies=policies, changes=dict(value["changes"]), **values)


@dataclass(frozen=True)
class ComparedEpisode:
    """An episode of a comparison.

    Attributes:
        start: number of the start state, from 0.
        policy: place of the policy in the plan.
        success: whether the task was solved, without help.
        steps: control steps until success or, if it failed, until the end.
        end: ``success``, or the category of the failure: ``time limit``, ``task ended``, ``marked as failed``,
            ``intervention`` or ``robot stopped``.
        note: details of the failure, such as the reason of a stop.
        interventions: number of times that a person took over.
        person: judgement of a person; None if nobody was asked.
        task: judgement of the task; None if it has none.
        clip: path of the video of a failure, relative to the folder of the result; None if there is none.
    """

    start: int
    policy: int
    success: bool
    steps: int
    end: str
    note: str = ""
    interventions: int = 0
    person: bool | None = None
    task: bool | None = None
    clip: str | None = None

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> "ComparedEpisode":
        judgements = {
            name: None if value[name] is None else bool(value[name]) for name in ("person", "task", "success")
        }
        clip = None if value["clip"] is None else str(value["clip"])
        numbers = {name: int(value[name]) for name in ("start", "policy", "steps", "interventions")}
        texts = {name: str(value[name]) for name in ("end", "note")}
        return cls(**judgements, **numbers, **texts, clip=clip)  # type: ignore[arg-type]


@dataclass(frozen=True)
class PolicyResult:
    """How well one policy did.

    Attributes:
        policy: the policy.
        success: success rate with its interval.
        cycle_time: time to success; None if no episode succeeded.
        interventions: number of interventions in all episodes.
        failures: number of failed episodes of each category, the most frequent first.
    """

    policy: ComparedPolicy
    success: Proportion
    cycle_time: CycleTime | None
    interventions: int
    failures: Mapping[str, int]


@dataclass(frozen=True)
class PairResult:
    """Comparison of two policies.

    Attributes:
        first: place of the first policy in the plan.
        second: place of the second policy.
        decision: decision of the sequential test.
        pairs: number of pairs of episodes.
        wins: pairs in which only the first policy succeeded.
        losses: pairs in which only the second policy succeeded.
        evidence: how much more likely the outcomes are if the better policy of the two is better than if both are
            equally good.
        improvement: probability that the first policy does better in a pair, ties counting half, with its bootstrap
            interval.
        difference: success rate of the first policy minus that of the second, with its bootstrap interval.
    """

    first: int
    second: int
    decision: Decision
    pairs: int
    wins: int
    losses: int
    evidence: float
    improvement: Interval
    difference: Interval


@dataclass(frozen=True)
class Comparison:
    """A plan and the episodes so far, in the order in which they took place."""

    plan: ComparisonPlan
    episodes: tuple[ComparedEpisode, ...] = ()

    def outcomes(self) -> NDArray[np.bool_]:
        """Return the successes (starts, policies) from the start states from which every policy has acted."""
        count = len(self.plan.policies)
        complete = len(self.episodes) // count
        successes = np.zeros((complete, count), np.bool_)
        for episode in self.episodes[: complete * count]:
            successes[episode.start, episode.policy] = episode.success
        return successes

    @property
    def finished(self) -> bool:
        """Whether each two policies are compared to the end."""
        if len(self.episodes) % len(self.plan.policies):
            return False
        outcomes = self.outcomes()
        return all(_decision(self.plan.test, outcomes, *places) != Decision.OPEN for places in self._places)

    @property
    def policies(self) -> list[PolicyResult]:
        """The result of each policy that has acted."""
        results = []
        for place, policy in enumerate(self.plan.policies):
            episodes = [each for each in self.episodes if each.policy == place]
            if episodes:
                successes = [each.success for each in episodes]
                failures = Counter(each.end for each in episodes if not each.success)
                results.append(
                    PolicyResult(
                        policy,
                        Proportion.of(sum(successes), len(episodes)),
                        CycleTime.of([each.steps for each in episodes], successes, self.plan.control_rate),
                        sum(each.interventions for each in episodes),
                        dict(failures.most_common()),
                    )
                )
        return results

    @property
    def pairs(self) -> list[PairResult]:
        """The comparison of each two policies; empty before all have acted once."""
        outcomes = self.outcomes()
        return [_compare(self.plan.test, outcomes, *places) for places in self._places] if len(outcomes) else []

    @property
    def agreement(self) -> tuple[int, int]:
        """In how many episodes task and person agree, and how many both judged."""
        both = [each for each in self.episodes if each.task is not None and each.person is not None]
        return sum(each.task == each.person for each in both), len(both)

    @property
    def _places(self) -> list[tuple[int, int]]:
        return list(combinations(range(len(self.plan.policies)), 2))

    def describe(self) -> list[str]:
        """Return a sentence for each two policies, and one for the agreement of task and person."""
        names = [policy.label for policy in self.plan.policies]
        lines = [_sentence(self.plan.test, result, names) for result in self.pairs]
        agreed, judged = self.agreement
        if judged:
            lines.append(f"Task and person agreed in {agreed} of {counted(judged, 'episode')}")
        return lines

    def write(self, path: Path) -> None:
        """Write plan, episodes and results to a JSON file."""
        value = {
            "format": FORMAT,
            "plan": dataclasses.asdict(self.plan),
            "episodes": [dataclasses.asdict(episode) for episode in self.episodes],
            "policies": [dataclasses.asdict(result) for result in self.policies],
            "pairs": [dataclasses.asdict(result) for result in self.pairs],
            "summary": self.describe(),
        }
        write_durably(path, f"{json.dumps(value, indent=2, default=float)}\n".encode())

    @classmethod
    def read(cls, path: Path) -> "Comparison":
        """Read a file that :meth:`write` has written; the results are computed again.

        Raises:
            DataError: if it is not such a file, or damaged.
            OSError: if it cannot be read.
        """
        with reading(path):
            value = parse_json(read_bytes(path, FILE_BYTES), str(path))
            if not isinstance(value, dict) or value.get("format") != FORMAT:
                raise DataError(
                    f"{path} was not written by robo-rl eval compare: expected the file of its option output"
                )
            return cls.of_json(value["plan"], value["episodes"])

    @classmethod
    def of_json(cls, plan: Mapping[str, Any], episodes: Sequence[Mapping[str, Any]]) -> "Comparison":
        """Return the comparison in JSON values.

        Raises:
            ValueError: if an episode is not the next one of the plan; other errors of Python for values of wrong types.
        """
        comparison = cls(ComparisonPlan.of_json(plan), tuple(map(ComparedEpisode.of_json, episodes)))
        for number, episode in enumerate(comparison.episodes):
            start, place = divmod(number, len(comparison.plan.policies))
            if (episode.start, episode.policy) != (start, comparison.plan.order(start)[place]):
                raise ValueError(f"episode {number + 1} is not that of the plan")
            if start >= comparison.plan.pairs:
                raise ValueError(f"more than {comparison.plan.pairs} start states")
        return comparison


def _decision(test: SequentialTest, outcomes: NDArray[np.bool_], first: int, second: int) -> Decision:
    """Return the first decision that was reached: while others are compared, later pairs do not change it."""
    for count in range(1, len(outcomes) + 1):
        decision = test.decide(*_decisive(outcomes[:count], first, second), count)
        if decision != Decision.OPEN:
            return decision
    return Decision.OPEN


def _decisive(outcomes: NDArray[np.bool_], first: int, second: int) -> tuple[int, int]:
    """Return the number of pairs in which only the first, and only the second policy succeeded."""
    wins = outcomes[:, first] & ~outcomes[:, second]
    losses = ~outcomes[:, first] & outcomes[:, second]
    return int(wins.sum()), int(losses.sum())


def _compare(test: SequentialTest, outcomes: NDArray[np.bool_], first: int, second: int) -> PairResult:
    wins, losses = _decisive(outcomes, first, second)
    difference = outcomes[:, first].astype(np.float64) - outcomes[:, second]
    interval = bootstrap_interval(lambda scores: scores.mean(axis=(-2, -1)), difference[:, None])
    improvement = Interval(*((1 + bound) / 2 for bound in (interval.value, interval.low, interval.high)))
    return PairResult(
        first,
        second,
        _decision(test, outcomes, first, second),
        len(outcomes),
        wins,
        losses,
        max(evidence(wins, losses), evidence(losses, wins)),
        improvement,
        interval,
    )


def _sentence(test: SequentialTest, result: PairResult, names: Sequence[str]) -> str:
    first, second = names[result.first], names[result.second]
    probability = f"with an error probability of at most {100 * test.error:.3g} %"
    verdict = {
        Decision.FIRST: f"{first} succeeds more often than {second}, {probability}",
        Decision.SECOND: f"{second} succeeds more often than {first}, {probability}",
        Decision.NONE: f"No difference between {first} and {second} was found in at most {test.pairs} pairs",
        Decision.OPEN: f"Not yet decided between {first} and {second}",
    }[result.decision]
    better, worse, sign = (second, first, -1) if result.decision == Decision.SECOND else (first, second, 1)
    alone = (result.wins, result.losses)[::sign]
    value = 100 * sign * float(result.difference.value)
    low, high = sorted(100 * sign * float(bound) for bound in (result.difference.low, result.difference.high))
    return (
        f"{verdict}. In {counted(result.pairs, 'pair')}, only {better} succeeded {counted(alone[0], 'time')} and only "
        f"{worse} {counted(alone[1], 'time')}: a difference of {value:+.0f} points "
        f"(95 % interval {low:+.0f} to {high:+.0f})"
    )
