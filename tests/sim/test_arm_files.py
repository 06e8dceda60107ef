"""Files of arms as people have them: grippers that close upwards, endless joints, clashing names, URDF."""

import math
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from robo_rl.core import ConfigError
from robo_rl.sim import ArmBackend, make_backend
from robo_rl.sim.config import ArmConfig, ControllerConfig
from robo_rl.sim.tasks import TASKS

CASES = Path(__file__).parents[1] / "data" / "cases" / "arms"
SIX_JOINTS = Path(__file__).parents[1] / "data" / "arms" / "six_joints.xml"
OPEN, CLOSE = -1.0, 1.0


def backend(file: Path, task: str = "reach", space: str = "end_effector_delta", **arm: Any) -> ArmBackend:
    fields = {
        "joints": tuple(f"j{number}" for number in range(1, 7)),
        "end_effector": "tool",
        "home": (0.0, 0.5, 1.0, 0.0, 0.5, 0.0),
        "home_noise": 0.0,
        "torque_limits": (50.0,) * 6,
        "velocity_limits": (2.0,) * 6,
        "gripper_actuator": None,
        "gripper_joints": (),
        "wrist_sensor_site": None,
    } | arm
    axes = "xyz+gripper" if fields["gripper_actuator"] else "xyz"
    controller = ControllerConfig(action_space=space, action_axes=axes, joint_scale=0.2)
    return make_backend(task, arm=ArmConfig(model=str(file), **fields), controller=controller, max_episode_steps=1000)


def opening_after(simulated: ArmBackend, command: float) -> float:
    step = simulated.reset(0)
    for _ in range(15):
        action = np.zeros(simulated.spec.action.shape, np.float32)
        action[-1] = command
        step = simulated.reset(0) if step.ended else simulated.step(action)
    names = simulated.spec.observation["state"].names
    return float(step.observation["state"][names.index("gripper_opening")])


def test_a_gripper_whose_upper_limit_is_closed_opens_downwards():
    simulated = backend(
        CASES / "robotiq.xml",
        gripper_actuator="fingers_actuator",
        gripper_joints=("left_driver_joint", "right_driver_joint"),
        gripper_open=0.0,
        gripper_closed=255.0,
    )
    assert simulated.arm.finger_strokes.tolist() == [[0.8, 0.0], [0.8, 0.0]]
    assert opening_after(simulated, OPEN) > 0.95
    assert opening_after(simulated, CLOSE) < 0.05


FINGERS = """
<mujoco><compiler angle="radian" autolimits="true"/><worldbody><body name="base"><body pos="0 0 0.3">{joints}
<geom size="0.03" mass="1"/><site name="tool"/>
<body><joint name="one" type="slide" axis="0 1 0" range="{one}"/><geom size="0.005" mass="0.05"/></body>
<body><joint name="two" type="slide" axis="0 1 0" range="{two}"/><geom size="0.005" mass="0.05"/></body>
</body></body></worldbody>{coupling}<actuator>{actuator}</actuator></mujoco>
"""
JOINTS = "".join(
    f'<joint name="j{number}" type="{kind}" axis="{axis}" range="-1 1" armature="0.1"/>'
    for number, (kind, axis) in enumerate(
        [(kind, axis) for kind in ("slide", "hinge") for axis in ("1 0 0", "0 1 0", "0 0 1")], start=1
    )
)


@pytest.mark.parametrize(
    ("one", "two", "coupling", "actuator", "strokes"),
    [
        # The second finger goes the other way: by the tendon's negative coefficient.
        (
            "0 0.04",
            "-0.04 0",
            '<tendon><fixed name="both"><joint joint="one" coef="0.5"/><joint joint="two" coef="-0.5"/></fixed>'
            "</tendon>",
            '<position name="grip" tendon="both" kp="200" kv="5" ctrlrange="0 0.04"/>',
            [[0.0, 0.04], [0.0, -0.04]],
        ),
        # By an equality with the first.
        (
            "0 0.04",
            "-0.04 0",
            '<equality><joint joint1="two" joint2="one" polycoef="0 -1 0 0 0"/></equality>',
            '<position name="grip" joint="one" kp="200" kv="5" ctrlrange="0 0.04"/>',
            [[0.0, 0.04], [0.0, -0.04]],
        ),
        # By an actuator with a negative gear: a larger value closes, and open is the larger value.
        (
            "-0.04 0",
            "-0.04 0",
            '<equality><joint joint1="two" joint2="one"/></equality>',
            '<position name="grip" joint="one" gear="-1" kp="200" kv="5" ctrlrange="0 0.04"/>',
            [[0.0, -0.04], [0.0, -0.04]],
        ),
    ],
)
def test_each_finger_opens_in_the_direction_in_which_it_is_moved(one, two, coupling, actuator, strokes, tmp_path):
    file = tmp_path / "gripper.xml"
    file.write_text(FINGERS.format(joints=JOINTS, one=one, two=two, coupling=coupling, actuator=actuator))
    simulated = backend(
        file,
        home=(0.4, 0.0, 0.1, 0.0, 0.0, 0.0),
        gripper_actuator="grip",
        gripper_joints=("one", "two"),
        gripper_open=0.04,
        gripper_closed=0.0,
    )
    np.testing.assert_allclose(simulated.arm.finger_strokes, strokes)
    assert opening_after(simulated, OPEN) > 0.9
    assert opening_after(simulated, CLOSE) < 0.2


