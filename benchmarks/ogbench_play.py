"""Play data of OGBench's manipulation tasks, made again by the oracles of the package, as a data set for robo-rl.

The published data sets are downloads; these have the settings of the published ``play`` sets: a non-Markovian oracle
with smooth noise moves the objects of the scene in random order, in episodes of 1,001 steps (seohongpark/ogbench,
data_gen_scripts). One million steps take about 50 minutes of a core.

    python benchmarks/ogbench_play.py --task cube-double-singletask-task2-v0 --output datasets/cube_double_2
    python benchmarks/ogbench_play.py --task scene-singletask-task2-v0 --episodes 100 --output datasets/scene_2
    python benchmarks/ogbench_play.py --task ... --file cube-double-play-v0.npz --output ...    from a published file

Play is cached for all tasks of a scene in --cache, one file per episode; a second call goes on from there. The labels
(reward, end, success) are those of --task. As in the environment, an episode ends with the first action after the goal
is reached. The next one begins as soon as the goal is left.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.table_runs import make_parser
from robo_rl.core import Source, Transition, derive_seed, draft_of
from robo_rl.replay import EpisodeStore
from robo_rl.sim.gymnasium_backend import GymnasiumBackend
from robo_rl.sim.gymnasium_options import GymnasiumConfig

STEPS = 1_001
"""Steps of an episode of play; the last observation has no action in the data."""
PERIOD_NS = 50_000_000
"""Of control."""
NOISE = {"noise": 0.1, "noise_smoothing": 0.5}
"""Of the oracles' actions, as in the published data."""
STACKING = {"single": (0.0, 0.0), "double": (0.0, 0.25), "triple": (0.05, 0.35), "quadruple": (0.1, 0.5)}
"""Range of the probability, drawn for each episode, that the next target is on top of another cube."""
KEYS = ("observations", "actions", "qpos", "button_states")

Episode = dict[str, Any]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--task", required=True, help="for example cube-double-singletask-task2-v0")
    parser.add_argument("--output", type=Path, required=True, help="new folder of the data set")
    parser.add_argument("--episodes", type=int, default=1_000, help="episodes of play")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, default=Path("datasets") / "ogbench_play")
    parser.add_argument("--file", type=Path, help="published .npz file to take instead")
    options = parser.parse_args()
    if options.output.exists():
        parser.error(f"{options.output} exists: choose another folder, or remove it")
    match = re.fullmatch(r"((?:cube|scene|puzzle)[a-z0-9-]*?)-singletask(?:-task\d)?-v0", options.task)
    if match is None:
        parser.error(f"--task {options.task}: expected a single task of cube, scene or puzzle with state observations")
    if options.file is not None:
        episodes, origin = published(options.file), {"file": options.file.name}
    else:
        episodes = cached(match[1], options.episodes, options.seed, options.cache / f"{match[1]}_{options.seed}")
        origin = {"episodes": options.episodes, "seed": options.seed}
    store(options.task, episodes, options.output, origin)


def published(file: Path) -> Iterator[Episode]:
    """Yield the episodes of a published file."""
    with np.load(file, allow_pickle=False) as data:
        arrays = {key: data[key] for key in (*KEYS, "terminals") if key in data}
    ends = np.flatnonzero(arrays.pop("terminals")) + 1
    for begin, end in zip((0, *ends[:-1]), ends, strict=True):
        yield {key: values[begin:end] for key, values in arrays.items()}


