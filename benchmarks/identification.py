"""Identification of five virtual arms whose delay, gains, friction, armature, payload and weight are hidden.

    python benchmarks/identification.py

Draws arms, moves and records them with the noise of typical encoders, and fits each from its recording, by robo-rl
identify. Takes some minutes of one core. Writes docs/measured/results/identification.json.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from robo_rl.app import register_all_configs
from robo_rl.command_line.usage import composed
from robo_rl.commands import identify as command

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "measured" / "results"
ARMS = (("reach_so101", 1), ("reach_so101", 2), ("reach_so101", 3), ("reach", 4), ("reach", 5))
"""Task and seed of each arm: three SO-101, two Pandas."""
LENGTH = ("episodes=3", "excitation.seconds=8")
"""16 s that are fitted, and 8 s that are not."""
NOMINAL = {
    "reach_so101": {"stiffness": 40.0, "damping": 1.5, "viscosity": 0.6, "friction": 0.052, "armature": 0.028},
    "reach": {"stiffness": 400.0, "damping": 40.0, "viscosity": 0.5, "friction": 0.0, "armature": 0.1},
}
TORQUE = {"reach_so101": [2.94] * 5, "reach": [87.0] * 4 + [12.0] * 3}
PAYLOAD = {"reach_so101": 0.1, "reach": 2.0}


def hidden_dynamics(task: str, seed: int) -> dict[str, Any]:
    """Return drawn fields of ``task.arm.dynamics``."""
    rng, nominal, torque = np.random.default_rng(seed), NOMINAL[task], np.array(TORQUE[task])
    factors = {"stiffness": (0.6, 1.5), "damping": (0.7, 1.4), "viscosity": (0.5, 2.0), "armature": (0.5, 1.5)}
    drawn = {key: nominal[key] * rng.uniform(*factor, torque.size) for key, factor in factors.items()}
    drawn["friction"] = nominal["friction"] + rng.uniform(0, 0.02, torque.size) * torque
    drawn["torque_offset"] = rng.uniform(-0.02, 0.02, torque.size) * torque
    hidden: dict[str, Any] = {key: [round(value, 5) for value in values.tolist()] for key, values in drawn.items()}
    # The simulator delays by whole ticks of 2 ms.
    delay, payload, gravity = 0.002 * rng.integers(2, 31), PAYLOAD[task] * rng.uniform(), rng.uniform(0, 0.5)
    whole = {"delay": delay, "payload": payload, "gravity": gravity}
    return hidden | {key: round(float(value), 4) for key, value in whole.items()}


def identified(task: str, hidden: dict[str, Any], folder: Path, *options: str) -> dict[str, Any]:
    """Return the report on an arm with ``hidden`` dynamics, with the true value of each parameter.

    Args:
        task: task with the arm.
        hidden: fields of ``task.arm.dynamics`` that the fit does not see.
        folder: an empty folder.
        options: further options of the command.
    """
    register_all_configs()
    secret = [f"task.arm.dynamics.{key}={value}" for key, value in hidden.items()]
    common = [f"task={task}", *options]
    command.run(
        composed(
            "identify",
            [*common, *secret, "task.randomisation.observation_noise=1", "fit=false", f"output={folder / 'arm'}"],
        )
    )
    command.run(composed("identify", [*common, f"path={folder / 'arm' / 'log'}", f"output={folder / 'result'}"]))
    report: dict[str, Any] = json.loads((folder / "result" / "identified.json").read_text())
    joints = [each["name"].partition(".")[2] for each in report["parameters"] if each["name"].startswith("friction.")]
    for each in report["parameters"]:
        key, _, joint = each["name"].partition(".")
        each["hidden"] = hidden[key][joints.index(joint)] if joint else hidden[key]
    return report


def summarised(task: str, seed: int, report: dict[str, Any]) -> dict[str, Any]:
    """Return the row of an arm."""
    parameters = report["parameters"]
    identified = [each for each in parameters if each["identified"]]
    inside = [each["interval"][0] <= each["hidden"] <= each["interval"][1] for each in identified]
    delay = next(each for each in parameters if each["name"] == "delay")
    return {
        "task": task,
        "seed": seed,
        **{key: report[key] for key in ("error", "nominal_error", "ratio", "noise")},
        "delay_error": delay["value"] - delay["hidden"],
        "identified": len(identified),
        "parameters": len(parameters),
        "inside_interval": sum(inside),
        "values": parameters,
    }


def main() -> None:
    """Identify all arms and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=RESULTS / "identification.json")
    parser.add_argument("--motion", type=int, default=0, help="added to the seeds of the motions, not of the arms")
    options = parser.parse_args()
    rows = []
    for task, seed in ARMS:
        with tempfile.TemporaryDirectory() as folder:
            report = identified(
                task, hidden_dynamics(task, seed), Path(folder), f"seed={seed + options.motion}", *LENGTH
            )
        rows.append(summarised(task, seed, report))
        print({key: value for key, value in rows[-1].items() if key != "values"}, flush=True)
        options.json.write_text(f"{json.dumps({'rows': rows}, indent=1)}\n")


if __name__ == "__main__":
    main()
