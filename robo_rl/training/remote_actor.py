"""The actor's side of a run whose learner is elsewhere."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from omegaconf import DictConfig

from ..actor import ActionChoice, Actor, EpisodeRefusedError, SimulatedIntervention, Spool, SpoolFullError, View
from ..app import ActorConfig, agent_facts, build_acting_agent, build_resets, has_robot, make_intervention, section
from ..core import (
    Agent,
    CheckpointError,
    ConfigError,
    EnvBackend,
    Interruption,
    MonotonicClock,
    Observation,
    ResetController,
    SafetyStop,
    Source,
    SpecError,
    State,
    Transition,
    derive_seed,
    generator,
)
from ..operators.takeover import Takeover
from ..safety import ACTION_NOT_FINITE
from ..transport import LearnerLink, RecordEncoder, TransportConfig
from .safety_record import SafetyRecord

WAIT_SECONDS = 0.005
FULL_SECONDS = 0.2
BLOCKED_NS = 10_000_000_000
"""What the learner takes in is told no more often than this: a limit of rates comes and goes."""
KEPT_POLICIES = 3
"""Policies kept to go back to: one that gives impossible actions may have been preceded by others that do."""


class RemoteActor:
    """Acts with the newest policy that came, and leaves every step in the spool for the link to send.

    A robot waits within an episode for neither learner nor network; a simulator, whose world stands still meanwhile,
    does where the learner is behind. While the learner cannot be reached the actor goes on with the policy that it has,
    in simulation no faster than a robot would, or than ``actor.real_time_factor`` says, which always holds. Where it
    was held it stays so: a person may have paused the run.

    Args:
        config: as configs/actor.yaml.
        backend: robot or simulator.
        interruption: read between two steps.
        takeover: lets a person act instead; None: nobody does.
    """

    def __init__(
        self, config: DictConfig, backend: EnvBackend, interruption: Interruption, takeover: Takeover | None = None
    ) -> None:
        self._config = config
        self._settings: ActorConfig = section(config, "actor")
        self._backend = backend
        self._interruption = interruption
        self._takeover = takeover
        self._world_waits = takeover is None and not has_robot(config)
        self._clock = MonotonicClock()
        self._transport: TransportConfig = section(config, "transport")
        self._view = View(backend)
        self._encoder = RecordEncoder(backend.spec, self._transport.image_compression)
        self._resets: ResetController | None = None
        self._practice_state = ""
        self._intervention: SimulatedIntervention | None = None
        self._seed = 0  # of the session: what is random by the number of a step is no other session's
        self._produced = 0
        self._env_steps = 0
        self._held_seconds = 0.0
        self._refused_policies = 0
        self._blocked, self._blocked_ns = "", -BLOCKED_NS  # what was told of the learner, and when
        self._safety = SafetyRecord()
        self._link: LearnerLink | None = None
        self._waited_for = ""  # reason of the stop that people were told of last
        # The policies that act, the newest last, by version: the ones before it are for when it turns out useless.
        self._policies: list[tuple[int, State]] = []

    def _make_intervention(self, seed: int) -> SimulatedIntervention | None:
        """Return what takes over from the policy now and then, where the run wants an expert to."""
        return make_intervention(section(self._config, "intervention"), self._backend, seed)

    def _make_resets(self, seed: int) -> ResetController | None:
        """Return what begins episodes but the first; None: seeds do."""
        resets = build_resets(self._config.reset, self._backend, seed)
        if resets is not None:
            if resets.learns:
                raise ConfigError("reset=learned needs runtime=local: its agent learns beside the task's")
            heed = None if self._takeover is None else self._takeover.heed
            resets.watch(partial(setattr, self, "_practice_state"), self._tell, heed)
        return resets

    def _tell(self, text: str) -> None:
        """Tell people here, and at the learner, what they should know."""
        print(text, flush=True)
        if self._link is not None:
            self._link.say(text)

    def run(self) -> int:
        """Act until the run ends, this actor is interrupted, or its parent is gone; return the exit code."""
        settings, facts = self._settings, {"agent": agent_facts(self._config.agent)}
        with Spool(Path(settings.spool), settings.spool_bytes, settings.sync_seconds) as spool:
            if spool.damaged_bytes:
                print(f"{spool.path}: {spool.damaged_bytes} bytes of steps were lost in a power cut", flush=True)
            link = LearnerLink(self._transport, settings.name, self._backend.spec, facts, spool, spool.run, self._tell)
            with link:
                if link.join(spool.newest_session, self._must_end):
                    self._begin_session(link, spool)
                    link.start()
                    print(f"{settings.name} joined run {link.run} (session {link.session})", flush=True)
                    try:
                        self._act(link, spool)
                    finally:
                        self._backend.stop("the actor ends")
                    self._finish(link, spool)
        return 0 if self._interruption.signal is None else 128 + self._interruption.signal

    def _begin_session(self, link: LearnerLink, spool: Spool) -> None:
        """Have the spool take the session's steps, once the disk has room for it.

        Raises:
            SpoolFullError: if the actor is to end meanwhile.
        """
        told = False
        while True:
            try:
                spool.bind(link.run)
                spool.begin_session(link.session)
                return
            except SpoolFullError as error:
                if not told:
                    print(f"no step is taken: {error}", flush=True)
                told = True
                if self._must_end():
                    raise
                time.sleep(FULL_SECONDS)

    def _must_end(self) -> bool:
        return self._interruption.signal is not None or self._is_orphan()

    def _is_orphan(self) -> bool:
        parent = self._settings.parent
        return parent is not None and os.getppid() != parent

    def _act(self, link: LearnerLink, spool: Spool) -> None:
        self._link = link
        seed = self._seed = derive_seed(self._config.seed, "session", link.session)
        name = self._settings.name
        self._intervention = self._make_intervention(derive_seed(seed, "intervention", name))
        self._resets = self._make_resets(derive_seed(seed, "actor", name))
        actor = Actor(self._backend, seed, name, link.session, self._resets)
        agent = build_acting_agent(self._config.agent, self._backend.spec, derive_seed(seed, "actor", name))
        choose = partial(self._choose, agent)
        factor = None if has_robot(self._config) else self._settings.real_time_factor
        period_ns = int(1e9 / (self._backend.spec.control_rate * (factor or 1.0)))
        while not self._must_end() and not link.status.stop:
            began_ns = self._clock.now_ns()
            self._take_policy(link, agent)
            self._tell_blocked(link)
            if actor.is_between_episodes or not actor.episode_length:
                link.take_orders()  # they were about another episode: of this one there is no step yet
            if reason := self._why_held(actor, link):
                self._report(link)
                self._wait(reason, link)
                self._held_seconds += (self._clock.now_ns() - began_ns) * 1e-9
                continue
            try:
                if actor.is_between_episodes:
                    self._begin_episode(actor, agent, link)
                    continue
                self._take_step(actor, agent, choose, link, spool)
            except SafetyStop as stop:
                self._stopped(stop)
                self._report(link)
                if self._takeover is not None:
                    self._wait(f"stopped: {stop}", link, alarm=True)
                continue
            except EpisodeRefusedError as refusal:
                self._tell(f"Episode ended at step {self._produced}: {refusal}")
                self._report(link)
                continue
            if factor is not None or not link.status.connected:
                self._clock.sleep_until_ns(began_ns + period_ns)

    def _begin_episode(self, actor: Actor, agent: Agent, link: LearnerLink) -> None:
        """Bring the robot to where an episode begins, which may take long; its first step comes after.

        Raises:
            SafetyStop: if the robot was stopped.
        """
        agent.forget_plan(explore=True)
        if self._intervention is not None:
            self._intervention.end_episode()  # however the one before ended
        actor.begin_episode()
        if self._takeover is not None and not self._takeover.begin_episode():
            actor.abandon_episode()
            self._end_run(link)

    def _take_step(
        self,
        actor: Actor,
        agent: Agent,
        choose: Callable[[Observation], ActionChoice],
        link: LearnerLink,
        spool: Spool,
    ) -> None:
        """Take one step of the open episode and leave it in the spool.

        Raises:
            SafetyStop: if the robot was stopped and no step came of it.
            EpisodeRefusedError: if the robot is to be brought back before it.
        """
        self._env_steps = max(link.status.env_steps, self._produced)
        transition = self._as_people_have_it(actor.take_step(choose), actor, link)
        if self._resets is not None:
            self._resets.note(transition)
        if link.status.watched:
            link.show(self._view.take(transition.next_observation), self._view.problem)
        notice = self._safety.count(transition.verdict)
        if notice is not None:
            self._tell(f"At step {self._produced}: {notice}")
        if ACTION_NOT_FINITE in transition.verdict.reasons:
            self._reject_policy(agent, transition.verdict.message)
        self._produced += 1
        if not self._keep(transition, spool, link):
            actor.abandon_episode()
        self._report(link)
        link.wake()

    def _why_held(self, actor: Actor, link: LearnerLink) -> str:
        """Return why no step is to be taken now; empty: one is."""
        paused = self._takeover is not None and self._takeover.paused
        may_wait = actor.is_between_episodes or self._world_waits
        status = link.status
        # A learner that is away says nothing: the spool takes what comes.
        used_up = self._world_waits and status.connected and actor.sequence >= status.until
        if self._policies and not used_up and not (may_wait and (status.hold or paused)):
            return ""
        return "paused" if paused else "waiting for the learner"

    def _as_people_have_it(self, transition: Transition, actor: Actor, link: LearnerLink) -> Transition:
        """Return the step just taken, perhaps as the last of its episode: by this actor's person, or by an order."""
        if self._takeover is not None:
            transition = self._takeover.mark(transition)
            if transition.terminated or transition.truncated:
                actor.abandon_episode()
            self._end_run(link)
        for order in link.take_orders():
            print(f"{order} at step {self._produced}", flush=True)
            transition = actor.end_episode(transition, order)
        return transition

    def _tell_blocked(self, link: LearnerLink) -> None:
        """Tell people where the learner takes no steps in any more, and where it does again."""
        blocked, now = link.status.blocked, self._clock.now_ns()
        if blocked == self._blocked or now - self._blocked_ns < BLOCKED_NS:
            return
        self._blocked, self._blocked_ns = blocked, now
        told = f"no steps in: {blocked}. They stay in the spool" if blocked else "steps in again"
        print(f"The learner takes {told}", flush=True)

    def _stopped(self, stop: SafetyStop) -> None:
        """Take note of an episode that was stopped without a step; wait where it has to be let go on."""
        if not (self._safety.awaits_release and stop.waits and stop.reason == self._waited_for):
            self._tell(f"Stopped: {stop}")
            self._waited_for = stop.reason
            self._safety.stopped(stop)
        if stop.waits:
            time.sleep(WAIT_SECONDS)

    def _wait(self, state: str, link: LearnerLink, alarm: bool = False) -> None:
        """Spend a moment between episodes; a person may say something meanwhile."""
        if self._takeover is None:
            time.sleep(WAIT_SECONDS)
            return
        self._takeover.wait(state, alarm)
        self._end_run(link)

    def _end_run(self, link: LearnerLink) -> None:
        """Ask the learner to end the run where a person wants that."""
        assert self._takeover is not None
        if not self._takeover.stops:
            return
        self._takeover.stops = False
        link.end_run()
        print(f"The learner is asked to end run {link.run}", flush=True)

    def _choose(self, agent: Agent, observation: Observation) -> ActionChoice:
        choice = self._policy_choice(agent, observation)
        if self._intervention is not None:
            choice = self._intervention(observation, choice, self._produced)
        if self._takeover is not None:
            choice = self._takeover(observation, choice)
        if choice.source is not Source.POLICY:
            agent.forget_plan(explore=True)
        return choice

    def _policy_choice(self, agent: Agent, observation: Observation) -> ActionChoice:
        if self._env_steps < agent.config.random_steps:
            rng = generator(self._seed, "random action", self._settings.name, self._produced)
            action = rng.uniform(-1, 1, self._backend.spec.action.shape).astype(np.float32)
            return ActionChoice(action, Source.RANDOM)
        return ActionChoice(agent.act(observation, explore=True), Source.POLICY, self._version())

    def _version(self) -> int:
        """Return the version of the policy that acts, -1 if none does."""
        return self._policies[-1][0] if self._policies else -1

    def _take_policy(self, link: LearnerLink, agent: Agent) -> None:
        """Act with the newest policy from now on, unless it is of no use: then go on with the one before."""
        policy = link.take_policy()
        if policy is None:
            return
        version, state = policy
        try:
            agent.load_policy(state)
            self._probe(agent)
        except (CheckpointError, SpecError) as error:
            self._refused_policies += 1
            self._tell(f"policy {version} is not used: {error}")
            if self._policies:
                agent.load_policy(self._policies[-1][1])
            return
        self._policies = [*self._policies, (version, state)][-KEPT_POLICIES:]

    def _reject_policy(self, agent: Agent, reason: str) -> None:
        """Go back to the policy before the one that acts; where there is none, wait for the next."""
        self._refused_policies += 1
        self._tell(f"policy {self._version()} is not used any more: {reason}")
        self._policies.pop()
        agent.forget_plan(explore=True)
        if self._policies:
            agent.load_policy(self._policies[-1][1])

    def _probe(self, agent: Agent) -> None:
        """Check what the policy decides on an observation of zeros: an action, or a chunk of them.

        Raises:
            SpecError: if an action is impossible.
        """
        spec = self._backend.spec
        zeros = {key: np.zeros(array.shape, array.dtype) for key, array in spec.observation.items()}
        agent.forget_plan(explore=False)
        for _ in range(agent.config.action_chunk):
            spec.action.check("action of the policy", agent.act(zeros, explore=False))

    def _keep(self, transition: Transition, spool: Spool, link: LearnerLink) -> bool:
        """Append the step to the spool; return False if that had to wait for room, so that the robot was stopped."""
        try:
            record = self._encoder.encode(transition)
        except SpecError as error:
            self._tell(f"step {transition.sequence} is refused: {error}")
            record = self._encoder.refuse(transition, str(error))
        waited = False
        while True:
            try:
                spool.append(transition.sequence, record)
                return not waited
            except SpoolFullError as error:
                if not waited:
                    self._backend.stop("the spool is full")
                    self._tell(f"collecting pauses: {error}")
                waited = True
                if self._must_end():
                    if not spool.append_last(transition.sequence, record):
                        print("the step in hand is lost unless the learner takes it now", flush=True)
                    return False
                link.wake()
                time.sleep(FULL_SECONDS)
                self._held_seconds += FULL_SECONDS

    def _report(self, link: LearnerLink) -> None:
        link.report(
            produced=self._produced,
            policy_version=self._version(),
            refused_policies=self._refused_policies,
            held_seconds=self._held_seconds,
            practice_state=self._practice_state,
            practice={} if self._resets is None else self._resets.metrics(),
        )

    def _finish(self, link: LearnerLink, spool: Spool) -> None:
        """Wait until the learner has stored everything."""
        self._report(link)
        if not link.finish(0 if self._is_orphan() else self._settings.finish_seconds):
            print(f"{spool.held_records} steps stay in {spool.path} for the next start of this actor", flush=True)
