"""The choice of the precision of native updates for ``agent.precision=auto``, measured once on each machine."""

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from robo_rl.core import DataError, parse_json, read_bytes, write_durably

from . import native

WORTH_IT = 0.95
"""Share of the time in float32 below which bfloat16 is chosen: rounding should bring a gain in speed."""
OBSERVATION_SIZE, ACTION_SIZE = 32, 8
"""Widths of the measured networks: those of an arm with seven joints and a gripper."""
REPETITIONS = 15
MAX_FILE_BYTES = 1 << 10


class UpdateTimes(NamedTuple):
    """Processor time of an update, all threads together [s], by precision."""

    float32: float
    bfloat16: float


class UpdateTimer:
    """Measures the native updates of one kind of agent in both precisions.

    A measurement takes about a second, and its result is kept beside the compiled library for later processes. If that
    file cannot be read or written, the times are measured again, and so they are if the operating system begins or
    ceases to permit AMX.

    Args:
        name: of the kind of updates, in the name of the file.
        make: returns a function that does updates in a precision and returns the processor time of one [s].
    """

    def __init__(self, name: str, make: Callable[[str], Callable[[], float]]) -> None:
        self._name, self._make = name, make
        self._known: dict[int, UpdateTimes] = {}

    def fastest(self) -> str:
        """Return the precision in which updates are faster on this machine: ``float32`` or ``bfloat16``."""
        share = self.bfloat16_share()
        return "bfloat16" if share is not None and share < WORTH_IT else "float32"

    def bfloat16_share(self) -> float | None:
        """Return the time of an update in bfloat16, as a share of the time in float32.

        Return None, without a measurement, if the processor or the compiler does not support products of bfloat16.
        """
        if not native.available("bfloat16")[0]:
            return None
        times = self.times(torch.get_num_threads())
        return times.bfloat16 / times.float32

    def times(self, threads: int) -> UpdateTimes:
        """Return the times of updates in both precisions, with ``threads`` threads."""
        if threads not in self._known:
            library = native.library_path()
            instructions = native.bfloat16_instructions()
            file = library.with_name(f"{library.stem}-{self._name}-{instructions}-{threads}-threads.json")
            times = _read(file)
            if times is None:
                times = UpdateTimes(*self.measure(UpdateTimes._fields))
                with contextlib.suppress(OSError):
                    write_durably(file, json.dumps(times._asdict()).encode())
            self._known[threads] = times
        return self._known[threads]

    def measure(self, precisions: Sequence[str]) -> list[float]:
        """Return the mean processor time of an update [s] in each of ``precisions``, measured alternately.

        The time by the clock would depend on what else the machine does: with two learners on two cores, waiting for
        the other thread takes longer than computing.
        """
        loops = [self._make(precision) for precision in precisions]
        rounds = [[loop() for loop in loops] for _ in range(1 + REPETITIONS)]
        return [sum(times) / REPETITIONS for times in zip(*rounds[1:], strict=True)]  # the first round allocates memory

    def forget(self) -> None:
        """Measure or read the times again."""
        self._known.clear()


def _read(file: Path) -> UpdateTimes | None:
    """Return the times in ``file``; None if it does not exist or its content is invalid."""
    try:
        values = parse_json(read_bytes(file, MAX_FILE_BYTES), file.name)
        times = UpdateTimes(**{name: float(values[name]) for name in UpdateTimes._fields})
    except (OSError, DataError, ValueError, KeyError, TypeError):
        return None
    return times if min(times) > 0 else None
