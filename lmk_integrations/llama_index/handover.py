"""Landmarks on their way from the model that made an embedding to the store that keeps it.

A node carries one flat vector. What belongs to it beyond that waits here for `LMKVectorStore.add`,
in this process and within a bound; what is not found is encoded once more.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from lmk_integrations.encoder import LandmarkEncoding

DEFAULT_MAX_BYTES = 256 << 20


class Handover:
    """Landmark encodings by text, space and vector. Each one handed over is taken once.

    max_bytes: of all that wait; beyond it the oldest ones go.
    """

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        # An encoding, and how often it has been handed over: equal texts have equal vectors.
        self._waiting: OrderedDict[bytes, tuple[LandmarkEncoding, int]] = OrderedDict()
        self._bytes = 0
        self._takers: weakref.WeakKeyDictionary[object, str] = weakref.WeakKeyDictionary()

    def expect(self, taker: object, space: str) -> None:
        """As long as ``taker`` lives, embeddings of this space are worth handing over."""
        with self._lock:
            self._takers[taker] = space

    def is_expected(self, space: str) -> bool:
        """Whether anyone would take landmarks of this space."""
        with self._lock:
            return space in self._takers.values()

    def offer(self, space: str, text: str, encoding: LandmarkEncoding) -> None:
        """Keep the landmarks of a text; spans are of ``text``."""
        key = _key(space, text, encoding.vector)
        with self._lock:
            _, times = self._pop(key)
            self._waiting[key] = (encoding, times + 1)
            self._bytes += _size(encoding)
            while self._bytes > self.max_bytes:
                self._pop(next(iter(self._waiting)))

    def take(self, space: str, text: str, vector: Sequence[float]) -> LandmarkEncoding | None:
        """The landmarks that this very vector was made of; None where they are not here."""
        key = _key(space, text, vector)
        with self._lock:
            encoding, times = self._pop(key)
            if encoding is not None and times > 1:
                self._waiting[key] = (encoding, times - 1)
                self._bytes += _size(encoding)
            return encoding

    @property
    def n_bytes(self) -> int:
        """What waits now."""
        return self._bytes

    def _pop(self, key: bytes) -> tuple[LandmarkEncoding | None, int]:
        found = self._waiting.pop(key, None)
        if found is None:
            return None, 0
        self._bytes -= _size(found[0])
        return found


def _key(space: str, text: str, vector: Sequence[float] | np.ndarray) -> bytes:
    """The vector is in it because one text has as many contextual vectors as it has contexts."""
    digest = hashlib.sha256(np.asarray(vector, np.float32).tobytes())
    digest.update(f"{space}\0".encode())
    digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.digest()


def _size(encoding: LandmarkEncoding) -> int:
    arrays = (encoding.landmarks, encoding.spans, encoding.weights, encoding.chunk_tokens)
    return sum(array.nbytes for array in arrays) + 512


HANDOVER = Handover()
"""The hand-over of this process, which `LMKEmbedding`, `LandmarkNodeParser` and stores share."""
