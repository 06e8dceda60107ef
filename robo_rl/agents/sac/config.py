"""Configuration of soft actor-critic and of RLPD, which is the same algorithm with other hyperparameters."""

import math
import re
from dataclasses import dataclass
from typing import ClassVar

from robo_rl.core import Options, option, require

from ..parts.choices import ACTIVATIONS, PRECISIONS, require_choice

IMPLEMENTATIONS = ("auto", "compile", "native", "torch")
ACTOR_Q = ("mean", "min")
EXPLORATIONS = ("demonstrations", "fixed")


@dataclass(frozen=True)
class SACConfig(Options, section="agent"):
    """Soft actor-critic with an ensemble of critics. The defaults are ``agent=rlpd`` with single actions.

    Attributes:
        ensemble_size: number E of critics.
        target_subset: number M of critics, resampled for each critic update, whose smallest value is used in the
            target (REDQ).
        hidden: widths of the hidden layers of actor and critics.
        layer_norm: LayerNorm between each hidden layer of the critics and its activation.
        actor_layer_norm: LayerNorm between each hidden layer of the actor and its activation.
        activation: ``gelu``, ``relu``, ``silu`` or ``tanh``.
        actor_learning_rate: learning rate of Adam for the actor.
        critic_learning_rate: learning rate of Adam for the critics.
        temperature_learning_rate: learning rate of Adam for the logarithm of the temperature.
        gamma: discount per environment step.
        tau: coefficient of the soft update of the target critics after each critic update.
        actor_tau: coefficient of the moving average of the actor, which acts without exploration: in evaluations and on
            robots; 1: no average.
        sampled_actions: whether the policy also samples its actions in evaluations and on robots; otherwise it takes
            the mode. For tasks in which a policy without noise gets stuck, such as a search by touch.
        exploration: standard deviation of the policy after cloning, and target entropy. ``fixed``: ``initial_log_std``
            in every action dimension. ``demonstrations``: in each dimension the root mean square error of the cloned
            policy on the demonstrated actions, so that the policy explores as inexactly as the demonstrator acted; the
            target entropy, if null, is that of a Gaussian with this deviation. For tasks in which larger deviations
            fail, such as motion in contact; after demonstrations without noise there is almost no exploration. A run
            that starts from another (``start.run``) does not clone: it takes over the deviation and, if the other run
            has this option too, the target entropy.
        initial_log_std: initial logarithm of the policy's standard deviation before tanh; -2 corresponds to about the
            default target entropy, so that the temperature does not have to lower it for thousands of steps.
        initial_temperature: initial temperature, the weight of the entropy.
        target_entropy: entropy of the policy to which the temperature is tuned [nat]; null: minus half the number of
            action dimensions.
        entropy_backup: whether targets contain the entropy of the next action.
        update_to_data: number U of critic updates per environment step; the actor is updated once.
        batch_size: number B of rows in each critic update.
        cloning_weight: weight of the cloning term in the actor's loss at its first update. The term is the squared
            distance between the actor's mode and the actions of the demonstrations, summed over action dimensions, mean
            over all rows (rows of other data count as 0).
        final_cloning_weight: weight to which ``cloning_weight`` decays.
        cloning_half_life: half-life of this decay, in environment steps with updates.
        online_cloning_weight: constant weight of the same term for online actions to be imitated: interventions, and
            the policy's actions on the way to a success without an intervention (self-imitation, Oh et al. 2018). Above
            0, the weight of demonstrations shrinks with the number of the latter, see
            :class:`~robo_rl.replay.MixedSampler`.
        cloning_filter: whether the cloning term leaves out actions that the critics, on average, value less than the
            actor's mode (Q-filter, Nair et al. 2018), so that bad demonstrations and interventions are imitated only
            until the critics recognise them. Such updates are computed in PyTorch.
        actor_q: value that the actor maximises: the ``mean`` or the ``min`` of all critics. The minimum suits a policy
            with little noise, which hardly ever tries other actions than the actor's.
        n_step: environment steps whose rewards are summed before a target bootstraps from a critic. With action chunks
            it is their length; 1, the default, then means this length.
        action_chunk: number h of actions that the policy decides at once from one observation (Q-chunking, Li et al.
            2025). Critics evaluate whole chunks by h-step returns. The number of action dimensions is then h times that
            of the robot. 1: a decision at every step.
        demonstration_ratio: share of each minibatch that is drawn from the demonstrations, in [0, 1].
        learning_starts: environment steps before the first update.
        actor_delay: number of updates at the start in which only the critics learn; actor, its average and temperature
            do not change. For a policy that is good at the start (``start.run``), which new critics would spoil.
        reference_weight: weight of the divergence KL(policy || reference) in the actor's loss [1/nat], mean over all
            rows; 0: none. It keeps the policy close to the one that the run begins with, from ``start.run`` or from
            cloning. Deviations of the reference count as 0.1 or more. See
            :func:`~robo_rl.agents.parts.reference.divergence` for the formula.
        reference_steps: environment steps with updates over which this weight falls linearly to zero, counted from the
            first step of the actor.
        random_steps: environment steps with uniformly random actions at the start.
        pretrain_steps: steps of behaviour cloning of the actor on the demonstrations before training.
        observation_keys: observation keys that the networks use; null: all keys that are not images.
        normalise_observations: normalise observations by mean and standard deviation of the demonstrations, fixed from
            the start.
        q_limit: magnitude of a value estimate above which the run counts as diverged. Returns of rewards in [0, 1] stay
            below 1 / (1 - gamma).
        device: device on which learning is computed: ``cpu``, ``cuda`` (``cuda:1``, ...), or ``auto``: a GPU if PyTorch
            finds one, else the CPU. Actors in another process than the learner act on the CPU.
        implementation: implementation of updates (cloning is native or in PyTorch): ``native`` (C++ on the CPU),
            ``torch``, ``compile`` (torch.compile), or ``auto``: native if it is available, else torch. On a GPU an
            update is captured as one CUDA graph.
        precision: precision of the factors of matrix products: ``float32``, ``bfloat16`` or ``auto``. With
            ``bfloat16``, parameters and sums stay in float32; on a CPU without such products, ``implementation=auto``
            uses float32. ``auto``: the faster of both in native updates, measured once on each machine; float32 in all
            other updates.
    """

    # Read by the composition: this agent learns from its own steps (behaviour cloning does not).
    learns_online: ClassVar[bool] = True
    imitates: ClassVar[bool] = True

    ensemble_size: int = option(5, low=1)
    target_subset: int = option(2, low=1)
    hidden: tuple[int, ...] = (256, 256)
    layer_norm: bool = True
    actor_layer_norm: bool = False
    activation: str = "relu"
    actor_learning_rate: float = option(3e-4, above=0, below=1)
    critic_learning_rate: float = option(3e-4, above=0, below=1)
    temperature_learning_rate: float = option(3e-4, above=0, below=1)
    gamma: float = option(0.97, low=0, high=1)
    tau: float = option(0.005, above=0, high=1)
    actor_tau: float = option(0.005, above=0, high=1)
    sampled_actions: bool = False
    exploration: str = "fixed"
    initial_log_std: float = -2.0
    initial_temperature: float = option(0.001, above=0)
    target_entropy: float | None = None
    entropy_backup: bool = False
    update_to_data: int = option(20, low=1)
    batch_size: int = option(128, low=1)
    cloning_weight: float = option(2.0, low=0)
    final_cloning_weight: float = option(0.3, low=0)
    cloning_half_life: float = option(250.0, above=0)
    online_cloning_weight: float = option(0.3, low=0)
    cloning_filter: bool = False
    actor_q: str = "min"
    n_step: int = option(1, low=1)
    action_chunk: int = option(1, low=1)
    demonstration_ratio: float = option(0.5, low=0, high=1)
    learning_starts: int = option(100, low=0)
    actor_delay: int = option(0, low=0)
    reference_weight: float = option(0.0, low=0)
    reference_steps: int = option(2000, low=1)
    random_steps: int = option(0, low=0)
    pretrain_steps: int = option(2000, low=0)
    observation_keys: tuple[str, ...] | None = None
    normalise_observations: bool = True
    q_limit: float = option(1e4, above=0)
    device: str = "auto"
    implementation: str = "auto"
    precision: str = "float32"

    def cloning_weight_after(self, updates: int) -> float:
        """Return the weight of the cloning term after ``updates`` updates, with or without a step of the actor."""
        first, last = self.cloning_weight, self.final_cloning_weight
        return last + (first - last) * math.exp2(-max(updates - self.actor_delay, 0) / self.cloning_half_life)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_unused(("reference_steps",), self.reference_weight > 0, "agent.reference_weight is above 0")
        # Hydra passes lists.
        object.__setattr__(self, "hidden", tuple(self.hidden))
        if self.observation_keys is not None:
            object.__setattr__(self, "observation_keys", tuple(self.observation_keys))
        if self.action_chunk > 1:
            expected = f"1 or agent.action_chunk = {self.action_chunk}, as returns are those of whole chunks"
            cure = "set agent.action_chunk=1 for n-step returns of single actions"
            require(self.n_step in (1, self.action_chunk), "agent.n_step", f"{expected} ({cure})", self.n_step)
            object.__setattr__(self, "n_step", self.action_chunk)
        require(
            self.target_subset <= self.ensemble_size,
            "agent.target_subset",
            f"at most agent.ensemble_size = {self.ensemble_size}",
            self.target_subset,
        )
        require(
            len(self.hidden) >= 1 and all(width >= 1 for width in self.hidden),
            "agent.hidden",
            "one or more widths of 1 or more",
            list(self.hidden),
        )
        require_choice("agent.activation", self.activation, ACTIVATIONS)
        require_choice("agent.actor_q", self.actor_q, ACTOR_Q)
        require_choice("agent.exploration", self.exploration, EXPLORATIONS)
        require(
            self.exploration == "fixed" or self.pretrain_steps > 0,
            "agent.pretrain_steps",
            "above 0 for agent.exploration=demonstrations, which measures a clone",
            self.pretrain_steps,
        )
        require(
            re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device) is not None,
            "agent.device",
            "auto, cpu, cuda or cuda:<number>",
            self.device,
        )
        require_choice("agent.implementation", self.implementation, IMPLEMENTATIONS)
        require_choice("agent.precision", self.precision, PRECISIONS)
