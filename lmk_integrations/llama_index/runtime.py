"""What a store's configuration cannot hold."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from lmk_integrations._adapters import Worker
from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.llama_index.adding import Adding
from lmk_integrations.qdrant import LandmarkIndex


class Runtime:
    """The open index, what adds nodes to it, and the worker thread of async calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._index: LandmarkIndex | None = None
        self.adding = Adding(None)
        self.worker = Worker()

    def open(self, make: Callable[[], LandmarkIndex]) -> LandmarkIndex:
        """The index; made at the first call."""
        with self._lock:
            if self._index is None:
                self._index = make()
                encoder = self._index.encoder
                self.adding = Adding(encoder if isinstance(encoder, LMKEncoder) else None)
            return self._index

    def __deepcopy__(self, memo: dict[int, Any]) -> Runtime:
        return self  # a copy in the same process shares the open client
