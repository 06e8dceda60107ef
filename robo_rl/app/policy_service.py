"""A server of a policy, which speaks the protocol of openpi: msgpack over a websocket."""

import asyncio
import hmac
import http
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from ..core import ArraySpec, ConfigError, DataError, SpecError
from ..deployment.arrays import packed, unpacked
from ..deployment.server_policy import DESCRIPTION
from ..residual import BASE_POLICY
from ..web.listening import Listener, served, trust
from .deployed import described
from .trained import TrainedPolicy

HEALTH = "/healthz"
MOST_CLIENTS = 32
OPEN_SECONDS = 10.0
"""Time that a connection has to show its key [s]."""
MESSAGE_BYTES = 1 << 16
"""Bytes of a request besides the observations that the policy uses."""
TRY_AGAIN = 1013
FAILED = 1011


class PolicyService:
    """A server that answers each observation with a chunk of actions.

    Clients receive a description of the policy first. An observation that does not fit it is answered with a text that
    says why, after which the connection is closed, as by servers of openpi.

    Args:
        trained: the policy.
        host: address to listen on.
        port: port; 0: any free one.
        key: secret that clients must show; None: none is needed. Pages in a browser are refused.

    Raises:
        ConfigError: if the policy has no decision, or corrects a base policy.
    """

    def __init__(self, trained: TrainedPolicy, host: str, port: int, key: str | None) -> None:
        if BASE_POLICY in trained.spec.extra:
            raise ConfigError("the policy corrects a base policy, whose actions clients do not have: serve another one")
        self._decision, self.description = described(trained)
        self._inputs: Mapping[str, ArraySpec] = {
            name: trained.spec.observation[name] for name in self.description.observed
        }
        self._host, self._port, self._key = host, port, key
        self._listeners: list[Listener] = []
        self._clients = 0
        self._computing = asyncio.Lock()

    @property
    def address(self) -> str:
        """Address of the server, with the actual port."""
        return f"ws://{f'[{self._host}]' if ':' in self._host else self._host}:{self._port}"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve within the context.

        Raises:
            ConfigError: if the address is not available.
        """
        ports = (self._port,)
        async with served(self._listeners, self._host, ports, "address", self._serving_on) as self._port:
            yield

    def _serving_on(self, listener: Listener) -> AbstractAsyncContextManager[Server]:
        sizes = sum(int(np.prod(array.shape)) * np.dtype(array.dtype).itemsize for array in self._inputs.values())
        return serve(
            self._talk,
            sock=listener,
            process_request=self._admit,
            max_size=2 * sizes + MESSAGE_BYTES,  # clients may send float64
            open_timeout=OPEN_SECONDS,
            close_timeout=1.0,
            compression=None,
            server_header=None,
        )

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Return the answer to a request that is no client's; None lets a client through."""
        if request.path == HEALTH:
            return connection.respond(http.HTTPStatus.OK, "OK\n")
        if "Origin" in request.headers:
            return connection.respond(http.HTTPStatus.FORBIDDEN, "pages have no access\n")
        presented = " ".join(request.headers.get_all("Authorization")).encode(errors="surrogateescape")
        if self._key is not None and not hmac.compare_digest(presented, f"Api-Key {self._key}".encode()):
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, "the key is missing or wrong\n")
        return None

    async def _talk(self, connection: ServerConnection) -> None:
        if self._clients >= MOST_CLIENTS:
            await connection.close(TRY_AGAIN, "too many clients are connected")
            return
        self._clients += 1
        trust(self._listeners, connection)
        noise = torch.Generator().manual_seed(self._decision.noise_seed)
        try:
            await connection.send(packed({DESCRIPTION: self.description.to_json()}))
            async for message in connection:
                await connection.send(await self._answer(message, noise))
        except (DataError, SpecError) as error:
            with suppress(ConnectionClosed):
                await connection.send(str(error))
                await connection.close(FAILED, "the observation does not fit")
        except ConnectionClosed:
            pass
        finally:
            self._clients -= 1

    async def _answer(self, message: str | bytes, noise: torch.Generator) -> bytes:
        begin = time.perf_counter()
        observation = self._observation(
            unpacked(message.encode() if isinstance(message, str) else message, "a request")
        )
        async with self._computing:
            actions = await asyncio.to_thread(self._decide, observation, noise)
        milliseconds = 1000 * (time.perf_counter() - begin)
        return packed({"actions": actions, "server_timing": {"infer_ms": milliseconds}})

    def _observation(self, message: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Return the observations that the policy uses.

        Raises:
            DataError: if one is missing, or of another shape or kind of numbers.
        """
        observation = {}
        for name, array in self._inputs.items():
            value = message.get(name)
            if not isinstance(value, np.ndarray):
                raise DataError(f"observation {name!r} is missing: expected {', '.join(self._inputs)}")
            if value.shape != array.shape or not np.can_cast(value.dtype, array.dtype, "same_kind"):
                raise DataError(
                    f"observation {name!r}: expected {array.dtype} of shape {array.shape}, got {value.dtype} of shape "
                    f"{value.shape}"
                )
            with np.errstate(over="ignore"):
                value = value.astype(array.dtype)
            if not np.isfinite(value).all():
                raise DataError(f"observation {name!r}: expected finite numbers")
            observation[name] = torch.from_numpy(value)
        return observation

    @torch.inference_mode()
    def _decide(self, observation: dict[str, torch.Tensor], noise: torch.Generator) -> NDArray[np.float32]:
        sample = torch.randn(self._decision.noise_size, generator=noise)
        actions: NDArray[np.float32] = self._decision.compute(observation, sample).numpy(force=True).clip(-1, 1)
        return actions
