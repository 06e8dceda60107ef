"""Import of URDF files: meshes, limits, gripper, contacts, and everything that is wrong with a file at once."""

from pathlib import Path

import mujoco
import numpy as np
import pytest

from robo_rl.core import ConfigError
from robo_rl.sim.arm import read_arm_file
from robo_rl.sim.arm_description import ArmDescription, describe_arm

from ..rigs.urdf_arm import INERTIA, PACKAGE, write_stl, write_urdf
from .test_arm_files import CLOSE, OPEN, backend

MESHES = f"{PACKAGE}/meshes"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_urdf(tmp_path)


def changed(file: Path, *replacements: tuple[str, str]) -> str:
    """Replace parts of a file once each; return its path."""
    text = file.read_text()
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new, 1)
    file.write_text(text)
    return str(file)


def joint_to(link: str) -> str:
    """Return the joint ``loose``, by which the base holds a link."""
    return f'<joint name="loose" type="continuous"><parent link="base"/><child link="{link}"/></joint>'


def notes_of(arm: ArmDescription) -> str:
    return "\n".join(arm.notes)


def test_what_a_file_says_is_read(file: Path) -> None:
    arm = describe_arm(str(file))
    assert arm.joints == tuple(f"joint{number}" for number in range(1, 7))
    assert arm.velocity_limits == (1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
    assert arm.torque_limits == (90.0, 45.0, 30.0, 22.0, 18.0, 15.0)
    assert arm.end_effector == "hand_tcp", "not left_tip, which is fixed to a finger"
    assert arm.gripper_joints == ("left_finger_joint", "right_finger_joint")
    assert (arm.gripper_actuator, arm.gripper_range) == ("gripper", (0.0, 0.04))
    notes = notes_of(arm)
    assert "inertia: none for hand;" in notes and "armature: URDF has none" in notes and "'hand_tcp' is taken" in notes
    model = mujoco.MjModel.from_xml_string(arm.mjcf)
    joint = model.joint("joint2")
    assert (joint.damping[0], joint.frictionloss[0], joint.armature[0]) == (0.4, 0.1, 0.045)
    assert model.joint("left_finger_joint").armature[0] == 0.02 and model.joint("joint6").armature[0] == 0.015


def test_the_end_effector_may_be_chosen(file: Path) -> None:
    arm = describe_arm(str(file), "hand")
    assert arm.end_effector == "hand" and "end_effector" not in notes_of(arm)
    with pytest.raises(ConfigError, match=r"no site or body 'hnd': .*hand"):
        describe_arm(str(file), "hnd")


def test_shapes_for_the_eye_do_not_collide_and_hide_those_that_do(file: Path) -> None:
    model = mujoco.MjModel.from_xml_string(describe_arm(str(file)).mjcf)
    base, hand, link = (model.body(name) for name in ("base", "hand", "link1"))
    groups = {name: model.geom_group[body.geomadr[0] : body.geomadr[0] + body.geomnum[0]].tolist()
              for name, body in (("base", base), ("hand", hand), ("link1", link))}  # fmt: skip
    assert groups == {"base": [2, 3], "hand": [2], "link1": [2, 3]}
    seen, solid = (model.mesh(int(model.geom_dataid[base.geomadr[0] + number])) for number in (0, 1))
    halves = [np.abs(model.mesh_vert[mesh.vertadr[0] : mesh.vertadr[0] + 8]).max() for mesh in (seen, solid)]
    np.testing.assert_allclose(halves, [0.06, 0.05], rtol=1e-5, err_msg="two files of one name in different folders")
    assert model.geom_contype[base.geomadr[0]] == 0 and model.body("base").mass[0] == pytest.approx(1.0, rel=1e-4)


def test_the_gripper_opens_and_closes_with_its_mimic_joint(file: Path) -> None:
    arm = describe_arm(str(file))
    simulated = backend(
        file, joints=arm.joints, end_effector=arm.end_effector, home=arm.home, torque_limits=arm.torque_limits,
        velocity_limits=arm.velocity_limits, gripper_actuator="gripper", gripper_joints=arm.gripper_joints,
        gripper_open=0.04, gripper_closed=0.0,
    )  # fmt: skip
    simulated.reset(0)
    places = [simulated.model.joint(name).qposadr[0] for name in arm.gripper_joints]
    for direction, end in ((CLOSE, 0.0), (OPEN, 0.04)):
        for _ in range(60):
            simulated.step(np.array([0, 0, 0, direction], np.float32)[: simulated.spec.action.shape[0]])
        np.testing.assert_allclose(simulated.data.qpos[places], end, atol=2e-3)


def test_links_that_always_touch_are_no_contacts(file: Path) -> None:
    ball = '<link name="link3"><collision><geometry><sphere radius="0.5"/></geometry></collision>'
    path = changed(file, ('<link name="link3">', ball))
    arm = describe_arm(path)
    note = next(note for note in arm.notes if note.startswith("contacts:"))
    assert "link1 and link3" in note and "base and link3" in note and "hand" not in note, "hands are out of reach"
    model = mujoco.MjModel.from_xml_string(arm.mjcf)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert data.ncon == 0 and model.nexclude >= 3


def test_the_base_and_the_first_link_are_no_contact(file: Path) -> None:
    """They touch in few poses; MuJoCo ignores contacts of all other neighbours itself."""
    arm_of_base = '<collision><origin xyz="0.1 0.1 0.2"/><geometry><sphere radius="0.1"/></geometry></collision>'
    far_side = '<collision><origin xyz="0.1 -0.1 0.06"/><geometry><sphere radius="0.05"/></geometry></collision>'
    replacements = [(f'<link name="{name}">', f'<link name="{name}">{shape}') for name, shape in
                    (("base", arm_of_base), ("link1", far_side))]  # fmt: skip
    assert "base and link1" in notes_of(describe_arm(changed(file, *replacements)))


def test_everything_wrong_is_listed_at_once(file: Path) -> None:
    gone = {
        link: f'<visual><geometry><mesh filename="{name}"/></geometry></visual>'
        for link, name in (("link2", "nowhere.obj"), ("link3", "package://gone/a.stl"))
    }
    path = changed(
        file,
        ("collision/base.stl", "collision/base.dae"),
        *((f'<link name="{link}">', f'<link name="{link}">{mesh}') for link, mesh in gone.items()),
        ('<limit lower="-2.4" upper="2.4" effort="30"', '<limit effort="30"'),
        ('effort="22"', 'effort="strong"'),
        ('mimic joint="left_finger_joint"', 'mimic joint="nobody"'),
        ("</robot>", f'<link name="bare"/>{joint_to("bare")}</robot>'),
    )
    mesh = file.parents[1] / "meshes/collision/base.stl"
    mesh.rename(mesh.with_suffix(".dae"))
    with pytest.raises(ConfigError) as caught:
        describe_arm(path)
    message = str(caught.value)
    for part in (
        f"{file} cannot be imported",
        "missing meshes: nowhere.obj, package://gone/a.stl",
        "no folder of the package gone is above the file or in ROS_PACKAGE_PATH or AMENT_PREFIX_PATH",
        "collision/base.dae (.dae is none of .stl, .obj); convert each to",
        "no inertia: the links bare move",
        "no position limits: joint3 need <limit lower= upper=>",
        "'joint4' has a limit effort='strong', which is no number",
        "'right_finger_joint' mimics 'nobody', and the model lacks one of them",
    ):
        assert part in message, part


def test_visual_meshes_that_cannot_be_read_are_left_out_and_taken_once_they_are_converted(file: Path) -> None:
    path = changed(file, ("visual/base.stl", "visual/base.dae"))
    picture = file.parents[1] / "meshes/visual/base.dae"
    picture.write_text("<COLLADA/>")
    (picture.with_suffix(".stl")).rename(picture.with_suffix(".kept"))
    arm = describe_arm(path)
    assert "pictures: MuJoCo cannot read visual meshes of base" in notes_of(arm)
    assert mujoco.MjModel.from_xml_string(arm.mjcf).body("base").geomnum[0] == 1
    (picture.with_suffix(".kept")).rename(picture.with_suffix(".stl"))
    arm = describe_arm(path)
    assert "pictures" not in notes_of(arm) and "visual/base.stl" in arm.mjcf


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"solid text\nfacet normal 0 0 0\n", "an STL file in text form, or damaged"),
        (bytes(80) + (300_000).to_bytes(4, "little") + bytes(50 * 300_000), "300,000 triangles, at most 200,000"),
    ],
)
def test_stl_files_that_mujoco_does_not_read_are_named(content: bytes, problem: str, file: Path) -> None:
    (file.parents[1] / "meshes/collision/base.stl").write_bytes(content)
    with pytest.raises(ConfigError, match=problem):
        describe_arm(str(file))


