"""Arrays of HDF5 files that are whole and lie in the file itself."""

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
"""More than this to one no compression of HDF5 packs; gzip comes to 1032."""
_LINKS = 2**20
"""Members of all groups of a file at most; 10 000 demonstrations have a few hundred thousand."""


def open_hdf5(path: Path, group: str) -> Any:
    """Open a file to read, all of whose links stay in it.

    Args:
        path: of the file.
        group: that it must have.

    Raises:
        DataError: if there is none, or it is none of HDF5, or names other files.
    """
    h5py = library("h5py")
    if not path.is_file():
        raise DataError(f"{path} is no file; give the HDF5 file of robomimic")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise DataError(f"{path} is no HDF5 file, or unfinished, damaged or open elsewhere ({error})") from error
    try:
        _check_links(h5py, file, path)
        if group not in file or file.get(group, getclass=True) is not h5py.Group:
            raise DataError(f"{path} is no robomimic file: it has no group {group!r}")
    except (OSError, RuntimeError, KeyError) as error:
        file.close()
        raise DataError(f"{path} is damaged ({error})") from error
    except DataError:
        file.close()
        raise
    return file


def _check_links(h5py: Any, file: Any, path: Path) -> None:
    """Refuse links to other files: HDF5 opens what they name, a pipe too, as soon as a member is looked at.

    No link is followed but those that hold the groups themselves, each group once. Soft links lead along these.
    """
    to_visit, known, count = [(file.id, b"/")], {h5py.h5o.get_info(file.id).addr}, 0
    while to_visit:
        group = h5py.h5g.open(*to_visit.pop())
        links = _links(group)
        count += len(links)
        if count > _LINKS:
            raise DataError(f"{path} has more than {_LINKS} members; split it, or copy what is needed (h5copy)")
        for name, kind in links:
            if kind == h5py.h5l.TYPE_HARD:
                about = h5py.h5o.get_info(group, name)
                if about.type == h5py.h5o.TYPE_GROUP and about.addr not in known:
                    known.add(about.addr)
                    to_visit.append((group, name))
            elif kind != h5py.h5l.TYPE_SOFT:
                place = b"/".join([h5py.h5i.get_name(group).rstrip(b"/"), name]).decode(errors="replace")
                raise DataError(f"{path}: {place} lies in another file; copy it into this one (h5copy, h5repack)")


def _links(group: Any) -> list[tuple[bytes, int]]:
    """Return names and kinds of the members of a group, one more than are allowed at most."""
    found: list[tuple[bytes, int]] = []

    def add(name: bytes, about: Any) -> bool | None:  # ``about`` is another link's afterwards; None goes on
        found.append((name, about.type))
        return len(found) > _LINKS or None

    group.links.iterate(add, info=True)
    return found


def find_array(demo: Any, name: str, path: Path) -> Any:
    """Return an array that lies in the file itself.

    Raises:
        DataError: if it is missing or damaged, or lies in another file, which is whatever the author of this one named.
    """
    try:
        rows = demo[name]
        if rows.file.filename != str(path) or (hasattr(rows, "external") and (rows.external or rows.is_virtual)):
            raise DataError(f"{path}: {demo.name}/{name} lies in another file; copy it into this one (h5repack)")
    except (KeyError, OSError, RuntimeError) as error:  # the last of links that go in a circle
        raise DataError(f"{path}: {demo.name}/{name} is missing or damaged ({error})") from error
    if not hasattr(rows, "shape") or rows.shape is None:
        raise DataError(f"{path}: {demo.name}/{name} is no array")
    return rows


def read_array(demo: Any, name: str, path: Path) -> Array:
    """Return an array that lies in the file itself and was written whole.

    Raises:
        DataError: as :func:`find_array`, and if there is less of it than it says.
    """
    rows = find_array(demo, name, path)
    size, stored = rows.size * rows.dtype.itemsize, rows.id.get_storage_size()
    if size > _PACKED * stored:
        raise DataError(
            f"{path}: {demo.name}/{name} says it has {size} bytes, stored are {stored}; it is damaged or "
            "was never written"
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
