"""Real hardware, and what stands in for it."""


def register_configs() -> None:
    """Offer teleoperation (group ``teleop``) and the fake arm (``task=fake_arm``) to Hydra."""
    from hydra.core.config_store import ConfigStore

    from robo_rl.core import config_node

    from .fake import FakeArmConfig, make_fake_arm
    from .teleop import register_configs as register_teleop

    register_teleop()
    ConfigStore.instance().store(group="task", name="fake_arm_schema", node=config_node(make_fake_arm, FakeArmConfig))
