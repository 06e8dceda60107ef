"""Plots of predicted and measured joint positions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray

from .plots import LIGHT, caption, save_figure, themed


def plot_predictions(times: NDArray[Any], curves: Mapping[str, NDArray[Any]], names: Sequence[str], path: Path) -> Path:
    """Draw for each joint its curves, and below them their differences from the first; return ``path``.

    Args:
        times: times (T,) [s].
        curves: positions (T, n) by name, the measured ones first [rad or m].
        names: names of the n joints.
        path: picture to write; the suffix chooses the format (.png, .svg, .pdf).
    """
    (first, measured), *others = curves.items()
    with themed(LIGHT):
        picture, axes = plt.subplots(
            2 * len(names),
            1,
            figsize=(8.0, 2.6 * len(names)),
            sharex=True,
            squeeze=False,
            layout=ConstrainedLayoutEngine(h_pad=0.04),
            height_ratios=[2, 1] * len(names),
        )
        try:
            for joint, name in enumerate(names):
                above, below = axes[2 * joint, 0], axes[2 * joint + 1, 0]
                above.plot(times, measured[:, joint], color=LIGHT.faint, linewidth=2.5, label=first)
                for (label, positions), colour in zip(others, reversed(LIGHT.lines[: len(others)]), strict=True):
                    above.plot(times, positions[:, joint], color=colour, linewidth=1, label=label)
                    below.plot(times, 1000 * (positions - measured)[:, joint], color=colour, linewidth=1)
                above.set_title(caption(name), loc="left", fontsize=10)
                below.set_ylabel("error [10⁻³]")
            axes[0, 0].legend(loc="upper right", ncols=1 + len(others))
            axes[-1, 0].set_xlabel("time [s]")
            save_figure(picture, path)
        finally:
            plt.close(picture)
    return path
