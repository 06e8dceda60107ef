"""Configuration of a base policy and of the residuals on top of it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import inf
from typing import Any, NamedTuple

from robo_rl.core import Options, option, require

BLENDINGS = ("linear", "exponential", "none", "inpainting")
"""Ways to go from one chunk to the next."""


class Growth(NamedTuple):
    """The growth of the scale of residuals to its bound.

    Attributes:
        start: the scale at first.
        steps: number of updates, with a step of the actor, after which it has reached the bound.
    """

    start: float
    steps: int


@dataclass(frozen=True)
class ServerConfig(Options, section="base.server"):
    """A policy server that speaks openpi's protocol, and the names and units that it uses.

    A server of robo-rl (robo-rl serve) needs no option other than ``address``.

    Attributes:
        address: address of the server, ``ws://HOST:PORT`` or ``wss://HOST:PORT``; null: none. The environment variable
            ``ROBO_RL_POLICY_SERVER`` must contain an address of another machine, too; ``ROBO_RL_POLICY_KEY`` contains
            the key of the server, if it has one.
        inputs: observation key by the server's name for it, as ``{observation/state: state}``; empty: every
            observation, by its key.
        prompt: instruction in words, sent as ``prompt``; null: none.
        action_low: the server's values of the actions -1, one for each element; empty: -1.
        action_high: the server's values of the actions 1; empty: 1.
        executed_actions: number of actions of each chunk that are executed before the next one is requested; null: all.
        retry_seconds: time for which a server that fails is asked again, while the robot holds still [s]; 0: the run
            ends at once.
    """

    address: str | None = None
    inputs: dict[str, str] = field(default_factory=dict)
    prompt: str | None = None
    action_low: tuple[float, ...] = ()
    action_high: tuple[float, ...] = ()
    executed_actions: int | None = option(None, low=1)
    retry_seconds: float = option(30.0, low=0, high=3600)

    def __post_init__(self) -> None:
        super().__post_init__()
        names = ("inputs", "prompt", "action_low", "action_high", "executed_actions", "retry_seconds")
        self.refuse_unused(names, self.address is not None, "base.server.address is given")
        low, high = self.action_low, self.action_high
        is_range = len(low) == len(high) and all(-inf < a < b < inf for a, b in zip(low, high, strict=True))
        require(is_range, "base.server.action_high", f"larger than action_low={list(low)}", list(high))


@dataclass(frozen=True)
class ExecutionConfig(Options, section="execution"):
    """How the chunks of a policy are executed while the robot moves on.

    By default a chunk is computed when the last one is used up. In simulation this takes no time; a robot waits for it.

    Attributes:
        asynchronous: whether the next chunk is computed while the current one is executed, early enough to arrive
            before that is used up.
        blending: transition from the current chunk to the next where both have actions: ``linear`` or ``exponential``
            cross-fade, ``none``, a hard switch, or ``inpainting``: the next chunk is made to continue the current one,
            by a flow alone.
        blended_steps: length of the cross-fade, or of the actions that are continued although the next chunk has
            arrived [control periods].
        latency: emulated time of a decision in simulation [s], rounded up to whole control periods; null: none, or,
            if ``asynchronous``, the measured time. That of a real robot is always measured.
    """

    asynchronous: bool = False
    blending: str = option("linear", choices=BLENDINGS)
    blended_steps: int = option(2, low=1, high=1000)
    latency: float | None = option(None, low=0, high=60)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_unused(("blending",), self.asynchronous, "execution.asynchronous=true")
        blends = self.asynchronous and self.blending != "none"
        self.refuse_unused(("blended_steps",), blends, "execution.asynchronous=true and chunks are blended")

    def is_used(self, simulated: bool) -> bool:
        """Return whether chunks are executed in any other way than the default, in simulation or on a robot."""
        return self.asynchronous or (simulated and self.latency is not None)

    def changed(self, options: Mapping[str, Any]) -> "ExecutionConfig":
        """Return this configuration with other values of ``options``.

        Options that no longer have an effect, because chunks are not blended, return to their defaults.

        Raises:
            ConfigError: if a value is out of range, or one of ``options`` has no effect.
        """
        values = asdict(self) | dict(options)
        is_blended = values["asynchronous"] and values["blending"] != "none"
        unused = () if is_blended else ("blended_steps",) if values["asynchronous"] else ("blending", "blended_steps")
        return ExecutionConfig(**{name: values[name] for name in values if name in options or name not in unused})


@dataclass(frozen=True)
class ExecutionChanges(Options, section="execution"):
    """Other values of :class:`ExecutionConfig` for an evaluation.

    Null: as ``base.execution`` of the run says, if it corrects a base policy, and else the default.

    Attributes:
        asynchronous: whether the next chunk is computed while the current one is executed.
        blending: transition from the current chunk to the next: ``linear``, ``exponential``, ``none`` or
            ``inpainting``.
        blended_steps: length of the cross-fade [control periods].
        latency: emulated time of a decision in simulation [s], rounded up to whole control periods.
    """

    asynchronous: bool | None = None
    blending: str | None = option(None, choices=BLENDINGS)
    blended_steps: int | None = option(None, low=1, high=1000)
    latency: float | None = option(None, low=0, high=60)

    def given(self) -> dict[str, Any]:
        """Return the options that are not null."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class BaseConfig(Options, section="base"):
    """The frozen policy whose actions the agent corrects, and the size of the corrections.

    The executed action is base + ``residual_scale`` * residual, clipped to [-1, 1]; the agent decides the residual, in
    [-1, 1]. Base and task need the same observations, actions, rates and scaling. The policy is copied into the run
    folder, so the run can be resumed and evaluated without the original.

    Attributes:
        run: folder of a run whose policy is the base; null: none.
        checkpoint: checkpoint of that run: ``best``, ``newest`` or the number of a step.
        policy: ONNX file that robo-rl deploy wrote, whose policy is the base; null: none.
        lerobot: folder ``pretrained_model`` of a policy that LeRobot trained; null: none. The environment variable
            ``ROBO_RL_LEROBOT_PYTHON`` names the interpreter that computes it.
        server: a policy server, which is asked for actions.
        execution: how the chunks of the base are executed.
        residual_scale: largest correction of each element of an action, whose range is [-1, 1].
        residual_start: largest correction at first, which then grows linearly to ``residual_scale``, so that the run
            leaves the base gradually; null: ``residual_scale`` from the start.
        residual_steps: environment steps with updates over which it grows, counted from the first step of the actor.
    """

    run: str | None = None
    checkpoint: str = "best"
    policy: str | None = None
    lerobot: str | None = None
    server: ServerConfig = field(default_factory=ServerConfig)
    execution: ExecutionConfig = field(default_factory=ExecutionConfig)
    residual_scale: float = option(0.2, above=0, high=1)
    residual_start: float | None = option(None, above=0, high=1)
    residual_steps: int = option(3000, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_unused(("residual_steps",), self.residual_start is not None, "base.residual_start is given")
        start, bound = self.residual_start, self.residual_scale
        require(start is None or start < bound, "base.residual_start", f"below base.residual_scale={bound}", start)
        given = self._given()
        for name, value in list(given.items())[1:]:
            expected = f"left out where base.{next(iter(given))} is given, as there is one base policy"
            require(False, f"base.{name}", expected, value)

    def _given(self) -> dict[str, str]:
        values = {
            "run": self.run,
            "policy": self.policy,
            "lerobot": self.lerobot,
            "server.address": self.server.address,
        }
        return {name: value for name, value in values.items() if value is not None}

    @property
    def growth(self) -> Growth | None:
        """The growth of the scale; None if it is constant."""
        return None if self.residual_start is None else Growth(self.residual_start, self.residual_steps)

    @property
    def is_given(self) -> bool:
        """Whether there is a base policy."""
        return bool(self._given())
