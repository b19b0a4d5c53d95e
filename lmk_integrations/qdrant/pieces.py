"""Many points in requests that the server takes: halved when they are too large or too slow."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from qdrant_client import models

from lmk_integrations.errors import StoreError
from lmk_integrations.qdrant.client import StoreClient, guard
from lmk_integrations.qdrant.retry import SERVER_ERRORS, Retries, applied, diagnose

logger = logging.getLogger(__name__)

Condition = models.Filter | None
Send = Callable[[Sequence[models.PointStruct], Condition], models.UpdateResult]


class Pieces:
    """Writes points with retries, in pieces that the server takes.

    send: writes some points in one request, on a condition, and waits for it. Must be safe to
        repeat.

    What the server finds too large, or does not get done in time, goes again in halves, and what
    comes after it in pieces of that size. retries: for tests.
    """

    def __init__(self, client: StoreClient, send: Send, retries: Retries | None = None) -> None:
        self._client = client
        self._send = send
        self._retries = retries or Retries()
        self._most: int | None = None

    def write(self, points: Sequence[models.PointStruct], condition: Condition = None) -> None:
        """Write all points; returns when they are readable.

        condition: which of the points that are there already may be replaced.
        Raises StoreError with the server's own message where it refuses them,
        StoreUnreachableError when it does not answer.
        """
        with guard(self._client):
            done = 0
            while done < len(points):
                piece = points[done : None if self._most is None else done + self._most]
                if self._try(piece, condition):
                    done += len(piece)

    def _try(self, piece: Sequence[models.PointStruct], condition: Condition) -> bool:
        """Whether the piece is written. Where it is not, the next one is due to be tried."""
        try:
            applied(self._send(piece, condition))
        except SERVER_ERRORS as error:
            trouble = diagnose(error)
            if trouble.too_large and len(piece) == 1:
                raise StoreError(
                    f"Qdrant refused point {piece[0].id} of {_name(piece[0])}: {trouble.message}. "
                    "Ingest with a smaller section_tokens, or raise the server's limit"
                ) from error
            if not trouble.too_large:
                trouble = self._retries.after(error)
            if trouble.too_large or trouble.timed_out:
                self._most = max(1, len(piece) // 2)
                logger.warning("Qdrant: sending at most %d points at once", self._most)
            return False
        self._retries.succeeded()
        return True


def _name(point: models.PointStruct) -> str:
    return repr((point.payload or {}).get("doc_id", "?"))
