"""Options for importing data that robo-rl did not write, the spec of such data, and the layout of its images."""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as default_field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    MAX_RATE,
    MIN_RATE,
    ArraySpec,
    ConfigError,
    DataError,
    EnvSpec,
    ImageConfig,
    ImageLayout,
    Options,
    Source,
    SpecError,
    as_config,
    image_layout,
    image_override,
    option,
    require,
)

from .notes import ImportNotes

Array = NDArray[Any]

FAULTS = ("refuse", "drop", "cut")


@dataclass(frozen=True)
class ForeignConfig(Options, section="foreign"):
    """Properties of data that robo-rl did not write and that the data itself does not state.

    Attributes:
        task: name of the task.
        control_rate: steps per second [Hz]; null: the rate that the data states.
        action_space: meaning of an action, as in the task that will use the data: ``end_effector_delta``, ...
        action_frame: frame of the actions: ``base``, ``end_effector`` or ``joint``.
        action_low: value that is mapped to -1, one for all elements or one per element; null: actions are already in
            [-1, 1].
        action_high: value that is mapped to 1.
        clip: clip actions beyond these limits, and count them; otherwise such actions are an error.
        faults: treatment of an episode with a value that is missing or not finite: ``refuse`` the data set, ``drop``
            the episode, or ``cut`` it there, so that the parts before and after become separate episodes.
        images: layout of images by camera, if it differs from (height, width, channels) uint8, and conversions.
        leave_out: keys of observations that are not imported: ``images/depth``, ``object``, ...
        reward_term: name of the reward term that the data's reward becomes.
        source: source of the actions: ``policy``, ``human``, ``script`` or ``random``.
        extra: further properties that data and task must agree on, as in the ``extra`` of the task's spec.
    """

    task: str = "imported"
    control_rate: float | None = None
    action_space: str = "unknown"
    action_frame: str = "base"
    action_low: list[float] | None = None
    action_high: list[float] | None = None
    clip: bool = False
    faults: str = option("refuse", choices=FAULTS)
    images: dict[str, ImageConfig] = default_field(default_factory=dict)
    leave_out: list[str] = default_field(default_factory=list)
    reward_term: str = "reward"
    source: str = "human"
    extra: dict[str, Any] = default_field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        rate = self.control_rate
        require(
            rate is None or MIN_RATE <= rate <= MAX_RATE,
            "foreign.control_rate",
            f"null or in [{MIN_RATE:g}, {MAX_RATE:g}]",
            rate,
        )
        sources = [source.name.lower() for source in Source]
        require(self.source in sources, "foreign.source", f"one of {', '.join(sources)}", self.source)
        low, high = self.action_low, self.action_high
        require((low is None) == (high is None), "foreign.action_high", "given with foreign.action_low", high)
        if low is not None and high is not None:
            above = len(low) == len(high) and bool(np.all(np.asarray(low) < np.asarray(high)))
            require(above, "foreign.action_high", f"above foreign.action_low ({low}) in each element", high)
        images = {name: as_config(image, ImageConfig) for name, image in self.images.items()}
        object.__setattr__(self, "images", images)

    def check_keys(self, keys: Mapping[str, Any] | set[str]) -> None:
        """Check that ``images`` and ``leave_out`` name observations of the data.

        Args:
            keys: keys of all observations, such as ``images/NAME``.

        Raises:
            ConfigError: if a name is not among them.
        """
        named = [f"images/{name}" for name in self.images] + list(self.leave_out)
        for key in named:
            if key not in keys:
                raise ConfigError(
                    f"foreign.images or foreign.leave_out names {key!r}, which is not an observation of the data; it "
                    f"has {', '.join(sorted(keys))}"
                )


def foreign_spec(
    config: ForeignConfig,
    observation: Mapping[str, ArraySpec],
    action: ArraySpec,
    control_rate: float | None,
    rewarded: bool,
    reports_success: bool = False,
) -> EnvSpec:
    """Return the spec of data that robo-rl did not write.

    Args:
        config: properties that the data does not state.
        observation: specs of the data's observations, by key.
        action: shape and names of the data's actions.
        control_rate: control rate that the data states [Hz]; None: none.
        rewarded: whether the data has rewards.
        reports_success: whether the data states for each step whether the task is solved.

    Raises:
        ConfigError: if the control rate is unknown.
    """
    rate = config.control_rate or control_rate
    if rate is None:
        raise ConfigError("the data does not state its control rate: set foreign.control_rate in Hz")
    scaling = {} if config.action_low is None else {"action_low": config.action_low, "action_high": config.action_high}
    return EnvSpec(
        task=config.task,
        observation=dict(observation),
        action=ArraySpec(action.shape, low=-1, high=1, names=action.names),
        action_space=config.action_space,
        action_frame=config.action_frame,
        control_rate=float(rate),
        max_episode_steps=None,
        reward_terms=(config.reward_term,) if rewarded else (),
        reports_success=reports_success,
        extra={**scaling, **config.extra},
    )


def foreign_images(
    config: ForeignConfig,
    camera: str,
    shape: tuple[int, ...],
    dtype: Any,
    notes: ImportNotes,
    where: object,
    declared: tuple[int, ...] | None = None,
) -> ImageLayout | None:
    """Return the layout of a camera's images, or None if they are left out, with a note.

    Args:
        config: options that say which images are left out, and how images are converted.
        camera: name in the key ``images/CAMERA``.
        shape: shape of one stored image.
        dtype: dtype of the stored values.
        notes: receives notes on omissions and conversions.
        where: file and name in it, for error messages.
        declared: (height, width, channels) that the data declares; None: not declared.

    Raises:
        DataError: if the layout is unclear, differs from the declared one, or lacks a required conversion.
    """
    if f"images/{camera}" in config.leave_out:
        notes.add("Observations left out", f"images/{camera}: foreign.leave_out")
        return None
    depth = np.dtype(dtype) == np.uint16 and (declared is None or declared[2] == 1)
    if depth and camera not in config.images:
        override = image_override("foreign.images", camera, "low:LOW,high:HIGH")
        kind = "depth" if declared is not None or 3 not in shape else "images"
        reason = f"16-bit {kind}, which {override} converts to 8 bits"
        notes.add("Observations left out", f"images/{camera}: {reason}")
        return None
    try:
        layout = image_layout(camera, shape, dtype, config.images.get(camera), declared=declared)
    except SpecError as error:
        raise DataError(f"{where}: {error}; foreign.leave_out=[images/{camera}] leaves the camera out") from error
    if layout.changes:
        notes.add("Images converted", f"images/{camera}: {layout.changes}")
    return layout


def as_float32(rows: NDArray[Any], name: str, notes: ImportNotes) -> NDArray[np.float32]:
    """Return numbers as float32, the type of observations; add a note if integers are rounded."""
    with np.errstate(over="ignore", invalid="ignore"):  # too large numbers become infinite, which is detected later
        floats = rows.astype(np.float32)
        if rows.dtype.kind in "iu":
            too_large = floats >= np.float32(float(np.iinfo(rows.dtype).max) + 1)  # these cannot be converted back
            if (too_large | (floats.astype(rows.dtype) != rows)).any():
                notes.add("Integers too large for float32, rounded", name)
    return floats
