"""Closed-form solution of P_i Z = X C_i from the views that agree with each other."""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import vector_of_matrix

from .board import Array

MOST_TRIPLES = 1500
"""Most sets of three views that are tried."""
AGREEING = 5.0
"""Multiple of the median error up to which a view is used."""


@dataclass(frozen=True)
class Start:
    """A solution.

    Attributes:
        camera: X (4, 4).
        board: Z (4, 4).
        errors: mean distance (N,) of the board's outer corners in each view from where they were measured [m].
    """

    camera: Array
    board: Array
    errors: Array


def inverse(pose: Array) -> Array:
    """Return the inverses of rigid transforms (..., 4, 4)."""
    result = np.zeros_like(pose)
    rotation = np.swapaxes(pose[..., :3, :3], -1, -2)
    result[..., :3, :3] = rotation
    result[..., :3, 3] = -(rotation @ pose[..., :3, 3:])[..., 0]
    result[..., 3, 3] = 1.0
    return result


def pair_rotations(poses: Array) -> tuple[Array, NDArray[np.int64]]:
    """Return the rotation vector (M, 3) from each pose (N, 4, 4) to each later one [rad], and their numbers (M, 2)."""
    pairs = np.array(list(itertools.combinations(range(len(poses)), 2)))
    first, second = poses[pairs[:, 0], :3, :3], poses[pairs[:, 1], :3, :3]
    relative = second @ np.swapaxes(first, 1, 2)
    return np.stack([vector_of_matrix(matrix) for matrix in relative]), pairs


def solve_robustly(poses: Array, seen: Array, outline: Array) -> Start:
    """Return the solution that agrees best with the median view.

    Args:
        poses: P (N, 4, 4), N at least 3.
        seen: C (N, 4, 4).
        outline: points (k, 3) of the board whose distances are the errors [m].
    """
    count = len(poses)
    place = {tuple(pair): row for row, pair in enumerate(itertools.combinations(range(count), 2))}
    turned, turned_seen = pair_rotations(poses)[0], pair_rotations(seen)[0]
    triples = np.array(list(itertools.combinations(range(count), 3)))
    if len(triples) > MOST_TRIPLES:
        triples = np.random.default_rng(0).choice(triples, MOST_TRIPLES, replace=False)
    rows = np.array([[place[pair] for pair in itertools.combinations(triple, 2)] for triple in triples.tolist()])
    camera, board = _solve(poses[triples], seen[triples], turned[rows], turned_seen[rows])
    errors = _errors(camera, board, poses, seen, outline)
    best = int(np.argmin(np.median(errors, axis=1)))
    start = Start(camera[best], board[best], errors[best])
    for _ in range(5):
        kept = np.flatnonzero(start.errors <= AGREEING * np.median(start.errors))
        rows = np.array([place[pair] for pair in itertools.combinations(kept.tolist(), 2)])
        camera, board = _solve(poses[kept][None], seen[kept][None], turned[rows][None], turned_seen[rows][None])
        errors = _errors(camera, board, poses, seen, outline)
        if np.median(errors[0]) >= np.median(start.errors):
            break
        start = Start(camera[0], board[0], errors[0])
    return start


def _solve(poses: Array, seen: Array, turned: Array, turned_seen: Array) -> tuple[Array, Array]:
    """Return X and Z (T, 4, 4) of T sets of views (T, k, 4, 4), whose pairs turn by ``turned`` (T, m, 3) [rad]."""
    size = len(poses)
    camera = np.tile(np.eye(4), (size, 1, 1))
    board = camera.copy()
    camera[:, :3, :3] = _nearest_rotation(np.swapaxes(turned, 1, 2) @ turned_seen)
    turns = np.swapaxes(poses[..., :3, :3], 2, 3) @ camera[:, None, :3, :3] @ seen[..., :3, :3]
    board[:, :3, :3] = _nearest_rotation(turns.sum(axis=1))
    # R_P t_Z - t_X = R_X t_C - t_P, in least squares; a small ridge keeps sets without rotation solvable.
    left = np.concatenate([poses[..., :3, :3], np.broadcast_to(-np.eye(3), poses[..., :3, :3].shape)], axis=3)
    right = (camera[:, None, :3, :3] @ seen[..., :3, 3:])[..., 0] - poses[..., :3, 3]
    left, right = left.reshape(size, -1, 6), right.reshape(size, -1, 1)
    transposed = np.swapaxes(left, 1, 2)
    answer = np.linalg.solve(transposed @ left + 1e-9 * np.eye(6), transposed @ right)[..., 0]
    board[:, :3, 3], camera[:, :3, 3] = answer[:, :3], answer[:, 3:]
    return camera, board


def _nearest_rotation(matrices: Array) -> Array:
    """Return the rotations nearest to matrices (T, 3, 3)."""
    left, _, right = np.linalg.svd(matrices)
    left[..., 2] *= np.sign(np.linalg.det(left @ right))[:, None]
    rotations: Array = left @ right
    return rotations


def _errors(camera: Array, board: Array, poses: Array, seen: Array, outline: Array) -> Array:
    """Return the errors (T, N) of T solutions [m]."""
    predicted = inverse(camera)[:, None] @ poses @ board[:, None]
    difference = (predicted - seen)[..., :3, :]
    points = np.append(outline, np.ones((len(outline), 1)), axis=1)
    distances: Array = np.linalg.norm(points @ np.swapaxes(difference, 2, 3), axis=3).mean(axis=2)
    return distances
