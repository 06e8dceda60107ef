"""Checks of the machine, one function per check. What they inspect is an argument, so that each can be tested."""

import importlib.metadata
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import torch
from packaging.requirements import Requirement

import robo_rl
from robo_rl.core import DriverError

PYTHON = (3, 11)
MEMORY_GB = 4.0
DISK_FREE_GB = 10.0
DISK_LEAST_GB = 1.0
DISK_MB_PER_SECOND = 30.0
WRITE_BYTES = 32 * 1024**2
RENDER_SECONDS = 120.0

RENDERS = """
import os, time
from robo_rl.sim import make_backend
backend = make_backend("reach")
backend.reset(0)
backend.render()
started = time.monotonic()
height, width, _ = backend.render().shape
milliseconds = 1e3 * (time.monotonic() - started)
if backend.render().std() <= 1:
    raise SystemExit("the picture is empty")
print(f"{os.environ.get('MUJOCO_GL', 'default')}, {milliseconds:.0f} ms per picture of {width}x{height}")
backend.close()
"""

INSTALL_GRAPHICS = (
    "Debian, Ubuntu: apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri libopengl0. Without it: no videos, no images"
)


class Status(StrEnum):
    """Result of a check. ``warn``: something is missing that is not always needed. ``fail``: training does not work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Check:
    """One line of the report.

    Attributes:
        name: subject of the check.
        status: result of the check.
        found: state of the machine.
        advice: what to do; empty if all is well.
    """

    name: str
    status: Status
    found: str
    advice: str = ""


def installed_versions() -> dict[str, str]:
    """Return the version of every installed package by its normalised name."""
    return {
        _normalised(name): distribution.version
        for distribution in importlib.metadata.distributions()
        if (name := distribution.metadata["Name"])
    }


def requirements() -> tuple[list[Requirement], dict[str, list[Requirement]]]:
    """Return the requirements of robo-rl, and those of each of its extras."""
    required: list[Requirement] = []
    extras: dict[str, list[Requirement]] = {
        name: [] for name in importlib.metadata.metadata("robo-rl").get_all("Provides-Extra") or () if name != "dev"
    }
    for line in importlib.metadata.requires("robo-rl") or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            required.append(requirement)
            continue
        for name, members in extras.items():
            if requirement.marker.evaluate({"extra": name}):
                members.append(requirement)
    return required, extras


def constraints_file() -> Path:
    """Return the path at which a checkout has the versions that were tested together."""
    return Path(robo_rl.__file__).parents[1] / "constraints.txt"


def check_python(version: tuple[int, ...]) -> Check:
    """Check that this ``version`` (major, minor, micro) of Python is supported."""
    description = f"{'.'.join(map(str, version))} on {platform.system()} {platform.machine()}"
    if version >= PYTHON:
        return Check("Python", Status.OK, description)
    return Check("Python", Status.FAIL, description, f"install Python {PYTHON[0]}.{PYTHON[1]} or newer")


def check_packages(required: Iterable[Requirement], installed: Mapping[str, str]) -> Check:
    """Check that the installed versions meet each requirement."""
    required = list(required)
    faults = [f"{requirement.name} {state}" for requirement in required if (state := _fault(requirement, installed))]
    if not faults:
        return Check("Packages", Status.OK, f"all {len(required)} required packages")
    return Check("Packages", Status.FAIL, "; ".join(faults), "pip install -c constraints.txt -e . in the checkout")


def check_tested(file: Path, installed: Mapping[str, str]) -> Check:
    """Check that the installed versions are those in the constraints ``file``."""
    pins = [Requirement(line) for line in file.read_text().splitlines() if line.strip() and not line.startswith("#")]
    deviations = [
        f"{pin.name} {version} ({pin.specifier})"
        for pin in pins
        if (version := installed.get(_normalised(pin.name))) is not None
        and not pin.specifier.contains(version, prereleases=True)
    ]
    if not deviations:
        return Check("Tested versions", Status.OK, f"as in {file.name}")
    return Check(
        "Tested versions", Status.WARN, "; ".join(deviations), f"pip install -c {file} -e . gives the tested ones"
    )


def check_extras(extras: Mapping[str, Iterable[Requirement]], installed: Mapping[str, str]) -> Check:
    """Report which optional parts are installed."""
    missing = sorted(name for name, members in extras.items() if any(_fault(member, installed) for member in members))
    present = sorted(extras.keys() - missing)
    description = f"installed: {', '.join(present) or 'none'}; not: {', '.join(missing) or 'none'}"
    return Check("Optional parts", Status.OK, description, "pip install 'robo-rl[NAME]' as needed" if missing else "")


def check_cores(count: int) -> Check:
    """Check that this process may use enough cores, given their ``count``."""
    if count >= 2:
        return Check("Cores", Status.OK, str(count))
    return Check("Cores", Status.WARN, str(count), "the control loop and the learner share one core: training is slow")


def check_memory(gigabytes: float) -> Check:
    """Check that the main memory, in ``gigabytes``, is large enough."""
    description = f"{gigabytes:.0f} GB"
    if gigabytes >= MEMORY_GB:
        return Check("Memory", Status.OK, description)
    return Check("Memory", Status.WARN, description, "use a smaller run.replay_capacity for images")


def check_torch() -> Check:
    """Report which device PyTorch computes on."""
    name = f"PyTorch {torch.__version__}"
    if torch.cuda.is_available():
        return Check("PyTorch", Status.OK, f"{name}, {torch.cuda.get_device_name()}, CUDA {torch.version.cuda}")
    description = f"{name}, CPU, {torch.get_num_threads()} threads"
    if not Path("/dev/nvidia0").exists():
        return Check("PyTorch", Status.OK, description)
    advice = (
        f"there is an NVIDIA GPU: install torch {torch.__version__.partition('+')[0]} from PyTorch's CUDA index"
        if torch.version.cuda is None
        else f"there is an NVIDIA GPU, but CUDA {torch.version.cuda} does not start: update its driver"
    )
    return Check("PyTorch", Status.WARN, description, advice)


def check_native(available: bool, why: str, instructions: str, bfloat16_share: float | None) -> Check:
    """Check that the fast update on the CPU is available, see :func:`native.available`, and in which precisions.

    ``instructions`` are those of products of bfloat16, see :func:`native.bfloat16_instructions`. ``bfloat16_share`` is
    the time of an update in bfloat16 as a share of the time in float32; None: only float32 works.
    """
    if available:
        share = None if bfloat16_share is None else f"{100 * bfloat16_share:.0f} % of the time"
        bfloat16 = f"bfloat16 by {instructions}, which takes {share}"
        precisions = "float32 only" if share is None else f"float32 or {bfloat16}"
        return Check("Native update", Status.OK, f"{why}; {precisions}")
    return Check(
        "Native update",
        Status.WARN,
        why,
        "Debian, Ubuntu: apt-get install g++. Without it learning and simulation are slower",
    )


def check_stop_planner(available: bool, why: str) -> Check:
    """Check that the safety filter plans stops in C++."""
    if available:
        return Check("Stop planner", Status.OK, why)
    advice = "Debian, Ubuntu: apt-get install g++. Without it the safety filters take milliseconds for an action"
    return Check("Stop planner", Status.WARN, why, advice)


def check_rendering(command: list[str]) -> Check:
    """Check that ``command`` renders a picture. It runs in a separate process, since a broken driver may end it."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=RENDER_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Check("Rendering", Status.WARN, f"no picture within {RENDER_SECONDS:.0f} s", INSTALL_GRAPHICS)
    if result.returncode == 0:
        return Check("Rendering", Status.OK, result.stdout.strip())
    lines = result.stderr.strip().splitlines()
    reason = f"ended by signal {-result.returncode}" if result.returncode < 0 else lines[-1] if lines else "no picture"
    return Check("Rendering", Status.WARN, reason, INSTALL_GRAPHICS)


