"""Files and table of how an arm differs from its model."""

import json
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from rich.table import Table

from ..core import write_durably
from ..evaluation.prediction_plot import plot_predictions
from ..telemetry import Console

POOR_RATIO, POOR_NOISE = 0.15, 2.0
"""Shares of the error before, and of the noise, above both of which the error of a fit is suspicious."""

LIMITS = (
    "Positions do not determine forces: gains, friction, offsets and payload are relative to the masses and armatures "
    "of the model. Torque limits, backlash, bending and the dynamics of the gripper are not fitted"
)


def write_identified(result: Any, output: Path, name: str, data: Path, held_out: int) -> None:
    """Write the files of a result.

    Args:
        result: the :class:`sim.identification.Identification`.
        output: folder that is made.
        name: name of the arm's configuration.
        data: data set that was fitted.
        held_out: number of its episodes that were not.
    """
    (output / "arm").mkdir(parents=True, exist_ok=True)
    report = {"data": str(data), "held_out": held_out, **result.report()}
    share = "" if report["ratio"] is None else f" {100 * report['ratio']:.0f} % of the error before."
    about = f"# Identified from {data}.{share}\n"
    arm = OmegaConf.to_yaml(OmegaConf.create(result.configuration()))
    write_durably(output / "arm" / f"{name}.yaml", f"{about}{arm}".encode())
    ranges = OmegaConf.to_yaml(OmegaConf.create(result.randomisation()))
    defaults = f"defaults:\n  - /arm/{name}@_here_\n  - _self_\n"
    write_durably(output / "arm" / f"{name}_randomised.yaml", f"{about}{defaults}{ranges}".encode())
    write_durably(output / "identified.json", f"{json.dumps(report, indent=2)}\n".encode())
    plot_predictions(result.times, result.curves, result.joints, output / "curves.png")


def print_identified(result: Any, console: Console) -> None:
    """Print the parameters and the error of predictions."""
    table = Table("parameter", "value", "95 % interval", "before", "unit", box=None)
    for each in result.parameters():
        ends = each["interval"]
        interval = "not identifiable" if ends is None else f"{ends[0]:.4g} to {ends[1]:.4g}"
        table.add_row(each["name"], f"{each['value']:.4g}", interval, f"{each['nominal']:.4g}", each["unit"])
    console.print(table)
    if kept := [each["name"] for each in result.parameters() if each["interval"] is None]:
        console.print(f"This recording does not determine {', '.join(kept)}, which keep their values", soft_wrap=True)
    if result.age:
        console.print(
            f"The delay counts from the action to the measured motion. It contains the driver, and that measurements "
            f"were {1000 * result.age:.1f} ms old (median) when the next command went out",
            soft_wrap=True,
        )
    console.print(LIMITS, soft_wrap=True)
    console.print(
        f"Predictions over one second that were not fitted err by {1000 * result.error:.2f} mrad (mm), before by "
        f"{1000 * result.nominal_error:.2f}; noise {1000 * result.noise:.2f}",
        soft_wrap=True,
    )
    if result.error > max(POOR_RATIO * result.nominal_error, POOR_NOISE * result.noise):
        console.print(
            "The fit does not explain the motion, and its values may be wrong: record other motion (seed=) or more "
            "episodes, and compare",
            soft_wrap=True,
        )
