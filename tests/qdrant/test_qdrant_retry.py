"""Which failures are retried, how long the pauses are, and what the last error says.

A real QdrantClient talks to a real HTTP server that fails in the ways a network does.
"""

from __future__ import annotations

import json
import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import pytest
from qdrant_client import QdrantClient

from lmk_integrations.errors import ConfigError, StoreError, StoreUnreachableError
from lmk_integrations.qdrant.retry import call_with_retry

OK = (200, {}, {"result": {"collections": [{"name": "c"}]}, "status": "ok", "time": 0.0})


def refusal(status: int, message: str, **headers: str) -> tuple[int, dict[str, str], Any]:
    return status, headers, {"status": {"error": message}, "time": 0.0}


@contextmanager
def server(answers: list[Any]) -> Iterator[tuple[QdrantClient, list[str]]]:
    """A client of a server that gives these answers in turn, then OK. None hangs up."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            answer = answers.pop(0) if answers else OK
            if answer is None:
                self.close_connection = True
                self.connection.close()
                return
            status, headers, body = answer
            text = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        client = QdrantClient(
            url=f"http://127.0.0.1:{httpd.server_port}",
            port=httpd.server_port,
            check_compatibility=False,
            timeout=5,
        )
        try:
            yield client, asked
        finally:
            client.close()
            httpd.shutdown()


def names(client: QdrantClient) -> Callable[[], list[str]]:
    return lambda: [item.name for item in client.get_collections().collections]


@pytest.mark.parametrize(
    "trouble",
    [
        refusal(503, "starting"),
        refusal(500, "oops"),
        refusal(502, ""),
        refusal(408, "timed out"),
        refusal(429, "slow down"),
        (504, {}, b"<html>gateway</html>"),
        None,
    ],
)
def test_passing_trouble_is_outlasted(trouble: Any) -> None:
    """Two failures, then the answer; the pauses lie between half and all of 0.5 s, 1 s."""
    pauses: list[float] = []
    with server([trouble, trouble]) as (client, asked):
        assert call_with_retry(names(client), sleep=pauses.append) == ["c"]
        assert len(asked) == 3
    assert 0.25 <= pauses[0] <= 0.5 <= pauses[1] <= 1.0


def test_retry_after_is_honoured() -> None:
    """The server's wish is a lower bound; one that is too long ends the attempts."""
    pauses: list[float] = []
    with server([refusal(429, "busy", Retry_After="7")]) as (client, _):
        assert call_with_retry(names(client), sleep=pauses.append) == ["c"]
    assert pauses == [7.0]
    with (
        server([refusal(429, "busy", Retry_After="3600")]) as (client, asked),
        pytest.raises(StoreUnreachableError, match="busy"),
    ):
        call_with_retry(names(client), sleep=pauses.append)
    assert (pauses, len(asked)) == ([7.0], 1)


def test_pauses_grow_to_a_limit_and_end() -> None:
    """Doubling up to max_s, then StoreUnreachableError that tells how to go on."""
    pauses: list[float] = []
    with (
        server([refusal(503, "down")] * 10) as (client, asked),
        pytest.raises(StoreUnreachableError, match=r"in 6 attempts: HTTP 503: down.*resume"),
    ):
        call_with_retry(
            names(client),
            attempts=6,
            base_s=1.0,
            max_s=4.0,
            sleep=pauses.append,
            rng=random.Random(1),
        )
    assert len(asked) == 6
    for pause, whole in zip(pauses, [1.0, 2.0, 4.0, 4.0, 4.0], strict=True):
        assert whole / 2 <= pause <= whole
    # Many clients of one server must not come back all at the same moment.
    assert len(set(pauses[2:])) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_refusal_is_not_retried(status: int) -> None:
    """StoreError with the server's own words, at once."""
    with (
        server([refusal(status, "Wrong input: dim 3")]) as (client, asked),
        pytest.raises(StoreError, match=f"HTTP {status}: Wrong input: dim 3") as error,
    ):
        call_with_retry(names(client), sleep=lambda _: pytest.fail("slept"))
    assert not isinstance(error.value, StoreUnreachableError)
    assert len(asked) == 1


def test_an_answer_that_is_no_answer_is_not_retried() -> None:
    """Some other program on the port is a StoreError, not an outage."""
    with (
        server([(200, {}, {"result": "hello"})]) as (client, asked),
        pytest.raises(StoreError, match="refused"),
    ):
        call_with_retry(names(client), sleep=lambda _: pytest.fail("slept"))
    assert len(asked) == 1


def test_nobody_there() -> None:
    """A refused connection is retried and then reported as unreachable."""
    with server([]) as (client, _):
        pass
    client = QdrantClient(
        url=client.init_options["url"], port=client.init_options["port"], check_compatibility=False
    )
    pauses: list[float] = []
    with pytest.raises(StoreUnreachableError, match="in 2 attempts: ConnectError"):
        call_with_retry(names(client), attempts=2, sleep=pauses.append)
    assert len(pauses) == 1


class RpcFailure(grpc.RpcError):  # type: ignore[misc]
    def __init__(self, code: grpc.StatusCode) -> None:
        self._code = code

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return "told by the server"


@pytest.mark.parametrize(
    ("code", "kind", "calls"),
    [
        (grpc.StatusCode.UNAVAILABLE, StoreUnreachableError, 3),
        (grpc.StatusCode.DEADLINE_EXCEEDED, StoreUnreachableError, 3),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, StoreUnreachableError, 3),
        (grpc.StatusCode.INTERNAL, StoreUnreachableError, 3),
        (grpc.StatusCode.INVALID_ARGUMENT, StoreError, 1),
        (grpc.StatusCode.NOT_FOUND, StoreError, 1),
        (grpc.StatusCode.UNAUTHENTICATED, StoreError, 1),
    ],
)
def test_grpc_codes(code: grpc.StatusCode, kind: type[StoreError], calls: int) -> None:
    """The same rules over gRPC."""
    made = []

    def fail() -> None:
        made.append(1)
        raise RpcFailure(code)

    with pytest.raises(StoreError, match=f"gRPC {code.name}: told by the server") as error:
        call_with_retry(fail, attempts=3, sleep=lambda _: None)
    assert (type(error.value), len(made)) == (kind, calls)


def test_a_real_grpc_outage() -> None:
    """A channel to nowhere gives an error with a code, which is retried."""
    channel = grpc.insecure_channel("127.0.0.1:9")
    call = channel.unary_unary("/qdrant.Qdrant/HealthCheck")
    with pytest.raises(StoreUnreachableError, match=r"gRPC (UNAVAILABLE|DEADLINE_EXCEEDED)"):
        call_with_retry(lambda: call(b"", timeout=1), attempts=2, sleep=lambda _: None)
    channel.close()


@pytest.mark.parametrize("error", [ConfigError("x"), StoreError("x"), ValueError("x"), KeyError(1)])
def test_other_errors_pass_through(error: Exception) -> None:
    """Errors of memory and embedded stores, and of our own, are not the network's."""

    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        call_with_retry(fail, sleep=lambda _: pytest.fail("slept"))
    assert raised.value is error


def test_each_retry_is_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    """One line per pause, with the reason."""
    with server([refusal(503, "down")]) as (client, _), caplog.at_level(logging.WARNING):
        call_with_retry(names(client), sleep=lambda _: None)
    (record,) = [r for r in caplog.records if r.name == "lmk_integrations.qdrant.retry"]
    assert "HTTP 503: down" in record.getMessage()
