"""Configuration of soft actor-critic with normalised networks."""

import re
from dataclasses import dataclass
from typing import ClassVar

from robo_rl.core import Options, option, require

from ..parts.choices import require_choice

NETWORKS = ("xqc", "crossq", "simbav2")
IMPLEMENTATIONS = ("torch", "compile")
VALUE_RANGE = (-5.0, 5.0)
"""Range of the bins of critics with bins, in units of the scaled reward, as published for XQC and SimbaV2."""


@dataclass(frozen=True)
class XQCConfig(Options, section="agent"):
    """Soft actor-critic with networks that stay well conditioned by normalisation. The defaults are ``agent=xqc``.

    The widths, ``batch_size`` and ``update_to_data`` are for two processor cores; the files ``configs/agent/xqc.yaml``,
    ``crossq.yaml`` and ``simbav2.yaml`` name those of the papers.

    Attributes:
        network: architecture of actor and critics, see :mod:`.networks`: ``xqc``, batch normalisation before the
            activation, and weight vectors of length 1; ``crossq``, batch normalisation after the activation;
            ``simbav2``, features and weight vectors of length 1.
        hidden: widths of the hidden layers of the actor; for ``simbav2``, one width per block, all equal.
        critic_hidden: the same for the critics.
        ensemble_size: number E of critics; the smallest of their values makes targets and trains the actor.
        value_bins: number K of bins over [-5, 5]. By cross-entropy, the critics learn the distribution over these bins
            of the returns of scaled rewards (C51, Bellemare et al. 2017; see :mod:`.return_scaling`). 0: they learn the
            expected return of unscaled rewards by its squared error.
        learning_rate: learning rate of Adam at first, for actor, critics and temperature.
        final_learning_rate: learning rate that it falls to, linearly; null: it is constant.
        decay_updates: number of critic updates over which it falls.
        adam_beta: decay of Adam's mean of the gradients of actor and critics. The temperature has 0.9.
        gamma: discount per environment step. The authors of XQC and SimbaV2 derive it from the length L of an episode:
            1 - 5 / L, in [0.95, 0.995].
        tau: coefficient of the soft update of the target critics after each critic update; 1: no target critics
            (CrossQ).
        policy_delay: number of critic updates for each update of actor and temperature.
        actor_delay: number of learner steps, of ``update_to_data`` critic updates each, before the first update of
            actor and temperature. For a policy that is good at the start (``start.run``), which new critics would
            spoil.
        reference_weight: weight of the divergence KL(policy || reference) in the actor's loss [1/nat], mean over the
            rows, in units of the (scaled) reward; 0: none. It keeps the policy close to that of ``start.run``.
            Deviations of the reference count as 0.1 or more. See :func:`~robo_rl.agents.parts.reference.divergence` for
            the formula.
        reference_steps: environment steps with updates over which this weight falls linearly to zero, counted from the
            first step of the actor.
        initial_temperature: initial temperature, the weight of the entropy, in units of the (scaled) reward.
        target_entropy_per_action: entropy of the policy to which the temperature is tuned, for each dimension of the
            action [nat].
        update_to_data: number U of critic updates per environment step.
        batch_size: number B of rows in each critic update.
        demonstration_ratio: share of each minibatch that is drawn from the demonstrations, in [0, 1].
        learning_starts: environment steps before the first update.
        random_steps: environment steps with uniformly random actions at the start.
        observation_keys: observation keys that the networks use; null: all keys that are not images.
        q_limit: magnitude of a value estimate, in units of the reward, above which the run counts as diverged.
        device: device on which learning is computed: ``cpu``, ``cuda`` (``cuda:1``, ...), or ``auto``: a GPU if PyTorch
            finds one, else the CPU. Actors in another process than the learner act on the CPU.
        implementation: ``torch``, or ``compile``: the steps are compiled by torch.compile, which takes a minute at
            first. On a GPU each step is captured as a CUDA graph.
    """

    # Read by the composition and by the policy for every agent.
    learns_online: ClassVar[bool] = True
    imitates: ClassVar[bool] = False
    online_cloning_weight: ClassVar[float] = 0.0
    pretrain_steps: ClassVar[int] = 0
    n_step: ClassVar[int] = 1
    action_chunk: ClassVar[int] = 1
    activation: ClassVar[str] = "relu"
    actor_layer_norm: ClassVar[bool] = False
    normalise_observations: ClassVar[bool] = False  # the networks normalise their inputs

    network: str = "xqc"
    hidden: tuple[int, ...] = (128, 128, 128, 128)
    critic_hidden: tuple[int, ...] = (256, 256, 256, 256)
    ensemble_size: int = option(2, low=1)
    value_bins: int = 101
    learning_rate: float = option(3e-4, above=0, below=1)
    final_learning_rate: float | None = option(3e-5, above=0, below=1)
    decay_updates: int = option(1_000_000, low=1)
    adam_beta: float = option(0.9, low=0, below=1)
    gamma: float = option(0.995, low=0, high=1)
    tau: float = option(0.005, above=0, high=1)
    policy_delay: int = option(3, low=1)
    actor_delay: int = option(0, low=0)
    reference_weight: float = option(0.0, low=0)
    reference_steps: int = option(2000, low=1)
    initial_temperature: float = option(0.01, above=0)
    target_entropy_per_action: float = -0.5
    update_to_data: int = option(1, low=1)
    batch_size: int = option(128, low=2)
    demonstration_ratio: float = option(0.0, low=0, high=1)
    learning_starts: int = option(5000, low=0)
    random_steps: int = option(5000, low=0)
    observation_keys: tuple[str, ...] | None = None
    q_limit: float = option(1e5, above=0)
    device: str = "auto"
    implementation: str = "torch"

    def learning_rate_after(self, updates: int) -> float:
        """Return the learning rate after ``updates`` critic updates."""
        first = self.learning_rate
        last = first if self.final_learning_rate is None else self.final_learning_rate
        return first + (last - first) * min(updates / self.decay_updates, 1)

    @property
    def value_range(self) -> tuple[float, float] | None:
        """The range of the bins; None for critics without bins."""
        return VALUE_RANGE if self.value_bins else None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_unused(("reference_steps",), self.reference_weight > 0, "agent.reference_weight is above 0")
        # Hydra passes lists.
        for key in ("hidden", "critic_hidden"):
            widths = tuple(getattr(self, key))
            object.__setattr__(self, key, widths)
            positive = len(widths) >= 1 and all(width >= 1 for width in widths)
            require(positive, f"agent.{key}", "one or more widths of 1 or more", list(widths))
            require(
                self.network != "simbav2" or len(set(widths)) == 1,
                f"agent.{key}",
                "equal widths, one for each block, where agent.network=simbav2",
                list(widths),
            )
        if self.observation_keys is not None:
            object.__setattr__(self, "observation_keys", tuple(self.observation_keys))
        require_choice("agent.network", self.network, NETWORKS)
        require(self.value_bins == 0 or self.value_bins >= 2, "agent.value_bins", "0, or 2 or more", self.value_bins)
        finite = self.value_bins == 0 or self.gamma < 1
        require(finite, "agent.gamma", "below 1 if agent.value_bins is above 0: returns must be bounded", self.gamma)
        require(
            re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device) is not None,
            "agent.device",
            "auto, cpu, cuda or cuda:<number>",
            self.device,
        )
        require_choice("agent.implementation", self.implementation, IMPLEMENTATIONS)
