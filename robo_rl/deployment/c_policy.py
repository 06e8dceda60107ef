"""Policies from C headers, which are compiled to check a header after it was written."""

import ctypes
import math
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DataError, Observation, scratch_folder

from .description import PolicyDescription

FLAGS = ("-std=c99", "-O3", "-Wall", "-Wextra", "-Werror", "-pedantic")
_COMPILERS = ("cc", "gcc", "clang")
_PATIENCE_SECONDS = 600


def c_compiler() -> str | None:
    """Return the path of the C compiler that ``CC`` names, or of the first one found; None if there is none."""
    names = [os.environ["CC"]] if os.environ.get("CC") else _COMPILERS
    return next((path for name in names if (path := shutil.which(name))), None)


class CPolicy:
    """Decisions of a C header, compiled to a library in a temporary folder.

    Args:
        header: path of the header.
        description: description of the policy.
        compiler: path of a C compiler.
        flags: further arguments for the compiler.

    Raises:
        DataError: if the header does not compile without a warning.
    """

    def __init__(
        self, header: Path, description: PolicyDescription, compiler: str, flags: tuple[str, ...] = ()
    ) -> None:
        self._description = description
        noise = description.noise_size
        self._sizes = (
            sum(math.prod(description.spec.observation[key].shape) for key in description.observed),
            noise,
            math.prod(description.output_shape()),
        )
        step = f"noise + i * {noise}, " if noise else ""
        program = (
            f'#include "{header.resolve()}"\n'
            "void run(long count, const float *observation, const float *noise, float *action);\n"
            "void run(long count, const float *observation, const float *noise, float *action)\n{\n"
            "    (void)noise;\n"
            "    for (long i = 0; i < count; ++i)\n"
            f"        {header.stem}_act(observation + i * {self._sizes[0]}, {step}action + i * {self._sizes[2]});\n}}\n"
        )
        with scratch_folder() as folder:
            source, library = folder / "policy.c", folder / "policy.so"
            source.write_text(program)
            command = [compiler, *FLAGS, *flags, "-shared", "-fPIC", str(source), "-o", str(library), "-lm"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise DataError(f"{header}: {compiler} did not run ({error})") from error
            if done.returncode:
                reason = next((line for line in done.stderr.splitlines() if "error" in line), "no message")
                raise DataError(f"{header} does not compile with {' '.join(FLAGS)}: {reason}")
            try:
                self._run = ctypes.CDLL(str(library)).run
            except OSError as error:
                raise DataError(
                    f"{compiler} made a library that does not load here ({error}): CC must name a compiler for this "
                    "machine, or be unset"
                ) from error
        pointer = np.ctypeslib.ndpointer(np.float32, flags="C_CONTIGUOUS")
        self._run.argtypes = [ctypes.c_long, pointer, pointer, pointer]
        self._run.restype = None

    def decide_all(
        self, observations: Mapping[str, NDArray[np.float32]], noise: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the chunks (n, h, A) for n observations, each key (n, ...), and noise (n, noise_size)."""
        keys = self._description.observed
        count = len(noise)
        rows = np.concatenate([observations[key].reshape(count, -1) for key in keys], axis=1, dtype=np.float32)
        actions = np.empty((count, *self._description.output_shape()), np.float32)
        self._run(count, rows, np.ascontiguousarray(noise, np.float32), actions)
        return actions

    def decide(self, observation: Observation) -> NDArray[np.float32]:
        """Return the chunk (h, A) for one observation, without noise."""
        rows = {key: observation[key][None] for key in self._description.observed}
        return np.asarray(self.decide_all(rows, np.zeros((1, self._description.noise_size), np.float32))[0])
