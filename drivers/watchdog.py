"""Watchdog of a driver: it first holds, then stops a robot that receives no commands."""

from dataclasses import dataclass
from enum import IntEnum

from robo_rl.core import MAX_SECONDS, Options, option, require


class Watch(IntEnum):
    """States of a robot under a watchdog."""

    RUN = 0
    HOLD = 1
    STOPPED = 2


@dataclass(frozen=True)
class WatchdogConfig(Options, section="watchdog"):
    """Times without a command or heartbeat after which the robot holds still or stops.

    Attributes:
        hold_after: time after which the robot holds still [s]; it continues with the next command.
        stop_after: time after which the robot is stopped [s]; it moves again only in a new episode.
    """

    hold_after: float = option(0.1, above=0, high=MAX_SECONDS)
    stop_after: float = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.hold_after < self.stop_after <= MAX_SECONDS,
            "watchdog.stop_after",
            f"above hold_after, at most {MAX_SECONDS:g}",
            self.stop_after,
        )


class Watchdog:
    """Limit on the time without commands, in the process that drives the robot. Times are monotonic."""

    def __init__(self, config: WatchdogConfig) -> None:
        self._hold_ns, self._stop_ns = round(config.hold_after * 1e9), round(config.stop_after * 1e9)
        self._fed_ns: int | None = None
        self._stopped = True

    def begin(self, now_ns: int) -> None:
        """Begin an episode."""
        self._fed_ns, self._stopped = now_ns, False

    def feed(self, now_ns: int) -> None:
        """Register a command or heartbeat. A stopped robot stays stopped."""
        if self.look(now_ns) is not Watch.STOPPED:
            self._fed_ns = now_ns

    def stop(self) -> None:
        """Stop until the next episode."""
        self._stopped = True

    def look(self, now_ns: int) -> Watch:
        """Return the state that the robot is allowed to be in now."""
        if self._stopped or self._fed_ns is None:
            return Watch.STOPPED
        age_ns = now_ns - self._fed_ns
        if age_ns >= self._stop_ns:
            self._stopped = True
            return Watch.STOPPED
        return Watch.HOLD if age_ns >= self._hold_ns else Watch.RUN
