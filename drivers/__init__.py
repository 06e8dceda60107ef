"""Drivers of real hardware and of its virtual counterparts."""


def register_configs() -> None:
    """Register the groups ``teleop`` and ``robot``, the virtual robot, cameras and the fake arm with Hydra."""
    from hydra.core.config_store import ConfigStore

    from robo_rl.core import config_node

    from .cameras import register_configs as register_cameras
    from .fake import FakeArmConfig, make_fake_arm
    from .robot import register_configs as register_robots
    from .servos import register_configs as register_servo_arms
    from .teleop import register_configs as register_teleop
    from .virtual import register_configs as register_virtual_robot

    register_teleop()
    register_robots()
    register_servo_arms()
    register_virtual_robot()
    register_cameras()
    ConfigStore.instance().store(group="task", name="fake_arm_schema", node=config_node(make_fake_arm, FakeArmConfig))
