"""Rewards learned from preferences between segments of behaviour (Christiano et al. 2017)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy
from torch.nn.functional import logsigmoid

from robo_rl.core import Batch, Comparisons, EnvSpec, Metrics, option, require

from ..asking.endpoint import Endpoint
from ..asking.oracles import Answers, ComparingOracle, Oracle
from ..asking.scripted_oracle import ScriptedOracle
from .distillation import DistillationConfig, DistilledReward

ORACLES = ("scripted", "endpoint")


@dataclass(frozen=True)
class PreferencesConfig(DistillationConfig):
    """Reward that explains which of two segments an oracle prefers (Bradley and Terry 1952).

    The scripted oracle prefers the segment with the larger sum of a true reward, with a given error rate. It replaces
    other oracles to measure how many answers a task needs and how many errors it tolerates. At an endpoint, a
    vision-language model or a person compares images (RL-VLM-F, Wang et al. 2024); training does not wait for the
    answers.

    With ``demonstration_queries`` and ``agent=iql``, the reward is learned from preferences on a data set alone. The
    agent ``cpl`` learns from the answers themselves.

    Attributes (besides those of :class:`.DistillationConfig`, whose questions show two segments each):
        oracle: ``scripted``, or ``endpoint``: the model or person at the endpoint.
        term: term of the backend that the scripted oracle sums; null: all terms.
        ranking: terms of the backend that the scripted oracle compares instead, most important first: the first term in
            which two segments clearly differ decides (HERON, Bukharin et al. 2023).
        margin: smallest clear difference in a term, in standard deviations of the term over the segments of a round.
        regret: whether the scripted oracle compares the gain of a segment, its last value minus its first, instead of
            its sum: what was done instead of where (see :class:`.ScriptedOracle`).
        noise: error rate of the scripted oracle's answers, 0 to 0.5.
        indifference: largest difference of the sums without a preference of the scripted oracle; such pairs are left
            out.
        analysis: request a description of the images from the endpoint first, and then the answer.
        mistakes: share of the answers, 0 to less than 0.5, that are assumed to be wrong however clear the case is
            (Christiano et al. 2017 assume that a tenth is random: 0.05). At 0, the clearer the case, the more a wrong
            answer changes the networks, which memorise the wrong answers.
        length: number of steps in a segment. Several steps are shown as a strip of images; RL-VLM-F compares single
            images.
    """

    oracle: str = option("scripted", choices=ORACLES)
    term: str | None = None
    ranking: tuple[str, ...] = ()
    margin: float = option(0.5, low=0)
    regret: bool = False
    noise: float = option(0.0, low=0, high=0.5)
    indifference: float = option(0.0, low=0)
    analysis: bool = True
    mistakes: float = option(0.0, low=0, below=0.5)
    length: int = option(8, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "ranking", tuple(self.ranking))
        require(self.oracle == "scripted" or bool(self.goal.strip()), "goal", "the goal in words", self.goal)
        require(not (self.ranking and self.term), "term", "null where ranking names terms", self.term)
        require(self.length >= 2 or not self.regret, "length", "2 or more if regret is true", self.length)

    def make(self, name: str, spec: EnvSpec, seed: int) -> "PreferencesReward":
        """Return the module of term ``name``.

        Raises:
            ConfigError: if the task has no such term, observation key or camera, or the endpoint cannot be used.
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
            key = self.pictures(spec, option)
            oracle = ComparingOracle(Endpoint(self.endpoint), key, self.goal, self.analysis)
        return PreferencesReward(self, name, spec, seed, oracle)


class PreferencesReward(DistilledReward):
    """Reward that explains preferences; see :class:`PreferencesConfig`.

    Each network computes a reward in [-1, 1] for the state after a step. It is fitted so that the logistic function of
    the difference between the sums of two segments predicts the answer: 1 if the second segment is preferred.
    """

    config: PreferencesConfig

    def __init__(self, config: PreferencesConfig, name: str, spec: EnvSpec, seed: int, oracle: Oracle) -> None:
        super().__init__(config, name, spec, seed, oracle, (2, config.length))
        self._compared: Comparisons | None = None

    def comparisons(self) -> Comparisons | None:
        """Return the comparisons of demonstrations; None in a resumed run, which has already learned from them."""
        return self._compared

    def _note_demonstrations(self, segments: Batch, answered: Answers) -> None:
        self._compared = comparisons_of(segments, answered)

    def _rewards(self, outputs: Tensor) -> Tensor:
        return torch.tanh(outputs)

    def _loss(self, outputs: Tensor, answers: Tensor) -> Tensor:
        return preference_loss(self._rewards(outputs), answers, self.config.mistakes)

    def _expected(self, rewards: Tensor) -> Tensor:
        sums = rewards.sum(-1)
        return torch.sigmoid(sums[..., 1] - sums[..., 0])

    def _explained(self, rewards: Tensor, answers: Tensor) -> Metrics:
        sums = rewards.sum(-1)
        return {"accuracy": float(((sums[:, 1] > sums[:, 0]).float() == answers).float().mean())}


def comparisons_of(segments: Batch, answered: Answers) -> Comparisons:
    """Return the comparisons of segments (2 n, length, ...); the two segments of a pair are adjacent."""
    keys = [key for key in segments if key.startswith("observation/") and not key.startswith("observation/images/")]
    pairs = {key: segments[key].reshape(-1, 2, *segments[key].shape[1:])[answered.numbers] for key in (*keys, "action")}
    return Comparisons(pairs, answered.values)


def preference_loss(rewards: Tensor, second: Tensor, mistakes: float = 0.0) -> Tensor:
    """Return the mean negative log likelihood of answers under Bradley and Terry's model.

    Args:
        rewards: (n, 2, length), rewards of the steps of two segments.
        second: (n,), 1 if the second segment was preferred, else 0.
        mistakes: probability that an answer is the opposite of the intended one, in [0, 0.5).
    """
    sums = rewards.sum(-1)
    logits = sums[:, 1] - sums[:, 0]
    if not mistakes:
        return cross_entropy(logits, second)
    meant = logits * (2 * second - 1)
    correct, mistaken = math.log1p(-mistakes) + logsigmoid(meant), math.log(mistakes) + logsigmoid(-meant)
    return -torch.logaddexp(correct, mistaken).mean()
