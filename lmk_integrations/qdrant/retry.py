"""Retry what the network broke; explain everything else."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc  # type: ignore[import-untyped]
import httpx
from qdrant_client import models
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
        grpc.StatusCode.INTERNAL,  # what a server says over REST with 500
    }
)
# How Qdrant, what stands before it, and gRPC's libraries say that a request is too large.
_UNINDEXED = "Index required but not found"
_TOO_LARGE = re.compile(r"larger than (allowed|max)|message length too large", re.IGNORECASE)


class NotAppliedError(Exception):
    """A write was accepted, but not applied in time."""


SERVER_ERRORS = (
    ResponseHandlingException,
    UnexpectedResponse,
    QdrantException,
    grpc.RpcError,
    NotAppliedError,
)
"""What a request to a server may raise, for `Retries.after`."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What went wrong.

    passing: another attempt may help. wait_s: how long the server asks to wait.
    timed_out: it took too long, or broke off while we wrote: a smaller request may get through.
    too_large: only a smaller request will.
    """

    message: str
    passing: bool
    wait_s: float = 0.0
    timed_out: bool = False
    too_large: bool = False


class Retries:
    """Attempts at one thing, bounded, with pauses that grow; a success begins anew.

    attempts: failures in a row that are too many. base_s, max_s: the pause after the n-th failure
        is drawn evenly between half and the whole of `min(max_s, base_s * 2**(n - 1))`; a longer
        Retry-After is honoured.
    sleep, rng: for tests.
    """

    def __init__(
        self,
        *,
        attempts: int = 5,
        base_s: float = 0.5,
        max_s: float = 20.0,
        sleep: Callable[[float], None] = time.sleep,
        rng: random.Random | None = None,
    ) -> None:
        if attempts < 1:
            raise ValueError(f"attempts must be at least 1, got {attempts}")
        self._attempts = attempts
        self._base_s = base_s
        self._max_s = max_s
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._failed = 0

    def succeeded(self) -> None:
        """Note that the way is clear again."""
        self._failed = 0

    def after(self, error: Exception) -> Trouble:
        """Wait as long as is due after one of SERVER_ERRORS, and say what it was.

        Raises StoreError with the server's own message where another attempt is pointless, and
        StoreUnreachableError when there were enough of them.
        """
        trouble = diagnose(error)
        if not trouble.passing:
            raise StoreError(f"Qdrant refused: {trouble.message}{_remedy(trouble)}") from error
        self._failed += 1
        if self._failed == self._attempts or trouble.wait_s > MAX_RETRY_AFTER_S:
            raise StoreUnreachableError(
                f"Qdrant did not answer in {self._failed} attempts: {trouble.message}. What is "
                "stored stays stored; check the server and run again to resume."
            ) from error
        whole = min(self._max_s, self._base_s * 2 ** (self._failed - 1))
        pause = max(whole * self._rng.uniform(0.5, 1.0), trouble.wait_s)
        logger.warning("Qdrant: %s; trying again in %.1f s", trouble.message, pause)
        self._sleep(pause)
        return trouble


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

    attempts: calls in all; the other settings are those of `Retries`.

    Retried: timeouts and broken connections, HTTP 408, 429 and 5xx, the same of gRPC, and writes
    that are not applied in time (see `applied`). `fn` must be safe to repeat.

    Raises StoreUnreachableError when the attempts are used up, and StoreError with the server's
    own message when it refuses. Errors that do not come from a server pass through at once.
    """
    retries = Retries(attempts=attempts, base_s=base_s, max_s=max_s, sleep=sleep, rng=rng)
    while True:
        try:
            return fn()
        except SERVER_ERRORS as error:
            retries.after(error)


def _remedy(trouble: Trouble) -> str:
    """What to do about a refusal, where the server does not say it in this client's words."""
    if _UNINDEXED not in trouble.message:
        return ""
    return (
        " (This server runs in strict mode, which filters by indexed keys only. Once, for each "
        "metadata key: client.create_payload_index(collection, key, type), with key and type as "
        "named here)"
    )


def applied(result: models.UpdateResult) -> models.UpdateResult:
    """The result of a write that is done. Raises NotAppliedError: accepted is not stored."""
    if result.status != models.UpdateStatus.COMPLETED:
        raise NotAppliedError(
            f"a write was accepted, but not applied in time (status {result.status.value!r})"
        )
    return result


def diagnose(error: Exception) -> Trouble:
    """What one of SERVER_ERRORS means."""
    if isinstance(error, NotAppliedError):
        return Trouble(str(error), passing=True, timed_out=True)
    if isinstance(error, grpc.RpcError):
        return _of_grpc(error)
    if isinstance(error, ResourceExhaustedResponse):
        return Trouble(str(error), passing=True, wait_s=float(error.retry_after_s))
    if isinstance(error, UnexpectedResponse):
        return _of_status(error)
    if isinstance(error, ResponseHandlingException):
        return _of_transport(error.source)
    # qdrant_client raises the base class for a Retry-After that is not a number of seconds.
    return Trouble(str(error), passing=True)


def _of_transport(source: Exception) -> Trouble:
    # Anything else in here is an answer that came and could not be read: asking again for it
    # would give the same.
    passing = isinstance(source, (httpx.TransportError, OSError))
    # A server that refuses a large body hangs up before it has read all of it.
    small_helps = isinstance(source, (httpx.TimeoutException, httpx.WriteError))
    return Trouble(f"{type(source).__name__}: {source}", passing=passing, timed_out=small_helps)


def _of_status(error: UnexpectedResponse) -> Trouble:
    status = error.status_code or 0
    said = _server_message(error)
    message = f"HTTP {status}: {said}"
    if status == 413 or (status == 400 and _TOO_LARGE.search(said)):
        return Trouble(message, passing=False, too_large=True)
    if status not in (408, 429) and status < 500:
        return Trouble(message, passing=False)
    wait = error.headers.get("retry-after", "") if error.headers is not None else ""
    return Trouble(
        message,
        passing=True,
        wait_s=float(wait) if wait.isdecimal() else 0.0,
        timed_out=status in (408, 504),
    )


def _server_message(error: UnexpectedResponse) -> str:
    try:
        return str(error.structured()["status"]["error"])
    except (ValueError, KeyError, TypeError):
        return error.reason_phrase or "no explanation"


def _of_grpc(error: Any) -> Trouble:
    # Errors of a call carry a code; those of a channel that never connected may not.
    code = error.code() if callable(getattr(error, "code", None)) else None
    details = error.details() if callable(getattr(error, "details", None)) else str(error)
    message = f"gRPC: {details}" if code is None else f"gRPC {code.name}: {details}"
    if _TOO_LARGE.search(details or ""):
        return Trouble(message, passing=False, too_large=True)
    return Trouble(
        message,
        passing=code is None or code in _RETRIED_GRPC,
        timed_out=code == grpc.StatusCode.DEADLINE_EXCEEDED,
    )
