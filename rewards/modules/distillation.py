"""Rewards distilled from slow answers about behaviour into networks that score every transition."""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from robo_rl.core import (
    Batch,
    DataError,
    EnvSpec,
    Experience,
    Metrics,
    State,
    as_config,
    generator,
    option,
    require,
)

from ..asking.endpoint import EndpointConfig
from ..asking.inquiries import POLL_SECONDS
from ..asking.oracles import Answers, Oracle
from ..parts.arrays import with_prefix, without_prefix
from ..parts.demonstrations import require_episodes
from ..parts.module import Floats
from ..parts.vector_config import NetworkConfig
from ..parts.vector_input import image_keys
from ..parts.vector_module import NetworkModule
from .ensemble import combined, require_combination


@dataclass(frozen=True)
class DistillationConfig(NetworkConfig):
    """Options of all rewards that are distilled from answers. The control of a robot never waits for answers.

    Attributes (besides those of :class:`.NetworkConfig`):
        goal: description of the goal in words, for the model or person at an endpoint.
        camera: camera whose images are shown to them; null: the first camera of the task.
        endpoint: endpoint at which a vision-language model or a person answers.
        demonstration_queries: number of questions about the demonstrations before training, which waits for the
            answers.
        queries: number of questions per round.
        interval: environment steps between rounds.
        candidates: number of questions drawn for each one that is asked: the networks disagree most on the answers to
            the questions that are asked (Christiano et al. 2017; PEBBLE, Lee et al. 2021, draw ten times as many). 1:
            all drawn questions. The first questions, and those about demonstrations, are not selected.
        newest: number of newest transitions that questions are about, which come from the current policy (PEBBLE uses
            the newest 100 episodes); null: all.
        most_queries: largest number of questions in all, including those about demonstrations. Questions that failed,
            or were open when the run was interrupted, do not count.
        members: number of networks in the ensemble.
        combination: reward of the ensemble: ``mean``, ``worst`` (the smallest) or ``uncertainty`` (the mean minus
            ``uncertainty_weight`` times the variance), which discourages states on which members disagree (Coste et al.
            2023).
        uncertainty_weight: see ``combination``.
        epochs: number of passes over all answers after each round.
        batch_size: number of answers in each gradient step.
    """

    goal: str = ""
    camera: str | None = None
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    demonstration_queries: int = option(0, low=0)
    queries: int = option(20, low=1)
    interval: int = option(200, low=1)
    candidates: int = option(1, low=1)
    newest: int | None = option(None, low=1)
    most_queries: int = option(1000, low=1)
    members: int = option(3, low=1)
    combination: str = "mean"
    uncertainty_weight: float = 0.5
    epochs: int = option(20, low=1)
    batch_size: int = option(64, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "endpoint", as_config(self.endpoint, EndpointConfig))
        require(self.candidates == 1 or self.members > 1, "members", "2 or more if candidates is above 1", self.members)
        require_combination(self.combination, self.uncertainty_weight)

    def pictures(self, spec: EnvSpec, option: str) -> str:
        """Return the observation key of the pictures in questions to an endpoint.

        Raises:
            ConfigError: if the task has no such camera.
        """
        return image_keys(None if self.camera is None else (self.camera,), spec, f"{option}.camera")[0]