def check_ros2(choose: Callable[[], tuple[str, str]], missing: Callable[[], list[str]]) -> Check:
    """Report which implementation of ROS 2 is used, and which message packages it lacks.

    ``choose`` returns its name and the reason, or raises a :class:`DriverError`; ``missing`` returns package names.
    """
    names = {"rclpy": "rclpy", "dds": "plain DDS (Cyclone DDS from pip)"}
    try:
        implementation, reason = choose()
    except DriverError as error:
        description, _, advice = str(error).rpartition(": ")
        return Check("ROS 2", Status.WARN, description, f"for real robots: {advice}")
    description = f"{names[implementation]}: {reason}"
    if packages := missing():
        apt = " ".join(f"ros-{os.environ.get('ROS_DISTRO', 'DISTRO')}-{name.replace('_', '-')}" for name in packages)
        advice = f"for robots that use them: apt install {apt}, or choose implementation=dds, which brings them"
        return Check("ROS 2", Status.WARN, f"{description}; without {', '.join(packages)}", advice)
    return Check("ROS 2", Status.OK, description)


def check_cameras(devices: Path, drivers: Path) -> Check:
    """Report the cameras ``video*`` in the folder ``devices``, with their names in ``drivers`` (Video4Linux)."""
    cameras = sorted(devices.glob("video*"))
    if not cameras:
        return Check(
            "Cameras", Status.WARN, "none", "for real robots: connect one; in a container pass --device /dev/video0"
        )
    locked = [camera for camera in cameras if not os.access(camera, os.R_OK | os.W_OK)]
    if locked:
        advice = "sudo usermod -aG video $USER, then log in again"
        return Check("Cameras", Status.WARN, f"no access to {', '.join(map(str, locked))}", advice)
    return Check(
        "Cameras", Status.OK, ", ".join(f"{camera} {_camera_name(camera, drivers)}".strip() for camera in cameras)
    )


