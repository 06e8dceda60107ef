"""Training run: its progress, the data it learns from, its log and its checkpoints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from omegaconf import DictConfig, OmegaConf

from ..actor import InterventionConfig
from ..app import Components, RunConfig, keep_base, keep_machine, networks_of_run
from ..core import (
    CheckpointError,
    ConfigError,
    DataError,
    Interruption,
    OfflineLearner,
    State,
    compiler_problem,
    finite_number,
    generator,
    reading,
    saved_counts,
    section,
    whole_number,
)
from ..evaluation.run_start import check_start
from ..learner import Checkpoint, CheckpointFolder, Learner
from ..replay import MixedSampler, ReplayRing
from ..telemetry import COMMANDS, Command, LiveRun, LoggingConfig, RunLogger, check_logging
from .demonstrations import load_demonstrations
from .evaluations import Evaluations, check_evaluations
from .experience import Experience, make_counterfactual, make_hindsight
from .operators import Operators
from .ranks import check_ranks
from .rollback import Rollbacks
from .run_folder import clear_beginning
from .safety_record import SafetyRecord
from .start import start_run


class StepSource(Protocol):
    """Source of a run's steps, as its checkpoints need it."""

    def save(self, parts: dict[str, State], facts: dict[str, Any]) -> None:
        """Add the steps and the state of their source to a checkpoint."""

    def load(self, checkpoint: Checkpoint) -> None:
        """Resume from a checkpoint, after everything else has been loaded."""


