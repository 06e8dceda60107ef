"""What reward modules say along an episode, beside what the cameras saw and the true progress."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray

from .correlation import rank_correlation
from .plots import LIGHT, Theme, style


def plot_rewards(
    rewards: Mapping[str, NDArray[np.float32]],
    progress: NDArray[np.float32],
    frames: Sequence[NDArray[np.uint8]],
    control_rate: float,
    path: Path,
    theme: Theme = LIGHT,
) -> Path:
    """Draw one panel for each reward, over the true progress, and a strip of frames on top; return ``path``.

    Args:
        rewards: (L,) by name, for the state after each of L steps.
        progress: (L,) true progress.
        frames: pictures (height, width, 3) at evenly spaced moments of the episode, the first and last included; or
            none.
        control_rate: steps per second [Hz].
        path: picture to write; the suffix chooses the format (.png, .svg, .pdf).
        theme: colours.
    """
    seconds = np.arange(1, len(progress) + 1) / control_rate
    panels = {"true progress": progress, **rewards}
    heights = [1.0] * bool(frames) + [1.2] * len(panels)
    with plt.rc_context(style(theme)):
        figure, axes = plt.subplots(
            len(heights),
            1,
            figsize=(7.2, 1.5 * sum(heights)),
            squeeze=False,
            layout=ConstrainedLayoutEngine(h_pad=0.08),
            height_ratios=heights,
        )
        try:
            rows = list(axes[:, 0])
            if frames:
                _strip(rows.pop(0), frames)
            for number, (axis, (name, values)) in enumerate(zip(rows, panels.items(), strict=True)):
                title = name
                if name in rewards:
                    agreement = rank_correlation(values, progress)
                    title += "" if agreement is None else f" · rank correlation {agreement:.2f}"
                colour = theme.faint if name not in rewards else theme.lines[(number - 1) % len(theme.lines)]
                axis.plot(seconds, values, color=colour, linewidth=2)
                axis.set_title(title, loc="left", fontsize=10)
                axis.set_xlim(0, seconds[-1])
            rows[-1].set_xlabel("time [s]")
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=160)
        finally:
            plt.close(figure)
    return path


def _strip(axis: Any, frames: Sequence[NDArray[np.uint8]]) -> None:
    axis.imshow(np.concatenate(list(frames), axis=1))
    axis.set_axis_off()
