"""Data sets of an arm that shows a calibration board to a camera, for the tests of calibration."""

from pathlib import Path

import numpy as np

from robo_rl.core import ArraySpec, EnvSpec, Source, Transition
from robo_rl.recording.posed_pictures import COLUMNS, POSITION
from robo_rl.replay import EpisodeStore

from .board_views import Cell, Renderer, make_cell, transform

NAMES = ("joint1_position", *POSITION, *COLUMNS)
SPEC = EnvSpec(
    task="reach",
    observation={"state": ArraySpec((10,), names=NAMES), "images/wrist": ArraySpec((480, 640, 3), "uint8")},
    action=ArraySpec((2,), low=-1, high=1),
    action_space="end_effector_delta",
    action_frame="base",
    control_rate=10.0,
    max_episode_steps=200,
    reward_terms=("success",),
)
LAG = 2
"""Steps by which pictures are older than the poses beside them."""


def _state(pose):
    return np.concatenate([[0.3], pose[:3, 3], pose[:3, :2].T.ravel()]).astype(np.float32)


def _episode(cell, numbers, renderer):
    """Return an episode that moves to each pose and rests there for six steps; without a renderer, no board is seen.

    The arm arrives from different directions: the same error everywhere would look like another place of the board.
    """
    states, pictures = [], []
    for number in numbers:
        pose, picture = cell.poses[number], cell.pictures[number]
        for distance in (0.04, 0.02):
            moving = pose.copy()
            moving[:3, 3] += distance * np.array([np.cos(number), np.sin(number), 1])
            board_in_camera = np.linalg.inv(moving @ cell.camera) @ cell.board
            states.append(_state(moving))
            pictures.append(renderer.picture(board_in_camera) if renderer else picture)
        states += [_state(pose)] * 6
        pictures += [picture] * 6
    late = pictures[:1] * LAG + pictures
    observations = [{"state": state, "images/wrist": picture} for state, picture in zip(states, late, strict=False)]
    action = np.zeros(2, np.float32)
    last = len(observations) - 2
    return [
        Transition(
            observation=observation,
            proposed_action=action,
            executed_action=action,
            rewards={"success": 0.0},
            next_observation=observations[step + 1],
            terminated=False,
            truncated=step == last,
            source=Source.POLICY,
            actor="robot",
            session=1,
            episode=numbers[0],
            sequence=step,
            policy_version=-1,
            stamp_ns=step,
            success=None,
        )
        for step, observation in enumerate(observations[:-1])
    ]


def record_cell(path: Path, spec=SPEC, visible=True):
    """Record a cell in two episodes, with 12 views, or with two poses without the board; return the cell."""
    if visible:
        cell, renderer = make_cell("eye_in_hand", 0, count=12), Renderer()
    else:
        blank, away = np.full((480, 640, 3), 90, np.uint8), transform((0, 0, 0), (0.5, 0, 0))
        cell, renderer = Cell("eye_in_hand", np.eye(4), [np.eye(4), away], [blank, blank], np.eye(4)), None
    half = len(cell.poses) // 2
    with EpisodeStore.create(path, spec, {}) as store:
        for numbers in (range(half), range(half, 2 * half)):
            store.append_episode(_episode(cell, list(numbers), renderer))
    return cell
