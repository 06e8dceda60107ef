"""Rewards that are computed and learned, and a simulated expert, where actors are processes of their own."""

from pathlib import Path

import numpy as np
import pytest

from robo_rl.app import build_reward, register_all_configs, run_config
from robo_rl.core import Source, Transition
from robo_rl.learner import CheckpointFolder
from robo_rl.replay import EpisodeStore, ReplayRing

from ..rigs.command_line import SMALL_AGENT, robo_rl
from ..rigs.run_folder import records

STEPS = 150
TRAIN = [
    "task=reach",
    "task.max_episode_steps=20",
    "runtime=async",
    "runtime.actors=2",
    "runtime.real_time_factor=3",  # an actor that starts a second later finds work left
    "runtime.threads=1",
    "reward=composed",
    "+reward/module@reward.modules.steps=perceptual",
    "reward.modules.steps.steps=2",
    "+reward/module@reward.modules.transport=optimal_transport",
    "reward.modules.transport.scheduled_discount=true",
    "+reward/module@reward.modules.goal=vice",
    "reward.modules.goal.hidden=[8]",
    "reward.modules.goal.fit_steps=5",
    "reward.modules.goal.interval=5",
    "reward.modules.goal.updates=1",
    "reward.modules.goal.learning_starts=10",
    "intervention.criterion=random",
    "intervention.probability=0.4",
    "intervention.noise=1",
    *SMALL_AGENT,
    # Nothing can be learned before the first episode has ended and is judged.
    "agent.demonstration_ratio=0",
    "agent.pretrain_steps=0",
    "demonstrations.episodes=4",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "logging.progress=false",
]
FIXED = "steps", "transport"
"""Modules that judge a stored episode as they judged it when it came."""


def stored(folder: Path) -> dict[tuple[str, int, int], list[Transition]]:
    """Return the steps of each episode by actor, session and number."""
    episodes: dict[tuple[str, int, int], list[Transition]] = {}
    with EpisodeStore.open(folder / "replay" / "episodes") as store:
        for number in range(len(store)):
            for step in store.episode(number):
                episodes.setdefault((step.actor, step.session, step.episode), []).append(step)
    return episodes


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was interrupted, so to say, and went on."""
    folder = tmp_path_factory.mktemp("async") / "run"
    robo_rl("train", *TRAIN, f"run.dir={folder}", "run.env_steps=80")
    robo_rl("train", f"resume={folder}", f"run.env_steps={STEPS}")
    return folder


def test_modules_learn_from_what_actors_send_and_every_term_is_logged(run: Path) -> None:
    reward = [record for record in records(run, "reward") if "goal/loss" in record]
    assert min(record["step"] for record in reward) < 80 < max(record["step"] for record in reward)
    for episode in records(run, "episode"):
        terms = ("reward/success", "reward/steps", "reward/transport", "reward/goal")
        # The weight of each module is 1, that of the task's own term 0.
        assert episode["episode_return"] == pytest.approx(sum(episode[name] for name in terms[1:]), rel=1e-4)
    checkpoint = CheckpointFolder(run / "checkpoints").load_newest()
    assert "reward" in checkpoint.parts
    assert "replay" not in checkpoint.parts, "steps are in the store"


def test_episodes_are_worth_what_their_stored_steps_are(run: Path) -> None:
    """Judged again from the disk, by modules as the last checkpoint has them."""
    register_all_configs()
    config = run_config(run)
    episodes = stored(run)
    with EpisodeStore.open(run / "replay" / "episodes") as store:
        spec = store.spec
    reward = build_reward(config.reward, spec, config.seed)
    assert reward.scorer is not None
    reward.scorer.load(CheckpointFolder(run / "checkpoints").load_newest().parts["reward"])
    found = []
    for (actor, _, _), steps in episodes.items():
        ring = ReplayRing(100, spec, reward.scorer.terms)
        ring.append(steps)
        ring.end_episodes()
        totals = ring.rows.values(ring.score_held(reward.scorer, online=False)).sum(0)
        found.append((actor, len(steps), {name: float(totals[ring.terms.index(name)]) for name in FIXED}))
    logged = records(run, "episode")
    assert len(logged) >= 4
    for line in logged:
        assert any(
            (actor, length) == (line["actor"], line["length"])
            and all(
                total == pytest.approx(line[f"reward/{name}"], rel=1e-4, abs=1e-4) for name, total in totals.items()
            )
            for actor, length, totals in found
        ), line


def test_the_expert_takes_over_in_every_actor(run: Path) -> None:
    steps = [step for episode in stored(run).values() for step in episode]
    for actor in ("actor_0", "actor_1"):
        sources = {step.source for step in steps if step.actor == actor}
        assert Source.SCRIPT in sources and Source.POLICY in sources
    assert np.isfinite([step.executed_action for step in steps]).all()
