"""Limits on models in MJCF before MuJoCo compiles them: what files they may name."""

import os
from pathlib import Path

import pytest

from robo_rl.core import ConfigError
from robo_rl.core.mjcf_limits import check_mjcf

from ..rigs.bombs.images import png

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
    with pytest.raises(ConfigError, match=r"task\.model: .*a\.obj: expected a regular file, found a named pipe"):
        check_mjcf(path, "task.model")


@pytest.mark.parametrize("file", ["/dev/zero", "folder/../pipe", "folder"])
def test_devices_and_folders_are_refused_wherever_they_are(tmp_path: Path, file: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    path = write(tmp_path, f'<worldbody><body><flexcomp name="a" type="mesh" file="{file}"/></body></worldbody>')
    with pytest.raises(ConfigError, match="expected a regular file, found a"):
        check_mjcf(path, "task.model")


def test_a_pipe_that_an_included_file_names_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.stl")
    (tmp_path / "part.xml").write_text('<mujoco><asset><mesh file="a.stl"/></asset></mujoco>')
    with pytest.raises(ConfigError, match=r"a\.stl: expected a regular file"):
        check_mjcf(write(tmp_path, '<include file="part.xml"/>'), "task.model")


def test_regular_files_and_those_that_are_missing_pass(tmp_path: Path) -> None:
    (tmp_path / "a.obj").write_text("v 0 0 0")
    check_mjcf(
        write(tmp_path, f'<asset><mesh file="a.obj"/><mesh file="missing.obj"/><mesh file="{"n" * 300}"/></asset>'),
        "task.model",
    )


def _pipe(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(folder / name)


@pytest.mark.parametrize(
    ("named", "pipe"),
    [
        ('<asset><mesh name="m" file="pipe"/></asset>', "pipe"),
        ('<asset><mesh name="m" file="deep/pipe"/></asset><compiler strippath="true"/>', "pipe"),
        ('<asset><mesh name="m" file="pipe"/></asset><compiler meshdir="meshes"/>', "meshes/pipe"),
        ('<compiler assetdir="assets"/><asset><hfield name="h" file="pipe" size="1 1 1 1"/></asset>', "assets/pipe"),
        ('<asset><skin name="s" file="pipe"/></asset>', "pipe"),
        ('<asset><texture name="t" type="2d" file="pipe"/></asset><compiler texturedir="t"/>', "t/pipe"),
        *(
            (f'<asset><texture name="t" type="skybox" file{side}="pipe"/></asset>', "pipe")
            for side in ("left", "right", "up", "down", "front", "back")
        ),
        ('<worldbody><flexcomp name="f" type="gmsh" file="pipe"/></worldbody>', "pipe"),
        ('<asset><model name="m" file="pipe"/></asset>', "pipe"),
        ('<include file="pipe"/>', "pipe"),
        ('<extension><plugin plugin="p"><instance><config key="file" value="pipe"/></instance></plugin>', "pipe"),
        ('<include file="sub/part.xml"/>', "pipe"),
        ('<include file="sub/part.xml"/>', "sub/pipe"),
        ('<include file="sub/part.xml"/>', "parts/pipe"),
        ('<asset><model name="m" file="sub/part.xml"/></asset>', "sub/parts/pipe"),
    ],
)
def test_a_model_that_names_a_named_pipe_is_refused_before_anything_waits_for_it(named, pipe, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "part.xml").write_text(
        '<mujoco><asset><mesh name="p" file="pipe"/></asset><compiler meshdir="parts"/></mujoco>'
    )
    _pipe(tmp_path, pipe)
    closing = "</extension>" if "<extension>" in named else ""
    (tmp_path / "arm.xml").write_text(f"<mujoco>{named}{closing}</mujoco>")
    with pytest.raises(ConfigError, match=r"arm\.model: .*pipe: expected a regular file, found a named pipe"):
        check_mjcf(tmp_path / "arm.xml", "arm.model")


@pytest.mark.parametrize("name", ["meshes/pipe", "package://meshes/pipe", "package://arm/nowhere/pipe"])
def test_so_is_one_in_urdf(name, tmp_path):
    _pipe(tmp_path, "meshes/pipe" if "nowhere" not in name else "pipe")
    mesh = f'<visual><geometry><mesh filename="{name}"/></geometry></visual>'
    (tmp_path / "arm.urdf").write_text(f'<robot name="r"><link name="l">{mesh}</link></robot>')
    with pytest.raises(ConfigError, match="expected a regular file, found a named pipe"):
        check_mjcf(tmp_path / "arm.urdf", "arm.model")


def test_files_that_are_too_large_together_are_refused(tmp_path):
    with (tmp_path / "m.stl").open("wb") as stream:
        stream.truncate(400 << 20)
    mesh, file = '<mesh name="m{}" file="m.stl"/>', tmp_path / "arm.xml"
    file.write_text(f"<mujoco><asset>{mesh.format(1)}{mesh.format(2)}</asset></mujoco>")
    check_mjcf(file, "arm.model")
    file.write_text(f"<mujoco><asset>{mesh.format(1)}{mesh.format(2)}\n{mesh.format(3)}</asset></mujoco>")
    with pytest.raises(ConfigError, match=r"line 2: at most 1,073,741,824 bytes of files are read"):
        check_mjcf(file, "arm.model")


@pytest.mark.parametrize("inner", ["leaf.xml", "sub/leaf.xml"])
def test_an_included_file_is_counted_wherever_mujoco_finds_it(inner, tmp_path):
    """It looks in the folder of the main file first, then in that of the including one."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "leaf.xml").write_text("<mujoco/>")
    (tmp_path / inner).write_text('<mujoco><worldbody><replicate count="9000"/></worldbody></mujoco>')
    (tmp_path / "sub" / "part.xml").write_text('<mujoco><include file="leaf.xml"/></mujoco>')
    (tmp_path / "arm.xml").write_text('<mujoco><include file="sub/part.xml"/></mujoco>')
    with pytest.raises(ConfigError, match="at most 8000"):
        check_mjcf(tmp_path / "arm.xml", "arm.model")


def test_an_included_file_of_the_name_of_the_one_that_includes_it_is_another(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "part.xml").write_text("<mujoco/>")
    (tmp_path / "sub" / "part.xml").write_text('<mujoco><include file="part.xml"/></mujoco>')
    (tmp_path / "arm.xml").write_text('<mujoco><include file="sub/part.xml"/></mujoco>')
    check_mjcf(tmp_path / "arm.xml", "arm.model")


def test_compilers_that_name_many_folders_are_refused(tmp_path):
    compilers = "".join(f'<compiler meshdir="m{n}"/>' for n in range(30))
    (tmp_path / "arm.xml").write_text(f"<mujoco>{compilers}</mujoco>")
    with pytest.raises(ConfigError, match="more than 20 folders"):
        check_mjcf(tmp_path / "arm.xml", "arm.model")


CUBE = '<texture name="t{n}" type="cube" builtin="flat" width="4096" height="4096"/>'
SKY = '<texture name="t{n}" type="skybox" builtin="gradient" width="4096"/>'
UNSAID = '<texture name="t{n}" builtin="checker" width="4096" height="8"/>'
FLAT = '<texture name="t{n}" type="2d" builtin="flat" width="8192" height="8192"/>'
FIELD = '<hfield name="t{n}" nrow="4096" ncol="4096" size="1 1 1 1"/>'
PICTURE = '<texture name="t{n}" type="2d" file="sky.png"/>'
CUBE_PICTURE = '<texture name="t{n}" type="cube" file="sky.png"/>'
HEIGHTS = '<hfield name="t{n}" file="sky.png" size="1 1 1 1"/>'


@pytest.mark.parametrize(
    ("asset", "most"),
    [(CUBE, 1), (SKY, 1), (UNSAID, 1), (FLAT, 2), (FIELD, 8), (PICTURE, 5), (CUBE_PICTURE, 0), (HEIGHTS, 4)],
)
@pytest.mark.parametrize("place", ["file", "included", "attached"])
def test_textures_and_height_fields_that_take_much_memory_together_are_refused(asset, most, place, tmp_path):
    """Each is small enough; a kilobyte of them took nine gigabytes."""
    (tmp_path / "sky.png").write_bytes(png(5000, 6000))

    def write_with(count: int) -> None:
        assets = "".join(asset.format(n=number) for number in range(count))
        content = f"<mujoco><asset>{assets}</asset></mujoco>"
        parts = {"included": '<include file="part.xml"/>', "attached": '<asset><model file="part.xml"/></asset>'}
        (tmp_path / "part.xml").write_text(content)
        (tmp_path / "arm.xml").write_text(content if place == "file" else f"<mujoco>{parts[place]}</mujoco>")

    write_with(most)
    check_mjcf(tmp_path / "arm.xml", "arm.model")
    write_with(most + 1)
    with pytest.raises(ConfigError, match=r"line 1: textures and height fields take .* bytes of memory or more"):
        check_mjcf(tmp_path / "arm.xml", "arm.model")
