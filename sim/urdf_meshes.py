"""Meshes of a URDF file: where they lie, and whether MuJoCo can read them."""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from robo_rl.core import DataError, open_regular

READABLE = (".stl", ".obj")
"""Formats of meshes that MuJoCo reads."""
MAX_FACES = 200_000
"""Largest number of triangles in an STL file that MuJoCo reads."""
SCHEMES = ("package://", "model://")
SEARCHED = {"ROS_PACKAGE_PATH": "", "AMENT_PREFIX_PATH": "share"}
"""Variables of ROS 1 and 2 that list folders, and the folder below each of these in which the packages lie."""
_STL_HEADER, _STL_TRIANGLE = 84, 50
_MANIFEST_BYTES = 2**16


@dataclass
class Meshes:
    """Meshes that were looked for, by what became of them.

    Attributes:
        missing: file names, as the URDF file spells them, of meshes that were not found.
        packages: names of packages that were not found.
        unreadable: files that MuJoCo cannot read, with the reason.
        left_out: names of links that lost a visual mesh in a format that MuJoCo does not read.
    """

    missing: list[str] = field(default_factory=list)
    packages: set[str] = field(default_factory=set)
    unreadable: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def problems(self) -> Iterator[str]:
        """Yield the reasons why the meshes cannot be used, a sentence each, with what to do."""
        if self.missing:
            yield f"missing meshes: {', '.join(dict.fromkeys(self.missing))}"
        if self.packages:
            yield (
                f"no folder of the package {', '.join(sorted(self.packages))} is above the file or in "
                f"{' or '.join(SEARCHED)}: add the folder that contains it to ROS_PACKAGE_PATH"
            )
        if self.unreadable:
            yield (
                f"meshes that MuJoCo cannot read: {', '.join(dict.fromkeys(self.unreadable))}; convert each to a "
                "binary .stl or an .obj file of the same name beside it, which is then taken instead"
            )


def resolve_meshes(root: ElementTree.Element, path: Path, folder: str) -> Meshes:
    """Replace the file names of meshes by full paths, and remove visual meshes that MuJoCo cannot read.

    A readable mesh of the same name beside an unreadable one takes its place.

    Args:
        root: the robot, changed in place.
        path: URDF file.
        folder: the file's own ``meshdir``; empty if there is none.
    """
    meshes = Meshes()
    for link in root.iterfind("link"):
        for shape in [*link.iterfind("visual"), *link.iterfind("collision")]:
            mesh = shape.find("geometry/mesh")
            if mesh is None:
                continue
            name = mesh.get("filename", "")
            file = _find(name, path, folder, meshes)
            if file is None:
                continue
            if file.suffix.lower() not in READABLE:
                twins = (file.with_suffix(suffix) for suffix in READABLE)
                file = next((twin for twin in twins if twin.is_file()), file)
            problem = _problem(file)
            if problem and shape.tag == "visual":
                meshes.left_out.append(link.get("name", ""))
                link.remove(shape)
            elif problem:
                meshes.unreadable.append(f"{name} ({problem})")
            mesh.set("filename", str(file))
    return meshes


def _find(name: str, path: Path, folder: str, meshes: Meshes) -> Path | None:
    """Return the file that ``name`` stands for; None if there is none, which is noted in ``meshes``."""
    for candidate in _candidates(name, path, folder, meshes):
        if candidate.is_file():
            return candidate.resolve()
    meshes.missing.append(name)
    return None


def _candidates(name: str, path: Path, folder: str, meshes: Meshes) -> Iterator[Path]:
    """Yield the paths at which a mesh may lie, the most likely first."""
    beside = path.parent / folder
    scheme = next((each for each in SCHEMES if name.startswith(each)), None)
    if scheme is None:
        plain = name.removeprefix("file://")
        yield beside / plain
    else:
        package, _, plain = name.removeprefix(scheme).partition("/")
        places = list(_package_folders(package, path))
        for place in places:
            yield place / plain
        if not places:
            meshes.packages.add(package)
    yield beside / Path(plain).name


def _package_folders(package: str, path: Path) -> Iterator[Path]:
    """Yield the folders of a package of ROS: above the file, or where the variables of ROS say."""
    for above in path.resolve().parents:
        if above.name == package or _is_manifest_of(package, above / "package.xml"):
            yield above
        if (above / package).is_dir():
            yield above / package
    for variable, below in SEARCHED.items():
        for folder in filter(None, os.environ.get(variable, "").split(os.pathsep)):
            if Path(folder).name == package:
                yield Path(folder)
            if (Path(folder) / below / package).is_dir():
                yield Path(folder) / below / package


def _is_manifest_of(package: str, path: Path) -> bool:
    try:
        return f"<name>{package}</name>".encode() in _start(path, _MANIFEST_BYTES)
    except (OSError, DataError):
        return False


def _problem(file: Path) -> str:
    """Return why MuJoCo cannot read a mesh; empty if it can."""
    suffix = file.suffix.lower()
    if suffix not in READABLE:
        return f"{suffix or 'a file without an ending'} is none of {', '.join(READABLE)}"
    if suffix != ".stl":
        return ""
    try:
        start = _start(file, _STL_HEADER)
    except (OSError, DataError) as error:
        return str(error)
    faces = struct.unpack_from("<I", start, _STL_HEADER - 4)[0] if len(start) == _STL_HEADER else 0
    if file.stat().st_size != _STL_HEADER + _STL_TRIANGLE * faces or not faces:
        return "an STL file in text form, or damaged"
    return f"{faces:,} triangles, at most {MAX_FACES:,} are read" if faces > MAX_FACES else ""


def _start(path: Path, size: int) -> bytes:
    """Return the first ``size`` bytes of a regular file."""
    with open_regular(path) as file:
        return os.pread(file, size, 0)
