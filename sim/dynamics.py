"""Dynamics of an arm beyond its model: friction, armature, payload, and forces that its controller does not know."""

import mujoco

from .config import ArmConfig

PAYLOAD = "payload"
"""Name of the body that is the payload."""
PAYLOAD_RADIUS = 0.01
"""Radius of gyration of a payload [m]."""
SMALLEST = 1e-9
"""Payload [kg] or share of weight that has no effect, but makes place for one in the compiled model."""


def add_dynamics(spec: mujoco.MjSpec, config: ArmConfig) -> None:
    """Add ``arm.dynamics`` to an arm with its motors.

    Controllers compensate the whole gravity of the model. Weight that they do not know is therefore added as a passive
    force, a negative compensation, on the same bodies.

    Args:
        spec: the arm.
        config: its configuration.
    """
    dynamics = config.dynamics
    for key, attribute in (("friction", "frictionloss"), ("viscosity", "damping"), ("armature", "armature")):
        for name, value in zip(config.joints, getattr(dynamics, key), strict=False):
            setattr(spec.joint(name), attribute, [value, 0, 0] if attribute == "damping" else value)
    for name, offset in zip(config.joints, dynamics.torque_offset, strict=False):
        motor = spec.actuator(f"torque_{name}")
        motor.biastype = mujoco.mjtBias.mjBIAS_AFFINE
        motor.biasprm[0] = offset
    if dynamics.gravity:
        for body in spec.bodies[1:]:
            body.gravcomp = -dynamics.gravity
    if mass := dynamics.payload:
        site = spec.site(config.end_effector)
        payload = site.parent.add_body(name=PAYLOAD, pos=site.pos, gravcomp=-1)
        payload.explicitinertial = True
        payload.mass, payload.inertia = mass, [mass * PAYLOAD_RADIUS**2] * 3


def enable_weights(scene: mujoco.MjSpec, config: ArmConfig) -> None:
    """Make MuJoCo apply the negative compensations in a scene with an arm: it looks for positive ones alone."""
    if config.dynamics.gravity or config.dynamics.payload:
        scene.worldbody.gravcomp = SMALLEST
