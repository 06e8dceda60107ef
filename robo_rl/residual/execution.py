"""The execution of chunks in real time: the next chunk is computed while the current one is executed."""

import math
import time
from collections import deque
from threading import Thread

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ConfigError, EnvSpec, ExecutionReport, Observation

from .base_policy import BasePolicy, KnownActions
from .config import ExecutionConfig
from .execution_record import ExecutionRecord

LATEST = 10
"""Number of latest decisions of which the slowest is the expected latency of the next one."""
CLOSE_SECONDS = 2.0
"""Longest wait at the end for a decision that is being computed [s]."""
_ROUNDING = 1e-9


class ExecutedPolicy(BasePolicy):
    """A base policy whose chunks are executed as :class:`.ExecutionConfig` says.

    One decision is computed at a time, from the observation at its request. Of its chunk the actions are dropped in
    whose place others were executed meanwhile; actions that hold still replace none. What is left is blended with what
    is left of the current chunk. If ``asynchronous``, a decision is requested so early that both overlap by
    ``blended_steps``, provided that it takes as long as the slowest of the latest ones. If this is as long as a chunk
    or longer, a chunk is executed to its end first, since most of the next one would lie in the past.

    With ``blending=inpainting``, nothing is blended: a flow decides on a chunk that continues the current one. It is
    guided to begin with the actions that will be executed until it arrives, and less and less to what is left of the
    current chunk after them (real-time chunking, Black, Galliker and Levine 2025).

    The robot holds still while no action is left. At the start of an episode, and where no earlier action says how to
    hold still, a chunk is waited for. After an action of a person, a script or a safety filter, a simulation waits,
    too, so that recorded episodes contain what the policy would have done; a robot holds still until a decision on a
    later observation has been made.

    With a real robot a decision is computed in a thread. In simulation it is computed at once, and used when its
    latency has passed in simulated time. With an emulated latency, results are therefore reproducible.

    Args:
        base: the policy that decides.
        spec: spec of the environment in which it acts.
        config: how its chunks are executed.
        simulated: whether time is simulated.

    Raises:
        ConfigError: if the policy decides on several consecutive observations, or cannot continue a chunk although it
            should.
    """

    def __init__(self, base: BasePolicy, spec: EnvSpec, config: ExecutionConfig, *, simulated: bool) -> None:
        if base.observed_steps != 1:
            raise ConfigError(
                f"the policy {base.name} decides on {base.observed_steps} consecutive observations, which it only gets "
                "if it is asked in every step: leave out the options of its execution"
            )
        if config.blending == "inpainting" and not base.continues_actions:
            raise ConfigError(
                "execution.blending=inpainting needs the policy of a run of agent=flow, which can continue a chunk; "
                f"{base.name} cannot: choose linear or exponential"
            )
        super().__init__(lambda observation, _: base.decide(observation), base.name, base.fingerprint, base.spec)
        self._base, self._environment, self._config, self._simulated = base, spec, config, simulated
        self._blended = config.blended_steps if config.asynchronous and config.blending != "none" else 0
        self._latest: deque[int] = deque(maxlen=LATEST)
        self._record = ExecutionRecord(spec)
        self._request: _Request | None = None
        self._last: NDArray[np.float32] | None = None
        self._length = 0
        self._held = False
        self._begins: tuple[int | None] | None = None
        self._forgets = False
        gripper = np.array(["gripper" in name for name in spec.action.names or ("",) * spec.action.shape[0]])
        self._kept = (gripper | spec.commands_positions).astype(np.float32)
        self._steps = ~gripper & spec.action_space.endswith("delta")

    def differences(self, spec: EnvSpec) -> list[str]:
        """Return one line for each point in which ``spec`` differs from the spec that the policy was made for."""
        return self._base.differences(spec)

    def begin_episode(self, seed: int | None) -> None:
        """Begin an episode, see :meth:`.BasePolicy.begin_episode`; a decision that is being computed is discarded."""
        self.forget_plan()
        self._begins, self._last, self._held = (seed,), None, False
        self._record.begin_episode()
        if self._simulated:
            self._request = None

    def forget_plan(self, executed: NDArray[np.float32] | None = None) -> None:
        """Discard the current chunk, and the decision that is being computed.

        In simulation, the next action is decided at once.

        Args:
            executed: the action (A,) that was executed instead, from which the robot holds still until a decision on a
                later observation has been made; None: unknown.
        """
        self._plan, self._forgets = [], True
        if self._simulated:
            self._request = self._last = None
            return
        if executed is not None or self._environment.commands_positions:
            self._last = executed
        if self._request is not None:
            self._request.is_valid = False

    def act(self, observation: Observation) -> NDArray[np.float32]:
        """Return the next action (A,): of the current chunk or, if none is left, one that holds the robot still.

        Raises:
            SpecError: if the policy returned something that is no chunk of actions.
        """
        self._receive()
        if len(self._plan) <= self._lead():
            self._request_decision(observation)
        while not self._plan and self._last is None:
            self._request_decision(observation)
            self._receive(waits=True)
        held = not self._plan
        if held and not self._held:
            self._record.add_seam(0)
        action = self._kept * self._last if self._last is not None and held else self._plan.pop(0)
        if self._request is not None:
            self._request.steps += 1
            if not held:
                self._request.executed.append(action)
        self._record.add_action(action, held=held)
        self._last, self._held = action, held
        return action

    def restart_report(self) -> None:
        """Begin the measurements of :meth:`report` anew."""
        self._record.restart()

    def report(self) -> ExecutionReport:
        """Return measurements since the last :meth:`restart_report`."""
        return self._record.report()

    def close(self) -> None:
        """Wait for a decision that is being computed, but for no more than :data:`CLOSE_SECONDS`."""
        if self._request is not None:
            self._request.wait(CLOSE_SECONDS)
        self._base.close()

    def _lead(self) -> int:
        """Return the number of remaining actions at which the next decision is requested."""
        delay = max(self._latest, default=0)
        if not self._config.asynchronous or delay >= self._length:
            return 0
        return min(delay + self._blended, self._length - 1)

    def _request_decision(self, observation: Observation) -> None:
        """Request a decision on ``observation``, unless one is being computed."""
        if self._request is not None:
            return
        # The base is in use while it decides, so that changes wait until then.
        if self._begins is not None:
            self._base.begin_episode(*self._begins)
        elif self._forgets:
            self._base.forget_plan()
        self._begins, self._forgets = None, False
        rate, latency, in_background = self._environment.control_rate, self._config.latency, not self._simulated
        known = self._known_actions()
        self._request = _Request(self._base, observation, latency, rate, known, in_background=in_background)
        self._receive()

    def _known_actions(self) -> KnownActions | None:
        """Return the rest of the current chunk if the next one is to continue it."""
        if self._config.blending != "inpainting" or not self._plan:
            return None
        certain = min(max(self._latest, default=0), len(self._plan))
        weights = np.concatenate([np.ones(certain, np.float32), _shares("exponential", len(self._plan) - certain)])
        return KnownActions(np.array(self._plan), weights)

    def _receive(self, *, waits: bool = False) -> None:
        """Use the chunk of a decision that has been made, if there is one.

        Args:
            waits: whether to wait for the decision that is being computed.
        """
        request = self._request
        if request is None or not (waits or request.is_due()):
            return
        request.wait()
        self._request = None
        chunk = request.chunk()
        self._record.add_decision(request.seconds, chunk)
        self._latest.append(max(request.steps, math.ceil(request.seconds * self._environment.control_rate - _ROUNDING)))
        if request.is_valid and len(request.executed) < len(chunk):
            self._length = len(chunk)
            self._follow(chunk, request.executed)

    def _follow(self, chunk: NDArray[np.float32], executed: list[NDArray[np.float32]]) -> None:
        """Continue with ``chunk`` (h, A), in place of whose first actions others were ``executed``."""
        following = chunk[len(executed) :].copy()
        count = min(self._blended, len(self._plan), len(following))
        if self._blended and self._config.blending != "inpainting":
            current = np.array(self._plan[:count]).reshape(count, chunk.shape[1])
            share = _shares(self._config.blending, count)[:, None]
            following[:count] = share * current + (1 - share) * following[:count]
            done = np.array(executed).reshape(len(executed), chunk.shape[1])
            path = _blended_path(done, current, chunk, share)
            following[:, self._steps] = path[:, self._steps]
        self._plan = list(following.clip(-1, 1))
        self._record.add_seam(count)