def test_a_finger_without_a_range_is_refused_by_name():
    with pytest.raises(ConfigError, match=r"arm\.gripper_joints: the finger 'finger' has no range"):
        backend(
            CASES / "finger_endless.xml",
            gripper_actuator="grip",
            gripper_joints=("finger",),
            gripper_open=0.8,
            gripper_closed=0.0,
        )


@pytest.mark.parametrize(
    ("kind", "element"),
    [
        ("camera", '<camera name="front" pos="0 0 1"/>'),
        ("light", '<light name="key" pos="0 0 2"/>'),
        ("geom", '<geom name="table" size="0.01" mass="0.01"/>'),
    ],
)
def test_names_that_the_scene_uses_are_prefixed(kind, element, tmp_path):
    text = (CASES / "clash_camera.xml").read_text().replace('<camera name="front" pos="0 0 0"/>', element)
    file = tmp_path / "arm.xml"
    file.write_text(text)
    model = backend(file).model
    name = element.split('"')[1]
    assert getattr(model, kind)(f"arm_{name}").id != getattr(model, kind)(name).id


def test_materials_that_are_renamed_are_still_those_of_their_geoms(tmp_path):
    text = (CASES / "clash_camera.xml").read_text()
    text = text.replace(
        "<worldbody>",
        '<asset><texture name="floor" type="2d" builtin="flat" width="8" height="8" rgb1="1 0 0"/>'
        '<material name="table" rgba="0.1 0.9 0.2 1"/><material name="floor" texture="floor"/></asset><worldbody>',
    )
    text = text.replace('<geom type="capsule"', '<geom material="table" type="capsule"', 1)
    file = tmp_path / "arm.xml"
    file.write_text(text)
    model = backend(file).model
    arm = model.material("arm_table")
    np.testing.assert_allclose(arm.rgba, [0.1, 0.9, 0.2, 1.0])
    assert (model.geom_matid == arm.id).sum() == 1
    assert model.material("arm_floor").texid[int(mujoco.mjtTextureRole.mjTEXROLE_RGB)] == model.texture("arm_floor").id


@pytest.mark.parametrize(
    ("kind", "name", "task", "change", "extra"),
    [
        (
            "body",
            "goal",
            "reach",
            ('"link_j3"', '"goal"'),
            '<contact><exclude body1="goal" body2="link_j5"/></contact>',
        ),
        ("body", "cube", "push_cube", ('"link_j3"', '"cube"'), '<sensor><subtreecom name="c" body="cube"/></sensor>'),
        (
            "joint",
            "cube",
            "push_cube",
            ('<camera name="front" pos="0 0 0"/>', '<body><joint name="cube" armature="1"/><geom size="0.01"/></body>'),
            '<equality><joint joint1="cube" polycoef="0 1 0 0 0"/></equality>'
            '<actuator><motor name="m" joint="cube"/></actuator><sensor><jointpos name="q" joint="cube"/></sensor>',
        ),
        (
            "site",
            "keeper",
            "reach",
            ('<camera name="front" pos="0 0 0"/>', '<site name="keeper"/>'),
            '<actuator><motor name="m" site="wrist" refsite="keeper" gear="0 0 1 0 0 0"/></actuator>'
            '<sensor><framepos name="f" objtype="site" objname="keeper" reftype="xbody" refname="base"/></sensor>',
        ),
        (
            "sensor",
            "wrist_force",
            "reach",
            ("@", "@"),
            '<sensor><force name="wrist_force" site="wrist"/></sensor>',
        ),
        (
            "actuator",
            "torque_j1",
            "reach",
            ("@", "@"),
            '<tendon><fixed name="t"><joint joint="j1" coef="1"/></fixed></tendon><actuator><motor name="torque_j1" '
            'tendon="t"/></actuator><sensor><actuatorfrc name="s" actuator="torque_j1"/></sensor>',
        ),
    ],
)
def test_what_refers_to_a_renamed_element_is_kept(kind, name, task, change, extra, tmp_path, monkeypatch):
    if kind == "site":  # no scene that works without a gripper has a site of its own
        kept = TASKS[task].build

        def with_site(self: Any, scene: Any) -> None:
            scene.worldbody.add_site(name=name)
            kept(self, scene)

        monkeypatch.setattr(TASKS[task], "build", with_site)
    text = (CASES / "clash_camera.xml").read_text().replace(*change).replace("</mujoco>", f"{extra}</mujoco>")
    files = {}
    for each in (name, "free"):
        files[each] = tmp_path / f"{each}.xml"
        files[each].write_text(text.replace(f'"{name}"', f'"{each}"'))
    renamed, other = (backend(file, task=task).model for file in files.values())
    assert getattr(renamed, kind)(f"arm_{name}").id == getattr(other, kind)("free").id
    assert getattr(renamed, kind)(name).id != getattr(renamed, kind)(f"arm_{name}").id
    for field in ("nu", "nsensor", "neq", "nexclude", "ntendon"):
        assert getattr(renamed, field) == getattr(other, field)
    for field in ("exclude_signature", "eq_obj1id", "actuator_trnid", "sensor_objid", "sensor_refid"):
        np.testing.assert_array_equal(getattr(renamed, field), getattr(other, field))


