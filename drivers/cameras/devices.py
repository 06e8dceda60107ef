"""Video4Linux devices and their capabilities, as the kernel reports them (linux/videodev2.h)."""

import fcntl
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CAPABILITY = "16s32s32s3I12x"
FORMAT = "3I32s2I12x"
FRAME_SIZE = "9I8x"
FRAME_INTERVAL = "11I8x"
"""Layouts of the structures v4l2_capability, v4l2_fmtdesc, v4l2_frmsizeenum and v4l2_frmivalenum."""

READ, READ_WRITE = 2, 3
CAPTURE, CAPTURE_PLANES, HAS_DEVICE_CAPABILITIES = 0x1, 0x1000, 0x80000000
DISCRETE = 1


@dataclass(frozen=True)
class Mode:
    """Picture format that a device supports.

    Attributes:
        format: code of four characters.
        size: ``640x480``, or a range of sizes.
        rates: pictures per second; empty if the device reports none.
    """

    format: str
    size: str
    rates: tuple[float, ...]


@dataclass(frozen=True)
class Device:
    """Camera of this machine.

    Attributes:
        path: ``/dev/video`` and a number, which may change when the camera is plugged in again.
        name: name that its driver reports.
        link: path in /dev/v4l/by-id that stays the same; empty if there is none.
        modes: supported picture formats.
        problem: why the device could not be examined; empty if it could.
    """

    path: str
    name: str
    link: str = ""
    modes: tuple[Mode, ...] = ()
    problem: str = ""


def request(direction: int, number: int, layout: str) -> int:
    """Return the number of a Video4Linux ioctl, as the kernel's macros _IOR and _IOWR compute it."""
    return (direction << 30) | (struct.calcsize(layout) << 16) | (ord("V") << 8) | number


def find_devices(folder: Path = Path("/dev")) -> list[Device]:
    """Return the cameras among ``video*`` in ``folder``, sorted by number; nodes without pictures are left out."""
    numbered = [path for path in folder.glob("video*") if path.name.removeprefix("video").isdecimal()]
    links = {link.resolve(): str(link) for link in sorted((folder / "v4l" / "by-id").glob("*"))}
    devices = []
    for path in sorted(numbered, key=lambda path: int(path.name.removeprefix("video"))):
        try:
            file = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        except OSError as error:
            devices.append(Device(str(path), "unknown", problem=error.strerror or str(error)))
            continue
        try:
            device = _examine(file, path, links.get(path.resolve(), ""))
        finally:
            os.close(file)
        if device is not None:
            devices.append(device)
    return devices


def _examine(file: int, path: Path, link: str) -> Device | None:
    """Return the description of an open device; None if it is not a camera."""
    answer = _ask(file, READ, 0, CAPABILITY, b"", b"", b"", 0, 0, 0)
    if answer is None:
        return None
    _, card, _, _, capabilities, of_device = answer
    able = of_device if capabilities & HAS_DEVICE_CAPABILITIES else capabilities
    if not able & (CAPTURE | CAPTURE_PLANES):
        return None
    name = card.split(b"\0")[0].decode(errors="replace")
    return Device(str(path), name, link, tuple(_modes(file, 1 if able & CAPTURE else 9)))


def _modes(file: int, buffer_type: int) -> Iterator[Mode]:
    for _, _, _, _, code, _ in _each(file, 2, FORMAT, lambda i: (i, buffer_type, 0, b"", 0, 0)):
        characters = struct.pack("I", code).decode("ascii", errors="replace")
        for size in _each(file, 74, FRAME_SIZE, lambda i, code=code: (i, code, *[0] * 7)):
            if size[2] != DISCRETE:
                yield Mode(characters, f"{size[3]}x{size[6]} to {size[4]}x{size[7]}", ())
                break
            yield Mode(characters, f"{size[3]}x{size[4]}", tuple(_rates(file, code, size[3], size[4])))


def _rates(file: int, code: int, width: int, height: int) -> Iterator[float]:
    for interval in _each(file, 75, FRAME_INTERVAL, lambda i: (i, code, width, height, *[0] * 7)):
        if interval[4] != DISCRETE:
            return
        if interval[5]:
            yield interval[6] / interval[5]


def _each(file: int, number: int, layout: str, question: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the answers for index 0, 1, ... until the kernel has no more."""
    index = 0
    while (answer := _ask(file, READ_WRITE, number, layout, *question(index))) is not None:
        yield answer
        index += 1


def _ask(file: int, direction: int, number: int, layout: str, *values: Any) -> tuple[Any, ...] | None:
    """Return the kernel's answer; None if the request fails."""
    data = bytearray(struct.pack(layout, *values))
    try:
        fcntl.ioctl(file, request(direction, number, layout), data)
    except OSError:
        return None
    return struct.unpack(layout, data)
