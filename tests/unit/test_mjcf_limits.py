"""Limits on models in MJCF before MuJoCo compiles them: what files they may name."""

import os
from pathlib import Path

import pytest

from robo_rl.core import ConfigError
from robo_rl.core.mjcf_limits import check_mjcf

ASSETS = [
    '<mesh name="a" file="{file}"/>',
    '<hfield name="a" file="{file}" size="1 1 1 1"/>',
    '<texture name="a" type="2d" file="{file}"/>',
    '<texture name="a" type="cube" fileright="{file}"/>',
    '<skin name="a" file="{file}"/>',
]


def write(folder: Path, content: str, compiler: str = "") -> Path:
    path = folder / "model.xml"
    path.write_text(f"<mujoco>{compiler}{content}<worldbody/></mujoco>")
    return path


@pytest.mark.parametrize("asset", ASSETS)
@pytest.mark.parametrize("place", ["", "assets"])
def test_a_pipe_among_the_files_of_a_model_is_refused(tmp_path: Path, asset: str, place: str) -> None:
    """MuJoCo would wait for it for ever."""
    (tmp_path / place).mkdir(exist_ok=True)
    os.mkfifo(tmp_path / place / "a.obj")
    compiler = f'<compiler meshdir="{place}" texturedir="{place}" assetdir="{place}"/>' if place else ""
    path = write(tmp_path, f"<asset>{asset.format(file='a.obj')}</asset>", compiler)
    with pytest.raises(ConfigError, match=r"task\.model: .*a\.obj is not a regular file"):
        check_mjcf(path, "task.model")


@pytest.mark.parametrize("file", ["/dev/zero", "folder/../pipe", "folder"])
def test_devices_and_folders_are_refused_wherever_they_are(tmp_path: Path, file: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    path = write(tmp_path, f'<worldbody><body><flexcomp name="a" type="mesh" file="{file}"/></body></worldbody>')
    with pytest.raises(ConfigError, match="is not a regular file"):
        check_mjcf(path, "task.model")


def test_a_pipe_that_an_included_file_names_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.stl")
    (tmp_path / "part.xml").write_text('<mujoco><asset><mesh file="a.stl"/></asset></mujoco>')
    with pytest.raises(ConfigError, match=r"a\.stl is not a regular file"):
        check_mjcf(write(tmp_path, '<include file="part.xml"/>'), "task.model")


def test_regular_files_and_those_that_are_missing_pass(tmp_path: Path) -> None:
    (tmp_path / "a.obj").write_text("v 0 0 0")
    check_mjcf(write(tmp_path, '<asset><mesh file="a.obj"/><mesh file="missing.obj"/></asset>'), "task.model")
