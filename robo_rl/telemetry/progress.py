"""The progress line: live in a terminal, and an occasional plain line elsewhere."""

import math
import signal
import sys
from collections import deque
from typing import NamedTuple

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from robo_rl.core import Clock, MonotonicClock

from .console import Console as LastingConsole

SUCCESS_WINDOW = 20
LIVE_INTERVAL_NS = 200_000_000
RATE_WINDOW_NS = 20_000_000_000


class _Console(LastingConsole):
    """A console that treats a closed output as a hang-up, so that a run ends at its next step and loses nothing."""

    def on_broken_pipe(self) -> None:
        super().on_broken_pipe()
        signal.raise_signal(signal.SIGHUP)


class _Sample(NamedTuple):
    stamp_ns: int
    step: int
    updates: int


class ProgressLine:
    """A line with steps, status, last return, success over the last 20 episodes, updates/s, update-to-data, time left.

    With interventions it also has the share of intervened steps over the last 10 episodes. Rates are measured over
    the last 20 s, so that they follow the current speed of the run.

    Args:
        label: label of the run, for example the name of the task.
        seconds: time between lines if the output is not a terminal [s].
        console: output console; standard output by default.
        clock: monotonic clock.
    """

    def __init__(
        self, label: str, seconds: float = 10.0, console: Console | None = None, clock: Clock | None = None
    ) -> None:
        self._label = label
        self._console = console or _Console(file=sys.stdout)
        self._clock = clock or MonotonicClock()
        self._interval_ns = LIVE_INTERVAL_NS if self._console.is_terminal else int(seconds * 1e9)
        self._samples: deque[_Sample] = deque()
        self._successes: deque[bool] = deque(maxlen=SUCCESS_WINDOW)
        self._status = ""
        self._return: float | None = None
        self._intervened: float | None = None
        self._total = 0
        self._newest: _Sample | None = None
        self._displayed: _Sample | None = None
        self._last_text = ""
        self._live: Live | None = None

    def episode(
        self, episode_return: float | None, success: bool | None, intervention_share: float | None = None
    ) -> None:
        """Record an episode that has ended; unknown values are None."""
        self._return, self._intervened = episode_return, intervention_share
        if success is not None:
            self._successes.append(success)

    def status(self, text: str) -> None:
        """Set the status of the robot, in one word. A terminal shows it at once."""
        self._status = text
        if self._samples and self._console.is_terminal:
            self._show()

    def update(self, step: int, total: int, updates: int) -> None:
        """Set the progress of the run; cheap enough to be called at each environment step.

        Args:
            step: number of environment steps so far.
            total: total number of environment steps of the run.
            updates: number of critic updates so far.
        """
        now = self._clock.now_ns()
        self._total = total
        self._newest = _Sample(now, step, updates)
        is_end = step >= total and (self._displayed is None or self._displayed.step < step)
        if self._samples and now - self._samples[-1].stamp_ns < LIVE_INTERVAL_NS and not is_end:
            return
        self._take_sample()
        if self._displayed is None or now - self._displayed.stamp_ns >= self._interval_ns or is_end:
            self._show()

    def show_newest(self) -> None:
        """Show the newest progress if the line does not show it yet."""
        if self._newest is not None:
            self._take_sample()
            self._show()

    def _take_sample(self) -> None:
        """Add the newest step to the samples for the rates."""
        assert self._newest is not None
        if self._samples and self._samples[-1] is self._newest:
            return
        self._samples.append(self._newest)
        while len(self._samples) > 2 and self._newest.stamp_ns - self._samples[0].stamp_ns > RATE_WINDOW_NS:
            self._samples.popleft()

    def message(self, text: str) -> None:
        """Print ``text`` above the line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
        self._console.file.flush()

    def close(self) -> None:
        """Show the last progress and release the terminal. May be called twice."""
        self.show_newest()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def text(self) -> str:
        """Return the line as plain text."""
        return "  ".join([self._label, self._count(), *self._facts()])

    def _show(self) -> None:
        self._displayed = self._samples[-1]
        if (text := self.text()) == self._last_text:
            return
        self._last_text = text
        if not self._console.is_terminal:
            self.message(text)
            return
        if self._live is None:
            # Without automatic refresh, no thread of rich competes with the control loop.
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        self._live.update(self._row(), refresh=True)

    def _row(self) -> Table:
        row = Table.grid(padding=(0, 2))
        row.add_column(no_wrap=True)
        row.add_column(width=16)
        row.add_column(no_wrap=True, overflow="ellipsis")
        bar = ProgressBar(total=max(self._total, 1), completed=self._samples[-1].step, width=16)
        row.add_row(f"{self._label}  {self._count()}", bar, "  ".join(self._facts()))
        return row

    def _count(self) -> str:
        return f"{self._samples[-1].step:,}/{self._total:,} steps"

    def _facts(self) -> list[str]:
        facts = [self._status] if self._status else []
        if self._return is not None:
            facts.append(f"return {self._return:.2f}")
        if self._successes:
            rate = 100 * sum(self._successes) / len(self._successes)
            facts.append(f"success {rate:.0f} % of {len(self._successes)}")
        if self._intervened is not None:
            facts.append(f"intervened {100 * self._intervened:.0f} %")
        first, last = self._samples[0], self._samples[-1]
        seconds = (last.stamp_ns - first.stamp_ns) * 1e-9
        steps = last.step - first.step
        if seconds > 0 and steps > 0:
            updates = last.updates - first.updates
            facts.append(f"{updates / seconds:.0f} updates/s")
            facts.append(f"update-to-data {updates / steps:.3g}")
            facts.append(f"{_duration((self._total - last.step) * seconds / steps)} left")
        return facts


def _duration(seconds: float) -> str:
    """Return ``seconds`` as h:mm:ss or m:ss, rounded up."""
    minutes, seconds_part = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds_part:02}" if hours else f"{minutes}:{seconds_part:02}"
