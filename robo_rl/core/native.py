"""Compilation of a C++ library of robo-rl, once per machine, compiler and version of the sources."""

import functools
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from .drafts import scratch_folder
from .errors import ConfigError, NativeBuildError
from .folders import user_folder

# No -ffast-math: it would let the compiler assume that NaN does not occur, and divergence must be detected.
_FLAGS = (
    "-std=c++17",
    "-O3",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility=hidden",
    "-shared",
    "-fPIC",
    "-pthread",
)
_TARGETS = ("-march=native", "-mcpu=native")  # some compilers for ARM know only the second


@functools.cache
def native_library(source: Path, arguments: tuple[str, ...] = ()) -> Path:
    """Return the path of ``source`` compiled to a shared library; compile it first unless it is in the cache.

    The cache is ``$XDG_CACHE_HOME/robo_rl/native`` (default ``~/.cache``). A file appears there complete or not at
    all, so several processes may call this at once. Its name ends in the hash of its content: a file that was damaged
    later, for example by a power cut, is compiled again instead of crashing the process that loads it. Headers must be
    in the folder of the source.

    Args:
        source: the C++ file.
        arguments: further arguments for the compiler, such as libraries to link with.

    Raises:
        NativeBuildError: if there is no compiler, it fails, or the cache cannot be written.
    """
    compiler = _compiler()
    target, macros = _target(compiler)
    digest = hashlib.sha256()
    for part in (compiler, *_FLAGS, *arguments, target, macros):
        digest.update(part.encode() + b"\0")
    for file in sorted([*source.parent.glob("*.h"), source]):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    name = digest.hexdigest()[:32]
    try:
        cache = user_folder("cache", "the compiled library") / "native"
    except ConfigError as error:
        raise NativeBuildError(str(error)) from error
    try:
        cache.mkdir(parents=True, exist_ok=True)
        path = _intact(cache, name)
        if path is None:
            with scratch_folder(cache) as folder:
                unfinished = folder / "library.so"
                _run([compiler, *_FLAGS, *target.split(), str(source), *arguments, "-o", str(unfinished)])
                path = unfinished.replace(cache / f"{name}-{_hash(unfinished)}.so")
    except OSError as error:
        raise NativeBuildError(f"cannot write the compiled library to {cache}: {error}") from error
    return path


def compiler_problem() -> str | None:
    """Return why nothing can be compiled on this machine and what to do; None if there is a compiler."""
    try:
        _compiler()
    except NativeBuildError as error:
        return str(error)
    return None


def _intact(cache: Path, name: str) -> Path | None:
    """Return the library of this name whose content matches its hash, or None."""
    return next((path for path in cache.glob(f"{name}-*.so") if path.stem == f"{name}-{_hash(path)}"), None)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]


def _compiler() -> str:
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    raise NativeBuildError(f"no C++ compiler found (looked for {', '.join(names)}); install g++ or clang++, or set CXX")


def _target(compiler: str) -> tuple[str, str]:
    """Return the flag for this machine's processor and the macros that the compiler predefines with it.

    The macros identify the compiler's version and every instruction set that it will use.
    """
    for target in _TARGETS:
        try:
            return target, _run([compiler, target, "-dM", "-E", "-x", "c++", os.devnull])
        except NativeBuildError:
            continue
    return "", _run([compiler, "-dM", "-E", "-x", "c++", os.devnull])


def _run(command: list[str]) -> str:
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NativeBuildError(f"{command[0]} did not run: {error}") from error
    if completed.returncode != 0:
        lines = completed.stderr.strip().splitlines() or ["no message"]
        first = next((line for line in lines if "error" in line), lines[0])
        raise NativeBuildError(f"{command[0]} failed with exit code {completed.returncode}: {first}")
    return completed.stdout
