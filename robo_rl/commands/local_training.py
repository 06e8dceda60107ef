"""A training run in one process: actor and learner in turn."""

import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf

from ..actor import ActionChoice, Actor, InterventionConfig, SimulatedIntervention, View, marked
from ..app import Components, RunConfig, section
from ..core import (
    DivergenceError,
    DriverError,
    Metrics,
    Observation,
    SafetyStop,
    Source,
    State,
    Transition,
    derive_seed,
    generator,
)
from ..evaluation import EvaluationResult
from ..evaluation.plots import plot_runs
from ..evaluation.report import write_report
from ..evaluation.runs import load_run
from ..learner import Checkpoint, CheckpointFolder, Learner
from ..replay import MixedSampler, ReplayRing
from ..safety import ACTION_NOT_FINITE
from ..telemetry import COMMANDS, EPISODE_COMMANDS, LiveRobot, LiveRun, LiveStatus, RunLogger
from .demonstrations import load_demonstrations
from .evaluations import PERSON_POLL_SECONDS, Evaluations
from .interruption import Interruption
from .safety_record import SafetyRecord
from .summary import write_summary
from .takeover import Takeover, check_screen, open_takeover

EXIT_DIVERGED = 1
PRETRAIN_LOG_INTERVAL = 100


class LocalTraining:
    """One run in one process: deterministic, and resumed bit for bit.

    Args:
        config: as configs/train.yaml.
        folder: run folder; where it holds a checkpoint and ``config.resume`` is set, the run goes on from there.
        interruption: read between two steps.
    """

    def __init__(self, config: DictConfig, folder: Path, interruption: Interruption) -> None:
        self.config = config
        self.folder = folder
        self.settings: RunConfig = section(config, "run")
        self.parts: Components = Components(config)
        self._interruption = interruption
        self._checkpoints = CheckpointFolder(folder / "checkpoints", keep=self.settings.keep_checkpoints)
        agent, spec, seed = self.parts.agent, self.parts.backend.spec, config.seed
        self._scorer = self.parts.reward.scorer
        added_terms = self._scorer.terms if self._scorer else ()
        self.online = ReplayRing(self.settings.replay_capacity, spec, added_terms, agent.features)
        self.demonstrations, self._demonstration_episodes = load_demonstrations(config, self.parts, folder)
        self.sampler = MixedSampler(
            self.online,
            self.demonstrations,
            demonstration_ratio=agent.config.demonstration_ratio,
            gamma=agent.config.gamma,
            n_step=agent.config.n_step,
            reward=self.parts.reward,
            rng=generator(seed, "sampler"),
        )
        self.learner = Learner(agent, lambda rows: self.sampler.sample(rows, agent.config.batch_size), folder)
        self._takeover: Takeover | None = None
        self._open_experience()
        self.step = 0
        self._policy_version = 0
        self._episode_return = 0.0
        self._episode_terms = dict.fromkeys(self.online.terms, 0.0)
        self._safety = SafetyRecord()
        self._awaits_person = False
        self._update_seconds = 0.0
        self._state = ""
        self._paused = False
        self._stop_asked = False
        self._order: str | None = None
        self._ends = False
        self._view = View(self.parts.backend)
        self.live = LiveRun(folder)
        checkpoint = None if config.resume is None else self._checkpoints.load_newest()
        if checkpoint is not None:
            self._load(checkpoint)
        self.logger = RunLogger(
            folder,
            section(config, "logging"),
            label=spec.task,
            run_config=OmegaConf.to_container(config, resolve=True),
            resume_step=None if checkpoint is None else self.step,
        )
        self._evaluations = Evaluations(self.settings, self.parts, self.logger, interruption)
        if self.parts.resets is not None:
            self.parts.resets.watch(self.logger.status)
        if checkpoint is None:
            self._begin()
        else:
            self._evaluations.load(checkpoint.facts, self.learner.updates)

    def run(self) -> int:
        """Take the remaining steps, evaluate, and write what the run came to; return the exit code.

        Raises:
            DriverError: if a device failed for good; the run may be resumed.
            SafetyStop: if the robot cannot begin an episode any more; the run may be resumed.
        """
        try:
            return self._run()
        except (DriverError, SafetyStop):
            self._save()
            self._summarise("interrupted", None)
            self.logger.message(f"Ended at step {self.step}. Go on: robo-rl train resume={self.folder}")
            raise

    def _run(self) -> int:
        try:
            status = self._loop()
        except DivergenceError as error:
            self.logger.message(f"Diverged at step {self.step}: {error}")
            newest = self._checkpoints.folders()[-1]
            self.logger.message(f"The last good checkpoint is {newest}.")
            self._summarise("diverged", None)
            return EXIT_DIVERGED
        if status == "interrupted":
            assert self._interruption.signal is not None
            self._save()
            self._summarise(status, None)
            self.logger.message(f"Stopped at step {self.step}. Go on: robo-rl train resume={self.folder}")
            return 128 + self._interruption.signal
        self._ends = True
        self._tell("final evaluation")
        # Start states of its own: those of the other evaluations may have decided when the run ended.
        seed = derive_seed(self.config.seed, "final")
        episodes, video = self.settings.final_evaluation_episodes, self.folder / "videos" / "final.mp4"
        result = self._evaluations(self.step, self.learner.updates, seed, episodes, video)
        self._save()
        self._summarise(status, result)
        self._announce(result)
        return 0

    def _pages(self) -> list[Path]:
        """Draw the learning curve and write the report; return the files."""
        runs = [load_run(self.folder)]
        return [plot_runs(runs, self.folder / "curve.png"), write_report(runs, self.folder / "report.html")]

    def close(self) -> None:
        """Close the log and the backends."""
        self.live.close()
        self.logger.close()
        if self._takeover is not None:
            self._takeover.close()
        self.parts.close()

    def _loop(self) -> str:
        settings, agent = self.settings, self.parts.agent
        while self.step < settings.env_steps and agent.config.learns_online:
            if self._interruption.signal is not None:
                return "interrupted"
            if self._takeover is not None and self._takeover.stops:
                self._interruption.signal = signal.SIGINT
                continue
            self._obey()
            if self._stop_asked:
                return "stopped"
            if self._pauses():
                continue
            try:
                transition = self.actor.take_step(self._choose)
            except SafetyStop as stop:
                self._stopped(stop)
                if self._takeover is not None:
                    self._takeover.wait(f"stopped: {stop}", alarm=True)
                continue
            self._awaits_person = False
            if self._takeover is not None:
                transition = self._takeover.mark(transition)
                if transition.terminated or transition.truncated:
                    self.actor.abandon_episode()
            if ACTION_NOT_FINITE in transition.verdict.reasons:  # such a step can neither be stored nor counted
                raise DivergenceError(f"the policy is rejected, the robot held still: {transition.verdict.message}")
            self.step += 1
            if self._order is not None:
                self.parts.backend.stop(self._order)
                self.actor.abandon_episode()
                transition = marked(transition, self._order)
                self._order = None
            if self.live.watched:
                self.live.show("local", self._view.take(transition.next_observation))
            if self.parts.resets is not None:
                self.parts.resets.note(transition)
            self._insert(transition)
            metrics = {}
            # The first episode may be held back until its reward is known.
            if self.step >= agent.config.learning_starts and (len(self.online) or self.demonstrations is not None):
                began = time.monotonic()
                metrics = self.learner.step()
                self._update_seconds += time.monotonic() - began
                self._policy_version += 1
            self._log(transition, metrics)
            evaluated = bool(settings.evaluation_interval) and self.step % settings.evaluation_interval == 0
            if evaluated:
                self._tell("evaluating")
            reached = evaluated and self._evaluations.good_enough(self.step, self.learner.updates, self.config.seed)
            if evaluated or self.step % settings.checkpoint_interval == 0:
                self._save()
            if reached:
                return "reached"
        return "completed"

    def _pauses(self) -> bool:
        """Tell whether the run is paused between two episodes; where it is, spend a moment of the pause."""
        person = self._takeover
        paused = (self._paused and self.actor.is_between_episodes) or (person is not None and person.paused)
        self._tell("paused" if paused else "training")
        if paused and person is not None:
            person.wait("paused")
        elif paused:
            time.sleep(PERSON_POLL_SECONDS)
        return paused

    def _obey(self) -> None:
        """Do what people who watch asked for."""
        for command in self.live.take_commands():
            self.logger.message(f"At step {self.step}: {command}")
            if command.name == "checkpoint":
                self._save()
            elif command.name == "stop":
                self._stop_asked = True
            elif command.name in EPISODE_COMMANDS:
                self._order = None if self.actor.is_between_episodes else command.name
            else:
                self._paused = command.name == "pause"

    def _tell(self, state: str) -> None:
        """Tell those who watch what the run does."""
        self._state = state
        self.live.tell(LiveStatus(state, self._paused, self._refused_commands(), self._robots()))

    def _robots(self) -> tuple[LiveRobot, ...]:
        facts = {"episode": f"{self.actor.episode + 1:,}", "steps of it": f"{self.actor.episode_length:,}"}
        return (LiveRobot("local", True, facts, self._view.problem),)

    def _refused_commands(self) -> dict[str, str]:
        """Return the commands that are not taken now, and why."""
        if not self.parts.agent.config.learns_online:
            return dict.fromkeys(COMMANDS, "this agent learns from demonstrations alone, in one go")
        if self._ends:
            return dict.fromkeys(COMMANDS, "the run ends")
        if self.parts.backend.spec.reports_success:
            return dict.fromkeys(("success", "failure"), "the task itself tells success")
        return {}

    def _insert(self, transition: Transition) -> None:
        """Store a transition, score what is due, and let learned rewards learn."""
        self.online.append([transition])
        if self._scorer is None:
            self._earn(np.array([[transition.rewards[name] for name in self.online.terms]], dtype=np.float32))
        else:
            self._earn(self.online.values(self.online.score_held(self._scorer, online=True)))
            if metrics := self._scorer.update(self.online):
                self.logger.log("reward", self.step, **metrics)
            self._follow_discount()

    def _earn(self, values: NDArray[np.float32]) -> None:
        """Count the reward terms (n, terms) of steps of the episode."""
        terms = self.online.terms
        self._episode_return += float(self.parts.reward.combine(terms, values, self.sampler.gamma).sum())
        for name, total in zip(terms, values.sum(0).tolist(), strict=True):
            self._episode_terms[name] += total

    def _follow_discount(self) -> None:
        """Discount as the reward asks for, where it does."""
        wanted = self._scorer.discount if self._scorer else None
        self.sampler.gamma = self.parts.agent.config.gamma if wanted is None else wanted

    def _stopped(self, stop: SafetyStop) -> None:
        """Take note of an episode that was stopped without a step; wait where a person has to let it go on."""
        if self._awaits_person and stop.by_person:
            time.sleep(PERSON_POLL_SECONDS)
            return
        self._awaits_person = stop.by_person
        self.logger.message(f"Stopped at step {self.step}: {stop}")
        if self.actor.episode_length:
            self.online.end_episodes()
            if self._scorer is not None:
                self._earn(self.online.values(self.online.score_held(self._scorer, online=True)))
            self._end_episode(None, stop.reason)
        self._safety.stopped(stop)

    def _choose(self, observation: Observation) -> ActionChoice:
        choice = self._policy_choice(observation)
        if self._intervention is not None:
            choice = self._intervention(observation, choice, self.step)
        return choice if self._takeover is None else self._takeover(observation, choice)

    def _policy_choice(self, observation: Observation) -> ActionChoice:
        agent = self.parts.agent
        if self.step < agent.config.random_steps:
            rng = generator(self.config.seed, "random action", self.step)
            action = rng.uniform(-1, 1, self.parts.backend.spec.action.shape).astype(np.float32)
            return ActionChoice(action, Source.RANDOM)
        return ActionChoice(agent.act(observation, explore=True), Source.POLICY, self._policy_version)

    def _begin(self) -> None:
        """What comes before the first step: rewards, normalisation and behaviour cloning from the demonstrations."""
        agent = self.parts.agent
        self._tell("learning from demonstrations")
        if self._scorer is not None:
            self._scorer.fit(self._demonstration_episodes)
            self._demonstration_episodes.clear()
            if self.demonstrations is not None:
                self.demonstrations.score_held(self._scorer, online=False)
            self._follow_discount()
        if self.demonstrations is not None:
            agent.fit_normaliser(self.demonstrations.everything(self.parts.reward))
            for update in range(1, agent.config.pretrain_steps + 1):
                # The online replay is empty still, so all rows are demonstrations.
                metrics = agent.pretrain(self.sampler.sample(agent.config.batch_size, agent.config.batch_size))
                if update % PRETRAIN_LOG_INTERVAL == 0:
                    self.logger.log("train", 0, pretrain_update=update, **metrics)
        self._save()

    def _log(self, transition: Transition, metrics: dict[str, float]) -> None:
        logger = self.logger
        if metrics and logger.due(self.step):
            logger.log("train", self.step, **metrics)
        self._safety.count(transition.verdict)
        if transition.verdict.stop:
            logger.message(f"Stopped at step {self.step}: {transition.verdict.message}")
        if transition.terminated or transition.truncated:
            self._end_episode(transition.success, transition.verdict.reasons[-1] if transition.verdict.stop else None)
        updates = self.learner.updates * self.parts.agent.config.update_to_data
        logger.progress(self.step, self.settings.env_steps, updates)

    def _end_episode(self, success: bool | None, stopped: str | None) -> None:
        """Log the episode and begin to count the next."""
        length = self.actor.episode_length
        self.logger.log(
            "episode",
            self.step,
            episode_return=self._episode_return,
            length=length,
            success=success,
            **{f"reward/{name}": total for name, total in self._episode_terms.items()},
            stopped=stopped,
            **self._safety.metrics(),
            **self._practice(),
        )
        if self._evaluations.watch is not None:
            self._evaluations.watch.add_episode(self.actor.episode, self._episode_return, length, success)
        self._episode_return = 0.0
        self._episode_terms = dict.fromkeys(self._episode_terms, 0.0)
        if self._intervention is not None:
            self._intervention.end_episode()

    def _save(self) -> None:
        agent = self.parts.agent
        counters = np.array([self.step, self.learner.updates, self._policy_version], dtype=np.int64)
        run_state: State = {"counters": counters, "sampler": self.sampler.state()["generator"]}
        facts = {
            "spec": self.parts.backend.spec.to_json(),
            **self._evaluations.state(self.learner.updates),
            "episode_return": self._episode_return,
            "episode_terms": self._episode_terms,
            "safety": self._safety.state(),
            "update_seconds": self._update_seconds,
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
        self._save_experience(parts)
        self._checkpoints.save(Checkpoint(self.step, parts, facts))

    def _load(self, checkpoint: Checkpoint) -> None:
        run_state = checkpoint.parts["run"]
        self.step, self.learner.updates, self._policy_version = (int(value) for value in run_state["counters"])
        self.parts.agent.load(checkpoint.parts["agent"])
        self._load_experience(checkpoint.parts)
        if self._scorer is not None:
            self._scorer.load(checkpoint.parts["reward"])
            if self.demonstrations is not None:
                self.demonstrations.load_terms(checkpoint.parts["demonstrations"])
        self.sampler.load({"generator": run_state["sampler"]})
        self._episode_return = checkpoint.facts["episode_return"]
        self._episode_terms = checkpoint.facts.get("episode_terms", self._episode_terms)
        self._follow_discount()
        self._safety = SafetyRecord(checkpoint.facts.get("safety"))
        self._update_seconds = checkpoint.facts["update_seconds"]

    def _open_experience(self) -> None:
        """Make what steps come from."""
        seed = self.config.seed
        self.actor = Actor(self.parts.backend, seed, resets=self.parts.resets)
        intervention: InterventionConfig = section(self.config, "intervention")
        self._intervention: SimulatedIntervention | None = None
        if intervention.criterion != "never":
            expert = self.parts.backend.expert(derive_seed(seed, "intervention"))
            self._intervention = SimulatedIntervention(intervention, expert, seed)
        check_screen(self.config, "this one shows the run")
        self._takeover = open_takeover(self.config, self.parts.backend)

    def _save_experience(self, parts: dict[str, State]) -> None:
        """Add to a checkpoint what :meth:`_open_experience` made, and the steps."""
        parts["replay"] = self.online.state()
        if self._intervention is not None:
            parts["intervention"] = self._intervention.state()
        parts["run"] |= {f"actor/{key}": value for key, value in self.actor.state().items()}
        if self.parts.resets is not None:
            parts["resets"] = self.parts.resets.save()

    def _load_experience(self, parts: Mapping[str, State]) -> None:
        """Go on with the experience of a checkpoint."""
        self.online.load(parts["replay"])
        if self._intervention is not None:
            self._intervention.load(parts.get("intervention", {}))
        if self.parts.resets is not None:
            self.parts.resets.load(parts["resets"])
        prefix, saved = "actor/", parts["run"]
        self.actor.load({key.removeprefix(prefix): value for key, value in saved.items() if key.startswith(prefix)})

    def _experience_summary(self) -> dict[str, Any]:
        """Return what summary.json says beside the results."""
        practice = {name.removeprefix("practice/"): value for name, value in self._practice().items()}
        return {"practice": practice} if practice else {}

    def _practice(self) -> Metrics:
        """Return what practice without resets came to; nothing where a seed begins every episode."""
        return {} if self.parts.resets is None else self.parts.resets.metrics()

    def _summarise(self, status: str, result: EvaluationResult | None) -> None:
        rate = result.success_rate if result else None
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
            success_rate=None
            if rate is None or result is None
            else {"value": rate.value, "low": rate.low, "high": rate.high, "episodes": len(result.episodes)},
            return_mean=result.return_mean if result else None,
            lap_seconds=_lap_times(result) if result else None,
            steps_to_95=self._evaluations.steps_to_95,
            updates_per_second=updates / self._update_seconds if self._update_seconds else None,
            learner=self.parts.agent.backend,
            **self._experience_summary(),
            safety=self._safety.state(),
        )

    def _announce(self, result: EvaluationResult) -> None:
        say = self.logger.message
        rate = result.success_rate
        if rate is not None:
            say(
                f"Success {100 * rate.value:.0f} % of {len(result.episodes)} evaluation episodes "
                f"(95 % interval {100 * rate.low:.0f} to {100 * rate.high:.0f} %)"
            )
        else:
            say(f"Mean return {result.return_mean:.1f} over {len(result.episodes)} evaluation episodes")
        if result.lap_seconds:
            say(f"Lap time {result.lap_seconds_median:.2f} s (median of {len(result.lap_seconds)})")
        minutes = self.step / self.parts.backend.spec.control_rate / 60
        say(f"{self.step:,} environment steps ({minutes:.1f} robot-minutes) in {self.logger.wall_seconds:.0f} s")
        say(f"Policy    {self._checkpoints.best()}")
        if result.video is not None:
            say(f"Video     {result.video}")
        curve, page = self._pages()
        say(f"Curve     {curve}")
        say(f"Report    {page}")
        say(f"Run it    robo-rl eval run={self.folder}")


def _lap_times(result: EvaluationResult) -> dict[str, float | int] | None:
    """Return what summary.json says of lap times [s]; None where none was driven."""
    laps = result.lap_seconds
    if not laps:
        return None
    return {"median": float(np.median(laps)), "fastest": min(laps), "slowest": max(laps), "laps": len(laps)}
