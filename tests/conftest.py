"""For every test: no network but this machine, no model hub, and one open encoder."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

import atexit
import ipaddress
import shutil
import signal
import socket
import sys
import tempfile

import pytest

from lmk_integrations import LMKEncoder

# Graphs are exported by these tests for these tests, by processes that they start, too.
os.environ["LMK_CACHE"] = tempfile.mkdtemp(prefix="lmk-cache-")
atexit.register(shutil.rmtree, os.environ["LMK_CACHE"], ignore_errors=True)


class NetworkUsedError(Exception):
    """A test tried to reach another machine."""


def _is_loopback(host: object) -> bool:
    name = host.decode() if isinstance(host, bytes) else str(host or "")
    if name in ("localhost", ""):
        return True
    try:
        return ipaddress.ip_address(name.split("%")[0]).is_loopback
    except ValueError:
        return False


def _stay_here(event: str, arguments: tuple) -> None:
    if event in ("socket.connect", "socket.sendto"):
        connection, address = arguments
        is_ip = connection.family in (socket.AF_INET, socket.AF_INET6)
        if is_ip and not _is_loopback(address[0]):
            raise NetworkUsedError(f"a connection to {address[0]}")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname") and not _is_loopback(arguments[0]):
        raise NetworkUsedError(f"a look-up of {arguments[0]}")


# A shell starts background jobs with Ctrl-C ignored, and the processes that tests interrupt would
# inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# An audit hook, and not a patched socket.connect: pytest-socket, which langchain-tests brings,
# puts the original back after each test.
sys.addaudithook(_stay_here)


@pytest.fixture(scope="session")
def encoder() -> LMKEncoder:
    """The default model in float32, opened once."""
    return LMKEncoder(dtype="float32").load()
