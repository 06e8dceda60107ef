"""Options of third-party Gymnasium environments as tasks."""

from dataclasses import dataclass, field
from typing import Any

from robo_rl.core import MAX_RATE, MIN_RATE, ImageConfig, as_config, require


@dataclass(frozen=True)
class GymnasiumConfig:
    """Gymnasium environment with continuous (Box) actions.

    Attributes:
        env_id: id of a registered environment, for example ``FetchReach-v4``, ``Hopper-v5`` or ``Meta-World/MT1``;
            ``my_package:MyEnv-v0`` imports ``my_package`` first, and ``my_package:MyEnv`` may also name a class or
            function of it that makes the environment.
        env_kwargs: arguments of the environment, for example ``+task.env_kwargs.env_name=reach-v3``.
        action_repeat: number of steps of the environment for which each action is executed. Their rewards are summed;
            success is that of the last. Steps everywhere else, in options too, are the policy's.
        max_episode_steps: number of steps after which an episode is truncated; null: the environment's own limit.
        control_rate: policy steps per second [Hz]; null: from the environment's ``dt``, else its ``render_fps``,
            divided by ``action_repeat``.
        terminate_on_success: end the episode when the environment reports success.
        machine: file of a reward machine, whose stages become the task.
        success_key: key of ``info`` with the success, or a path to it with dots: ``episode.solved``, ``success.0``.
            Null: ``is_success``, ``success`` or ``succeed``, if the first step has one. If it has several elements, all
            must be successes.
        success_at_least: smallest number that means success; null: the value is a truth value, or such a word.
        success_at_most: largest number that means success, for example of a distance; null: as above.
        images: storage and conversion of images among the observations, by name, if that is not clear from their space:
            see :class:`~robo_rl.core.ImageConfig`.
        picture: whether the image that the environment renders becomes the observation ``images/view``, for rewards and
            agents that use images.
    """

    env_id: str = "FetchReach-v4"
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    action_repeat: int = 1
    max_episode_steps: int | None = None
    control_rate: float | None = None
    terminate_on_success: bool = False
    machine: str | None = None
    success_key: str | None = None
    success_at_least: float | None = None
    success_at_most: float | None = None
    images: dict[str, ImageConfig] = field(default_factory=dict)
    picture: bool = False

    def __post_init__(self) -> None:
        require(bool(self.env_id), "task.env_id", "the id of a Gymnasium environment", self.env_id)
        require(self.action_repeat >= 1, "task.action_repeat", "1 or more", self.action_repeat)
        limit, rate = self.max_episode_steps, self.control_rate
        require(limit is None or limit >= 1, "task.max_episode_steps", "null or 1 or more", limit)
        require(
            rate is None or MIN_RATE <= rate <= MAX_RATE,
            "task.control_rate",
            f"null or in [{MIN_RATE:g}, {MAX_RATE:g}] Hz",
            rate,
        )
        require(self.success_key != "", "task.success_key", "null or a key of info", self.success_key)
        images = {name: as_config(image, ImageConfig) for name, image in self.images.items()}
        object.__setattr__(self, "images", images)
        low, high = self.success_at_least, self.success_at_most
        ordered = low is None or high is None or low <= high
        require(ordered, "task.success_at_least", f"at most success_at_most={high}", low)

    @property
    def needs_success(self) -> str:
        """The first given option that requires success to be reported; empty if there is none."""
        options = {
            "task.terminate_on_success=true": self.terminate_on_success,
            f"task.success_at_least={self.success_at_least}": self.success_at_least is not None,
            f"task.success_at_most={self.success_at_most}": self.success_at_most is not None,
        }
        return next((option for option, is_set in options.items() if is_set), "")
