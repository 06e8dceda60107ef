"""Reward written as code by a user or a language model, run in a sandbox (Text2Reward, Xie et al. 2024)."""

import keyword
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from robo_rl.core import (
    Batch,
    CheckpointError,
    ConfigError,
    DataError,
    EnvSpec,
    Metrics,
    Options,
    State,
    nearest,
    option,
    read_bytes,
    require,
)

from ..parts.arrays import taken
from ..parts.module import Floats, Module
from ..sandbox.process import RewardCodeError, Sandbox

BEFORE = "before_"
ACTION = "action_"
CODE_BYTES = 1 << 20
"""Largest size of a code file [bytes]."""


@dataclass(frozen=True)
class CodeConfig(Options):
    """Reward computed by a function ``reward`` in a Python file.

    Attributes:
        file: path of the file. ``robo-rl reward write`` has a language model write it.
        cpu_seconds: processor time limit of one call, in whole seconds.
        memory_megabytes: memory limit of the code.
        largest: largest magnitude of a reward; larger ones are refused.
    """

    file: str = ""
    cpu_seconds: int = option(2, low=1)
    memory_megabytes: int = option(256, low=1)
    largest: float = option(1000.0, above=0)

    def make(self, name: str, spec: EnvSpec, seed: int) -> "CodeReward":
        """Return the module of term ``name``.

        Raises:
            ConfigError: if there is no such file, or the code uses an argument that the task does not have.
            RewardCodeError: if the code is not allowed.
        """
        option = f"reward.modules.{name}.file"
        require(bool(self.file), option, "a file of Python with a function 'reward'", self.file)
        try:
            code = read_bytes(Path(self.file), CODE_BYTES).decode()
        except (DataError, OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{option}: {self.file} cannot be read: {error}") from error
        return CodeReward(self, name, spec, code)


class CodeReward(Module):
    """Reward computed by code in a sandbox; see :class:`CodeConfig`.

    The function is called with whole columns: each argument is an array (n,) of one element of the observation after a
    step, and the return value is an array (n,) or a number. The name of an argument is the name of the element, or
    ``<key>_<index>`` if it has none. The prefix ``before_`` selects the observation before the step;
    ``action_<name>`` or ``action_<index>`` is an element of the action.

    Raises:
        ConfigError: if the code uses an argument that does not exist.
        RewardCodeError: if the code is not allowed.
    """

    def __init__(self, config: CodeConfig, name: str, spec: EnvSpec, code: str) -> None:
        super().__init__()
        self.config = config
        self._name = name
        self._code = code
        self._sandbox = Sandbox(code, config.cpu_seconds, config.memory_megabytes)
        valid_arguments = elements(spec)
        for argument in self._sandbox.arguments:
            if argument not in valid_arguments:
                raise ConfigError(
                    f"reward.modules.{name}: the code asks for {argument!r}: {nearest(argument, valid_arguments)}"
                )
        self._columns = [valid_arguments[argument] for argument in self._sandbox.arguments]
        self.judges_state = all(key.startswith("next_observation/") for key, _ in self._columns)

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Run the code on the demonstrations, so that errors are reported before a robot moves."""
        for episode in episodes:
            self(episode)
        return {}

    def __call__(self, batch: Batch) -> Floats:
        """Return rewards (n,).

        Raises:
            RewardCodeError: if the code fails, exceeds a limit, or returns a value that is not finite or too large.
        """
        rows = len(batch["action"])
        columns = np.empty((len(self._columns), rows))
        for column, (key, index) in zip(columns, self._columns, strict=True):
            column[...] = batch[key].reshape(rows, -1)[:, index]
        rewards = self._sandbox(columns)
        invalid = np.flatnonzero(~(np.abs(rewards) <= self.config.largest))  # written so that NaN is also found
        if len(invalid):
            arguments = zip(self._sandbox.arguments, columns[:, invalid[0]].tolist(), strict=True)
            values = ", ".join(f"{key}={value:.6g}" for key, value in arguments)
            raise RewardCodeError(
                f"reward module {self._name!r}: the code returned {rewards[invalid[0]]}, expected a number of at most "
                f"{self.config.largest:g} either way, for {values}"
            )
        return rewards.astype(np.float32)

    def state(self) -> State:
        """Return the code, so that rewards of different code are not mixed."""
        return {"code": np.frombuffer(self._code.encode(), dtype=np.uint8).copy()}

    def load(self, state: State) -> None:
        """Check that the code is the code in the checkpoint.

        Raises:
            CheckpointError: if it is not.
        """
        code = taken(state, "code", self._name, like=np.zeros(0, np.uint8))
        if code.tobytes() != self._code.encode():
            raise CheckpointError(f"reward module {self._name!r}: {self.config.file} has changed; restore it to resume")


def elements(spec: EnvSpec) -> dict[str, tuple[str, int]]:
    """Return the key and index in a batch of every possible argument of reward code, by its name."""
    result = {}
    for key, array in spec.observation.items():
        if array.dtype == "uint8":
            continue
        names = array.names or [f"{key}_{index}" for index in range(int(np.prod(array.shape)))]
        for index, name in enumerate(names):
            result[_identifier(name)] = (f"next_observation/{key}", index)
            result[_identifier(BEFORE + name)] = (f"observation/{key}", index)
    for index, name in enumerate(spec.action.names or [str(index) for index in range(int(np.prod(spec.action.shape)))]):
        result[_identifier(ACTION + name)] = ("action", index)
    return result


def _identifier(name: str) -> str:
    """Return a valid Python identifier for a name."""
    cleaned = "".join(character if character.isalnum() else "_" for character in name)
    return f"{cleaned}_" if keyword.iskeyword(cleaned) or not cleaned.isidentifier() else cleaned