class Run:
    """State that every training run has, whatever the source of its steps.

    Args:
        config: the configuration, as in configs/train.yaml.
        folder: run folder. If it holds a checkpoint and ``config.resume`` is set, the run resumes from that checkpoint.
            A run that was killed before its first checkpoint restarts from the beginning.
        interruption: checked between two steps.

    Attributes:
        demonstrations_cycle_time: cycle time of the successful demonstrations; None if there are none.
        goes_on: whether the run resumes from a checkpoint.
        started_from: the run that this one started from, as JSON values, see :class:`.Start`; None if there is none.
        step: number of environment steps so far.
        policy_version: number of the policy that acts.
        update_seconds: time spent on updates [s].
        reached: whether an evaluation reached the goal, so that only the final evaluation is missing.
        ends: whether the training loop has ended.
    """

    logger: RunLogger
    evaluations: Evaluations

    def __init__(self, config: DictConfig, folder: Path, interruption: Interruption) -> None:
        self.config, self.folder, self.interruption = config, folder, interruption
        self.settings: RunConfig = section(config, "run")
        self._logging: LoggingConfig = section(config, "logging")
        intervention: InterventionConfig = section(config, "intervention")
        check_logging(self._logging)  # before demonstrations are recorded
        with networks_of_run(None if config.resume is None else folder):
            self.components = components = Components(config)
        self.agent, self.spec = components.agent, components.backend.spec
        check_ranks(config, self.agent)
        keep_base(config, folder)
        keep_machine(config, folder)
        check_evaluations(components)
        self.checkpoints = CheckpointFolder(folder / "checkpoints", keep=self.settings.keep_checkpoints)
        self.video = folder / "videos" / "final.mp4"
        self.live = LiveRun(folder)  # from now on, no other process uses the folder
        self.goes_on = config.resume is not None and bool(self.checkpoints.folders())
        scorer = components.reward.scorer
        terms = scorer.terms if scorer else ()
        online = ReplayRing(self.settings.replay_capacity, self.spec, terms, self.agent.features)
        try:
            if not self.goes_on:
                clear_beginning(folder)
            self.started_from, prior = start_run(config, components, folder, interruption, resumes=self.goes_on)
            loaded = load_demonstrations(config, components, folder, interruption)
        except BaseException:
            self.live.close()  # no run has begun, so another command may use the folder
            raise
        demonstrations, self.demonstration_episodes = loaded.ring, loaded.episodes
        self.demonstrations_cycle_time = loaded.cycle_time
        self._demonstrations_success_rate = loaded.success_rate
        pretraining = self.agent.offline_steps if isinstance(self.agent, OfflineLearner) else 0
        if pretraining and demonstrations is None and config.start.run is None:
            raise ConfigError(
                f"agent.offline_steps={pretraining}: these steps learn from demonstrations, and this run has none. "
                "Give some by demonstrations.path, or set agent.offline_steps=0"
            )
        sampler = self._make_sampler(online, demonstrations, prior, intervention.as_demonstrations)
        hindsight = make_hindsight(components, online, self.settings.hindsight, config.seed)
        rows = self.settings.relabel_rows
        self.experience = Experience(components, online, demonstrations, sampler, rows, hindsight, prior)
        self.learner = Learner(self.agent, lambda rows: sampler.sample(rows, self.agent.config.batch_size), folder)
        self.rollbacks = Rollbacks(self.learner, self.checkpoints, self.settings)
        self.safety = SafetyRecord()
        self.step = self.policy_version = 0
        self.update_seconds = 0.0
        self.reached = self.ends = False

    def open(self, source: StepSource, operators: Operators) -> None:
        """Load the newest checkpoint, if the run resumes, and open the log."""
        self._source, self._operators = source, operators
        checkpoint = self.checkpoints.load_newest() if self.goes_on else None
        damaged = f"{self.folder}: the checkpoint of step {checkpoint.step if checkpoint else 0}"
        with reading(damaged, CheckpointError, "restore a copy"):
            if checkpoint is not None:
                self._load(checkpoint)
            facts = {} if checkpoint is None else checkpoint.facts
            episodes = facts.get("episodes")
            seconds = finite_number(facts.get("wall_seconds", 0.0))
        self.logger = RunLogger(
            self.folder,
            self._logging,
            label=self.spec.task,
            run_config=OmegaConf.to_container(self.config, resolve=True),
            resume_step=None if checkpoint is None else self.step,
            resume_episodes=None if episodes is None else whole_number(episodes),
            resume_seconds=seconds,
        )
        self.evaluations = Evaluations(
            self.settings,
            self.components,
            self.logger,
            self.interruption,
            self.demonstrations_cycle_time,
            self._demonstrations_success_rate,
        )
        self.evaluations.check_video(self.video)
        if problem := compiler_problem():
            self.logger.message(f"Training will take many times as long as with compiled updates: {problem}")
        with reading(damaged, CheckpointError, "restore a copy"):
            if checkpoint is not None:
                self.evaluations.load(checkpoint.facts, self.learner.updates, self.step)

    def close(self) -> None:
        """Disconnect the operators, and close the log and the backends."""
        self._operators.close()
        self.logger.close()
        self.components.close()

    def attend(self, obey: Callable[[Command], None]) -> str | None:
        """Execute the commands of operators between two steps.

        Returns the status with which the run ends because of a command or signal; None if it continues.

        Args:
            obey: executes the part of a command that concerns the run itself.
        """
        for command in self._operators.take_commands():
            self.logger.message(f"At step {self.step}: {command}")
            obey(command)
        if self.interruption.signal is not None:
            return "interrupted"
        return "stopped" if self._operators.stop_requested else None

    def report(self, state: str) -> None:
        """Report the activity of the run to operators, and the commands that it does not accept at present."""
        refused = {}
        if not self.agent.config.learns_online:
            refused = dict.fromkeys(COMMANDS, "this agent learns only from demonstrations, before the first step")
        elif self.ends:
            refused = dict.fromkeys(COMMANDS, "the run ends")
        elif self.spec.reports_success:
            refused = dict.fromkeys(("success", "failure"), "the task itself reports success")
        self._operators.report(state, refused)

    def show_progress(self) -> None:
        """Update the progress line."""
        total, updates = self.settings.env_steps, self.learner.updates * self.agent.config.update_to_data
        self.logger.progress(min(self.step, total), total, updates)

    def save(self) -> None:
        """Write a checkpoint."""
        counters = np.array([self.step, self.learner.updates, self.policy_version], dtype=np.int64)
        parts: dict[str, State] = {
            "agent": self.agent.state(),
            "policy": self.agent.policy_state(),
            "run": {"counters": counters, "sampler": self.experience.sampler.state()["generator"]},
        }
        facts: dict[str, Any] = {
            "spec": self.spec.to_json(),
            **self.evaluations.state(self.learner.updates),
            "safety": self.safety.state(),
            "rollbacks": self.rollbacks.state(),
            "update_seconds": self.update_seconds,
            "wall_seconds": self.logger.wall_seconds,
            "reached": self.reached,
            "started_from": self.started_from,
        }
        self.experience.save(parts)
        self._source.save(parts, facts)
        self.checkpoints.save(Checkpoint(self.step, parts, facts))

    def attempt(self, write: Callable[[], None]) -> None:
        """Write something. If writing to disk fails, the run continues."""
        try:
            write()
        except (CheckpointError, DataError) as error:
            self.logger.message(f"At step {self.step}: {error}")

    def _load(self, checkpoint: Checkpoint) -> None:
        parts, facts = checkpoint.parts, checkpoint.facts
        self.step, self.learner.updates, self.policy_version = saved_counts(parts["run"]["counters"], 3)
        self.agent.load(parts["agent"])
        self.experience.load(parts)
        self.safety = SafetyRecord(facts.get("safety"))
        self.rollbacks.load(facts.get("rollbacks", {}))
        self.started_from = facts.get("started_from")
        if self.started_from is not None:
            check_start(self.started_from)
        self.update_seconds, self.reached = finite_number(facts["update_seconds"]), bool(facts.get("reached"))
        self._source.load(checkpoint)

    def _make_sampler(
        self,
        online: ReplayRing,
        demonstrations: ReplayRing | None,
        prior: ReplayRing | None,
        interventions_too: bool,
    ) -> MixedSampler:
        settings = self.agent.config
        return MixedSampler(
            online,
            demonstrations,
            demonstration_ratio=settings.demonstration_ratio,
            gamma=settings.gamma,
            n_step=settings.n_step,
            reward=self.components.reward,
            rng=generator(self.config.seed, "sampler"),
            interventions_are_demonstrations=interventions_too,
            imitate_online=settings.online_cloning_weight > 0,
            action_chunk=settings.action_chunk,
            keys=self.agent.observed,
            prior=prior,
            prior_ratio=0.0 if prior is None else self.config.start.replay_ratio,
            counterfactual=make_counterfactual(self.components, self.settings.counterfactual),
        )
