"""A URDF file as vendors write them: packages, meshes in two formats, fixed links, a gripper with a mimic joint."""

import struct
from pathlib import Path

import numpy as np

PACKAGE = "demo_description"
INERTIA = (
    '<inertial><origin xyz="0 0 0.08"/><mass value="{mass}"/>'
    '<inertia ixx="0.004" iyy="0.004" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial>'
)
BAR = '<origin xyz="0 0 0.08"/><geometry><box size="0.05 0.05 0.12"/></geometry>'
AXES = ("0 0 1", "0 1 0", "0 1 0", "0 0 1", "0 1 0", "0 0 1")


def write_stl(path: Path, half: float) -> None:
    """Write a cube with sides of twice ``half`` [m] as a binary STL file."""
    corners = np.array([[x, y, z] for x in (-half, half) for y in (-half, half) for z in (-half, half)])
    sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    triangles = [corner for a, b, c, d in sides for corner in ((a, b, c), (a, c, d))]
    data = bytes(80) + struct.pack("<I", len(triangles))
    for triangle in triangles:
        data += struct.pack("<12fH", 0, 0, 0, *corners[list(triangle)].ravel(), 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def finger(side: str, sign: int, mimic: str = "") -> str:
    """Return the link of a finger and its joint, below the hand."""
    return f"""
  <link name="{side}_finger">{INERTIA.format(mass=0.05)}
    <collision><origin xyz="0 0 0.03"/><geometry><box size="0.01 0.01 0.06"/></geometry></collision></link>
  <link name="{side}_tip"/>
  <joint name="{side}_tip_joint" type="fixed">
    <parent link="{side}_finger"/><child link="{side}_tip"/><origin xyz="0 0 0.06"/></joint>
  <joint name="{side}_finger_joint" type="prismatic"><parent link="hand"/><child link="{side}_finger"/>
    <origin xyz="0 0 0.05"/><axis xyz="0 {sign} 0"/>
    <limit lower="0" upper="0.04" effort="20" velocity="0.2"/>{mimic}</joint>"""


def write_urdf(folder: Path) -> Path:
    """Write the package ``demo_description`` with the arm to a folder; return the path of the URDF file."""
    package = folder / PACKAGE
    write_stl(package / "meshes/visual/base.stl", 0.06)
    write_stl(package / "meshes/collision/base.stl", 0.05)
    parts = [
        f"""<link name="base"><visual><geometry><mesh filename="package://{PACKAGE}/meshes/visual/base.stl"/></geometry>
    </visual><collision><geometry><mesh filename="package://{PACKAGE}/meshes/collision/base.stl"/></geometry>
    </collision></link>"""
    ]
    parent = "base"
    for number, axis in enumerate(AXES, start=1):
        parts.append(
            f"""<link name="link{number}">{INERTIA.format(mass=3.0 / number)}
    <visual>{BAR}<material name="blue"/></visual><collision>{BAR}</collision></link>
  <joint name="joint{number}" type="revolute"><parent link="{parent}"/><child link="link{number}"/>
    <origin xyz="0 0 0.16"/><axis xyz="{axis}"/><dynamics damping="0.4" friction="0.1"/>
    <limit lower="-2.4" upper="2.4" effort="{90 // number}" velocity="{1 + number / 2}"/></joint>"""
        )
        parent = f"link{number}"
    parts.append(f"""<link name="hand"><collision><geometry><box size="0.04 0.12 0.04"/></geometry></collision></link>
  <joint name="hand_joint" type="fixed"><parent link="{parent}"/><child link="hand"/><origin xyz="0 0 0.18"/></joint>
  <link name="hand_tcp"/>
  <joint name="tcp_joint" type="fixed"><parent link="hand"/><child link="hand_tcp"/><origin xyz="0 0 0.1"/></joint>""")
    parts += [finger("left", 1), finger("right", -1, '<mimic joint="left_finger_joint"/>')]
    parts.append('<gazebo><plugin filename="libgazebo_ros_control.so"/></gazebo>')
    file = package / "urdf" / "demo.urdf"
    file.parent.mkdir(parents=True)
    file.write_text(
        '<?xml version="1.0"?>\n<robot name="demo"><material name="blue"><color rgba="0.1 0.2 0.8 1"/></material>\n'
        + "\n".join(parts)
        + "\n</robot>\n"
    )
    return file
