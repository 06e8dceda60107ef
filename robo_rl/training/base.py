"""What every training run does, wherever its steps come from."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf

from ..actor import InterventionConfig
from ..app import Components, RunConfig, needed_packages, networks_of_run, section
from ..core import (
    CheckpointError,
    ComparisonLearner,
    ConfigError,
    DataError,
    DivergenceError,
    DriverError,
    Interruption,
    Metrics,
    OfflineLearner,
    RankError,
    SafetyStop,
    Scorer,
    SpecError,
    State,
    Transition,
    counted,
    derive_seed,
    generator,
    override,
    reading,
)
from ..evaluation import EvaluationResult
from ..learner import Checkpoint, CheckpointFolder, Learner
from ..replay import MixedSampler, ReplayRing
from ..telemetry import COMMANDS, SUMMARY, Command, LiveRun, LoggingConfig, RunLogger, check_logging, write_summary
from .demonstrations import load_demonstrations
from .earnings import Earnings
from .evaluations import Evaluations, check_evaluations
from .operators import Operators
from .pretraining import counted_updates
from .ranks import check_ranks
from .results import evaluation_facts, evaluation_lines, file_lines
from .rollback import Rollbacks
from .run_folder import clear_beginning
from .safety_record import SafetyRecord

EXIT_DIVERGED = 1
PRETRAIN_LOG_INTERVAL = 100


class Training(ABC):
    """A run: begun or resumed, evaluated in the end, and summed up.

    Args:
        config: as configs/train.yaml.
        folder: run folder; where it holds a checkpoint and ``config.resume`` is set, the run goes on from there. One
            that was killed before its first begins anew.
        interruption: read between two steps.
    """

    _operators: Operators
    _evaluations: Evaluations

    def __init__(self, config: DictConfig, folder: Path, interruption: Interruption) -> None:
        self.config = config
        self.folder = folder
        self.settings: RunConfig = section(config, "run")
        logging: LoggingConfig = section(config, "logging")
        intervention: InterventionConfig = section(config, "intervention")
        check_logging(logging)  # before demonstrations are recorded
        with networks_of_run(None if config.resume is None else folder):
            self.parts: Components = Components(config)
        check_ranks(config, self.parts.agent)
        check_evaluations(self.parts)
        self._interruption = interruption
        self._checkpoints = CheckpointFolder(folder / "checkpoints", keep=self.settings.keep_checkpoints)
        self.live = LiveRun(folder)  # from here on no other process is busy with the folder
        goes_on = config.resume is not None and bool(self._checkpoints.folders())
        agent, spec, seed = self.parts.agent, self.parts.backend.spec, config.seed
        self._scorer = self.parts.reward.scorer
        added_terms = self._scorer.terms if self._scorer else ()
        self.online = ReplayRing(self.settings.replay_capacity, spec, added_terms, agent.features)
        try:
            if not goes_on:
                clear_beginning(folder)
            self.demonstrations, self._demonstration_episodes = load_demonstrations(
                config, self.parts, folder, interruption
            )
        except BaseException:
            self.live.close()  # no run has begun that others could be in the way of
            raise
        if isinstance(agent, OfflineLearner) and agent.offline_steps and self.demonstrations is None:
            raise ConfigError(
                "agent.pretrain_critics learns from demonstrations, and this run has none. Give some by "
                "demonstrations.path, or use agent.pretrain_critics=none"
            )
        self.sampler = MixedSampler(
            self.online,
            self.demonstrations,
            demonstration_ratio=agent.config.demonstration_ratio,
            gamma=agent.config.gamma,
            n_step=agent.config.n_step,
            reward=self.parts.reward,
            rng=generator(seed, "sampler"),
            interventions_are_demonstrations=intervention.as_demonstrations,
            action_chunk=agent.config.action_chunk,
            keys=agent.observed,
        )
        self.learner = Learner(agent, lambda rows: self.sampler.sample(rows, agent.config.batch_size), folder)
        self._open_experience()
        self.step = 0
        self._policy_version = 0
        self._safety = SafetyRecord()
        self._rollbacks = Rollbacks(self.learner, self._checkpoints, self.settings)
        self._update_seconds = 0.0
        self._ends = False
        self._reached = False  # and only the final evaluation is missing
        checkpoint = self._checkpoints.load_newest() if goes_on else None
        if checkpoint is not None:
            with reading(f"{folder}: the checkpoint of step {checkpoint.step}", CheckpointError, "restore a copy"):
                self._load(checkpoint)
        self.logger = RunLogger(
            folder,
            logging,
            label=spec.task,
            run_config=OmegaConf.to_container(config, resolve=True),
            resume_step=None if checkpoint is None else self.step,
            resume_episodes=None if checkpoint is None else checkpoint.facts.get("episodes"),
            resume_seconds=0.0 if checkpoint is None else checkpoint.facts.get("wall_seconds", 0.0),
        )
        self._video = folder / "videos" / "final.mp4"
        self._evaluations = self._make_evaluations()
        self._evaluations.check_video(self._video)
        if checkpoint is None:
            self._begin()
        else:
            with reading(f"{folder}: the checkpoint of step {checkpoint.step}", CheckpointError, "restore a copy"):
                self._go_on(checkpoint)

    def run(self) -> int:
        """Take the remaining steps, evaluate, and write what the run came to; return the exit code.

        Raises:
            DriverError: if a device or the environment failed; the run may be resumed.
            SpecError: if an observation or reward is not what the task says; the same.
            SafetyStop: if the robot cannot begin an episode any more; the run may be resumed.
            RankError: if one of several processes of the learner is gone; the run may be resumed.
            RenderingError: if a video cannot be made.
        """
        (self.folder / SUMMARY).unlink(missing_ok=True)  # how an earlier process ended is not how this one does
        try:
            return self._run()
        except BaseException as error:
            # In the final evaluation, whatever fails there, all steps are complete.
            if not (self._ends or isinstance(error, DriverError | SpecError | SafetyStop | RankError)):
                raise
            self._if_possible(self._save)
            self._if_possible(partial(self._summarise, "interrupted", None))
            self.logger.message(f"Ended at step {self.step}. Go on: robo-rl train {override('resume', self.folder)}")
            raise

    def _run(self) -> int:
        try:
            status = "reached" if self._reached else self._loop()
            self.logger.show_progress()
        except DivergenceError as error:
            self.logger.message(f"Diverged at step {self.step}: {error}")
            newest = self._checkpoints.folders()[-1]
            self.logger.message(f"The last good checkpoint is {newest}.")
            self._if_possible(partial(self._summarise, "diverged", None))
            return EXIT_DIVERGED
        if status == "interrupted":
            assert self._interruption.signal is not None
            self._save()
            self._summarise(status, None)
            self.logger.message(f"Stopped at step {self.step}. Go on: robo-rl train {override('resume', self.folder)}")
            return 128 + self._interruption.signal
        self._ends = True
        self._tell("final evaluation")
        self.logger.message(f"Evaluating: {counted(self.settings.final_evaluation_episodes, 'episode')}")
        # Start states of its own: those of the other evaluations may have decided when the run ended.
        seed = derive_seed(self.config.seed, "final")
        episodes = self.settings.final_evaluation_episodes
        result = self._evaluations(self.step, self.learner.updates, seed, episodes, self._video)
        minutes = self.step / self.parts.backend.spec.control_rate / 60
        steps, seconds = counted(self.step, "environment step"), self.logger.wall_seconds
        taken = f"{steps} ({minutes:.1f} robot-minutes) in {seconds:.0f} s{self._early_end(status)}"
        for line in (*evaluation_lines(result), taken):
            self.logger.message(line)
        self._reached = False
        self._save()
        self._summarise(status, result)
        allow = needed_packages(self.config)
        for line in file_lines(self.folder, self._checkpoints.best(), result.video, allow):
            self.logger.message(line)
        return 0

    def _early_end(self, status: str) -> str:
        """Return why the run ends before it took all its steps, to be told after how many it took."""
        if status == "reached":
            return f"; it ended early, as an evaluation reached {self._evaluations.goal()}"
        return "; it ended early, as somebody asked for it" if status == "stopped" else ""

    def close(self) -> None:
        """Let go of people, and close the log and the backends."""
        self._operators.close()
        self.logger.close()
        self.parts.close()

    def _make_evaluations(self) -> Evaluations:
        return Evaluations(self.settings, self.parts, self.logger, self._interruption)

    def _go_on(self, checkpoint: Checkpoint) -> None:
        """What comes before the first step of a run that is resumed."""
        self._evaluations.load(checkpoint.facts, self.learner.updates)

    def _begin(self) -> None:
        """What comes before the first step: rewards, normalisation, and learning from the demonstrations."""
        agent = self.parts.agent
        self._tell("learning from demonstrations")
        if self._scorer is not None:
            shown = self._demonstration_episodes
            with self._interruption.at_once("preparing rewards"):
                metrics = self._scorer.fit(shown)
                if self.demonstrations is not None:
                    self.demonstrations.score_held(self._scorer, online=False)
            if metrics:
                self.logger.log("reward", 0, **metrics)
            if self.demonstrations is None and shown:
                # The agent learns nothing else from them: what is normal to see is no action and no reward.
                agent.fit_normaliser({key: np.concatenate([each[key] for each in shown]) for key in shown[0]})
            self._follow_discount()
        if self.parts.resets is not None:
            self.parts.resets.fit(self._demonstration_episodes)
        self._demonstration_episodes.clear()
        if self.demonstrations is not None:
            agent.fit_normaliser(self.demonstrations.everything(self.parts.reward, agent.observed))
            if isinstance(agent, ComparisonLearner):
                agent.fit_comparisons(self._scorer.comparisons if self._scorer else None)
            for update in self._counted(agent.config.pretrain_steps, "cloning"):
                # The online replay is empty still, so all rows are demonstrations.
                metrics = agent.pretrain(self.sampler.sample(agent.config.batch_size, agent.config.batch_size))
                if update % PRETRAIN_LOG_INTERVAL == 0:
                    self.logger.log("train", 0, pretrain_update=update, **metrics)
            self._pretrain_critics()
        self._save()

    def _pretrain_critics(self) -> None:
        """Let an agent whose values are to know the demonstrations learn them, after its cloning."""
        agent = self.parts.agent
        if not isinstance(agent, OfflineLearner):
            return
        for update in self._counted(agent.offline_steps, "learning values"):
            metrics = agent.pretrain_critics(self.sampler.sample_with_returns(agent.config.batch_size))
            if update % PRETRAIN_LOG_INTERVAL == 0:
                self.logger.log("train", 0, offline_update=update, **metrics)

    def _counted(self, updates: int, doing: str) -> Iterator[int]:
        """Count updates before the first step, for people, who may end the run."""

        def tell(text: str) -> None:
            self._tell(text)
            self.logger.message(text.capitalize())

        return counted_updates(updates, doing, self._interruption, tell)

    def _follow_discount(self) -> None:
        """Discount as the reward asks for, where it does."""
        wanted = self._scorer.discount if self._scorer else None
        self.sampler.gamma = self.parts.agent.config.gamma if wanted is None else wanted

    def _insert(self, transition: Transition) -> NDArray[np.float32]:
        """Store a transition, and let rewards learn; return the reward terms (n, terms) of steps that are known now."""
        self.online.append([transition])
        if self._scorer is None:
            return np.array([[transition.rewards[name] for name in self.online.terms]], dtype=np.float32)
        values = self._score(self._scorer)
        if metrics := self._scorer.update(self.online):
            self.logger.log("reward", self.step, **metrics)
        self._relabel(self._scorer)
        self._follow_discount()
        return values

    def _score(self, scorer: Scorer) -> NDArray[np.float32]:
        """Compute the rewards that are due; return the terms (n, terms)."""
        return self.online.values(self.online.score_held(scorer, online=True))

    def _relabel(self, scorer: Scorer) -> None:
        """Bring some of the stored rewards up to date: as many as one step may cost."""
        left = self.settings.relabel_rows
        for ring in (self.online, self.demonstrations):
            if left and ring is not None:
                left -= ring.relabel(scorer, left)

    def _no_earnings(self) -> Earnings:
        """Return what an episode has earned that begins."""
        return Earnings(self.parts.reward, self.online.terms)

    def _watch(self, number: int, earnings: Earnings, length: int, success: bool | None) -> None:
        """Show an episode to what looks after computed rewards, where there are any."""
        if self._evaluations.watch is not None and self._scorer is not None:
            held_out = {name: earnings.terms[name] for name in self._scorer.held_out}
            self._evaluations.watch.add_episode(number, earnings.total, length, success, held_out)

    def _can_learn(self) -> bool:
        """Whether there is something to sample: the first episode may be held back until its reward is known."""
        return bool(len(self.online)) or self.demonstrations is not None

    def _learner_step(self) -> Metrics:
        """Do one learner step, and note the time that it takes; return nothing where it was taken back.

        Raises:
            DivergenceError: if it diverged, and :meth:`_roll_back` does not help.
        """
        began = time.monotonic()
        try:
            metrics = self.learner.step()
        except DivergenceError as error:
            self._roll_back(error)
            return {}
        self._update_seconds += time.monotonic() - began
        return metrics

    def _roll_back(self, error: DivergenceError) -> None:
        """Have the agent, which diverged, go on from the newest checkpoint whose agent is good.

        Raises:
            DivergenceError: ``error``, if there is none, or the agent went back too often in a row.
        """
        restored = self._rollbacks.roll_back(error, self.step)
        count, most = self._rollbacks.in_a_row, self.settings.rollbacks
        told = f"the agent goes on as it was at step {restored} (rollback {count} of {most} in a row)"
        self.logger.message(f"Diverged at step {self.step}, {told}: {error}")
        self.logger.log("train", self.step, rolled_back_to=restored, rollbacks_in_a_row=count)

    # --- where steps come from ---------------------------------------------------------------------------------------

    @abstractmethod
    def _open_experience(self) -> None:
        """Make what steps come from, and the side of people who watch it."""

    @abstractmethod
    def _save_experience(self, parts: dict[str, State], facts: dict[str, Any]) -> None:
        """Add to a checkpoint what :meth:`_open_experience` made, and the steps."""

    @abstractmethod
    def _load_experience(self, checkpoint: Checkpoint) -> None:
        """Go on with the experience of a checkpoint."""

    @abstractmethod
    def _experience_summary(self) -> dict[str, Any]:
        """Return what summary.json says beside the results."""

    @abstractmethod
    def _loop(self) -> str:
        """Take the remaining steps, and learn; return ``completed``, ``reached``, ``stopped`` or ``interrupted``."""

    # --- people ------------------------------------------------------------------------------------------------------

    def _asked_status(self) -> str | None:
        """Do what people ask for between two steps; return what the run ends as by that, None where it goes on."""
        for command in self._operators.take_commands():
            self.logger.message(f"At step {self.step}: {command}")
            self._obey(command)
        if self._interruption.signal is not None:
            return "interrupted"
        return "stopped" if self._operators.stop_asked else None

    def _obey(self, command: Command) -> None:
        """Do what the run itself has to do for a command."""
        if command.name == "checkpoint":
            self._if_possible(self._save)

    def _tell(self, state: str) -> None:
        """Tell those who watch what the run does."""
        self._operators.tell(state, self._refused_commands())

    def _refused_commands(self) -> dict[str, str]:
        """Return the commands that are not taken now, and why."""
        if not self.parts.agent.config.learns_online:
            return dict.fromkeys(COMMANDS, "this agent learns from demonstrations alone, in one go")
        if self._ends:
            return dict.fromkeys(COMMANDS, "the run ends")
        if self.parts.backend.spec.reports_success:
            return dict.fromkeys(("success", "failure"), "the task itself tells success")
        return {}

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        agent = self.parts.agent
        counters = np.array([self.step, self.learner.updates, self._policy_version], dtype=np.int64)
        run_state: State = {"counters": counters, "sampler": self.sampler.state()["generator"]}
        facts: dict[str, Any] = {
            "spec": self.parts.backend.spec.to_json(),
            **self._evaluations.state(self.learner.updates),
            "safety": self._safety.state(),
            "rollbacks": self._rollbacks.state(),
            "update_seconds": self._update_seconds,
            "wall_seconds": self.logger.wall_seconds,
            "reached": self._reached,
        }
        parts = {
            "agent": agent.state(),
            "policy": agent.policy_state(),
            "run": run_state,
        }
        if self._scorer is not None:
            parts["reward"] = self._scorer.state()
            if self.demonstrations is not None:
                parts["demonstrations"] = self.demonstrations.terms_state()
        self._save_experience(parts, facts)
        self._checkpoints.save(Checkpoint(self.step, parts, facts))

    def _if_possible(self, write: Callable[[], None]) -> None:
        """Write something; a disk that does not take it does not end the run."""
        try:
            write()
        except (CheckpointError, DataError) as error:
            self.logger.message(f"At step {self.step}: {error}")

    def _load(self, checkpoint: Checkpoint) -> None:
        run_state = checkpoint.parts["run"]
        self.step, self.learner.updates, self._policy_version = (int(value) for value in run_state["counters"])
        self.parts.agent.load(checkpoint.parts["agent"])
        self._load_experience(checkpoint)
        if self._scorer is not None:
            self._scorer.load(checkpoint.parts["reward"])
            if self.demonstrations is not None:
                self.demonstrations.load_terms(checkpoint.parts["demonstrations"])
        self.sampler.load({"generator": run_state["sampler"]})
        self._follow_discount()
        self._safety = SafetyRecord(checkpoint.facts.get("safety"))
        self._rollbacks.load(checkpoint.facts.get("rollbacks", {}))
        self._update_seconds = checkpoint.facts["update_seconds"]
        self._reached = bool(checkpoint.facts.get("reached"))

    def _summarise(self, status: str, result: EvaluationResult | None) -> None:
        spec = self.parts.backend.spec
        updates = self.learner.updates * self.parts.agent.config.update_to_data
        write_summary(
            self.folder,
            status=status,
            task=spec.task,
            agent=self.config.choices.agent,
            seed=self.config.seed,
            env_steps=self.step,
            robot_minutes=self.step / spec.control_rate / 60,
            wall_seconds=self.logger.wall_seconds,
            **evaluation_facts(result),
            steps_to_95=self._evaluations.steps_to_95,
            updates_per_second=updates / self._update_seconds if self._update_seconds else None,
            learner=self.parts.agent.backend,
            **self._experience_summary(),
            safety=self._safety.state(),
        )
