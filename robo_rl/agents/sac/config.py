"""Configuration of soft actor-critic and of RLPD, which is the same algorithm with other hyperparameters."""

import math
import re
from dataclasses import dataclass
from typing import ClassVar

from robo_rl.core import Options, option, require

from ..parts.choices import ACTIVATIONS, require_choice

NETWORKS = ("mlp", "simba")
IMPLEMENTATIONS = ("auto", "compile", "native", "torch")
PRECISIONS = ("auto", "bfloat16", "float32")
ACTOR_Q = ("mean", "min")
PRETRAIN_CRITICS = ("none", "cal_ql", "iql")


@dataclass(frozen=True)
class SACConfig(Options, section="agent"):
    """Soft actor-critic with an ensemble of critics. The defaults are ``agent=rlpd`` with single actions.

    Attributes:
        ensemble_size: critics E.
        target_subset: critics M, drawn anew for each critic update, whose smallest value makes the target (REDQ).
        network: of actor and critics: ``mlp``, or ``simba``: residual blocks with LayerNorm before each and at the end
            (SimBa, Lee et al. 2024), of which :mod:`.networks` says more.
        hidden: widths of the hidden layers of actor and critics. For ``simba`` one width for each block, all the same:
            [128, 128] are two blocks of width 128, which are 512 wide inside.
        layer_norm: LayerNorm between each hidden layer of the critics and its activation; ``simba`` has its own.
        actor_layer_norm: the same for the actor.
        activation: ``gelu``, ``relu``, ``silu`` or ``tanh``.
        value_bins: K bins over ``value_range`` whose shares the critics learn, by cross-entropy (HL-Gauss, Farebrother
            et al. 2024), in the place of a value and its squared error; 0: none, 51: usual.
        value_range: least and largest value, targets beyond which count as these; null where there are no bins. A few
            bins more than the returns need keep what is learned at its ends free of bias: [-0.1, 1.1] for a reward of
            0 or 1 at the end.
        actor_learning_rate: of Adam [1].
        critic_learning_rate: of Adam [1].
        temperature_learning_rate: of Adam, on the logarithm of the temperature [1].
        gamma: discount per environment step.
        tau: share of the critics that goes into their target after each critic update.
        actor_tau: share of the actor that goes, after each update, into its running average, which acts where nothing
            is explored: in evaluations and on robots; 1: no average.
        initial_log_std: logarithm of the policy's standard deviation before tanh, before anything is learned; -2 is
            about the default target entropy, so that the temperature does not have to lower it for thousands of steps.
        initial_temperature: weight of the entropy before it is tuned.
        target_entropy: entropy of the policy that the temperature is tuned for [nat]; null: minus half the number
            of action dimensions.
        entropy_backup: whether targets contain the entropy of the next action.
        update_to_data: critic updates U for each environment step; the actor is updated once.
        batch_size: rows B of each critic update.
        cloning_weight: weight in the actor's loss, at the first update, of the squared distance between its mode and
            the actions of the demonstrations, summed over action dimensions, mean over all rows (those of other data
            count 0).
        final_cloning_weight: what that weight tends to.
        cloning_half_life: environment steps with updates in which the way there halves.
        online_cloning_weight: the same weight, at all times, for actions of the running training that are to be
            imitated: interventions, and what the policy did without one until success (self-imitation, Oh et al. 2018).
            Above 0, the weight of demonstrations shrinks with the number of the latter, see
            :class:`~robo_rl.replay.MixedSampler`.
        actor_q: what the actor climbs: the ``mean`` or the ``min`` of all critics; the smallest where little noise
            means that few actions beside the actor's own are ever tried.
        n_step: environment steps whose rewards are summed before a target looks at a critic; with action chunks their
            length, which 1 stands for too.
        action_chunk: steps h whose actions the policy decides at once, from one observation, and takes without another
            look (Q-chunking, Li et al. 2025). Critics judge whole chunks by h-step returns. Action dimensions are then
            those of the chunk, h times the robot's. 1: every step is decided by itself.
        demonstration_ratio: share of each minibatch that comes from the demonstrations, in [0, 1].
        learning_starts: environment steps before the first update.
        random_steps: environment steps with uniformly random actions at the start.
        pretrain_steps: steps of behaviour cloning of the actor on the demonstrations before training.
        pretrain_critics: how the critics learn from the demonstrations alone, after the cloning and before training:
            ``cal_ql``, calibrated Q-learning, which trains the actor too (Nakamoto et al. 2023); ``iql``, implicit
            Q-learning (Kostrikov et al. 2022); or ``none``.
        offline_steps: steps of ``pretrain_critics``, of one update each and in PyTorch; not used with ``none``.
        conservative_weight: of ``cal_ql``: weight of how far values of other actions are above those of demonstrated
            ones, beside the squared error of values. It raises values of the latter by half of it at most.
        expectile: of ``iql``, in [0.5, 1): 0.5 is the mean value of the demonstrated actions, 1 that of the best.
        observation_keys: what the networks see; null: every key that is not an image.
        normalise_observations: shift and scale observations by mean and deviation of the demonstrations, fixed
            from the start.
        q_limit: magnitude of a value estimate beyond which the run counts as diverged. Returns with rewards in
            [0, 1] stay below 1 / (1 - gamma).
        device: where learning is computed: ``cpu``, ``cuda`` (``cuda:1``, ...), or ``auto``: a GPU where PyTorch finds
            one, else the CPU. Actors of a learner elsewhere act on the CPU.
        implementation: what computes updates (cloning is native or in PyTorch): ``native`` (C++ on the CPU), ``torch``,
            ``compile`` (torch.compile), or ``auto``: native where it is available, else torch. On a GPU an update is
            captured as one CUDA graph.
        precision: of the factors of matrix products; ``bfloat16`` keeps parameters and sums in float32. On a CPU
            without such products ``implementation=auto`` is float32. ``auto``: the faster of both in native updates,
            measured once on each machine; float32 in all other updates.
    """

    # Read by the composition: this agent learns from its own steps (behaviour cloning does not).
    learns_online: ClassVar[bool] = True
    imitates: ClassVar[bool] = True

    ensemble_size: int = option(5, low=1)
    target_subset: int = option(2, low=1)
    network: str = "mlp"
    hidden: tuple[int, ...] = (256, 256)
    layer_norm: bool = True
    actor_layer_norm: bool = False
    activation: str = "relu"
    value_bins: int = 0
    value_range: tuple[float, float] | None = None
    actor_learning_rate: float = option(3e-4, above=0, below=1)
    critic_learning_rate: float = option(3e-4, above=0, below=1)
    temperature_learning_rate: float = option(3e-4, above=0, below=1)
    gamma: float = option(0.97, low=0, high=1)
    tau: float = option(0.005, above=0, high=1)
    actor_tau: float = option(0.005, above=0, high=1)
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
    actor_q: str = "min"
    n_step: int = option(1, low=1)
    action_chunk: int = option(1, low=1)
    demonstration_ratio: float = option(0.5, low=0, high=1)
    learning_starts: int = option(100, low=0)
    random_steps: int = option(0, low=0)
    pretrain_steps: int = option(2000, low=0)
    pretrain_critics: str = "none"
    offline_steps: int = option(1000, low=0)
    conservative_weight: float = option(0.1, low=0)
    expectile: float = option(0.7, low=0.5, below=1)
    observation_keys: tuple[str, ...] | None = None
    normalise_observations: bool = True
    q_limit: float = option(1e4, above=0)
    device: str = "auto"
    implementation: str = "auto"
    precision: str = "float32"

    def cloning_weight_after(self, updates: int) -> float:
        """Return the weight of the cloning term after ``updates`` updates."""
        first, last = self.cloning_weight, self.final_cloning_weight
        return last + (first - last) * math.exp2(-updates / self.cloning_half_life)

    def __post_init__(self) -> None:
        super().__post_init__()
        # Hydra passes lists.
        object.__setattr__(self, "hidden", tuple(self.hidden))
        for key in ("observation_keys", "value_range"):
            if getattr(self, key) is not None:
                object.__setattr__(self, key, tuple(getattr(self, key)))
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
        require_choice("agent.network", self.network, NETWORKS)
        require(
            self.network == "mlp" or len(set(self.hidden)) == 1,
            "agent.hidden",
            "equal widths, one for each block, where agent.network=simba",
            list(self.hidden),
        )
        require(self.value_bins == 0 or self.value_bins >= 2, "agent.value_bins", "0, or 2 or more", self.value_bins)
        values = None if self.value_range is None else list(self.value_range)
        if self.value_bins == 0:
            require(values is None, "agent.value_range", "null where agent.value_bins=0", values)
        else:
            require(
                values is not None and len(values) == 2 and -math.inf < values[0] < values[1] < math.inf,
                "agent.value_range",
                "the least and the largest return, such as [-0.1,1.1], where agent.value_bins is above 0",
                values,
            )
        require_choice("agent.pretrain_critics", self.pretrain_critics, PRETRAIN_CRITICS)
        require(
            self.pretrain_critics == "none" or self.demonstration_ratio > 0,
            "agent.demonstration_ratio",
            f"above 0 with agent.pretrain_critics={self.pretrain_critics}: it learns from demonstrations",
            self.demonstration_ratio,
        )
        require_choice("agent.activation", self.activation, ACTIVATIONS)
        require_choice("agent.actor_q", self.actor_q, ACTOR_Q)
        require(
            re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device) is not None,
            "agent.device",
            "auto, cpu, cuda or cuda:<number>",
            self.device,
        )
        require_choice("agent.implementation", self.implementation, IMPLEMENTATIONS)
        require_choice("agent.precision", self.precision, PRECISIONS)