class DistilledReward(NetworkModule, ABC):
    """Base class of rewards distilled from answers; see :class:`DistillationConfig`.

    Questions are asked in rounds. When every question of a round has been answered or has failed, each network is
    fitted to all answers so far, in its own random order. Before the first answers the reward is 0.

    Args:
        config: configuration of the module.
        name: name of its reward term.
        spec: spec of the environment.
        seed: seed of the run.
        oracle: answers the questions.
        question_shape: number of segments in a question, and number of steps in a segment.
    """

    config: DistillationConfig
    learned = True

    def __init__(
        self,
        config: DistillationConfig,
        name: str,
        spec: EnvSpec,
        seed: int,
        oracle: Oracle,
        question_shape: tuple[int, int],
    ) -> None:
        super().__init__(config, name, spec, seed, trains=True)
        self._oracle = oracle
        self._question_shape = question_shape
        for member in range(config.members):
            self._make_network(member)
        self._counters = np.zeros(2, dtype=np.int64)  # steps since the last round, and questions that count
        self._arrays |= {"counters": self._counters, "version": self._version}
        self._open = np.zeros((0, *question_shape, self._input.size), dtype=np.float32)  # inputs of the open round
        # inputs and answers of all questions answered so far
        self._rows |= {"asked": self._open, "answers": np.zeros(0, dtype=np.float32)}

    @abstractmethod
    def _rewards(self, outputs: Tensor) -> Tensor:
        """Return rewards computed from the outputs of a network, of any shape."""

    @abstractmethod
    def _loss(self, outputs: Tensor, answers: Tensor) -> Tensor:
        """Return the loss of the outputs of a network (n, segments, length) for n answers."""

    @abstractmethod
    def _expected(self, rewards: Tensor) -> Tensor:
        """Return the answers (...) expected from rewards (..., segments, length), 0 to 1."""

    @abstractmethod
    def _explained(self, rewards: Tensor, answers: Tensor) -> Metrics:
        """Return metrics of how well the mean rewards of the networks (n, segments, length) explain n answers."""

    def _note_demonstrations(self, segments: Batch, answered: Answers) -> None:
        """Store the answers about segments of demonstrations; does nothing by default."""

    @property
    def waiting(self) -> bool:
        """Whether an answer has yet to arrive."""
        return self._oracle.waiting

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Ask ``demonstration_queries`` questions about the demonstrations, and learn from the answers.

        Return how well the networks explain the answers, and the metrics of the oracle.

        Raises:
            DataError: if there are no demonstrations, all are shorter than a segment, or no question was answered.
        """
        count = min(self.config.demonstration_queries, self.config.most_queries)
        if not count:
            return {}
        require_episodes(episodes, self._name)
        rng = generator(self._seed, "query", "demonstrations")
        segments_each, length = self._question_shape
        segments = draw_segments(episodes, segments_each * count, length, self._name, rng)
        self._begin_round(segments, rng)
        while (answered := self._oracle.collect()) is None:
            time.sleep(POLL_SECONDS)
        if not len(answered.values):
            reason = answered.reason or "there was no difference, or no answer could be read"
            raise DataError(
                f"reward module {self._name!r}: none of {count} questions about the demonstrations was answered: "
                f"{reason}; fix this, or learn only from later questions: "
                f"reward.modules.{self._name}.demonstration_queries=0"
            )
        self._note_demonstrations(segments, answered)
        return self._learn(answered)

    def update(self, experience: Experience) -> Metrics:
        """Ask every ``interval`` calls, and fit the networks when all answers have arrived.

        Return how well the networks explain the answers. The next round waits for an incomplete one.
        """
        self._counters[0] += 1
        answered = self._oracle.collect()
        if answered is None and self._oracle.ready:
            self._ask(experience)
            answered = self._oracle.collect()
        return {} if answered is None else self._learn(answered)

    def _ask(self, experience: Experience) -> None:
        """Begin a round if one is due."""
        config = self.config
        if self._counters[0] < config.interval or self._counters[1] >= config.most_queries:
            return
        rng = generator(self._seed, "query", int(self._counters[1]))
        count = min(config.queries, config.most_queries - int(self._counters[1]))
        segments_each, length = self._question_shape
        draws = count * (config.candidates if self.version else 1)
        segments = experience.sample_segments(segments_each * draws, length, rng, newest=config.newest)
        if segments is not None:
            self._begin_round(segments if draws == count else self._most_disputed(segments, count), rng)

    @torch.no_grad()
    def _most_disputed(self, segments: Batch, count: int) -> Batch:
        """Return the ``count`` questions that the networks disagree on most, in the order of ``segments``."""
        inputs = self._input(segments).reshape(-1, *self._question_shape, self._input.size)
        disagreement = self._expected(self._member_rewards(inputs)).std(0).numpy()
        chosen = np.sort(np.argsort(-disagreement, kind="stable")[:count])
        rows = (chosen[:, None] * self._question_shape[0] + np.arange(self._question_shape[0])).ravel()
        return {key: values[rows] for key, values in segments.items()}

    def _begin_round(self, segments: Batch, rng: np.random.Generator) -> None:
        """Ask about segments (n, length, ...); the segments of a question are adjacent."""
        self._open = self._input(segments).reshape(-1, *self._question_shape, self._input.size)
        self._counters += [-self._counters[0], len(self._open)]
        self._oracle.ask(segments, rng)

    def _learn(self, answered: Answers) -> Metrics:
        """Store the answers of a round, and fit the networks to all answers.

        Before that, measure how well the networks predict the new answers, which they have not seen.
        """
        inputs, answers = self._open[answered.numbers], answered.values.astype(np.float32)
        self._open = self._open[:0]
        self._counters[1] -= answered.failed
        metrics = {"queries": float(self._counters[1])} | self._oracle.metrics()
        if self.version and len(answers):
            metrics |= {f"held_out_{name}": value for name, value in self._compare(inputs, answers).items()}
        self._rows["asked"] = np.concatenate((self._rows["asked"], inputs))
        self._rows["answers"] = np.concatenate((self._rows["answers"], answers))
        metrics["answers"] = float(len(self._rows["answers"]))
        return metrics | self._fit_networks() if len(self._rows["answers"]) else metrics

    def _fit_networks(self) -> Metrics:
        states = self._rows["asked"].reshape(-1, self._input.size)
        self._normalise(states)
        self.version += 1
        config = self.config
        inputs, answers = torch.from_numpy(self._scaled(self._rows["asked"])), torch.from_numpy(self._rows["answers"])
        losses = []
        for number, network in enumerate(self._networks.values()):
            for epoch in range(config.epochs):
                order = generator(self._seed, "order", self.version, number, epoch).permutation(len(answers))
                for first in range(0, len(order), config.batch_size):
                    chosen = torch.from_numpy(order[first : first + config.batch_size])
                    losses.append(network.descend(self._loss(network(inputs[chosen])[..., 0], answers[chosen])))
        return {"loss": float(np.mean(losses)), **self._compare(self._rows["asked"], self._rows["answers"])}

    @torch.no_grad()
    def _compare(self, inputs: Floats, answers: Floats) -> Metrics:
        return self._explained(self._member_rewards(inputs).mean(0), torch.from_numpy(answers))

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Floats:
        """Return rewards (n,), at most 1."""
        if not self.version:
            return np.zeros(len(batch["action"]), dtype=np.float32)
        members: Floats = self._member_rewards(self._input(batch)).numpy()
        return combined(members, self.config.combination, self.config.uncertainty_weight)

    def _member_rewards(self, vectors: Floats) -> Tensor:
        """Return the rewards (members, ...) of each network for vectors (..., F)."""
        rows = torch.from_numpy(self._scaled(vectors)).flatten(0, -2)
        outputs = torch.stack([network.evaluate(rows)[:, 0] for network in self._networks.values()])
        return self._rewards(outputs).reshape(self.config.members, *vectors.shape[:-1])

    def state(self) -> State:
        """Return networks, optimisers and all answers. Unanswered questions are lost when the process ends."""
        counters = {"counters": self._counters - [0, len(self._open)]}
        return {**super().state(), **counters, **with_prefix("oracle/", self._oracle.state())}

    def load(self, state: State) -> None:
        """Restore ``state``."""
        super().load(state)
        self._oracle.load(without_prefix("oracle/", state))


def draw_segments(episodes: Sequence[Batch], count: int, length: int, name: str, rng: np.random.Generator) -> Batch:
    """Draw ``count`` segments of ``length`` rows of episodes uniformly with replacement: arrays (count, length, ...).

    Args:
        episodes: rows of each episode, in order.
        count: number of segments.
        length: number of rows in a segment.
        name: name of the module, for the message.
        rng: random generator.

    Raises:
        DataError: if all episodes are shorter than ``length``.
    """
    starts = [
        (number, row) for number, episode in enumerate(episodes) for row in range(len(episode["action"]) - length + 1)
    ]
    if not starts:
        raise DataError(
            f"reward module {name!r} asks about segments of {length} steps, and no demonstration is that long: lower "
            f"reward.modules.{name}.length"
        )
    begins = [starts[number] for number in rng.integers(0, len(starts), count)]
    return {key: np.stack([episodes[number][key][row : row + length] for number, row in begins]) for key in episodes[0]}
