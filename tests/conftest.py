"""For every test: no network but this machine, no model hub, and one open encoder."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

import ipaddress
import socket
from collections.abc import Iterator

import pytest

from lmk_integrations import LMKEncoder


class NetworkUsedError(Exception):
    """A test tried to reach another machine."""


def _is_loopback(host: str) -> bool:
    if host in ("localhost", ""):
        return True
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return False


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Iterator[None]:
    """Any connection or look-up that leaves this machine fails the test that made it."""
    with pytest.MonkeyPatch.context() as patch:
        connect, look_up = socket.socket.connect, socket.getaddrinfo

        def guarded_connect(self, address):
            if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
                raise NetworkUsedError(f"a connection to {address[0]}")
            return connect(self, address)

        def guarded_look_up(host, *args, **kwargs):
            name = host.decode() if isinstance(host, bytes) else (host or "")
            if not _is_loopback(name):
                raise NetworkUsedError(f"a look-up of {name}")
            return look_up(host, *args, **kwargs)

        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket, "getaddrinfo", guarded_look_up)
        yield


@pytest.fixture(scope="session")
def encoder() -> LMKEncoder:
    """The default model in float32, opened once."""
    return LMKEncoder(dtype="float32").load()