def cached(scene: str, episodes: int, seed: int, folder: Path) -> Iterator[Episode]:
    """Yield ``episodes`` episodes of play in ``scene``, recorded now if they are not in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    play: Play | None = None
    for number in range(episodes):
        file = folder / f"{number:05d}.npz"
        if not file.exists():
            play = play or Play(scene)
            draft = file.with_name("draft.npz")
            np.savez(draft, **play.record(derive_seed(seed, "play", number) % 2**32))
            draft.replace(file)
            print(f"\r{scene}: {number + 1:,} of {episodes:,} episodes of play", end="", flush=True)
        with np.load(file, allow_pickle=False) as data:
            yield dict(data)
    if play is not None:
        print()


class Play:
    """A scene of OGBench in which an oracle moves objects.

    Args:
        scene: ``cube-double``, ``scene``, ``puzzle-3x3`` and so on.
    """

    def __init__(self, scene: str) -> None:
        import ogbench.manipspace  # registers the environments
        from ogbench.manipspace.oracles.plan.button_plan import ButtonPlanOracle
        from ogbench.manipspace.oracles.plan.cube_plan import CubePlanOracle
        from ogbench.manipspace.oracles.plan.drawer_plan import DrawerPlanOracle
        from ogbench.manipspace.oracles.plan.window_plan import WindowPlanOracle

        del ogbench
        settings = {"terminate_at_goal": False, "mode": "data_collection", "max_episode_steps": STEPS}
        self._scene, self._env = scene, gymnasium.make(f"{scene}-v0", **settings)
        if scene.startswith("puzzle"):
            oracles: dict[str, Any] = {"button": ButtonPlanOracle(env=self._env, gripper_always_closed=True, **NOISE)}
        else:
            oracles = {"cube": CubePlanOracle(env=self._env, **NOISE)}
        if scene == "scene":
            others = {"button": ButtonPlanOracle, "drawer": DrawerPlanOracle, "window": WindowPlanOracle}
            oracles |= {name: make(env=self._env, **NOISE) for name, make in others.items()}
        self._oracles = oracles

    def record(self, seed: int) -> Episode:
        """Return an episode: observations, actions and states before each action, as rows."""
        np.random.seed(seed)  # noqa: NPY002 - the oracles draw from this generator
        observation, info = self._env.reset(seed=seed)
        while (episode := self._play(observation, info)) is None:
            observation, info = self._env.reset()
        return episode

    def _play(self, observation: Any, info: dict[str, Any]) -> Episode | None:
        """Return an episode; None if a cube left the part of the scene that the task is about."""
        low, high = STACKING.get(self._scene.removeprefix("cube-"), (0.5, 0.5))
        stacking = np.random.uniform(low, high)  # noqa: NPY002
        oracle = self._oracles[info["privileged/target_task"]]
        oracle.reset(observation, info)
        rows: dict[str, list[Any]] = {key: [] for key in KEYS}
        done = False
        while not done:
            action = np.clip(np.array(oracle.select_action(observation, info)), -1, 1)
            rows["observations"].append(observation)
            rows["actions"].append(action)
            observation, _, terminated, truncated, info = self._env.step(action)
            done = terminated or truncated
            rows["qpos"].append(info["prev_qpos"])
            if "prev_button_states" in info:
                rows["button_states"].append(info["prev_button_states"])
            if oracle.done:
                target, target_info = self._env.unwrapped.set_new_target(p_stack=stacking)  # type: ignore[attr-defined]
                oracle = self._oracles[target_info["privileged/target_task"]]
                oracle.reset(target, target_info)
        episode = {key: np.array(values, np.float32) for key, values in rows.items() if values}
        return None if self._scene == "scene" and cube_lost(episode["qpos"][:, 14:17]) else episode


def cube_lost(positions: Any) -> bool:
    """Return whether the cube (L, 3) is ever too far right, or too far left and not in the drawer."""
    left = positions[:, 1] <= -0.3
    in_drawer = (positions[:, 2] >= 0.06) & (positions[:, 2] <= 0.08)
    return bool((positions[:, 1] >= 0.29).any() or (left & ~in_drawer).any())


def store(task: str, episodes: Iterator[Episode], output: Path, metadata: dict[str, Any]) -> None:
    """Write ``episodes`` of play, labelled for ``task``, to the new data set ``output``."""
    backend = GymnasiumBackend(GymnasiumConfig(env_id=task))
    spec = backend.spec
    labels = gymnasium.make(task)
    with draft_of(output) as draft:
        with EpisodeStore.create(draft, spec, {"play": {"task": task, **metadata}}) as data:
            numbers = iter(range(sys.maxsize))
            for session, episode in enumerate(episodes):
                if parts := list(labelled(task, labels, episode, session, numbers)):
                    data.append_episodes(parts)
            summary = data.summary()
        draft.replace(output)
    print(f"{output}: {summary.episodes:,} episodes, {summary.steps:,} steps, {summary.successes:,} successes")


def labelled(
    task: str, env: gymnasium.Env[Any, Any], episode: Episode, session: int, numbers: Iterator[int]
) -> Iterator[list[Transition]]:
    """Yield the episodes of ``task`` in an episode of play.

    The reward of a step, and whether it ends the episode, depend on the state before its action.
    """
    from ogbench.relabel_utils import relabel_dataset

    labels = dict(episode)
    relabel_dataset(task, env, labels)
    solved = labels["masks"] == 0
    observations = episode["observations"].astype(np.float32)
    actions = np.ascontiguousarray(episode["actions"], np.float32)
    last = len(actions) - 2  # the last row holds the final observation
    steps: list[Transition] = []
    for number in range(last + 1):
        if solved[number] and not steps:
            continue  # the goal is still reached
        steps.append(
            Transition(
                observation={"state": observations[number]},
                proposed_action=actions[number],
                executed_action=actions[number],
                rewards={"reward": float(labels["rewards"][number]), "success": float(solved[number])},
                next_observation={"state": observations[number + 1]},
                terminated=bool(solved[number]),
                truncated=not solved[number] and number == last,
                source=Source.SCRIPT,
                actor="play",
                session=session,
                episode=0,
                sequence=number,
                policy_version=-1,
                stamp_ns=0,
                success=bool(solved[number]),
            )
        )
        if solved[number] or number == last:
            index = next(numbers)
            yield [replace(step, episode=index, stamp_ns=place * PERIOD_NS) for place, step in enumerate(steps)]
            steps = []


if __name__ == "__main__":
    main()
