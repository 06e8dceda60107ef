"""The common configuration of agents with critics of chunks and a flow."""

from dataclasses import dataclass

from robo_rl.core import option

from .offline_config import OfflineConfig

TARGET_Q = ("mean", "min")


@dataclass(frozen=True)
class FlowActorCriticConfig(OfflineConfig):
    """Critics of action chunks, and a flow that learns the distribution of the chunks in the data.

    The defaults are for two processor cores. The papers have hidden=[512,512,512,512], batch_size=256, gamma=0.99,
    action_chunk=5, pretrain_steps=0, offline_steps=1000000 and learning_starts=5000. For further differences see
    :class:`.FlowActorCritic`.

    Attributes (besides those of :class:`~robo_rl.agents.parts.offline_config.OfflineConfig`):
        ensemble_size: number of critics.
        layer_norm: LayerNorm between each hidden layer of the critics and its activation.
        gamma: discount per environment step.
        tau: coefficient of the running averages of the networks, updated after each step. The average of the critics
            makes the targets; that of the policy acts in evaluations and on robots.
        target_q: value of a chunk in a target: the ``mean`` or the ``min`` over the averaged critics.
        flow_steps: steps of Euler's method that move noise to a chunk.
        action_chunk: number h of actions that the policy decides at once from one observation. Critics evaluate whole
            chunks, by h-step returns. 1: a decision at every step.
        update_to_data: steps of all networks for each environment step.
        demonstration_ratio: share of each minibatch that comes from the demonstrations, in [0, 1].
        learning_starts: environment steps before the first update.
        pretrain_steps: steps of cloning of the demonstrations, before ``offline_steps``.
        offline_steps: steps of all networks on the demonstrations, critics included, before the first environment step.
        q_limit: magnitude of a value estimate above which the run counts as diverged.
    """

    learns_online = True
    online_cloning_weight = 1.0

    hidden: tuple[int, ...] = (256, 256, 256)
    activation: str = "gelu"
    batch_size: int = option(128, low=1)
    pretrain_steps: int = option(2000, low=0)
    ensemble_size: int = option(2, low=1)
    layer_norm: bool = True
    gamma: float = option(0.97, low=0, high=1)
    tau: float = option(0.005, above=0, high=1)
    target_q: str = option("mean", choices=TARGET_Q)
    flow_steps: int = option(10, low=1)
    action_chunk: int = option(4, low=1)
    update_to_data: int = option(1, low=1)
    demonstration_ratio: float = option(0.5, low=0, high=1)
    learning_starts: int = option(100, low=0)
    offline_steps: int = option(1000, low=0)
    q_limit: float = option(1e4, above=0)

    @property
    def n_step(self) -> int:
        """Steps that a row of the data spans: the length of a chunk."""
        return self.action_chunk
