"""Limit on reports of failing callbacks, since an unusable message may arrive a thousand times per second."""

from robo_rl.core import Repetitions

_REPETITIONS = Repetitions()


def failure_text(error: Exception) -> str | None:
    """Return the first line of a report on a callback's ``error``; None if no report is due.

    Errors of the same type that are raised at the same place are reported at growing intervals.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    kind = f"{type(error).__name__} {place}"
    if not _REPETITIONS.count(kind):
        return None
    number = _REPETITIONS.counts[kind]
    return "A callback failed" if number == 1 else f"A callback failed, {number:,} times so far"
