"""The compiled library of the native update: compilation, damage, the cache."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from robo_rl.agents.parts.native import available, library_path
from robo_rl.agents.parts.native.library import library
from robo_rl.core import NativeBuildError, native_library

from .test_native_update import needs_compiler


@pytest.fixture
def compiling_anew(monkeypatch):
    """A function that says whether the update is available in an environment, of a process that has not asked yet."""

    def ask(**environment: str) -> str:
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            native_library.cache_clear()
            library.cache_clear()
            return " ".join(map(str, available()))

    yield ask
    native_library.cache_clear()
    library.cache_clear()


def test_says_why_it_is_not_available(tmp_path, compiling_anew):
    said = compiling_anew(PATH=str(tmp_path), CXX="", XDG_CACHE_HOME=str(tmp_path))
    assert said.startswith("False no C++ compiler found (looked for c++, g++, clang++); install")

    compiler = tmp_path / "broken"
    compiler.write_text("#!/bin/sh\necho 'fatal error: no such header' >&2\nexit 3\n")
    compiler.chmod(0o755)
    said = compiling_anew(CXX=str(compiler), XDG_CACHE_HOME=str(tmp_path))
    assert said.startswith("False") and "failed with exit code 3: fatal error: no such header" in said

    file = tmp_path / "file"
    file.write_text("")
    if available()[0]:
        assert "False cannot write the compiled library to" in compiling_anew(XDG_CACHE_HOME=str(file))


@pytest.fixture
def source(tmp_path) -> Path:
    """A library that compiles in a moment."""
    file = tmp_path / "small.cpp"
    file.write_text('extern "C" __attribute__((visibility("default"))) int answer() { return 42; }\n')
    return file


_COMPILE = """
import ctypes, pathlib, sys
from robo_rl.core import native_library
print(ctypes.CDLL(str(native_library(pathlib.Path(sys.argv[1])))).answer())
"""


@needs_compiler
def test_two_processes_compile_at_once(tmp_path, source):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", _COMPILE, str(source)]
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0] for process in both] == ["42\n", "42\n"]
    assert len(list((tmp_path / "cache").rglob("*"))) == 3  # robo_rl, native, and one library


DAMAGES = ("cut short", "empty", "zeros")


def _damage(path: Path, damage: str) -> None:
    """Write what a power cut leaves of a file: to load it ends the process by a signal."""
    whole = path.read_bytes()
    keep = {"cut short": len(whole) // 3, "empty": 0, "zeros": len(whole) // 3}[damage]
    path.write_bytes(whole[:keep] + (bytes(len(whole) - keep) if damage == "zeros" else b""))


@needs_compiler
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_library_is_compiled_anew(tmp_path, source, damage, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = native_library(source)
    whole = path.read_bytes()
    _damage(path, damage)
    native_library.cache_clear()
    assert native_library(source) == path
    assert path.read_bytes() == whole and list(path.parent.iterdir()) == [path]


@needs_compiler
def test_a_damaged_library_of_the_update_is_not_loaded(tmp_path, compiling_anew):
    folder = tmp_path / "robo_rl" / "native"
    folder.mkdir(parents=True)
    shutil.copy(library_path(), folder)
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    _damage(path, "cut short")
    assert compiling_anew(XDG_CACHE_HOME=str(tmp_path)).startswith("True compiled")
    assert path.read_bytes() == whole and list(folder.iterdir()) == [path]


@needs_compiler
def test_a_user_without_a_home_is_told_where_the_cache_is_set(monkeypatch):
    """Containers may run under a user ID that has no entry in /etc/passwd."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it does where there is no home
    native_library.cache_clear()
    with pytest.raises(NativeBuildError, match=r"no place for the compiled library \(.*\): set XDG_CACHE_HOME"):
        library_path()
