"""The choice of the precision of native updates for ``agent.precision=auto``, measured once on each machine."""

import contextlib
import functools
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from robo_rl.core import DataError, parse_json, read_bytes, write_durably

from ..parts import native
from ..parts.networks import initialise_network
from ..parts.policy import INITIAL_OUTPUT_GAIN
from .config import SACConfig
from .critics import initial_networks, train_state
from .native_update import NativeUpdate
from .update import Minibatches, draw_noise

WORTH_IT = 0.95
"""Share of the time in float32 below which bfloat16 is chosen: rounding should bring a gain in speed."""
OBSERVATION_SIZE, ACTION_SIZE = 32, 8
"""Widths of the measured networks: those of an arm with seven joints and a gripper."""
REPETITIONS = 15
MAX_FILE_BYTES = 1 << 10


class UpdateTimes(NamedTuple):
    """Processor time of a critic update of the default agent, all threads together [s], by precision."""

    float32: float
    bfloat16: float


def fastest_precision() -> str:
    """Return the precision in which native updates are faster on this machine: ``float32`` or ``bfloat16``."""
    share = bfloat16_share()
    return "bfloat16" if share is not None and share < WORTH_IT else "float32"


def bfloat16_share() -> float | None:
    """Return the time of a native update in bfloat16, as a share of the time in float32.

    Return None, without a measurement, if the processor or the compiler does not support products of bfloat16.
    """
    if not native.available("bfloat16")[0]:
        return None
    times = update_times(torch.get_num_threads())
    return times.bfloat16 / times.float32


@functools.cache
def update_times(threads: int) -> UpdateTimes:
    """Return the times of native updates in both precisions, with ``threads`` threads.

    The measurement takes about a second, and its result is kept beside the compiled library for later processes. If
    that file cannot be read or written, the times are measured again, and so they are if the operating system begins or
    ceases to permit AMX.
    """
    library = native.library_path()
    file = library.with_name(f"{library.stem}-{native.bfloat16_instructions()}-{threads}-threads.json")
    times = _read(file)
    if times is None:
        times = UpdateTimes(*measure_updates(UpdateTimes._fields))
        with contextlib.suppress(OSError):
            write_durably(file, json.dumps(times._asdict()).encode())
    return times


def measure_updates(precisions: Sequence[str]) -> list[float]:
    """Return the mean processor time of a critic update [s] in each of ``precisions``, measured alternately.

    The time by the clock would depend on what else the machine does: with two learners on two cores, waiting for the
    other thread takes longer than computing.
    """
    loops = [UpdateLoop(SACConfig(precision=precision, update_to_data=4)) for precision in precisions]
    rounds = [[loop() for loop in loops] for _ in range(1 + REPETITIONS)]
    return [sum(times) / REPETITIONS for times in zip(*rounds[1:], strict=True)]  # the first round allocates memory


class UpdateLoop:
    """Native updates on random rows."""

    def __init__(self, config: SACConfig) -> None:
        generator = torch.Generator().manual_seed(0)
        sizes = (OBSERVATION_SIZE, *config.hidden, 2 * ACTION_SIZE)
        actor = initialise_network(
            "actor", sizes, generator, layer_norm=config.actor_layer_norm, output_gain=INITIAL_OUTPUT_GAIN
        )
        networks = initial_networks(config, OBSERVATION_SIZE + ACTION_SIZE, generator)
        self._update = NativeUpdate(config, train_state(networks | actor))
        lead = (config.update_to_data, config.batch_size)
        observation, next_observation = torch.randn(2, *lead, OBSERVATION_SIZE, generator=generator)
        action, proposed_action = 2 * torch.rand(2, *lead, ACTION_SIZE, generator=generator) - 1
        reward, discount, cloning = torch.zeros(lead), torch.full(lead, config.gamma), torch.ones(lead)
        self._rows = Minibatches(
            observation, action, reward, discount, next_observation, cloning=cloning, proposed_action=proposed_action
        )
        self._noise = draw_noise(config, ACTION_SIZE, generator)
        self._updates = 0

    def __call__(self) -> float:
        """Return the processor time of one critic update [s]."""
        start = time.process_time()
        self._update(self._rows, self._noise, self._updates)
        self._updates += 1
        return (time.process_time() - start) / len(self._rows.reward)


def _read(file: Path) -> UpdateTimes | None:
    """Return the times in ``file``; None if it does not exist or its content is invalid."""
    try:
        values = parse_json(read_bytes(file, MAX_FILE_BYTES), file.name)
        times = UpdateTimes(**{name: float(values[name]) for name in UpdateTimes._fields})
    except (OSError, DataError, ValueError, KeyError, TypeError):
        return None
    return times if min(times) > 0 else None
