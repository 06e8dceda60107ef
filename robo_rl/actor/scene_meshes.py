"""Triangle meshes of a MuJoCo model with few enough triangles to be sent to a browser."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_TRIANGLES = 12_000
"""Largest number of triangles of all meshes of a scene together."""
LEAST_TRIANGLES = 60
"""Number of triangles that a mesh may have in any case, if there are few enough meshes."""
CELLS = 2.0 ** np.arange(7.0, 1.0, -0.25)
"""Numbers of grid cells along the longest side of a mesh, finest first, to which its vertices are merged."""

Vertices = NDArray[np.float32]
Faces = NDArray[np.int32]


def encode_meshes(model: Any, numbers: Sequence[int]) -> list[Mapping[str, str]]:
    """Return the meshes ``numbers`` of a model, simplified to :data:`MOST_TRIANGLES` in total.

    Each has ``vertices``, float32 (v, 3) [m], and ``faces``, uint16 (f, 3), as little-endian bytes in base64. A mesh
    may use a share of the triangles in proportion to its own.
    """
    meshes = [_mesh(model, number) for number in numbers]
    total = sum(len(faces) for _, faces in meshes)
    if total > MOST_TRIANGLES:
        least = min(LEAST_TRIANGLES, MOST_TRIANGLES // (2 * len(meshes)))
        free = MOST_TRIANGLES - least * len(meshes)
        meshes = [simplified(*mesh, least + free * len(mesh[1]) // total) for mesh in meshes]
    return [
        {"vertices": _base64(vertices.astype("<f4")), "faces": _base64(faces.astype("<u2"))}
        for vertices, faces in meshes
    ]


def simplified(vertices: Vertices, faces: Faces, most: int) -> tuple[Vertices, Faces]:
    """Return a mesh of at most ``most`` triangles, whose vertices are the means of those in a cell of a grid.

    Args:
        vertices: (v, 3) [m].
        faces: indices (f, 3) of vertices.
        most: largest number of triangles.
    """
    if len(faces) <= most:
        return vertices, faces
    low = vertices.min(axis=0)
    side = float((vertices.max(axis=0) - low).max()) or 1.0
    merged = vertices[:0], faces[:0]
    for cells in CELLS:
        places = np.floor((vertices - low) * (cells / side)).astype(np.int64)
        _, group, counts = np.unique(places @ [1, 1 << 20, 1 << 40], return_inverse=True, return_counts=True)
        mapped = group[faces]
        sides = mapped - np.roll(mapped, 1, axis=1)
        mapped = mapped[(sides != 0).all(axis=1)]
        _, first = np.unique(np.sort(mapped, axis=1), axis=0, return_index=True)
        if len(first) <= most:
            sums = np.stack([np.bincount(group, vertices[:, axis]) for axis in range(3)], axis=1)
            merged = (sums / counts[:, None]).astype(np.float32), mapped[np.sort(first)].astype(np.int32)
            break
    return merged


def _mesh(model: Any, number: int) -> tuple[Vertices, Faces]:
    """Return vertices and faces of a mesh; those of a mesh too large for 16-bit indices are simplified."""
    first, count = int(model.mesh_vertadr[number]), int(model.mesh_vertnum[number])
    begin, length = int(model.mesh_faceadr[number]), int(model.mesh_facenum[number])
    vertices = np.array(model.mesh_vert[first : first + count])
    vertices, faces = simplified(vertices, np.array(model.mesh_face[begin : begin + length]), MOST_TRIANGLES)
    used, flat = np.unique(faces, return_inverse=True)
    return vertices[used], flat.reshape(-1, 3).astype(np.int32)


def _base64(array: NDArray[Any]) -> str:
    return base64.b64encode(array.tobytes()).decode()