class _Request:
    """A decision that was requested.

    Args:
        base: the policy that decides.
        observation: observation that it decides on.
        latency: emulated latency [s]; None for that of the computation.
        rate: control rate [Hz].
        known: actions that its chunk continues; None: none.
        in_background: whether it is computed in a thread.

    Attributes:
        steps: control periods since the request.
        executed: actions (A,) of the current chunk that were executed since the request.
        is_valid: whether its chunk is of use.
        seconds: latency [s], once it was computed.
    """

    def __init__(
        self,
        base: BasePolicy,
        observation: Observation,
        latency: float | None,
        rate: float,
        known: KnownActions | None,
        *,
        in_background: bool,
    ) -> None:
        self._base, self._observation, self._known = base, observation, known
        self.steps = 0
        self.executed: list[NDArray[np.float32]] = []
        self.is_valid = True
        self._chunk: NDArray[np.float32] | None = None
        self._error: BaseException | None = None
        self._thread: Thread | None = None
        self.seconds = 0.0
        if in_background:
            self._observation = {key: array.copy() for key, array in observation.items()}  # backends reuse arrays
            self._thread = Thread(target=self._compute, name="base policy", daemon=True)
            self._thread.start()
            return
        self._compute()
        if latency is not None:
            self.seconds = latency
        self._periods = math.ceil(self.seconds * rate - _ROUNDING)

    def is_due(self) -> bool:
        """Return whether its chunk may be used now."""
        return self.steps >= self._periods if self._thread is None else not self._thread.is_alive()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until it was computed, or ``seconds`` have passed."""
        if self._thread is not None:
            self._thread.join(seconds)

    def chunk(self) -> NDArray[np.float32]:
        """Return its chunk (h, A); raise the error of the policy if it failed."""
        if self._error is not None:
            raise self._error
        assert self._chunk is not None
        return self._chunk

    def _compute(self) -> None:
        began = time.monotonic()
        try:
            self._chunk = self._base.decide(self._observation, self._known)
        except Exception as error:
            self._error = error
        self.seconds = time.monotonic() - began


def _shares(blending: str, count: int) -> NDArray[np.float32]:
    """Return the shares (count,) of the current chunk in a cross-fade; those of the next one are 1 minus these.

    The exponential ones are those of real-time chunking (Black, Galliker and Levine 2025).
    """
    falling = np.arange(count, 0, -1, dtype=np.float32) / (count + 1)
    if blending == "exponential":
        falling = falling * np.expm1(falling) / np.float32(math.expm1(1))
    return falling.astype(np.float32)


def _blended_path(
    executed: NDArray[np.float32], current: NDArray[np.float32], chunk: NDArray[np.float32], share: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the steps (h - n, A) along a path that leaves that of the current chunk for that of the next one.

    Steps that are not executed are not lost like this: the next chunk corrects errors with its first steps, too, in
    whose place those of the current chunk were executed. What exceeds [-1, 1] is done in the following steps.

    Args:
        executed: steps (n, A) of the current chunk since the observation of the next one.
        current: steps (k, A) that are left of the current chunk.
        chunk: the next chunk (h, A), of steps.
        share: share (k, 1) of the path of the current chunk.
    """
    position = executed.sum(axis=0)
    path = np.cumsum(chunk, axis=0)[len(executed) :]
    count = len(current)
    path[:count] = share * (position + np.cumsum(current, axis=0)) + (1 - share) * path[:count]
    steps = np.empty_like(path)
    for index, target in enumerate(path):
        steps[index] = (target - position).clip(-1, 1)
        position = position + steps[index]
    return steps