def check_teleop(find: Callable[[], tuple[list[str], list[str]]]) -> Check:
    """Report which teleoperation devices are plugged in.

    ``find`` returns their names, and why some devices could not be looked for.
    """
    names, reasons = find()
    text = f"keyboard{''.join(f', {name}' for name in names)}"
    return Check("Teleoperation", Status.OK, text, "; ".join(reasons))


def check_disk(folder: Path) -> Check:
    """Check free space and the speed of writing, in ``folder`` or the nearest parent folder that exists."""
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / 1e9
    try:
        speed = _write_speed(folder)
    except OSError as error:
        return Check(
            "Disk", Status.FAIL, f"{folder.resolve()}: {error.strerror}", "work in a folder that can be written"
        )
    description = f"{free:.0f} GB free, {speed:.0f} MB/s"
    if free < DISK_LEAST_GB:
        return Check("Disk", Status.FAIL, description, f"free at least {DISK_LEAST_GB:.0f} GB")
    if free < DISK_FREE_GB:
        return Check("Disk", Status.WARN, description, "little room for data sets with images")
    if speed < DISK_MB_PER_SECOND:
        return Check(
            "Disk", Status.WARN, description, "recording several cameras may be slower than they are; use a local disk"
        )
    return Check("Disk", Status.OK, description)


def _write_speed(folder: Path) -> float:
    """Return the speed of writing a file, until it is on the disk [MB/s]."""
    data = os.urandom(WRITE_BYTES)
    with tempfile.TemporaryFile(dir=folder) as file:
        start = time.monotonic()
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        return len(data) / 1e6 / (time.monotonic() - start)


def _camera_name(camera: Path, drivers: Path) -> str:
    file = drivers / camera.name / "name"
    return f"({file.read_text().strip()})" if file.is_file() else ""


def _fault(requirement: Requirement, installed: Mapping[str, str]) -> str:
    """Return the fault of a requirement; empty if it is met."""
    version = installed.get(_normalised(requirement.name))
    if version is None:
        return "is not installed"
    if not requirement.specifier.contains(version, prereleases=True):
        return f"{version} is installed, {requirement.specifier} is needed"
    return ""


def _normalised(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
