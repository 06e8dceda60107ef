"""Conversions between rotation matrices, rotation vectors and unit quaternions (x, y, z, w)."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def matrix_of_quaternion(quaternion: Array) -> Array:
    """Return the rotation matrix (3, 3) of a quaternion (x, y, z, w).

    Raises:
        ValueError: if its length is not near 1.
    """
    length = float(np.linalg.norm(quaternion))
    if not 0.9 < length < 1.1:
        raise ValueError(f"expected a unit quaternion, got one of length {length:.3f}")
    x, y, z, w = quaternion / length
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def quaternion_of_matrix(rotation: Array) -> Array:
    """Return the quaternion (x, y, z, w), w not negative, of a rotation matrix (3, 3) (Shepperd 1978)."""
    trace = float(np.trace(rotation))
    squares = np.array([*np.diag(rotation) * 2 - trace, trace]) + 1  # four times the square of each component
    largest = int(squares.argmax())
    skew = np.array([rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1]])
    if largest == 3:
        quaternion = np.array([*skew, squares[3]])
    else:
        quaternion = np.array([*(rotation + rotation.T)[largest], skew[largest]])
        quaternion[largest] = squares[largest]
    quaternion /= np.linalg.norm(quaternion)
    return -quaternion if quaternion[3] < 0 else quaternion


def vector_of_matrix(rotation: Array) -> Array:
    """Return the rotation vector (3,) [rad] of a rotation matrix (3, 3)."""
    quaternion = quaternion_of_matrix(rotation)
    sine = float(np.linalg.norm(quaternion[:3]))
    if sine < 1e-12:
        return np.zeros(3)
    vector: Array = quaternion[:3] / sine * 2 * np.arctan2(sine, quaternion[3])
    return vector


def matrix_of_vector(vector: Array) -> Array:
    """Return the rotation matrix (3, 3) of a rotation vector (3,) [rad]."""
    angle = float(np.linalg.norm(vector))
    axis = vector / angle if angle > 0 else np.zeros(3)
    return matrix_of_quaternion(np.append(np.sin(angle / 2) * axis, np.cos(angle / 2)))
