"""Reader of complete arrays in HDF5 files, without links to other files."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import DataError

from .data import check_packed, library
from .hdf5_chunks import check_chunks

Array = NDArray[Any]

_PACKED = 2000
"""Largest accepted compression ratio; gzip reaches 1032."""
_LINKS = 2**20
"""Largest number of members of all groups of a file; 10 000 demonstrations have a few hundred thousand."""


def open_hdf5(path: Path, group: str) -> Any:
    """Open a file for reading and check that it has no links to other files.

    Args:
        path: path of the file.
        group: name of a group that it must have.

    Raises:
        DataError: if the file does not exist, is not an HDF5 file, lacks the group, or links to other files.
    """
    h5py = library("h5py")
    if not path.is_file():
        raise DataError(f"{path} is not a file; expected a robomimic HDF5 file")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise DataError(
            f"{path} is not an HDF5 file, or it is unfinished, damaged or open in another process ({error})"
        ) from error
    try:
        _check_links(h5py, file, path)
        if group not in file or file.get(group, getclass=True) is not h5py.Group:
            raise DataError(f"{path} is not a robomimic file: it has no group {group!r}")
    except (OSError, RuntimeError, KeyError) as error:
        file.close()
        raise DataError(f"{path} is damaged ({error})") from error
    except DataError:
        file.close()
        raise
    return file


def _check_links(h5py: Any, file: Any, path: Path) -> None:
    """Reject links to other files: HDF5 opens their targets, even a pipe, when a member is accessed.

    Only hard links to groups are followed, each group once. Soft links can only lead to members found in this way.
    """
    to_visit, visited, count = [(file.id, b"/")], {h5py.h5o.get_info(file.id).addr}, 0
    while to_visit:
        group = h5py.h5g.open(*to_visit.pop())
        links = _links(group)
        count += len(links)
        if count > _LINKS:
            raise DataError(
                f"{path} has more than {_LINKS} members; split it, or copy the parts that are needed (h5copy)"
            )
        for name, kind in links:
            if kind == h5py.h5l.TYPE_HARD:
                info = h5py.h5o.get_info(group, name)
                if info.type == h5py.h5o.TYPE_GROUP and info.addr not in visited:
                    visited.add(info.addr)
                    to_visit.append((group, name))
            elif kind != h5py.h5l.TYPE_SOFT:
                place = b"/".join([h5py.h5i.get_name(group).rstrip(b"/"), name]).decode(errors="replace")
                raise DataError(f"{path}: {place} is stored in another file; copy it into this one (h5copy, h5repack)")


def _links(group: Any) -> list[tuple[bytes, int]]:
    """Return names and kinds of the members of a group; at most one more than is allowed."""
    links: list[tuple[bytes, int]] = []

    def add(name: bytes, info: Any) -> bool | None:  # ``info`` is reused for the next link; None continues
        links.append((name, info.type))
        return len(links) > _LINKS or None

    group.links.iterate(add, info=True)
    return links


def find_array(demo: Any, name: str, path: Path) -> Any:
    """Return an array that is stored in the file itself.

    Raises:
        DataError: if the array is missing or damaged, or stored in another file, which could be any file.
    """
    try:
        rows = demo[name]
        if rows.file.filename != str(path) or (hasattr(rows, "external") and (rows.external or rows.is_virtual)):
            raise DataError(f"{path}: {demo.name}/{name} is stored in another file; copy it into this one (h5repack)")
    except (KeyError, OSError, RuntimeError) as error:  # RuntimeError is raised for circular links
        raise DataError(f"{path}: {demo.name}/{name} is missing or damaged ({error})") from error
    if not hasattr(rows, "shape") or rows.shape is None:
        raise DataError(f"{path}: {demo.name}/{name} is not an array")
    return rows


def read_array(demo: Any, name: str, path: Path) -> Array:
    """Return the values of an array that is stored completely in the file itself.

    Raises:
        DataError: as for :func:`find_array`, and if less data is stored than the array's shape requires.
    """
    rows = find_array(demo, name, path)
    size, stored = rows.size * rows.dtype.itemsize, rows.id.get_storage_size()
    if size > _PACKED * stored:
        raise DataError(
            f"{path}: {demo.name}/{name} declares {size} bytes, but only {stored} are stored; it is damaged or was "
            "never written"
        )
    if rows.chunks and size:
        chunks = math.prod(-(-side // chunk) for side, chunk in zip(rows.shape, rows.chunks, strict=True))
        if (written := rows.id.get_num_chunks()) < chunks:
            raise DataError(
                f"{path}: {demo.name}/{name} has {written} of its {chunks} chunks; its recording was cut short"
            )
    check_packed(path.stat().st_size, size, f"{path}: {demo.name}/{name}")
    try:
        check_chunks(rows, f"{path}: {demo.name}/{name}")
        return np.asarray(rows[()])
    except OSError as error:
        raise DataError(f"{path}: {demo.name}/{name} is damaged ({error})") from error
