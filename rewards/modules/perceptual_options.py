"""Options of the reward module for the steps that demonstrations have in common."""

from dataclasses import dataclass

from robo_rl.core import option, require

from ..parts.vector_config import VectorConfig

SEGMENTATIONS = ("joint", "separate")
NEGATIVES = ("earlier", "all")
DENSITIES = ("cauchy", "gaussian")
REWARDS = ("density", "progress")


@dataclass(frozen=True)
class PerceptualOptions(VectorConfig):
    """Reward for the progress of a state through the steps that demonstrations have in common. No actions are needed.

    Attributes (besides those of :class:`.VectorConfig`):
        steps: number of steps into which each demonstration is cut.
        min_length: smallest number of observations in a step. ``segmentation=separate`` needs 2 or more, as a single
            observation has no deviation.
        segmentation: ``joint``, demonstrations are cut together, so that each step is the same in all of them
            (:func:`~.segmentation.segment_jointly`); or ``separate``, each demonstration alone, as published.
        features: number of most discriminative features that each step keeps; null: the square root of their number.
            The paper keeps 32 of the 2,048 of its network; most of the few dozen elements of a state are irrelevant to
            most steps. Features that hardly change along any demonstration (where an object happens to be) come last.
        negatives: steps from which the features of a step have to distinguish it: ``earlier``, the steps before it; or
            ``all`` others, as published, which prefers properties of this step alone (a velocity, a contact) to those
            that are achieved in it and remain.
        separation: alpha in the discrimination of a feature, alpha |mean+ - mean-| - (deviation+ + deviation-).
        density: ``gaussian``: a step's reward is the log density of a Gaussian (up to a constant), as published; or
            ``cauchy``: of Cauchy's distribution, whose tail is heavy, so that one outlying feature does not dominate
            all others.
        variance_floor: number added to the variance of each feature (which is 1 over all demonstrations).
        growth: weight of each step relative to the one before it, for ``reward=density``.
        reward: ``density``, the weighted sum of the rewards of all steps but the first, as published; or ``progress``,
            the step to which the observation most likely belongs (the mean over all steps, including the first,
            weighted by their probabilities), -1 in the first and 0 in the last.
    """

    steps: int = option(5, low=2)
    min_length: int = option(1, low=1)
    segmentation: str = option("joint", choices=SEGMENTATIONS)
    features: int | None = option(None, low=1)
    negatives: str = option("earlier", choices=NEGATIVES)
    separation: float = option(5.0, low=0)
    density: str = option("cauchy", choices=DENSITIES)
    variance_floor: float = option(0.01, above=0)
    growth: float = option(2.0, low=1)
    reward: str = option("density", choices=REWARDS)

    def __post_init__(self) -> None:
        super().__post_init__()
        allowed = "2 or more with segmentation=separate"
        require(self.segmentation == "joint" or self.min_length >= 2, "min_length", allowed, self.min_length)
