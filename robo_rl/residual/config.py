"""Configuration of a base policy and of the residuals on top of it."""

from dataclasses import dataclass

from robo_rl.core import Options, option, require


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
        residual_scale: largest correction of each element of an action, whose range is [-1, 1].
    """

    run: str | None = None
    checkpoint: str = "best"
    policy: str | None = None
    lerobot: str | None = None
    residual_scale: float = option(0.2, above=0, high=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in ("run", "policy", "lerobot") if getattr(self, name) is not None]
        for name in given[1:]:
            expected = f"left out where base.{given[0]} is given, as there is one base policy"
            require(False, f"base.{name}", expected, getattr(self, name))

    @property
    def is_given(self) -> bool:
        """Whether there is a base policy."""
        return not (self.run is None and self.policy is None and self.lerobot is None)
