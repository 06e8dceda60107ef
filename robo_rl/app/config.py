"""Configuration of runs, runtimes and actors."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..core import MAX_SECONDS, Options, option, require
from ..transport import TransportConfig


@dataclass(frozen=True)
class RunConfig(Options, section="run"):
    """How long a run is and what it leaves behind.

    Attributes:
        dir: folder of the run.
        overwrite: replace a run that the folder holds.
        env_steps: environment steps in all.
        evaluation_interval: environment steps between evaluations; 0: only at the end.
        evaluation_episodes: episodes of each evaluation.
        final_evaluation_episodes: episodes of the evaluation at the end, with start states of its own.
        video_episodes: how many of the episodes of the last evaluation are filmed; 0: none.
        checkpoint_interval: environment steps between checkpoints; there is one after each evaluation too.
        keep_checkpoints: how many of the newest checkpoints are kept, besides the best.
        rollbacks: how often an agent that diverges goes back to the newest checkpoint, with fewer than
            ``checkpoint_interval`` environment steps between, before the run ends; 0: it ends at once.
        replay_capacity: observations that the online replay holds; an episode of L steps takes L + 1.
        relabel_rows: stored transitions whose learned rewards are computed again after each step, where a module has
            changed; those that are sampled always are.
        stop_at_success_rate: end the run when an evaluation reaches this rate (0 to 1); null: never.
        stop_at_return: end the run when an evaluation reaches this mean return; null: never.
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
    relabel_rows: int = option(0, low=0)
    stop_at_success_rate: float | None = None
    stop_at_return: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        rate = self.stop_at_success_rate
        require(rate is None or 0 < rate <= 1, "run.stop_at_success_rate", "null or in (0, 1]", rate)


@dataclass(frozen=True)
class DemonstrationsConfig(Options, section="demonstrations"):
    """Where demonstrations come from.

    Attributes:
        path: data set to read; null: record them from the task's scripted expert into the run folder.
        episodes: how many to use; 0: none.
        source: who demonstrates where they are recorded: ``human_like``, a script that is as slow, inexact and fallible
            as a person, or ``expert``, one that knows the whole state.
        noise: of ``expert``: standard deviation of the Gaussian noise on what is executed; what the expert wanted is
            stored beside it (DART, Laskey et al. 2017). No person can give such data.
    """

    path: str | None = None
    episodes: int = option(20, low=0)
    source: str = option("human_like", choices=("human_like", "expert"))
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
    """Learner and actors in processes of their own, here or on other machines.

    Ratios are learner steps to environment steps (both after ``agent.learning_starts``); a learner step is
    ``agent.update_to_data`` updates of the critics. The learner waits where it would exceed ``max_ratio``, and where an
    evaluation is due while the one before goes on: it learns while a copy of its policy is evaluated. While it is more
    than a few steps below ``min_ratio``, or waits for an evaluation, an actor begins no other episode; a simulator
    waits within one too, a robot never.

    Attributes:
        threads: threads for PyTorch and the native update of the learner; null: one for each core that it may use, but
            one where the learner starts the actor of a robot, whose control loop is to have a core of its own.
        actors: actors that the learner starts on this machine; others may join at ``transport.address``.
        min_ratio: see above; 0: actors are never held.
        max_ratio: see above.
        publish_interval: learner steps between two policies that are sent to actors.
        real_time_factor: how many simulated seconds a second may have for simulators that the learner starts: 1 is the
            pace of a robot, as which they then collect; null: as many as they can.
        restarts: how often actors that failed are started again, all together.
        finish_seconds: how long the learner waits at the end for what actors still hold [s].
        transport: the wire. Without an address: a Unix socket for the learner's own actors alone.
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
        given = self.actors > 0 or self.transport.address is not None
        require(given, "runtime.transport.address", "given where runtime.actors is 0", None)


def check_pace(key: str, factor: float | None) -> None:
    """Check how much faster than a robot a simulator may be.

    Raises:
        ConfigError: if it is so slow or fast that no clock keeps it.
    """
    require(factor is None or 0.001 <= factor <= 10_000, key, "null or in [0.001, 10000]", factor)


def check_resources(key: str, amounts: Mapping[str, float]) -> None:
    """Check what is asked of Ray, which counts in ten-thousandths and has names of its own.

    Raises:
        ConfigError: if Ray would not take it.
    """
    fits = all(amount == 0 or 1e-4 <= amount < float("inf") for amount in amounts.values())
    require(fits, key, "0, or 0.0001 or more, of each", dict(amounts))
    taken = {"object_store_memory", "bundle"} & amounts.keys()
    require(not taken, key, "CPU, GPU, memory [bytes] and names of your own", sorted(taken))


@dataclass(frozen=True)
class RayRuntimeConfig(AsyncRuntimeConfig):
    """As ``async``, with a learner and simulators that Ray places and starts again. Other attributes mean the same.

    Attributes:
        actors: processes of simulators at the start; others may join, and the number may be changed while it runs.
        restarts: how often Ray starts each process again that ended before its time, the learner's too.
        cluster: ``auto`` (the cluster that this machine is part of) or HOST:PORT of its head; null: a Ray of this run's
            own, on this machine alone.
        environments: simulators in each process, in threads of their own.
        learner_resources: what Ray reserves for the learner: ``CPU``, ``GPU``, ``memory`` [bytes], and what a cluster
            defines of its own.
        actor_resources: the same for each process of simulators.
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
            "given where runtime.cluster is: simulators elsewhere join there",
            None,
        )


@dataclass(frozen=True)
class ActorConfig(Options, section="actor"):
    """One robot or simulator that acts for a learner elsewhere.

    Attributes:
        name: its identity, unique within the run; with certificates, the name in them.
        spool: folder that keeps its steps until the learner has stored them; one for each actor.
        spool_bytes: most bytes to keep; collecting pauses where that is reached.
        sync_seconds: time between synchronisations of the spool with the disk: what a power cut may cost [s].
        finish_seconds: how long it waits at its end for the learner to store what is left [s].
        threads: threads for PyTorch.
        parent: process id; the actor ends when this process is no longer its parent. null: it does not look.
        real_time_factor: how many simulated seconds a second may have: 1 is the pace of a robot; null: as many as the
            simulator can. A robot has its own.
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
