"""Keys and passwords are used, and never shown: not in logs, errors, reports, nor in any repr."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import file_makers as make
import pytest

from lmk_integrations import LandmarkIndex, connect
from lmk_integrations.encoder.plain import PlainEncoder
from lmk_integrations.errors import LMKError, StoreError, StoreUnreachableError
from lmk_integrations.ingest.readers import ParserProcess
from lmk_integrations.ingest.sources import ReadOptions
from lmk_integrations.qdrant import retry

KEY = "sk-7f3b9c2e5a1d"
PASSWORD = "pw-4e8d1f6a"


@contextmanager
def server(status: int, seen: list[str]) -> Iterator[str]:
    """A server that answers everything with this status; the keys it was sent are in `seen`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer()

        def do_POST(self) -> None:
            self.answer()

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            seen.append(self.headers.get("api-key", ""))
            body = json.dumps({"status": {"error": "not today"}}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between attempts."""
    init = retry.Retries.__init__
    monkeypatch.setattr(
        retry.Retries,
        "__init__",
        lambda self, **given: init(self, **{**given, "sleep": lambda _: None}),
    )


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
@pytest.mark.parametrize(
    ("status", "error"), [(401, StoreError), (403, StoreError), (500, StoreUnreachableError)]
)
@pytest.mark.parametrize("grpc", [False, True])
def test_an_api_key_is_sent_and_never_shown(
    status: int,
    error: type[LMKError],
    grpc: bool,
    at_once: None,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every logger at its most talkative, the whole traceback, and what repr says."""
    monkeypatch.setenv("QDRANT_API_KEY", KEY)
    seen: list[str] = []
    with caplog.at_level(logging.DEBUG), server(status, seen) as url:
        client = connect(url, timeout_s=5, prefer_grpc=grpc)
        with pytest.raises(LMKError) as caught:
            LandmarkIndex(client, "c")
        assert grpc or caught.type is error
        shown = "".join(traceback.format_exception(caught.value)) + repr(client) + caplog.text
        client.close()
    assert KEY not in shown
    if not grpc:
        assert KEY in seen, "the key was not used at all"
        assert "not today" in shown


def test_a_url_with_a_key_in_it_is_refused_without_saying_it() -> None:
    """It would be in logs and process lists."""
    for url in (f"http://{KEY}@host:6333", f"http://host:6333?api-key={KEY}", f"http://u:{KEY}@h"):
        with pytest.raises(LMKError) as caught:
            connect(url)
        assert KEY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("command", [["info"], ["search", "mill", "-c", "c", "--mode", "bm25"]])
def test_the_command_line_never_shows_a_key(command: list[str], tmp_path: Path) -> None:
    """Neither on stdout nor on stderr."""
    with server(403, []) as url:
        done = subprocess.run(
            [sys.executable, "-m", "lmk_integrations.cli", *command, "--to", url],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "QDRANT_API_KEY": KEY},
        )
    assert done.returncode == 1, done.stderr
    assert "not today" in done.stderr
    assert KEY not in done.stdout + done.stderr


def plain() -> PlainEncoder:
    def embed(texts: list[str]) -> list[list[float]]:
        return [[1.0, float(len(text))] for text in texts]

    return PlainEncoder(embed, lambda text: embed([text])[0], dim=2, name="plain")


@pytest.mark.parametrize("right", [True, False])
def test_a_pdf_password_is_used_and_never_shown(
    right: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in the report, the log, repr, nor in the arguments of the process that reads the file."""
    docs = tmp_path / "docs"
    docs.mkdir()
    make.encrypted_pdf(docs / "a.pdf", "Hidden words.", user=PASSWORD if right else "another")
    options = ReadOptions(pdf_password=PASSWORD)
    with caplog.at_level(logging.DEBUG), LandmarkIndex(tmp_path / "s", "c", plain()) as index:
        report = index.ingest(docs, options=options)
        stored = str([record.payload for record in index.scan()])
    assert (report.new, len(report.failed)) == ((1, 0) if right else (0, 1))
    shown = json.dumps(report.to_dict()) + repr(report) + repr(options) + caplog.text + stored
    assert PASSWORD not in shown
    with ParserProcess() as parser:
        child = parser._start()
        line = Path(f"/proc/{child.pid}/cmdline")
        assert PASSWORD not in (line.read_text() if line.exists() else "")


# -- who is contacted ------------------------------------------------------------------------

_contacted: list[Any] = []
_watching = threading.Event()


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching.is_set():
        return
    if event in ("socket.connect", "socket.sendto") and arguments[0].family != socket.AF_UNIX:
        _contacted.append(arguments[1][:2])
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        _contacted.append(arguments[:2])


@pytest.fixture
def contacted() -> Iterator[list[Any]]:
    """Addresses that this process connects to or looks up, for as long as a test runs."""
    if not _contacted and not getattr(_note, "added", False):
        sys.addaudithook(_note)
        _note.added = True  # type: ignore[attr-defined]
    _contacted.clear()
    _watching.set()
    yield _contacted
    _watching.clear()


def test_a_directory_needs_no_network(tmp_path: Path, contacted: list[Any]) -> None:
    """Ingesting and searching here contacts no one, not even this machine."""
    (tmp_path / "a.html").write_text(
        '<html><head><link href="http://a.example/x.css"></head><body><p>The mill.</p>'
        '<img src="http://b.example/y.png"><iframe src="http://c.example/"></iframe></body></html>'
    )
    make.pdf(tmp_path / "b.pdf", ["The river. http://d.example/"])
    with LandmarkIndex(tmp_path / "s", "c", plain()) as index:
        assert index.ingest([tmp_path / "a.html", tmp_path / "b.pdf"]).new == 2
        assert len(index.search("mill", mode="bm25")) == 1
    assert contacted == []


def test_only_the_server_given_is_contacted(at_once: None, contacted: list[Any]) -> None:
    """By REST its port, and the one beside it once, to see whether it speaks gRPC."""
    with server(403, []) as url:
        port = int(url.rpartition(":")[2])
        client = connect(url, timeout_s=5)
        with pytest.raises(StoreError):
            LandmarkIndex(client, "c", plain())
        client.close()
    assert contacted
    assert {address[0] for address in contacted} == {"127.0.0.1"}
    assert {int(address[1]) for address in contacted} <= {port, port + 1}
