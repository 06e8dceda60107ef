"""The report on how the chunks of a policy were executed."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ExecutionReport:
    """How the chunks of a policy were executed.

    Jerk is the change of the change of an action from one control period to the next (the third difference, where
    actions are positions): the norm over all elements but those of grippers, in the unit of actions.

    Attributes:
        decisions: number of chunks that were computed.
        latency_median: median time of a decision [s]; None without decisions.
        latency_percentile_99: 99th percentile of that time [s]; None without decisions.
        steps: number of actions that were returned.
        held_steps: number of them that held the robot still, because no action of a chunk was left.
        seams: number of changes from one chunk to another, and from a chunk to holding still, within episodes.
        jerk_at_seams: mean over the seams of the largest jerk at each; None without seams.
        jerk_in_chunks: mean over the chunks of the largest jerk in each; None if chunks are too short to have one.
    """

    decisions: int
    latency_median: float | None
    latency_percentile_99: float | None
    steps: int
    held_steps: int
    seams: int
    jerk_at_seams: float | None
    jerk_in_chunks: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        lines = []
        if self.latency_median is not None and self.latency_percentile_99 is not None:
            median, late = 1000 * self.latency_median, 1000 * self.latency_percentile_99
            lines.append(f"Decision in {median:.1f} ms (median; 99 % within {late:.1f} ms)")
        lines.append(f"Held still in {self.held_steps:,} of {self.steps:,} steps, while a chunk was computed")
        if self.jerk_at_seams is not None:
            inside = "" if self.jerk_in_chunks is None else f", {self.jerk_in_chunks:.2f} within chunks"
            lines.append(f"Jerk {self.jerk_at_seams:.2f} at {self.seams:,} seams of chunks{inside} (means of largest)")
        return lines
