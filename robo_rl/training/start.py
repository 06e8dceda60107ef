"""Start of a run from another run: from its policy and, if requested, its critics and its replay buffer."""

import contextlib
import shutil
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig

from ..app import Components, StartConfig, load_agent
from ..core import (
    CheckpointError,
    ConfigError,
    EnvSpec,
    Interruption,
    WarmStartLearner,
    require,
    section,
)
from ..evaluation.provenance import provenance
from ..learner import CheckpointFolder, load_checkpoint
from ..replay import EpisodeStore, ReplayRing, SavedEpisodes

PRIOR = "prior"
"""Folder of the prior data within a run folder."""
EPISODES_AT_ONCE = 200


class Start(NamedTuple):
    """Source of a run that starts from another one.

    Attributes:
        facts: the other run, as JSON values: ``run``, the name of its folder; ``task``; ``agent``; ``step``, after
            which the policy was saved; ``git_commit``, None if unknown; ``parts`` that the agent took over; and
            ``replay``, number of steps and share in minibatches of the prior data, None if there is none. None if the
            run does not start from another one, or is resumed.
        prior: replay buffer of the other run; None if the run does not use it.
    """

    facts: dict[str, Any] | None = None
    prior: ReplayRing | None = None


def start_run(
    config: DictConfig, components: Components, folder: Path, interruption: Interruption, *, resumes: bool
) -> Start:
    """Start a new run from the run that ``config.start`` names, if it names one.

    Args:
        config: the configuration, as in configs/train.yaml.
        components: components of the run.
        folder: run folder, which receives a copy of the other run's replay buffer, for when the run is resumed.
        interruption: checked while the buffer is copied.
        resumes: whether the run is resumed; the agent is then left unchanged, and the copy is used.

    Raises:
        CheckpointError, ConfigError or DataError: if the other run cannot be read.
        ConfigError: if it does not match, naming each difference.
        SystemExit: if the run is interrupted.
    """
    settings: StartConfig = section(config, "start")
    _check_reference(config, components.agent.config)
    if settings.run is None:
        return Start()
    run = Path(settings.run)
    facts = None if resumes else _start_agent(config, components, run, settings)
    if settings.replay_ratio == 0:
        return Start(facts)
    if facts is not None:
        steps = _copy_replay(run, folder / PRIOR, interruption)
        facts["replay"] = {"steps": steps, "ratio": settings.replay_ratio}
    return Start(facts, _load_replay(folder / PRIOR, components))


def _check_reference(config: DictConfig, agent: Any) -> None:
    """Check that there is a reference policy, if the agent has to stay close to one.

    Raises:
        ConfigError: if the run begins with an untrained policy.
    """
    begins = config.start.run is not None or (config.demonstrations.episodes > 0 and agent.pretrain_steps > 0)
    weight = getattr(agent, "reference_weight", 0)
    expected = "0 if there is neither start.run nor cloning (agent.pretrain_steps), and so no reference policy"
    require(begins or weight == 0, "agent.reference_weight", expected, weight)


def _start_agent(config: DictConfig, components: Components, run: Path, settings: StartConfig) -> dict[str, Any]:
    """Let the agent start from ``run``; return facts about it, see :class:`Start`."""
    agent, agent_config, spec = components.agent, components.agent.config, components.backend.spec
    own = config.choices.agent
    if not agent_config.learns_online or not isinstance(agent, WarmStartLearner):
        raise ConfigError(
            f"start.run={run} needs an agent that learns from its own steps, such as agent=rlpd; agent={own} cannot "
            "start from a run"
        )
    allowed = "0 with start.run, as the first steps are those of its policy"
    require(agent_config.random_steps == 0, "agent.random_steps", allowed, agent_config.random_steps)
    room = 1 - agent_config.demonstration_ratio
    allowed = f"at most 1 - agent.demonstration_ratio = {room:g}"
    require(settings.replay_ratio <= room, "start.replay_ratio", allowed, settings.replay_ratio)
    trained = load_agent(run, checkpoint=settings.checkpoint)
    if differences := trained.spec.differences(spec):
        raise ConfigError(
            f"start.run={run} is of task {trained.spec.task}, whose observations or actions are not those of task "
            f"{spec.task}: {'; '.join(differences)}. Use the task options of that run, or start from "
            "another run"
        )
    other = trained.config.choices.get("agent")
    try:
        parts = agent.start_from(trained.agent, critics=settings.critics)
    except ConfigError as error:
        raise ConfigError(
            f"start.run={run} was trained with agent={other}, which does not match agent={own}: {error}. Use the "
            "options of that run, or start from another run"
        ) from error
    return provenance(run, trained.spec.task, other, trained.step) | {"parts": list(parts), "replay": None}


def _load_replay(path: Path, components: Components) -> ReplayRing:
    """Return the data set of prior data at ``path`` as a replay buffer."""
    scorer = components.reward.scorer
    with EpisodeStore.open(path) as store:
        terms = scorer.terms if scorer else ()
        ring = ReplayRing(max(store.ring_slots(), 2), components.backend.spec, terms, components.agent.features)
        store.load_into(ring)
    ring.end_episodes()  # the last episode may be incomplete, and is not continued
    ring.rows.compute_features()  # all at once, so that they are identical bit for bit when the run is resumed
    return ring


def _copy_replay(run: Path, path: Path, interruption: Interruption) -> int:
    """Write the episodes in the replay buffer of ``run`` to a data set at ``path``; return the number of steps.

    Raises:
        CheckpointError or DataError: if the buffer is missing, empty or damaged.
        SystemExit: if the run is interrupted.
    """
    stored = run / "replay" / "episodes"
    with contextlib.ExitStack() as stack:
        if stored.exists():  # true for a run with separate actors
            source = stack.enter_context(EpisodeStore.open(stored))
            spec, episodes = source.spec, source.episodes()
        else:
            saved = _saved_replay(run)
            spec, episodes = saved.spec, iter(saved)
        try:
            with EpisodeStore.create(path, spec, {"source": "replay", "run": run.resolve().name}) as store:
                while group := list(islice(episodes, EPISODES_AT_ONCE)):
                    interruption.check("copying the replay buffer")
                    store.append_episodes(group)
                if not len(store):
                    raise CheckpointError(f"start.run={run} has an empty replay buffer: leave out start.replay_ratio")
                return store.summary().steps
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)  # a resumed run would take an incomplete copy for a complete one
            raise


def _saved_replay(run: Path) -> SavedEpisodes:
    """Return the episodes in the newest checkpoint of ``run`` that has a replay buffer.

    Raises:
        CheckpointError: if none has.
    """
    for folder in reversed(CheckpointFolder(run / "checkpoints").folders()):
        if (folder / "replay.safetensors").exists():
            checkpoint = load_checkpoint(folder, only=("replay",))
            return SavedEpisodes(checkpoint.parts["replay"], EnvSpec.from_json(checkpoint.facts.get("spec", {})))
    raise CheckpointError(
        f"start.run={run} has no replay buffer, neither stored episodes nor a checkpoint with one: start from another "
        "run, or leave out start.replay_ratio"
    )
