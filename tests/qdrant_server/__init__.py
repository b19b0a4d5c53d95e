"""A Qdrant server of our own, REST and gRPC, that misbehaves on demand.

What goes over the wire is real: real clients, real bodies, real connections. Behind it is
qdrant-client's own store in memory. There is no Qdrant server in these tests; with QDRANT_URL set,
the tests of stores run against one besides.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from lmk_integrations import connect

from .behind import Behind
from .faults import Fault, Faults
from .rest import RestServer
from .rpc import RpcServer

Protocol = Literal["rest", "grpc"]
# A server's URL, and its port for gRPC if that is to be spoken.
Location = tuple[str, int | None]

__all__ = ["Fault", "Faults", "Location", "Server", "connect_to", "serve"]


def connect_to(location: Location, timeout_s: float = 10.0) -> Any:
    """A new client of a server."""
    url, grpc_port = location
    return connect(url, prefer_grpc=grpc_port is not None, grpc_port=grpc_port, timeout_s=timeout_s)


@dataclass
class Server:
    """A server of both protocols. protocol: the one that its `client` speaks."""

    protocol: Protocol
    behind: Behind = field(default_factory=Behind)
    faults: Faults = field(default_factory=Faults)
    _running: list[Any] = field(default_factory=list)
    _ports: tuple[int, int] = (0, 0)

    @property
    def store(self) -> Any:
        """The store behind, which no fault befalls."""
        return self.behind.client

    @property
    def url(self) -> str:
        """To pass to `connect` or to ``lmk --to``."""
        return f"http://127.0.0.1:{self._ports[0]}"

    @property
    def location(self) -> Location:
        """What another process needs to make such a client, see `connect_to`."""
        return self.url, self._ports[1] if self.protocol == "grpc" else None

    def client(self, timeout_s: float = 10.0) -> Any:
        """A new client of this server."""
        return connect_to(self.location, timeout_s)

    def start(self) -> None:
        """Listen for both protocols, on the same ports as before."""
        self._running = [
            RestServer(self.behind, self.faults, self._ports[0]),
            RpcServer(self.behind, self.faults, self._ports[1]),
        ]
        self._ports = (self._running[0].server_port, self._running[1].server_port)

    def stop(self) -> None:
        """Refuse connections, and break those there are."""
        while self._running:
            self._running.pop().stop()


@contextmanager
def serve(protocol: Protocol = "rest", *plan: Fault, strict: bool = False) -> Iterator[Server]:
    """A server that lives for as long as the block. strict: as in `Behind`."""
    server = Server(protocol, Behind(strict=strict))
    server.faults.plan += plan
    server.start()
    try:
        yield server
    finally:
        server.stop()
        server.store.close()
