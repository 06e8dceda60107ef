"""Configuration of runs, runtimes and actors."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..core import MAX_SECONDS, Options, option, require
from ..transport import TransportConfig


@dataclass(frozen=True)
class RunConfig(Options, section="run"):
    """The length and the results of a run.

    Attributes:
        dir: folder of the run.
        overwrite: replace a run in the folder.
        env_steps: total number of environment steps.
        evaluation_interval: environment steps between evaluations, of which the first is before the first step; 0: only
            at the end.
        evaluation_episodes: number of episodes of each evaluation.
        final_evaluation_episodes: number of episodes of the final evaluation, which has its own start states.
        video_episodes: number of filmed episodes of the final evaluation and, in simulation, of the same episodes
            before the first step and of failures; 0: none.
        checkpoint_interval: environment steps between checkpoints; each evaluation is also followed by one.
        keep_checkpoints: number of newest checkpoints to keep, besides the best.
        rollbacks: how often in a row a diverging agent goes back to the newest checkpoint, with fewer than
            ``checkpoint_interval`` environment steps in between, before the run ends; 0: it ends at once.
        replay_capacity: number of observations in the online replay buffer; an episode of L steps takes L + 1.
        hindsight: number of copies of each episode that are stored with a goal that it achieved (hindsight experience
            replay), for tasks whose goal is observed; 0: none.
        counterfactual: share of the online rows of each minibatch in which ``task.machine`` is in a random state
            instead of its own (counterfactual experiences); 0: none.
        relabel_rows: number of stored transitions whose learned rewards are recomputed after each step, if a module has
            changed; sampled transitions are always up to date.
        stop_at_success_rate: end the run when an evaluation after the first step reaches this rate (0 to 1); null:
            never.
        stop_at_return: end the run when an evaluation after the first step reaches this mean return; null: never.
    """

    dir: str = "???"
    overwrite: bool = False
    env_steps: int = option(6_000, low=0)
    evaluation_interval: int = option(500, low=0)
    evaluation_episodes: int = option(50, low=1)
    final_evaluation_episodes: int = option(100, low=1)
    video_episodes: int = option(4, low=0)
    checkpoint_interval: int = option(1_000, low=1)
    keep_checkpoints: int = option(2, low=1)
    rollbacks: int = option(3, low=0)
    replay_capacity: int = option(200_000, low=2)
    hindsight: int = option(0, low=0)
    counterfactual: float = option(0.0, low=0, high=1)
    relabel_rows: int = option(0, low=0)
    stop_at_success_rate: float | None = None
    stop_at_return: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        rate = self.stop_at_success_rate
        require(rate is None or 0 < rate <= 1, "run.stop_at_success_rate", "null or in (0, 1]", rate)


@dataclass(frozen=True)
class StartConfig(Options, section="start"):
    """The run that another run starts from: its policy and, if requested, its critics and its replay buffer.

    Both runs need the same observations, actions, rates and networks. Nothing is cloned and no critics are pretrained
    before the first step (``agent.pretrain_steps`` has no effect), because the policy must not change. The first
    ``agent.learning_starts`` steps are those of the starting policy. The critics may learn alone at first, see
    ``agent.actor_delay``. Everything that is needed is copied, so that the run can be resumed without the other one.

    Attributes:
        run: folder of that run; null: the agent starts from initial parameters.
        checkpoint: checkpoint of that run: ``best``, ``newest`` or the number of a step.
        critics: take over the critics too, with their targets and the temperature; false: new critics. Critics that
            learned from other rewards or in another environment may be worse than new ones.
        replay_ratio: share of each minibatch that is drawn from the replay buffer of that run, as prior data beside the
            demonstrations. It is neither imitated nor replaced by newer steps, and its rewards remain as they were. 0:
            none.
    """

    run: str | None = None
    checkpoint: str = "best"
    critics: bool = False
    replay_ratio: float = option(0.0, low=0, high=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        needs_run = [name for name in ("critics", "replay_ratio") if getattr(self, name)]
        is_given = self.run is not None or not needs_run
        require(is_given, "start.run", f"a run folder if start.{''.join(needs_run[:1])} is set", self.run)


@dataclass(frozen=True)
class DemonstrationsConfig(Options, section="demonstrations"):
    """The origin of demonstrations.

    Attributes:
        path: data set to read; null: a script records demonstrations into the run folder.
        episodes: number of demonstrations to use; 0: none.
        source: script that records demonstrations: ``human_like``, as slow, inexact and fallible as a person;
            ``expert``, which uses the whole state; or ``planner``, which plans in the simulator with the reward of the
            section ``planner``, for tasks without a script.
        noise: for ``expert``, the standard deviation of the Gaussian noise on executed actions; the intended actions
            are stored beside them (DART, Laskey et al. 2017). A person cannot provide such data.
    """

    path: str | None = None
    episodes: int = option(20, low=0)
    source: str = option("human_like", choices=("human_like", "expert", "planner"))
    noise: float = option(0.3, low=0, high=1)


@dataclass(frozen=True)
class LocalRuntimeConfig(Options, section="runtime"):
    """Actor and learner in one process, in turn: deterministic.

    Attributes:
        threads: threads for PyTorch and the native update; null: one for each core that this process may use.
    """

    name: str = "local"
    threads: int | None = option(None, low=1)


@dataclass(frozen=True)
class AsyncRuntimeConfig(Options, section="runtime"):
    """Learner and actors in separate processes, on one or several machines.

    Ratios are learner steps per environment step (both after ``agent.learning_starts``); a learner step is
    ``agent.update_to_data`` updates of the critics. The learner waits if it would exceed ``max_ratio``, or if an
    evaluation is due while the previous one is running: it learns while a copy of its policy is evaluated. While the
    learner is more than a few steps below ``min_ratio``, or waits for an evaluation, an actor begins no new episode; a
    simulator also waits within an episode, a robot never does.

    Attributes:
        threads: threads for PyTorch and the native update of the learner; null: one for each available core, but one
            fewer if the learner starts the actor of a robot, whose control loop needs its own core.
        actors: actors that the learner starts on this machine; others may join at ``transport.address``.
        min_ratio: see above; 0: actors are never held.
        max_ratio: see above.
        publish_interval: learner steps between two policies that are sent to actors.
        real_time_factor: simulated seconds per second for simulators that the learner starts: 1 is the pace of a robot;
            null: as fast as possible.
        restarts: number of restarts of failed actors, for all of them together.
        finish_seconds: longest wait of the learner at the end for steps that actors still hold [s].
        transport: the transport. Without an address: a Unix socket for the learner's own actors alone.
    """

    name: str = "async"
    threads: int | None = option(None, low=1)
    actors: int = option(1, low=0, high=1024)
    min_ratio: float = 1.0
    max_ratio: float = option(1.0, above=0)
    publish_interval: int = option(2, low=1)
    real_time_factor: float | None = None
    restarts: int = option(5, low=0)
    finish_seconds: float = option(20.0, low=0, high=MAX_SECONDS)
    transport: TransportConfig = field(default_factory=TransportConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.min_ratio <= self.max_ratio, "runtime.min_ratio", "0 to runtime.max_ratio", self.min_ratio)
        check_pace("runtime.real_time_factor", self.real_time_factor)
        has_actors = self.actors > 0 or self.transport.address is not None
        require(has_actors, "runtime.transport.address", "an address if runtime.actors is 0", None)


def check_pace(key: str, factor: float | None) -> None:
    """Check the real-time factor of a simulator.

    Raises:
        ConfigError: if it is too slow or too fast for a clock.
    """
    require(factor is None or 0.001 <= factor <= 10_000, key, "null or in [0.001, 10000]", factor)


def check_resources(key: str, amounts: Mapping[str, float]) -> None:
    """Check the resources requested from Ray, which counts in units of 0.0001 and reserves some names.

    Raises:
        ConfigError: if Ray would reject them.
    """
    is_valid = all(amount == 0 or 1e-4 <= amount < float("inf") for amount in amounts.values())
    require(is_valid, key, "0, or 0.0001 or more, of each", dict(amounts))
    reserved = {"object_store_memory", "bundle"} & amounts.keys()
    require(not reserved, key, "CPU, GPU, memory [bytes] and your own names", sorted(reserved))


@dataclass(frozen=True)
class RayRuntimeConfig(AsyncRuntimeConfig):
    """The runtime ``async`` with a learner and simulators that Ray places and restarts. Other attributes mean the same.

    Attributes:
        actors: number of simulator processes at the start, which may be changed during the run; others may join.
        restarts: number of times that Ray restarts each process that failed, including the learner.
        cluster: ``auto`` (the cluster that this machine belongs to) or HOST:PORT of its head; null: a Ray cluster for
            this run alone, on this machine.
        environments: simulators in each process, one per thread.
        learner_resources: resources that Ray reserves for the learner: ``CPU``, ``GPU``, ``memory`` [bytes], and custom
            resources of a cluster.
        actor_resources: resources that Ray reserves for each process of simulators.
    """

    name: str = "ray"
    cluster: str | None = None
    environments: int = option(1, low=1)
    learner_resources: dict[str, float] = field(default_factory=lambda: {"CPU": 1.0})
    actor_resources: dict[str, float] = field(default_factory=lambda: {"CPU": 1.0})

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("learner_resources", "actor_resources"):
            check_resources(f"runtime.{key}", getattr(self, key))
        reachable = self.cluster is None or self.transport.address is not None
        require(
            reachable,
            "runtime.transport.address",
            "an address if runtime.cluster is set, at which simulators on other machines join",
            None,
        )


@dataclass(frozen=True)
class ActorConfig(Options, section="actor"):
    """One robot or simulator that acts for a learner in another process.

    Attributes:
        name: identity of the actor, unique within the run; with certificates, the name in them.
        spool: folder that keeps the actor's steps until the learner has stored them; one for each actor.
        spool_bytes: largest size of the spool; collection pauses when it is reached.
        sync_seconds: time between synchronisations of the spool to disk, and the largest loss in a power cut [s].
        finish_seconds: longest wait at the end for the learner to store the remaining steps [s].
        threads: threads for PyTorch.
        parent: process id; the actor ends when this process is no longer its parent. null: not checked.
        real_time_factor: simulated seconds per second: 1 is the pace of a robot; null: as fast as the simulator can. A
            robot runs at its own pace.
    """

    name: str = "actor"
    spool: str = "???"
    spool_bytes: int = option(4 << 30, low=1)
    sync_seconds: float = option(1.0, above=0, high=MAX_SECONDS)
    finish_seconds: float = option(20.0, low=0, high=MAX_SECONDS)
    threads: int = option(1, low=1)
    parent: int | None = None
    real_time_factor: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pace("actor.real_time_factor", self.real_time_factor)