@pytest.mark.parametrize(
    ("change", "extra", "task", "fields", "message"),
    [
        (('"j3"', '"cube"'), "", "push_cube", {"joints": ("j1", "j2", "cube", "j4", "j5", "j6")}, "joints 'cube'"),
        (
            ('<camera name="front" pos="0 0 0"/>', '<geom name="table" size="0.01"/><site name="s"/>'),
            '<tendon><spatial name="t"><site site="s"/><geom geom="table"/><site site="wrist"/></spatial></tendon>',
            "reach",
            {},
            "geoms 'table'",
        ),
        (
            ('name="a6" joint="j6"', 'name="torque_j1" site="tool" gear="0 0 1 0 0 0"'),
            "",
            "reach",
            {"gripper_actuator": "torque_j1"},
            "actuators 'torque_j1'",
        ),
    ],
)
def test_a_name_that_has_to_stay_is_refused(change, extra, task, fields, message, tmp_path):
    """A tendon around a geom would be left out without a word."""
    file = tmp_path / "arm.xml"
    file.write_text((CASES / "clash_camera.xml").read_text().replace(*change).replace("</mujoco>", f"{extra}</mujoco>"))
    with pytest.raises(ConfigError, match=f"both name one of their {message}; rename it in the file"):
        backend(file, task=task, **fields)


@pytest.mark.parametrize(
    ("change", "fields", "message"),
    [
        (('size="0.03" mass="1"', 'size="0.03" mass="0"'), {}, "mass and inertia of moving bodies must be larger"),
        (
            ("<worldbody>", '<asset><mesh name="m" file="no.stl"/></asset><worldbody>'),
            {},
            "Error opening file 'no.stl'",
        ),
        (("<worldbody>", '<asset><texture type="2d" file="no.png"/></asset><worldbody>'), {}, "Error opening file"),
        (('name="j3" axis="0 1 0"', 'name="j3" type="ball"'), {}, "'j3' is a ball or free joint"),
        (("@", "@"), {"joints": ("j1", "j2", "j1", "j4", "j5", "j6")}, "arm.joints must be each name once"),
        (("@", "@"), {"gripper_joints": ("j1", "j1")}, "arm.gripper_joints must be each name once"),
    ],
)
def test_files_of_which_mujoco_makes_no_arm_are_refused(change, fields, message, tmp_path):
    file = tmp_path / "arm.xml"
    file.write_text((CASES / "clash_camera.xml").read_text().replace(*change))
    with pytest.raises(ConfigError, match=message):
        backend(file, **fields)


def test_links_of_urdf_are_end_effectors_and_mimic_joints_follow():
    simulated = backend(CASES / "arm.urdf", end_effector="l6")
    model = simulated.model
    simulated.reset(0)
    assert model.site("l6").bodyid == model.body("l6").id
    left, right = (model.joint(f"{side}_finger").qposadr[0] for side in ("left", "right"))
    simulated.data.qpos[left] = 0.03
    for _ in range(40):
        simulated.step(np.zeros(3, np.float32))
        simulated.data.qfrc_applied[model.joint("left_finger").dofadr[0]] = 1.0
    assert simulated.data.qpos[right] == pytest.approx(simulated.data.qpos[left], abs=2e-3)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ('<mimic joint="left_finger" multiplier="a lot"/>', "multiplier='a lot', which is no number"),
        ('<mimic joint="nobody" multiplier="1"/>', "mimics 'nobody', and the model lacks one of them"),
    ],
)
def test_mimic_joints_that_follow_nothing_are_refused(broken, message, tmp_path):
    file = tmp_path / "arm.urdf"
    file.write_text((CASES / "arm.urdf").read_text().replace('<mimic joint="left_finger" multiplier="1"/>', broken))
    with pytest.raises(ConfigError, match=message):
        backend(file, end_effector="l6")


