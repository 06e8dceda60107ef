"""Where files of one user are kept."""

import os
from pathlib import Path

import pytest

from robo_rl.core import ConfigError, DriverError, EmergencyStop, user_folder


@pytest.mark.parametrize(
    ("kind", "variable", "default"),
    [("cache", "XDG_CACHE_HOME", ".cache"), ("state", "XDG_STATE_HOME", ".local/state")],
)
def test_folders_are_those_of_the_xdg_specification(kind, variable, default, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for unset in (None, ""):  # the specification has both as the default
        monkeypatch.delenv(variable, raising=False)
        if unset is not None:
            monkeypatch.setenv(variable, unset)
        assert user_folder(kind, "notes") == tmp_path / default / "robo_rl"
    monkeypatch.setenv(variable, "/elsewhere")
    assert user_folder(kind, "notes") == Path("/elsewhere/robo_rl")


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it does where there is no home
    with pytest.raises(ConfigError, match=r"^no place for notes \(.+\): set XDG_CACHE_HOME or notes\.file$"):
        user_folder("cache", "notes", " or notes.file")


def test_a_stop_without_a_place_says_how_to_give_another() -> None:
    with pytest.raises(DriverError, match=r"safety\.emergency_stop\.file, or file=PATH for stop, rearm and enable"):
        EmergencyStop(Path("/dev/null/state/stop"))
