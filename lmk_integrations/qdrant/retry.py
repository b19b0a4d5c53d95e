"""Retry what the network broke; explain everything else."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc  # type: ignore[import-untyped]
import httpx
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from lmk_integrations.errors import StoreError, StoreUnreachableError

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

# A server that asks for a longer pause is not going to be waited for; a later run resumes.
MAX_RETRY_AFTER_S = 120.0

_RETRIED_GRPC = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)


@dataclass(frozen=True)
class _Trouble:
    """What went wrong, whether another attempt may help, and how long the server asks to wait."""

    message: str
    passing: bool
    wait_s: float = 0.0


def call_with_retry(
    fn: Callable[[], Result],
    *,
    attempts: int = 5,
    base_s: float = 0.5,
    max_s: float = 20.0,
    sleep: Callable[[float], None] = time.sleep,
    rng: random.Random | None = None,
) -> Result:
    """`fn()`, called again while the network or an overloaded server is in the way.

    attempts: calls in all. base_s, max_s: the pause before the n-th retry is drawn evenly between
        half and the whole of `min(max_s, base_s * 2**(n - 1))`; a longer Retry-After is honoured.
    sleep, rng: for tests.

    Retried: timeouts and broken connections, HTTP 429 and 5xx, gRPC UNAVAILABLE,
    DEADLINE_EXCEEDED and RESOURCE_EXHAUSTED. `fn` must be safe to repeat.

    Raises StoreUnreachableError when the attempts are used up, and StoreError with the server's
    own message when it refuses. Errors that do not come from a server pass through at once.
    """
    draw = rng or random.Random()
    for attempt in range(1, attempts + 1):
        try:
            return fn()
        except (ResponseHandlingException, UnexpectedResponse, QdrantException) as error:
            trouble, cause = _of_http(error), error
        except grpc.RpcError as error:
            trouble, cause = _of_grpc(error), error
        if not trouble.passing:
            raise StoreError(f"Qdrant refused: {trouble.message}") from cause
        if attempt == attempts or trouble.wait_s > MAX_RETRY_AFTER_S:
            raise StoreUnreachableError(
                f"Qdrant did not answer in {attempt} attempts: {trouble.message}. What is stored "
                "stays stored; check the server and run again to resume."
            ) from cause
        pause = min(max_s, base_s * 2 ** (attempt - 1)) * draw.uniform(0.5, 1.0)
        pause = max(pause, trouble.wait_s)
        logger.warning("Qdrant: %s; trying again in %.1f s", trouble.message, pause)
        sleep(pause)
    raise ValueError(f"attempts must be at least 1, got {attempts}")


def _of_http(error: Exception) -> _Trouble:
    if isinstance(error, ResourceExhaustedResponse):
        return _Trouble(str(error), passing=True, wait_s=float(error.retry_after_s))
    if isinstance(error, UnexpectedResponse):
        return _of_status(error)
    if isinstance(error, ResponseHandlingException):
        source = error.source
        # Anything else in here is an answer that came and could not be read: asking again for
        # it would give the same.
        passing = isinstance(source, (httpx.TransportError, OSError))
        return _Trouble(f"{type(source).__name__}: {source}", passing=passing)
    # qdrant_client raises the base class for a Retry-After that is not a number of seconds.
    return _Trouble(str(error), passing=True)


def _of_status(error: UnexpectedResponse) -> _Trouble:
    status = error.status_code or 0
    message = f"HTTP {status}: {_server_message(error)}"
    if status != 429 and status < 500:
        return _Trouble(message, passing=False)
    wait = error.headers.get("retry-after", "") if error.headers is not None else ""
    return _Trouble(message, passing=True, wait_s=float(wait) if wait.isdecimal() else 0.0)


def _server_message(error: UnexpectedResponse) -> str:
    try:
        return str(error.structured()["status"]["error"])
    except (ValueError, KeyError, TypeError):
        return error.reason_phrase or "no explanation"


def _of_grpc(error: Any) -> _Trouble:
    # Errors of a call carry a code; those of a channel that never connected may not.
    code = error.code() if callable(getattr(error, "code", None)) else None
    details = error.details() if callable(getattr(error, "details", None)) else str(error)
    name = "gRPC" if code is None else f"gRPC {code.name}"
    return _Trouble(f"{name}: {details}", passing=code is None or code in _RETRIED_GRPC)