def test_an_end_effector_that_is_neither_site_nor_link_is_refused():
    with pytest.raises(ConfigError, match=r"arm\.end_effector: the model has no 'tol'.*'?tool"):
        backend(CASES / "clash_camera.xml", end_effector="tol")


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """The six-joint arm with a last joint that turns without end."""
    text = SIX_JOINTS.read_text()
    start = text.index('name="wrist_roll"')
    end = text.index("/>", start)
    joint = " ".join(part for part in text[start:end].split('range="')[0].split())
    file = tmp_path / "endless.xml"
    file.write_text(text[:start] + joint + text[end:])
    return file


@pytest.mark.parametrize("space", ["joint_delta", "joint_position", "end_effector_delta"])
def test_a_slide_without_a_range_is_refused_by_name(space, tmp_path):
    before, pan, after = SIX_JOINTS.read_text().partition('name="pan"')
    file = tmp_path / "rail.xml"
    file.write_text(f'{before}{pan} type="slide" axis="0 1 0"{after[after.index("/>") :]}')
    joints = ("pan", "lift", "elbow", "wrist_pitch", "wrist_yaw", "wrist_roll")
    with pytest.raises(ConfigError, match=r"arm\.joints: the slide 'pan' has no range, .* add a range to its joint"):
        backend(file, space=space, joints=joints, end_effector="tip")


@pytest.mark.parametrize("space", ["joint_delta", "joint_position"])
@pytest.mark.parametrize("direction", [-1.0, 1.0])
def test_an_endless_joint_is_driven_round_and_round(space, direction, endless):
    """Nearly two turns through the safety filters: nothing stops it at half a turn, in either action space."""
    from robo_rl.safety import make_safe_backend

    joints = ("pan", "lift", "elbow", "wrist_pitch", "wrist_yaw", "wrist_roll")
    simulated = backend(
        endless, space=space, joints=joints, end_effector="tip", home=(0.0, 0.3, 1.4, 1.2, 0.3, 3.0 * direction)
    )
    assert simulated.robot.endless.tolist() == [False] * 5 + [True]
    safe = make_safe_backend(simulated)
    step = safe.reset(0)
    place = safe.spec.observation["state"].names.index("wrist_roll_position")
    low, high = np.array(simulated.robot.command_lower), np.array(simulated.robot.command_upper)
    travelled, before = 0.0, float(step.observation["state"][place])
    for _ in range(100):
        if space == "joint_delta":
            action = np.zeros(6, np.float32)
            action[5] = direction
        else:
            goal = step.observation["state"][:6].astype(np.float64)
            goal[:5] = simulated.robot.home[:5]
            goal[5] = math.remainder(goal[5] + 0.25 * direction, 2 * math.pi)
            action = (2 * (goal - low) / (high - low) - 1).astype(np.float32)
        step = safe.step(action)
        assert not step.ended, step.verdict
        now = float(step.observation["state"][place])
        assert -math.pi <= now <= math.pi
        travelled += math.remainder(now - before, 2 * math.pi)
        before = now
    assert travelled * direction > 12.0


@pytest.mark.parametrize("space", ["end_effector_delta", "joint_delta", "joint_position"])
def test_limits_may_be_whole_numbers(space):
    """Python's integers, which YAML never gives to a field of floats."""
    from robo_rl.safety import make_safe_backend
    from robo_rl.safety.config import ContactConfig, JointsConfig, SpeedConfig, WorkspaceConfig

    steps = []
    for kind in (int, float):
        arm = ArmConfig(
            home_noise=0, velocity_limits=(kind(2),) * 7, torque_limits=(kind(50),) * 7, command_velocity=kind(2)
        )
        controller = ControllerConfig(
            action_space=space,
            action_axes="xyz" if space == "end_effector_delta" else "gripper",
            workspace_low=(kind(0), kind(-1), kind(0)),
            workspace_high=(kind(1),) * 3,
            stiffness=(kind(400),) * 6,
            joint_scale=kind(1),
        )
        safe = make_safe_backend(
            make_backend("reach", arm=arm, controller=controller),
            joints=JointsConfig(velocity=(kind(1),) * 7, acceleration=(kind(8),) * 7, jerk=(kind(60),) * 7),
            speed=SpeedConfig(linear=kind(1), angular=kind(2)),
            workspace=WorkspaceConfig(low=(kind(0), kind(-1), kind(0)), high=(kind(1),) * 3),
            contact=ContactConfig(force=kind(30), torque=kind(5)),
        )
        safe.reset(0)
        steps.append(safe.step(np.full(safe.spec.action.shape, 0.1, np.float32)).observation["state"])
    np.testing.assert_array_equal(*steps)
