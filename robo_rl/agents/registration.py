"""Registration of the agents' configuration classes with Hydra."""

from hydra.core.config_store import ConfigStore

from robo_rl.core import config_node

from . import bc, cpl, drq, dsrl, flow, fql, iql, qc, sac, xqc

CONFIGS: dict[str, type] = {
    "bc": bc.BCConfig,
    "cpl": cpl.CPLConfig,
    "drq": drq.DrQConfig,
    "dsrl": dsrl.DSRLConfig,
    "flow": flow.FlowCloningConfig,
    "fql": fql.FQLConfig,
    "iql": iql.IQLConfig,
    "qc": qc.QCConfig,
    "sac": sac.SACConfig,
    "xqc": xqc.XQCConfig,
}
"""Configuration classes by the name of the agent's folder."""


def register_configs() -> None:
    """Register ``NAME_schema`` in the group ``agent`` for each of :data:`CONFIGS`."""
    for name, config_class in CONFIGS.items():
        node = config_node(f"robo_rl.agents.{name}.make_{name}", config_class)
        ConfigStore.instance().store(group="agent", name=f"{name}_schema", node=node)
