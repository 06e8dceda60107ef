"""Plots of the rewards of modules along an episode, with camera images and the true progress."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray

from .correlation import rank_correlation
from .page import figure, section, table, write_page
from .plots import LIGHT, Theme, caption, save_figure, themed

NOTES = (
    "Rewards are those of the modules, before weights; true progress is the sum of the task's own terms. Rank "
    "correlation is Spearman's, between the two over the steps of this episode."
)


def plot_rewards(
    rewards: Mapping[str, NDArray[np.float32]],
    progress: NDArray[np.float32],
    frames: Sequence[NDArray[np.uint8]],
    control_rate: float,
    path: Path,
    theme: Theme = LIGHT,
) -> Path:
    """Draw a strip of frames, a panel of the true progress and a panel for each reward; return ``path``.

    Args:
        rewards: rewards (L,) by name, for the state after each of L steps.
        progress: (L,) true progress.
        frames: pictures (height, width, 3) at evenly spaced times of the episode, including the first and the last; may
            be empty.
        control_rate: steps per second [Hz].
        path: picture to write; the suffix chooses the format (.png, .svg, .pdf).
        theme: colours.
    """
    seconds = np.arange(1, len(progress) + 1) / control_rate
    panels = {"true progress": progress, **rewards}
    heights = [1.0] * bool(frames) + [1.2] * len(panels)
    with themed(theme):
        picture, axes = plt.subplots(
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
                _draw_strip(rows.pop(0), frames)
            for number, (axis, (name, values)) in enumerate(zip(rows, panels.items(), strict=True)):
                title = caption(name)
                if name in rewards:
                    agreement = rank_correlation(values, progress)
                    title += "" if agreement is None else f" · rank correlation {agreement:.2f}"
                colour = theme.faint if name not in rewards else theme.lines[(number - 1) % len(theme.lines)]
                axis.plot(seconds, values, color=colour, linewidth=2)
                axis.set_title(title, loc="left", fontsize=10)
                axis.set_xlim(0, seconds[-1])
            rows[-1].set_xlabel("time [s]")
            save_figure(picture, path)
        finally:
            plt.close(picture)
    return path


def write_reward_page(
    rewards: Mapping[str, NDArray[np.float32]],
    progress: NDArray[np.float32],
    frames: Sequence[NDArray[np.uint8]],
    control_rate: float,
    path: Path,
    about: str,
) -> Path:
    """Write a page with :func:`reward_rows` and the picture of :func:`plot_rewards`; return ``path``.

    Args:
        rewards: see :func:`plot_rewards`.
        progress: see :func:`plot_rewards`.
        frames: see :func:`plot_rewards`.
        control_rate: see :func:`plot_rewards` [Hz].
        path: HTML file.
        about: description of the episode and of the step at which the rewards were computed.
    """

    def draw(file: Path) -> Path:
        return plot_rewards(rewards, progress, frames, control_rate, file)

    sections = (
        section("Rewards", table(COLUMNS, reward_rows(rewards, progress), numbers_from=1)),
        section(
            "Along the episode", f'<div class="curves">{figure(draw, "rewards along the episode")}</div>', boxed=False
        ),
    )
    return write_page(path, "Rewards along an episode", about, sections, NOTES)


COLUMNS = ("module", "smallest", "mean", "largest", "rank correlation")


def reward_rows(rewards: Mapping[str, NDArray[np.float32]], progress: NDArray[np.float32]) -> list[list[str]]:
    """Return a row of text for each reward, for :data:`COLUMNS`."""
    rows = []
    for name, values in rewards.items():
        agreement = rank_correlation(values, progress)
        numbers = [f"{number:.3g}" for number in (values.min(), values.mean(), values.max())]
        rows.append([name, *numbers, "none" if agreement is None else f"{agreement:.2f}"])
    return rows


def _draw_strip(axis: Any, frames: Sequence[NDArray[np.uint8]]) -> None:
    axis.imshow(np.concatenate(list(frames), axis=1))
    axis.set_axis_off()