def test_packages_are_found_by_their_manifest_and_by_the_variables_of_ros(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, elsewhere = describe_arm(str(file)).mjcf, tmp_path / "elsewhere"
    (file.parents[1] / "package.xml").write_text(f"<package><name>{PACKAGE}</name></package>")
    renamed = file.parents[1].rename(tmp_path / "Demo_ROS2_Description") / "urdf/demo.urdf"
    assert describe_arm(str(renamed)).mjcf == before.replace(PACKAGE, "Demo_ROS2_Description")
    for half, name in ((0.06, "visual"), (0.05, "collision")):
        write_stl(elsewhere / "share" / PACKAGE / "meshes" / name / "base.stl", half)
    (renamed.parents[1] / "package.xml").unlink()
    monkeypatch.delenv("ROS_PACKAGE_PATH", raising=False)
    for variable, folder in (("AMENT_PREFIX_PATH", elsewhere), ("ROS_PACKAGE_PATH", elsewhere / "share")):
        monkeypatch.setenv(variable, f"/nowhere:{folder}")
        assert str(elsewhere / "share" / MESHES / "visual/base.stl") in describe_arm(str(renamed)).mjcf
        monkeypatch.delenv(variable)
    with pytest.raises(ConfigError, match=f"no folder of the package {PACKAGE}"):
        describe_arm(str(renamed))


def test_xacro_is_refused_with_the_command_that_resolves_it(file: Path) -> None:
    path = changed(file, ('upper="2.4"', 'upper="${limit}"'))
    with pytest.raises(ConfigError, match=r"1 unresolved xacro elements; use xacro demo.urdf > arm.urdf"):
        describe_arm(path)
    file.write_text('<robot xmlns:xacro="http://www.ros.org/wiki/xacro" name="r"><xacro:include filename="a"/></robot>')
    with pytest.raises(ConfigError, match="unresolved xacro"):
        describe_arm(path)


def test_a_file_can_be_used_without_being_described(file: Path) -> None:
    """``task.arm.model`` may name it; an unusual shape is refused when it is described alone."""
    path = changed(file, ("</robot>", f'<link name="cart">{INERTIA.format(mass=1)}</link>{joint_to("cart")}</robot>'))
    content = read_arm_file(path)
    assert content.is_urdf and "loose" in [joint.name for joint in content.spec.joints]
    with pytest.raises(ConfigError, match="no chain of named hinges"):
        describe_arm(path)
