"""robo-rl reward publish: a node that scores a live robot with reward modules."""

from pathlib import Path

from omegaconf import DictConfig, open_dict

from ..app import build, build_reward, has_robot, load_reward, observation_options, run_config
from ..core import Clock, ConfigError, EnvSpec, Interruption, MonotonicClock, Scorer, TurningState, typed
from ..monitoring.reward_node import PublishConfig, RewardNode
from ..operators.panel import offer_settings
from ..replay import EpisodeStore


def run(config: DictConfig) -> int:
    """Score as configured in configs/reward_publish.yaml until a signal ends it; return the exit code (130 or 143).

    Raises:
        ConfigError: if there is no robot, or no module that can score it.
    """
    settings = typed(PublishConfig, config, "publish")
    if config.run is not None:
        with open_dict(config):
            config.task = run_config(Path(str(config.run))).task
    if not has_robot(config):
        raise ConfigError("robo-rl reward publish scores a robot over ROS 2: choose one, such as robot=virtual")
    observed = observation_options(config)
    if observed.get("relative") or observed.get("history") or config.task.get("machine"):
        raise ConfigError(
            "robo-rl reward publish scores measured observations and does not know when episodes begin: train the "
            "reward with task.observation.relative=false task.observation.history=0 task.machine=null"
        )
    backend = build(config.robot, simulation=build(config.task))
    try:
        turning = TurningState(backend.spec, backend.robot)  # converts observations as for modules in a run
        scorer = _fitted(config, turning.spec)
        with Interruption() as interruption:
            robot = backend.scored(settings.topic)
            try:
                steering = build(config.steering, marks=False)
                try:
                    offer_settings(steering, config, "task")
                    node = RewardNode(settings, robot, scorer, turning.spec, steering, turning.convert)
                    print(f"Scores robot {config.robot.name}; Ctrl-C ends it", flush=True)
                    _turn_until_interrupted(node, interruption, MonotonicClock())
                finally:
                    steering.close()
            finally:
                robot.close()
    finally:
        backend.close()
    assert interruption.signal is not None
    return 128 + interruption.signal


def _turn_until_interrupted(node: RewardNode, interruption: Interruption, clock: Clock) -> None:
    due_ns = clock.now_ns()
    while interruption.signal is None:
        node.turn()
        due_ns = max(due_ns + round(1e9 / node.settings.rate), clock.now_ns())
        clock.sleep_until_ns(due_ns)


def _fitted(config: DictConfig, spec: EnvSpec) -> Scorer:
    """Return the reward modules: from a run's checkpoint, or fitted to demonstrations.

    Raises:
        ConfigError: if there are none.
    """
    if config.run is not None:
        scorer = load_reward(Path(str(config.run)), spec, str(config.checkpoint)).reward.scorer
    else:
        scorer = build_reward(config.reward, spec, config.seed).scorer
    if scorer is None:
        raise ConfigError("the task's own terms need no node: choose a reward with modules, such as reward=classifier")
    if config.run is None:
        episodes = []
        if config.demonstrations.path is not None:
            with EpisodeStore.open(Path(config.demonstrations.path)) as store:
                store.check_against(spec)
                episodes = [store.arrays(number, spec.observation).rows() for number in range(len(store))]
        scorer.fit(episodes)
    return scorer
