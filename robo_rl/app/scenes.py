"""Limits of the safety filters of a configuration, for display."""

from omegaconf import DictConfig

from ..actor import SceneLimits
from ..core import RobotDescription
from ..safety.compose import KEEP_OUT


def scene_limits(safety: DictConfig, robot: RobotDescription | None) -> SceneLimits:
    """Return the limits that the section ``safety`` and the description of the robot give."""
    if robot is None or "workspace" not in safety:
        return SceneLimits()
    low = high = None
    if safety.workspace.enabled:
        low = tuple(robot.workspace_low if safety.workspace.low is None else safety.workspace.low)
        high = tuple(robot.workspace_high if safety.workspace.high is None else safety.workspace.high)
    keep_out: tuple[str, ...] = ()
    if safety.barrier.enabled:
        names = [robot.model.geom(number).name for number in range(robot.model.ngeom)]
        keep_out = (*safety.barrier.keep_out, *(name for name in names if name.startswith(KEEP_OUT)))
    return SceneLimits(low, high, keep_out)
