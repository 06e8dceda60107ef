"""Writer of reward code: a language model writes it and receives its errors (Text2Reward, Xie et al. 2024)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from robo_rl.core import Batch, EnvSpec, Options, RewardModule, RoboRLError, option

from .asking.endpoint import Endpoint, EndpointConfig
from .modules.code import CodeConfig, CodeReward, elements
from .sandbox.language import FUNCTIONS
from .sandbox.process import RewardCodeError

REQUEST = """Write a dense reward for a robot that learns by reinforcement, as a Python function "reward".
The robot's goal: {goal}

Its arguments are columns of numbers, one row for each time step, after that step. Take those that you need, by these \
names; beside each name stand the smallest and the largest value on some episodes. Lengths are in metres, angles in \
radians, the frame is the robot's base with z upwards.
{columns}

Rules: arguments are arrays, so use where(condition, a, b) for "if", and & and | with brackets for "and" and "or".
There are only numbers, names, arithmetic, comparisons, "for NAME in range(...)", functions of your own, and:
{functions}.
No imports, no attributes, no indexing, no strings, no keyword arguments. The result must be finite, for example \
between -1 and 1, and greater the nearer the goal is.
Answer with one block of code:
```python
def reward(...):
    ...
    return ...
```"""


@dataclass(frozen=True)
class WriterConfig(Options, section="writer"):
    """Writing of reward code by a language model or a person.

    Attributes:
        endpoint: endpoint of a language model or a person.
        attempts: number of further attempts after code that was refused or failed.
        code: limits of the code; its ``file`` is not used.
    """

    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    attempts: int = option(3, low=0)
    code: CodeConfig = field(default_factory=CodeConfig)


class Writer:
    """Writer of reward code; see :class:`WriterConfig` for the arguments."""

    def __init__(self, endpoint: EndpointConfig, attempts: int, code: CodeConfig) -> None:
        self._endpoint = Endpoint(endpoint)
        self._attempts = attempts
        self._code = code

    def write(
        self, goal: str, spec: EnvSpec, episodes: Sequence[Batch], previous: str | None, feedback: str | None
    ) -> tuple[str, RewardModule]:
        """Return reward code that runs on all of ``episodes``, and the module that runs it.

        Args:
            goal: goal of the robot, in words.
            spec: spec of the environment.
            episodes: one or more episodes to try the code on.
            previous: code to improve, or None.
            feedback: faults of the previous code, in words, or None.

        Raises:
            EndpointError: if there is no answer.
            RewardCodeError: if no attempt succeeds; the message contains the error of the last attempt.
        """
        rows = {key: np.concatenate([episode[key] for episode in episodes]) for key in episodes[0]}
        question = REQUEST.format(goal=goal, columns=_described(spec, rows), functions=", ".join(sorted(FUNCTIONS)))
        if previous is not None:
            question += f"\n\nImprove this code:\n```python\n{previous}\n```"
        if feedback is not None:
            question += f"\nWhat a person says about it: {feedback}"
        fault = ""
        for _ in range(self._attempts + 1):
            code = code_block(self._endpoint.ask((question,)))
            try:
                module = CodeReward(self._code, "written", spec, code)
                module.fit(episodes)
            except RoboRLError as error:
                fault = str(error)
                question += f"\n\nYou wrote:\n```python\n{code}\n```\nIt was refused: {fault}\nWrite it again."
            else:
                return code, module
        raise RewardCodeError(f"no code of {self._attempts + 1} could be used; the last: {fault}")

    def cost(self) -> str:
        """Return the use and cost of the endpoint so far, for display."""
        return ", ".join(f"{name} {value:,.6g}" for name, value in self._endpoint.metrics().items())


def code_block(answer: str) -> str:
    """Return the last block of code in an answer, or the whole answer if it has none."""
    blocks = re.findall(r"```(?:[a-zA-Z]*)\n(.*?)```", answer, re.DOTALL)
    return (blocks[-1] if blocks else answer).strip() + "\n"


def _described(spec: EnvSpec, rows: Batch) -> str:
    lines = []
    for name, (key, index) in elements(spec).items():
        column = rows[key].reshape(len(rows["action"]), -1)[:, index]
        lines.append(f"{name}: {column.min():.3g} to {column.max():.3g}")
    return "\n".join(lines)
