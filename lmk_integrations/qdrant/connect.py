"""One way to open a store: a server by URL, memory, or a directory of this machine."""

from __future__ import annotations

import logging
import math
import os
import re
import socket
import time
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import grpc  # type: ignore[import-untyped]
from qdrant_client import QdrantClient

from lmk_integrations.errors import ConfigError
from lmk_integrations.qdrant.edge import EdgeClient

logger = logging.getLogger(__name__)

MEMORY = ":memory:"
API_KEY_VARIABLE = "QDRANT_API_KEY"
GRPC_PROBE_S = 2.0

_REST_PORT = 6333
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]*):/")
_HOST_AND_PORT = re.compile(r"^[A-Za-z0-9.\-]+:\d{1,5}/?$")

StoreClient = QdrantClient | EdgeClient


def connect(
    location: str | os.PathLike[str],
    *,
    api_key: str | None = None,
    timeout_s: float = 60.0,
    prefer_grpc: bool | None = None,
    grpc_port: int | None = None,
) -> StoreClient:
    """Open a store.

    location: ``"http(s)://host[:port]"`` for a Qdrant server, ``":memory:"`` for one that lives
        and dies with the client, or a directory for the embedded engine.
    api_key: for a server; by default from the environment variable QDRANT_API_KEY.
    timeout_s: seconds per request to a server.
    prefer_grpc: None uses gRPC when its port answers within 2 seconds, else REST. True and False
        decide without asking.
    grpc_port: by default the port after that of the URL, as Qdrant has it.

    A server is not contacted beyond that probe; the first request shows whether it is there.

    Raises ConfigError for a location that cannot be one, StoreLockedError for a directory that
    another process has open. Neither names an API key.
    """
    text = os.fspath(location)
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(
            f"The store location {location!r} is empty or not text. Pass a directory, a URL or "
            f"{MEMORY!r}."
        )
    if text == MEMORY:
        return QdrantClient(MEMORY)
    scheme = _SCHEME.match(text)
    # A single letter is a drive of Windows.
    if scheme is not None and len(scheme.group(1)) > 1:
        return _connect_server(text, api_key, timeout_s, prefer_grpc, grpc_port)
    return _open_directory(text)


def _connect_server(
    text: str,
    api_key: str | None,
    timeout_s: float,
    prefer_grpc: bool | None,
    grpc_port: int | None,
) -> QdrantClient:
    url, port = _check_url(text)
    if not (math.isfinite(timeout_s) and timeout_s > 0):
        raise ConfigError(f"timeout_s must be a positive number of seconds, got {timeout_s!r}.")
    key = api_key if api_key is not None else os.environ.get(API_KEY_VARIABLE) or None
    rpc_port = port + 1 if grpc_port is None else grpc_port
    use_grpc = prefer_grpc
    if use_grpc is None:
        # A path means a proxy, which gRPC cannot be sent through.
        use_grpc = not url.path.strip("/") and _grpc_answers(url, rpc_port)
        if not use_grpc:
            logger.warning(
                "Using REST for %s: no gRPC on port %d. Large batches are slower over REST.",
                f"{url.scheme}://{url.hostname}:{port}",
                rpc_port,
            )
    # QdrantClient takes whole seconds.
    return QdrantClient(
        url=f"{url.scheme}://{url.netloc}",
        port=port,
        prefix=url.path.strip("/") or None,
        grpc_port=rpc_port,
        prefer_grpc=use_grpc,
        api_key=key,
        timeout=math.ceil(timeout_s),
    )


def _check_url(text: str) -> tuple[SplitResult, int]:
    """The parts of a server's URL and its port. No message repeats more than scheme and host."""
    try:
        url = urlsplit(text)
        host, port = url.hostname, url.port
    except ValueError as error:
        raise ConfigError(
            "The store URL cannot be read. Write it as http://host:6333 or https://host:6333."
        ) from error
    if url.scheme not in ("http", "https"):
        raise ConfigError(
            f"Stores cannot be opened by the scheme {url.scheme!r}. Use http://, https://, "
            f"{MEMORY!r} or a directory."
        )
    if not host:
        raise ConfigError("The store URL has no host. Write it as http://host:6333.")
    shown = f"{url.scheme}://{host}"
    if url.username is not None or url.password is not None or "@" in url.netloc:
        raise ConfigError(
            f"The store URL {shown} carries credentials. Pass them as api_key=, or in the "
            f"environment variable {API_KEY_VARIABLE}."
        )
    if url.query or url.fragment:
        raise ConfigError(
            f"The store URL {shown} has a query or a fragment, which Qdrant does not use. "
            f"Pass a key as api_key=, or in the environment variable {API_KEY_VARIABLE}."
        )
    return url, _REST_PORT if port is None else port


def _grpc_answers(url: SplitResult, port: int) -> bool:
    """Whether something on this port completes a gRPC handshake in time."""
    deadline = time.monotonic() + GRPC_PROBE_S
    try:
        # gRPC keeps trying a closed port until the deadline; a socket knows at once.
        socket.create_connection((url.hostname, port), timeout=GRPC_PROBE_S).close()
    except OSError:
        return False
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
    target = f"{host}:{port}"
    if url.scheme == "https":
        channel = grpc.secure_channel(target, grpc.ssl_channel_credentials())
    else:
        channel = grpc.insecure_channel(target)
    try:
        grpc.channel_ready_future(channel).result(timeout=max(0.1, deadline - time.monotonic()))
    except grpc.FutureTimeoutError:
        return False
    finally:
        channel.close()
    return True


def _open_directory(text: str) -> EdgeClient:
    path = Path(text).expanduser()
    if _HOST_AND_PORT.match(text) and not path.exists():
        raise ConfigError(
            f"{text!r} looks like a server. Write http://{text} (or https://), or ./{text} for a "
            "directory of that name."
        )
    if path.exists() and not path.is_dir():
        raise ConfigError(f"The store location {path} is a file. Pass a directory.")
    if (path / "meta.json").exists() and (path / "collection").is_dir():
        raise ConfigError(
            f"{path} was written by QdrantClient(path=...), whose format is another one and is "
            "read by unpickling. Choose a new directory and ingest again."
        )
    return EdgeClient(path)
