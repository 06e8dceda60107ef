"""robo-rl serve: a server of a trained policy, for clients of openpi and for other machines."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from ..app import load_policy
from ..command_line.serving import run_until_signal
from ..core import ConfigError, importing_extra, is_loopback, printable, require, typed

KEY_CHARACTERS = 16
"""Smallest length of a key [characters]."""


@dataclass(frozen=True)
class ServeConfig:
    """Options of configs/serve.yaml, which documents them and holds their defaults."""

    run: str
    address: str
    checkpoint: str

    def __post_init__(self) -> None:
        port = self.address.rpartition(":")[2]
        is_valid = bool(self.host) and port.isdecimal() and int(port) < 65536
        require(is_valid, "address", "HOST:PORT", self.address)

    @property
    def host(self) -> str:
        """Host of the address."""
        return self.address.rpartition(":")[0].strip("[]")


def run(config: DictConfig) -> int:
    """Serve the policy until Ctrl-C.

    Raises:
        ConfigError: if packages or the key are missing, or the address is taken.
        CheckpointError: if the policy cannot be read.
    """
    with importing_extra("serve", "policy servers need the packages websockets and msgpack"):
        from ..app.policy_service import PolicyService
        from ..deployment.server_policy import KEY_VARIABLE
    settings = typed(ServeConfig, config)
    key = os.environ.get(KEY_VARIABLE) or None
    if key is None and not is_loopback(settings.host):
        raise ConfigError(
            f"address {settings.address} can be reached from other machines: set the environment variable "
            f"{KEY_VARIABLE} to a key of {KEY_CHARACTERS} ASCII characters or more, on both machines"
        )
    is_key = key is None or (len(key) >= KEY_CHARACTERS and key.isascii())  # a header cannot contain other characters
    require(is_key, KEY_VARIABLE, f"{KEY_CHARACTERS} ASCII characters or more", "fewer, or others")
    trained = load_policy(Path(settings.run), None, settings.checkpoint)
    service = PolicyService(trained, settings.host, int(settings.address.rpartition(":")[2]), key)

    async def serve() -> None:
        async with service.serving():
            facts = service.description
            print(
                f"Policy of agent {printable(facts.agent)} for {printable(facts.spec.task)}, step {facts.step:,}, on "
                f"{service.address}. Ctrl-C ends.",
                flush=True,
            )
            await asyncio.get_running_loop().create_future()

    run_until_signal(serve())
    return 0
