"""The state of a simulated world at one instant, saved and restored bit for bit."""

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import CheckpointError, State

PHYSICS = mujoco.mjtState.mjSTATE_INTEGRATION
"""Everything in the physics that MuJoCo's next step depends on."""


def save_world(model: mujoco.MjModel, data: mujoco.MjData, **parts: NDArray[np.float64]) -> State:
    """Return the state of the physics together with ``parts``: everything else that the next step depends on."""
    return {"physics": physics_state(model, data), **parts}


def physics_state(model: mujoco.MjModel, data: mujoco.MjData) -> NDArray[np.float64]:
    """Return the state of the physics (n,)."""
    state = np.empty(mujoco.mj_stateSize(model, PHYSICS))
    mujoco.mj_getState(model, data, state, PHYSICS)
    return state


def restore_world(model: mujoco.MjModel, data: mujoco.MjData, world: State, part: str) -> NDArray[np.float64]:
    """Restore the physics from the result of :func:`save_world`; return its entry ``part``.

    Raises:
        CheckpointError: if the state is another simulator's.
    """
    if part not in world or world["physics"].size != mujoco.mj_stateSize(model, PHYSICS):
        raise CheckpointError("the checkpoint holds another simulator's world: resume on that simulator")
    if not (np.isfinite(world["physics"]).all() and np.isfinite(world[part]).all()):
        raise CheckpointError("the checkpoint holds a world that is not finite: use another checkpoint")
    mujoco.mj_resetData(model, data)
    mujoco.mj_setState(model, data, world["physics"], PHYSICS)
    return world[part]
