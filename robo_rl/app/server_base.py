"""Policies that a server computes as base policies."""

from typing import TYPE_CHECKING

from ..core import EnvSpec, importing_extra
from ..residual import BasePolicy, ServerConfig

if TYPE_CHECKING:
    from ..deployment.server_policy import ServerPolicy


def open_server(address: str, settings: ServerConfig | None = None) -> "ServerPolicy":
    """Connect to a policy server.

    Args:
        address: address of the server.
        settings: its names and units; None: those of a server of robo-rl.

    Raises:
        ConfigError, DataError or PolicyServerError: see :class:`.ServerPolicy`; also if packages are missing.
    """
    with importing_extra("serve", "policy servers need the packages websockets and msgpack"):
        from ..deployment.server_policy import ServerPolicy, Translation
    if settings is None:
        return ServerPolicy(address)
    low, high = tuple(settings.action_low), tuple(settings.action_high)
    translation = Translation(settings.inputs, settings.prompt, low, high, settings.executed_actions)
    return ServerPolicy(address, translation, settings.retry_seconds)


class ServerBase(BasePolicy):
    """A policy of a server as a base policy."""

    def __init__(self, policy: "ServerPolicy") -> None:
        spec = None if policy.description is None else policy.description.spec
        super().__init__(lambda observation, _: policy.decide(observation), policy.name, policy.fingerprint, spec)
        self._policy = policy

    def differences(self, spec: EnvSpec) -> list[str]:
        """Return one line for each point in which ``spec`` does not fit the policy; see :class:`.ServerPolicy`."""
        return self._policy.differences(spec)
