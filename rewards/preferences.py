"""Rewards from preferences between stretches of behaviour (Christiano et al. 2017)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from robo_rl.core import (
    Batch,
    Comparisons,
    DataError,
    EnvSpec,
    Experience,
    Metrics,
    State,
    derive_seed,
    generator,
    require,
)

from .module import (
    Floats,
    Module,
    VectorInput,
    image_keys,
    require_episodes,
    take_over,
    taken,
    with_prefix,
    without_prefix,
)
from .networks import TrainedNetwork
from .oracles import EndpointOracle, Judged, Oracle
from .scripted_oracle import ScriptedOracle
from .vlm.endpoint import Endpoint, EndpointConfig
from .vlm.inquiries import POLL_SECONDS

COMBINATIONS = ("mean", "worst", "uncertainty")
ORACLES = ("scripted", "endpoint")


@dataclass(frozen=True)
class PreferencesConfig:
    """A reward that explains which of two segments an oracle prefers (Bradley and Terry 1952).

    The scripted oracle prefers the segment with the larger sum of a true reward, and errs at a given rate. It stands
    for others, to find out how many answers and how many errors a task bears. At an endpoint a vision-language model or
    a person compares pictures (RL-VLM-F, Wang et al. 2024); nobody waits for the answers.

    Attributes:
        keys: observation keys that the reward depends on; null: all that are not images.
        oracle: ``scripted``, or ``endpoint``: whoever answers there.
        term: the backend's term that the scripted oracle sums; null: all of them.
        ranking: the backend's terms that the scripted oracle goes by instead, the most important first: the first in
            which two segments clearly differ decides (HERON, Bukharin et al. 2023).
        margin: they clearly differ in a term by more than this many of its deviations over the segments of a round.
        regret: the scripted oracle goes by what a segment gains, its last value less its first, rather than by its sum:
            by what was done rather than where (see :class:`.ScriptedOracle`).
        noise: share of the scripted oracle's answers that are wrong, 0 to 0.5.
        indifference: the scripted oracle has no preference where the sums differ by at most this; such pairs are left
            out.
        goal: what is wanted, in words, for an oracle at an endpoint.
        camera: what that oracle sees of a segment; null: the first camera of the task.
        analysis: ask that oracle to describe the pictures before it is asked for its answer.
        endpoint: where it is.
        demonstration_queries: how many pairs out of the demonstrations the oracle is shown before the training, which
            waits for the answers. With ``agent=iql`` nothing else is learned from: preferences on a data set. The agent
            ``cpl`` learns from the answers themselves.
        length: steps of a segment. Several are shown as a strip of pictures; RL-VLM-F compares single ones.
        queries: how many pairs the oracle is shown at a time.
        interval: environment steps between these times.
        most_queries: no more pairs than these in all, those of demonstrations included.
        members: networks of the ensemble.
        combination: reward of the ensemble, ``mean``, ``worst`` (the smallest) or ``uncertainty`` (the mean less
            ``uncertainty_weight`` times the variance): what members disagree on is not worth pursuing (Coste et al.
            2023).
        uncertainty_weight: see ``combination``.
        hidden: widths of the hidden layers.
        learning_rate: of Adam.
        epochs: passes over all answers after each time.
        batch_size: pairs of each step.
    """

    keys: tuple[str, ...] | None = None
    oracle: str = "scripted"
    term: str | None = None
    ranking: tuple[str, ...] = ()
    margin: float = 0.5
    regret: bool = False
    noise: float = 0.0
    indifference: float = 0.0
    goal: str = ""
    camera: str | None = None
    analysis: bool = True
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    demonstration_queries: int = 0
    length: int = 8
    queries: int = 20
    interval: int = 200
    most_queries: int = 1000
    members: int = 3
    combination: str = "mean"
    uncertainty_weight: float = 0.5
    hidden: tuple[int, ...] = (64, 64)
    learning_rate: float = 1e-3
    epochs: int = 20
    batch_size: int = 64

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        object.__setattr__(self, "ranking", tuple(self.ranking))
        require(self.oracle in ORACLES, "oracle", f"one of {', '.join(ORACLES)}", self.oracle)
        require(self.oracle == "scripted" or bool(self.goal.strip()), "goal", "what is wanted, in words", self.goal)
        require(0 <= self.noise <= 0.5, "noise", "in [0, 0.5]", self.noise)
        require(not (self.ranking and self.term), "term", "null where ranking names terms", self.term)
        require(self.length >= 2 or not self.regret, "length", "2 or more where regret is true", self.length)
        for key in ("margin", "indifference", "demonstration_queries"):
            require(getattr(self, key) >= 0, key, "0 or more", getattr(self, key))
        for key in ("length", "queries", "interval", "most_queries", "members", "epochs", "batch_size"):
            require(getattr(self, key) >= 1, key, "1 or more", getattr(self, key))
        known = ", ".join(COMBINATIONS)
        require(self.combination in COMBINATIONS, "combination", f"one of {known}", self.combination)
        require(self.uncertainty_weight >= 0, "uncertainty_weight", "0 or more", self.uncertainty_weight)
        require(all(width >= 1 for width in self.hidden), "hidden", "widths of 1 or more", list(self.hidden))
        require(0 < self.learning_rate < 1, "learning_rate", "in (0, 1)", self.learning_rate)

    def make(self, name: str, spec: EnvSpec, seed: int) -> "PreferenceReward":
        """Return the module of term ``name``.

        Raises:
            ConfigError: if the task has no such term, observation key or camera, or nobody can be asked.
        """
        option = f"reward.modules.{name}"
        oracle: Oracle
        if self.oracle == "scripted":
            oracle = ScriptedOracle(
                term=self.term,
                ranking=self.ranking,
                margin=self.margin,
                regret=self.regret,
                noise=self.noise,
                indifference=self.indifference,
                spec=spec,
                option=option,
            )
        else:
            cameras = None if self.camera is None else (self.camera,)
            key = image_keys(cameras, spec, f"{option}.camera")[0]
            oracle = EndpointOracle(Endpoint(self.endpoint), self.goal, self.analysis, key)
        return PreferenceReward(self, name, spec, seed, oracle)


class PreferenceReward(Module):
    """See :class:`PreferencesConfig`.

    Each network gives a reward in [-1, 1] for the state after a step. It is fitted so that the logistic function of
    the difference of two segments' sums predicts the answers, each network on the answers in an order of its own.
    Before the first answers the reward is 0.

    Args:
        config: of the module.
        name: of its term.
        spec: of the environment.
        seed: of the run.
        oracle: who compares.

    Raises:
        ConfigError: if an observation key is not there.
    """

    learned = True

    def __init__(self, config: PreferencesConfig, name: str, spec: EnvSpec, seed: int, oracle: Oracle) -> None:
        super().__init__()
        self._oracle = oracle
        self._asked = np.zeros((0, 2, 0, 0), dtype=np.float32)  # pairs of the open round
        self._compared: Comparisons | None = None
        self.config = config
        self._name = name
        self._seed = derive_seed(seed, "reward", name)
        self._input = VectorInput(config.keys, spec, f"reward.modules.{name}.keys")
        self._networks = [
            TrainedNetwork(
                self._input.size,
                config.hidden,
                1,
                learning_rate=config.learning_rate,
                seed=derive_seed(self._seed, "network", member),
                name=name,
            )
            for member in range(config.members)
        ]
        self._scaling = {
            "shift": np.zeros(self._input.size, np.float32),
            "scale": np.ones(self._input.size, np.float32),
        }
        self._counters = np.zeros(2, dtype=np.int64)  # steps since the last query, pairs shown
        # Answered pairs: segments (n, 2, length, F), and whether the second is preferred (n,).
        self._pairs = np.zeros((0, 2, config.length, self._input.size), dtype=np.float32)
        self._answers = np.zeros(0, dtype=np.float32)

    @property
    def waiting(self) -> bool:
        """Whether an answer has yet to arrive."""
        return self._oracle.waiting

    def fit(self, episodes: Sequence[Batch]) -> None:
        """Ask about the demonstrations, where that is wanted, and learn from the answers.

        Raises:
            DataError: if there are none, or all are shorter than a segment.
        """
        count = min(self.config.demonstration_queries, self.config.most_queries)
        if not count:
            return
        require_episodes(episodes, self._name)
        rng = generator(self._seed, "query", "demonstrations")
        segments = draw_segments(episodes, 2 * count, self.config.length, self._name, rng)
        self._begin_round(segments, rng)
        while (judged := self._oracle.collect()) is None:
            time.sleep(POLL_SECONDS)
        self._compared = comparisons_of(segments, judged)
        self._learn(judged)

    def comparisons(self) -> Comparisons | None:
        """Return what was said of demonstrations; None after a resume, when it has been learned from."""
        return self._compared

    def update(self, experience: Experience) -> Metrics:
        """Ask the oracle every ``interval`` calls, and fit the networks when all answers are there.

        Return how well they explain the answers. A round that is not complete puts the next one off.
        """
        self._counters[0] += 1
        judged = self._oracle.collect()
        if judged is None and self._oracle.ready:
            self._ask(experience)
            judged = self._oracle.collect()
        return {} if judged is None else self._learn(judged)

    def _learn(self, judged: Judged) -> Metrics:
        """Keep the answers of a round, and fit the networks to all of them."""
        self._pairs = np.concatenate((self._pairs, self._asked[judged.pairs]))
        self._answers = np.concatenate((self._answers, judged.second.astype(np.float32)))
        metrics = {"queries": float(self._counters[1]), "answers": float(len(self._answers))} | self._oracle.metrics()
        return metrics | self._fit_networks() if len(self._answers) else metrics

    def _ask(self, experience: Experience) -> None:
        """Begin a round if it is time for one."""
        if self._counters[0] < self.config.interval or self._counters[1] >= self.config.most_queries:
            return
        rng = generator(self._seed, "query", int(self._counters[1]))
        count = min(self.config.queries, self.config.most_queries - int(self._counters[1]))
        segments = experience.sample_segments(2 * count, self.config.length, rng)
        if segments is not None:
            self._begin_round(segments, rng)

    def _begin_round(self, segments: Batch, rng: np.random.Generator) -> None:
        """Show the oracle segments (2 n, length, ...), the two of each pair side by side."""
        asked = self._input(segments)
        self._asked = asked.reshape(-1, 2, *asked.shape[1:])
        self._counters += [-self._counters[0], len(self._asked)]
        self._oracle.ask(segments, rng)

    def _fit_networks(self) -> Metrics:
        states = self._pairs.reshape(-1, self._input.size)
        deviation = states.std(0)
        self._scaling["shift"][...] = states.mean(0)
        self._scaling["scale"][...] = np.where(deviation > 1e-6, deviation, 1.0)
        self.version += 1
        pairs, answers = self._scaled(self._pairs), torch.from_numpy(self._answers)
        losses = []
        for number, network in enumerate(self._networks):
            for epoch in range(self.config.epochs):
                order = generator(self._seed, "order", self.version, number, epoch).permutation(len(answers))
                for first in range(0, len(order), self.config.batch_size):
                    chosen = torch.from_numpy(order[first : first + self.config.batch_size])
                    loss = preference_loss(torch.tanh(network(pairs[chosen])[..., 0]), answers[chosen])
                    losses.append(network.descend(loss))
        with torch.no_grad():
            sums = self._members(pairs).mean(0).sum(-1)
        explained = ((sums[:, 1] > sums[:, 0]).float() == answers).float().mean()
        return {"loss": float(np.mean(losses)), "accuracy": float(explained)}

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Floats:
        """Return rewards (n,), at most 1."""
        if not self.version:
            return np.zeros(len(batch["action"]), dtype=np.float32)
        members: Floats = self._members(self._scaled(self._input(batch))).numpy()
        return combined(members, self.config.combination, self.config.uncertainty_weight)

    def _scaled(self, vectors: Floats) -> Tensor:
        return torch.from_numpy((vectors - self._scaling["shift"]) / self._scaling["scale"])

    def _members(self, inputs: Tensor) -> Tensor:
        """Return the rewards of each network, the first axis."""
        return torch.stack([torch.tanh(network(inputs)[..., 0]) for network in self._networks])

    def state(self) -> State:
        """Return networks, optimisers and all answers."""
        state: State = {
            **self._scaling,
            "counters": self._counters,
            "version": np.array([self.version], dtype=np.int64),
            "pairs": self._pairs,
            "answers": self._answers,
        }
        state |= with_prefix("oracle/", self._oracle.state())
        for number, network in enumerate(self._networks):
            state |= with_prefix(f"network/{number}/", network.state())
        return state

    def load(self, state: State) -> None:
        """Go on from ``state``.

        Raises:
            CheckpointError: if it is of another module.
        """
        version = np.zeros(1, dtype=np.int64)
        take_over({**self._scaling, "counters": self._counters, "version": version}, state, self._name)
        self.version = int(version[0])
        self._pairs = taken(state, "pairs", self._name, like=self._pairs)
        self._answers = taken(state, "answers", self._name, like=self._answers)
        self._oracle.load(without_prefix("oracle/", state))
        for number, network in enumerate(self._networks):
            network.load(without_prefix(f"network/{number}/", state))


def comparisons_of(segments: Batch, judged: Judged) -> Comparisons:
    """Return what was said of segments (2 n, length, ...), the two of each pair side by side."""
    wanted = [key for key in segments if key.startswith("observation/") and not key.startswith("observation/images/")]
    pairs = {key: segments[key].reshape(-1, 2, *segments[key].shape[1:])[judged.pairs] for key in (*wanted, "action")}
    return Comparisons(pairs, judged.second.astype(np.float32))


def draw_segments(episodes: Sequence[Batch], count: int, length: int, name: str, rng: np.random.Generator) -> Batch:
    """Draw ``count`` stretches of ``length`` rows of episodes uniformly with replacement: arrays (count, length, ...).

    Args:
        episodes: rows of each in order.
        count: how many.
        length: rows of a stretch.
        name: of the module, for the message.
        rng: for the draws.

    Raises:
        DataError: if all are shorter than that.
    """
    starts = [(number, row) for number, each in enumerate(episodes) for row in range(len(each["action"]) - length + 1)]
    if not starts:
        raise DataError(
            f"reward module {name!r} compares segments of {length} steps, and no demonstration is that long: lower "
            f"reward.modules.{name}.length"
        )
    drawn = [starts[number] for number in rng.integers(0, len(starts), count)]
    return {key: np.stack([episodes[number][key][row : row + length] for number, row in drawn]) for key in episodes[0]}


def combined(members: Floats, combination: str, uncertainty_weight: float) -> Floats:
    """Return one reward (n,) of those of an ensemble (members, n); see :class:`PreferencesConfig`.

    The variance is that of the members themselves, divided by their number.
    """
    rewards: Floats = members.min(0) if combination == "worst" else members.mean(0)
    if combination == "uncertainty":
        rewards = rewards - np.float32(uncertainty_weight) * members.var(0)
    return rewards


def preference_loss(rewards: Tensor, second: Tensor) -> Tensor:
    """Return the mean negative log likelihood of answers under Bradley and Terry's model.

    Args:
        rewards: (n, 2, length) of the steps of two segments.
        second: (n,) 1 where the second was preferred, else 0.
    """
    sums = rewards.sum(-1)
    return cross_entropy(sums[:, 1] - sums[:, 0], second)
