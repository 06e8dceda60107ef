"""Options of the classifier of stages."""

from dataclasses import dataclass

from robo_rl.core import option, require

from ..parts.vector_config import NetworkConfig


@dataclass(frozen=True)
class StagesOptions(NetworkConfig):
    """Reward for the stage of a task that has been reached: its number divided by the number of stages, 0 to 1.

    Attributes (besides those of :class:`.NetworkConfig`):
        stages: number of stages after the beginning, which is stage 0. 1: only success.
        file: classifier that ``robo-rl label`` made from a person's labels; it determines ``keys``, ``images.model``,
            ``images.pretrained``, ``stages``, ``hidden`` and ``guard``. Null: each demonstration is cut separately into
            ``stages`` + 1 steps (:func:`~.segmentation.segment`).
        min_length: smallest number of observations in such a step.
        guard: condition on an observation for the last stage, whatever the classifier returns: a specification of
            elements of observations such as ``end_effector_z > 5 cm``; null: none.
        false_positives: largest share of the observations before a stage for which the stage counts as reached, in
            episodes that the classifier was not fitted to. It determines the threshold on the probability of each
            stage, at least 0.5, which is the smallest possible.
        fit_steps: number of steps of Adam.
        batch_size: number of rows in each gradient step, the same number from each stage.
        views: number of views of the images of examples, the first unchanged; with a convolutional network, resampled
            each time.
        shift: largest shift of the other views down and right [pixels], with the border repeated: random crops.
        jitter: standard deviation of the noise added to examples, relative to that of each element over all of them.
    """

    stages: int = option(2, low=1, high=100)
    file: str | None = None
    min_length: int = option(2, low=1)
    guard: str | None = None
    false_positives: float = option(0.01, low=0, below=1)
    fit_steps: int = option(500, low=1)
    batch_size: int = 128
    views: int = option(8, low=1)
    shift: int = option(4, low=0)
    jitter: float = option(0.05, low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        allowed = f"stages + 1 = {self.stages + 1} or more"
        require(self.batch_size > self.stages, "batch_size", allowed, self.batch_size)
