"""Which store a location opens, and what is never shown."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from qdrant_client import QdrantClient
from qdrant_client import models as m

from lmk_integrations.errors import ConfigError
from lmk_integrations.qdrant.connect import connect
from lmk_integrations.qdrant.edge import EdgeClient

KEY = "sk-very-secret"


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QDRANT_API_KEY", raising=False)


def options_of(location: str, **arguments: Any) -> dict[str, Any]:
    client = connect(location, **arguments)
    assert isinstance(client, QdrantClient)
    options = client.init_options
    client.close()
    return options


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def grpc_port() -> Iterator[int]:
    """The port of a gRPC server that answers."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    server.stop(None)


def test_memory() -> None:
    """ ":memory:" is qdrant_client's own."""
    client = connect(":memory:")
    assert isinstance(client, QdrantClient)
    assert client.get_collections().collections == []


def test_a_directory_opens_the_embedded_engine(tmp_path: Path) -> None:
    """By text or Path, made if absent."""
    with connect(tmp_path / "a" / "b") as client:
        assert isinstance(client, EdgeClient)
    with connect(str(tmp_path / "a" / "b")) as client:
        assert client.path == (tmp_path / "a" / "b").resolve()


def test_a_home_directory_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """~ means home, also where no shell has replaced it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with connect("~/store") as client:
        assert client.path == (tmp_path / "store").resolve()


def test_a_server_with_grpc(grpc_port: int, caplog: pytest.LogCaptureFixture) -> None:
    """gRPC is used where it answers, without a word."""
    with caplog.at_level(logging.DEBUG, "lmk_integrations"):
        options = options_of("http://127.0.0.1:6333", grpc_port=grpc_port, timeout_s=12.5)
    assert (options["prefer_grpc"], options["grpc_port"]) == (True, grpc_port)
    assert (options["timeout"], options["port"]) == (13, 6333)
    assert caplog.records == []


def test_a_server_without_grpc(caplog: pytest.LogCaptureFixture) -> None:
    """REST, with one notice, and no waiting for a port that is closed."""
    port = closed_port()
    start = time.monotonic()
    with caplog.at_level(logging.DEBUG, "lmk_integrations"):
        options = options_of(f"http://127.0.0.1:{port}", grpc_port=closed_port())
    assert time.monotonic() - start < 3
    assert (options["prefer_grpc"], options["timeout"]) == (False, 60)
    (record,) = caplog.records
    assert f"Using REST for http://127.0.0.1:{port}" in record.getMessage()


def test_a_port_that_is_not_grpc() -> None:
    """Something that listens but does not speak gRPC is given 2 seconds."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        options = options_of("http://127.0.0.1:1", grpc_port=silent.getsockname()[1])
        assert not options["prefer_grpc"]
        assert 1.5 < time.monotonic() - start < 5


def test_ports_follow_the_url(caplog: pytest.LogCaptureFixture) -> None:
    """gRPC is expected on the port after that of REST; a path means a proxy without gRPC."""
    assert options_of("http://127.0.0.1:7001", prefer_grpc=True)["grpc_port"] == 7002
    assert options_of("http://127.0.0.1", prefer_grpc=False)["port"] == 6333
    options = options_of("http://127.0.0.1:7001/qdrant/")
    assert (options["prefix"], options["prefer_grpc"]) == ("qdrant", False)


def test_the_key_comes_from_argument_or_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The argument wins."""
    location = f"https://127.0.0.1:{closed_port()}"
    assert options_of(location, prefer_grpc=False)["api_key"] is None
    monkeypatch.setenv("QDRANT_API_KEY", "from-environment")
    assert options_of(location, prefer_grpc=False)["api_key"] == "from-environment"
    assert options_of(location, prefer_grpc=False, api_key=KEY)["api_key"] == KEY


def test_the_key_is_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    """Neither in logs nor in the client's repr."""
    with caplog.at_level(logging.DEBUG):
        client = connect(f"https://127.0.0.1:{closed_port()}", api_key=KEY)
    assert KEY not in repr(client) + str(client) + caplog.text


@pytest.mark.parametrize(
    ("location", "message"),
    [
        (f"http://user:{KEY}@host:6333", "http://host carries credentials.*api_key="),
        (f"https://{KEY}@host", "https://host carries credentials"),
        (f"https://host:6333?api_key={KEY}", "has a query"),
        (f"https://host:6333/#{KEY}", "has a query or a fragment"),
        (f"http://host:{KEY}", "cannot be read"),
        ("http://", "no host"),
        (f"postgres://u:{KEY}@host/db", "scheme 'postgres'"),
        ("s3://bucket/x", "scheme 's3'"),
        ("file:///tmp/x", "scheme 'file'"),
        ("localhost:6333", "Write http://localhost:6333"),
        ("", "empty"),
        ("  ", "empty"),
    ],
)
def test_locations_that_cannot_be(location: str, message: str) -> None:
    """ConfigError says what to write instead, and never repeats a secret."""
    with pytest.raises(ConfigError, match=message) as error:
        connect(location)
    assert KEY not in str(error.value)


def test_a_file_is_no_store(tmp_path: Path) -> None:
    """A path that names a file is refused."""
    (tmp_path / "x.txt").write_text("hello")
    with pytest.raises(ConfigError, match="is a file"):
        connect(tmp_path / "x.txt")


def test_a_folder_of_local_mode_is_not_opened(tmp_path: Path) -> None:
    """QdrantClient(path=...) writes pickles; they are not read, and not written over."""
    local = QdrantClient(path=str(tmp_path / "local"))
    local.create_collection("c", m.VectorParams(size=2, distance=m.Distance.DOT))
    local.close()
    before = sorted(path.name for path in (tmp_path / "local").iterdir())
    with pytest.raises(ConfigError, match=r"QdrantClient\(path=...\).*unpickling"):
        connect(tmp_path / "local")
    assert sorted(path.name for path in (tmp_path / "local").iterdir()) == before


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_timeouts_must_be_positive(timeout: float) -> None:
    """A request cannot wait for no time, or for ever."""
    with pytest.raises(ConfigError, match="timeout_s"):
        connect("http://127.0.0.1:6333", timeout_s=timeout, prefer_grpc=False)
