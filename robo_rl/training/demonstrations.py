"""Demonstrations that a run learns from: a data set, or episodes that a script records at the start of the run."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from omegaconf import DictConfig, OmegaConf

from ..app import PLANNER, Components, DemonstrationsConfig, with_source
from ..core import Batch, ConfigError, DataError, Interruption, counted, section
from ..evaluation import CycleTime
from ..recording.episodes import open_data_set, record_episodes
from ..recording.scripts import SCRIPTS, noise_of
from ..replay import EpisodeRecord, EpisodeStore, ReplayRing
from ..residual import BASE_ACTION
from .base_actions import report_reach, with_base_actions


class Demonstrations(NamedTuple):
    """Demonstrations of a run.

    Attributes:
        ring: replay buffer that the agent samples from; None if it does not learn from demonstrations.
        episodes: episodes that reward modules and resets learn from; empty if none do.
        cycle_time: cycle time of the successful demonstrations; None if there are none.
        success_rate: share of successful demonstrations, of those in which success is known; None if it is in none.
    """

    ring: ReplayRing | None
    episodes: list[Batch]
    cycle_time: CycleTime | None = None
    success_rate: float | None = None


def load_demonstrations(
    config: DictConfig, parts: Components, folder: Path, interruption: Interruption
) -> Demonstrations:
    """Read the demonstrations of a run into memory; record them first if no data set is given.

    Args:
        config: the configuration, as in configs/train.yaml.
        parts: components of the run.
        folder: run folder; recorded demonstrations stay there, for when the run is resumed.
        interruption: checked after each recorded episode.

    Raises:
        SystemExit: if the run is interrupted; the recorded episodes are removed.
        ConfigError: if the data set does not match the task.
    """
    wanted: DemonstrationsConfig = section(config, "demonstrations")
    scorer = parts.reward.scorer
    for_agent = parts.agent.config.demonstration_ratio > 0
    for_others = (scorer is not None and bool(scorer.modules)) or (parts.resets is not None and parts.resets.learns)
    if wanted.episodes == 0 or not (for_agent or for_others):
        return Demonstrations(None, [])
    recorded = folder / "demonstrations"
    path = recorded
    if wanted.path:
        path = with_base_actions(Path(wanted.path), recorded, wanted.episodes, parts, interruption)
    elif not path.exists():
        try:
            _record(path, config, parts, wanted, interruption)
        except ConfigError as error:
            if wanted.source == PLANNER:  # chosen, unlike the default source, so its absence is a mistake
                raise
            print(f"Training without demonstrations: {error}")
            return Demonstrations(None, [])
    with EpisodeStore.open(path) as store:
        spec, ring, episodes = parts.backend.spec, None, []
        store.check_against(spec)
        records = store.records[: wanted.episodes]
        _warn(path, wanted.episodes, records)
        if BASE_ACTION in spec.observation:
            report_reach(store, len(records), spec)
        steps, successes = [record.steps for record in records], [record.success for record in records]
        cycle_time = CycleTime.of(steps, successes, spec.control_rate)
        known = [success for success in successes if success is not None]
        success_rate = sum(known) / len(known) if known else None
        if for_others:
            numbers = range(len(records))
            episodes = [store.arrays(number, spec.observation).rows() for number in numbers]
        if for_agent:
            terms = scorer.terms if scorer else ()
            ring = ReplayRing(store.ring_slots(wanted.episodes), spec, terms, parts.agent.features)
            store.load_into(ring, wanted.episodes)
    if ring is not None:
        # All features at once, so that they are identical bit for bit when the run is resumed.
        ring.rows.compute_features()
    return Demonstrations(ring, episodes, cycle_time, success_rate)


def check_demonstrations(config: DictConfig) -> None:
    """Check that the data set in ``demonstrations.path`` can be opened, if there is one.

    Raises:
        DataError: if it is missing, damaged or of another format version.
    """
    wanted: DemonstrationsConfig = section(config, "demonstrations")
    if wanted.path and wanted.episodes:
        try:
            EpisodeStore.open(Path(wanted.path)).close()
        except DataError as error:
            raise DataError(f"demonstrations.path: {error}") from error


def _warn(path: Path, wanted: int, records: Sequence[EpisodeRecord]) -> None:
    """Warn if there are fewer demonstrations than requested, or if all of them failed."""
    if len(records) < wanted:
        print(f"demonstrations.episodes={wanted}: {path} holds only {len(records)}", flush=True)
    if records and all(record.success is False for record in records):
        print(f"No demonstration of {path} ended in success: learning from {len(records)} failures", flush=True)


def _record(
    path: Path, config: DictConfig, parts: Components, wanted: DemonstrationsConfig, interruption: Interruption
) -> None:
    seed = config.seed
    backend = with_source(parts.evaluation_backend(), config, wanted.source)
    backend.expert(seed)  # raises before anything is written if the task has no expert
    task = OmegaConf.to_container(config.task, resolve=True)
    metadata = {"source": wanted.source, "seed": seed, "task": task} | noise_of(wanted.source, wanted.noise)
    scripts = {"expert": "the task's expert", "human_like": "a human-like script", "planner": "a planner"}
    script = scripts[wanted.source]
    print(f"Recording {counted(wanted.episodes, 'demonstration')} by {script}", flush=True)
    try:
        with open_data_set(path, backend.spec, "fail", metadata) as store:
            record_episodes(
                backend,
                store,
                wanted.episodes,
                lambda rng: SCRIPTS[wanted.source](backend.spec, backend.expert(seed), wanted.noise, rng),
                actor=wanted.source,
                seed=seed,
                only_successful=True,
                report=lambda *_: interruption.check("recording demonstrations"),
                section=None,
            )
    except (SystemExit, ConfigError):
        # A resumed run would take the incomplete data set for a complete one.
        shutil.rmtree(path, ignore_errors=True)
        raise
