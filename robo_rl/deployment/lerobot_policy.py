"""Policies from folders that LeRobot wrote (``pretrained_model``), computed by LeRobot in a separate environment."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import EnvSpec, Observation, printable

from .lerobot_files import read_lerobot
from .lerobot_process import LeRobotProcess

_IMAGES = "images/"


class LeRobotPolicy:
    """A :class:`~robo_rl.core.Policy` of a LeRobot folder; it does not explore.

    LeRobot's ``select_action`` decides, with its queues of observations and actions, between the processors that
    LeRobot 0.4 and newer save with a policy. Observations and actions have the format of robo-rl's export to LeRobot:
    numbers in the units of the task, flattened, images in [0, 1], and actions in [-1, 1], to which they are clipped.
    The process of LeRobot starts with :meth:`start`, or with the first action.

    Args:
        folder: the folder.
        name_of: function from an observation key to LeRobot's name.

    Attributes:
        type: type of the policy, such as ``act``.
        files: names of its files.
        action_chunk: number of actions that it decides at once.
        observed_steps: number of consecutive observations that it decides on.
        fingerprint: hash of its files.

    Raises:
        DataError: see :func:`.read_lerobot`.
    """

    def __init__(self, folder: Path, name_of: Callable[[str], str]) -> None:
        self._folder, self._name_of = folder, name_of
        read = read_lerobot(folder)
        self.type, self.files, self.fingerprint = read.type, read.names, read.fingerprint
        self.observed_steps, self.action_chunk = read.observed_steps, read.action_chunk
        self._inputs, self._outputs = read.inputs, read.outputs
        self._task, self._size = "", 0
        self._keys: dict[str, str] = {}
        self._begin, self._forget = True, False
        self._seed: int | None = 0
        self._process: LeRobotProcess | None = None

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"{self._folder} (LeRobot, {printable(self.type)})"

    def differences(self, spec: EnvSpec) -> list[str]:
        """Return one line for each input or output that an environment of ``spec`` lacks or has in another shape.

        The policy acts in that environment from then on.
        """
        expected = {self._name_of(key): key for key in spec.observation}
        lines, self._keys = [], {name: expected[name] for name in self._inputs if name in expected}
        for name, shape in self._inputs.items():
            if name not in expected:
                lines.append(f"input {name!r} of the policy: no such observation; the task has {', '.join(expected)}")
                continue
            key = expected[name]
            # in LeRobot, images are (C, H, W), and all other observations are vectors
            size = spec.observation[key].shape
            observed = (size[2], *size[:2]) if key.startswith(_IMAGES) else (int(np.prod(size)),)
            if observed != shape:
                lines.append(f"input {name!r}: the policy expects shape {shape}, observation {key!r} has {observed}")
        if self._outputs != {"action": spec.action.shape}:
            outputs = ", ".join(f"{name!r} of shape {shape}" for name, shape in self._outputs.items())
            lines.append(f"output: the policy decides {outputs}, the task needs 'action' of shape {spec.action.shape}")
        self._task, self._size = spec.task, spec.action.shape[0]
        return lines

    def start(self) -> LeRobotProcess:
        """Start LeRobot's process if it is not running. Call this before a robot moves, because it may take minutes.

        Raises:
            LeRobotError: if it cannot be started, or LeRobot cannot load the policy.
        """
        if self._process is None:
            self._process = LeRobotProcess(self._folder, self._size)
        return self._process

    def act(self, observation: Observation, *, explore: bool = False) -> NDArray[np.float32]:
        """Return an action (A,) in [-1, 1]; ``explore`` has no effect.

        Raises:
            LeRobotError: if LeRobot's process cannot be started, fails or returns no action.
        """
        actions: NDArray[np.float32] = self._ask(observation, chunk=False)[0]
        return actions

    def decide(self, observation: Observation) -> NDArray[np.float32]:
        """Return a new action chunk (n, A) in [-1, 1].

        Raises:
            LeRobotError: see :meth:`act`.
        """
        self._forget = True
        return self._ask(observation, chunk=True)

    def _ask(self, observation: Observation, *, chunk: bool) -> NDArray[np.float32]:
        process = self.start()
        header = {"begin": self._begin, "forget": self._forget, "seed": self._seed, "task": self._task, "chunk": chunk}
        arrays = {
            name: observation[key] if key.startswith(_IMAGES) else observation[key].reshape(-1)
            for name, key in self._keys.items()
        }
        actions = process.act(header, arrays)
        self._begin, self._forget, self._seed = False, False, None
        clipped: NDArray[np.float32] = actions.clip(-1, 1)
        return clipped

    def begin_episode(self, seed: int | None) -> None:
        """Reset the policy. Its samples follow from ``seed``; without a seed, its generator continues."""
        self._begin = True
        self._seed = self._seed if seed is None else seed

    def forget_actions(self) -> None:
        """Discard the decided actions but keep the observations, because something else has acted."""
        self._forget = True

    def forget_plan(self, *, explore: bool = False) -> None:
        """Reset the policy at the beginning of an episode."""
        self.begin_episode(None)
