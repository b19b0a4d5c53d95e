"""What an encoder is asked: a retrieval task at one length of the documents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """A retrieval task at one length; what does not depend on the encoder.

    qrels: by query id; depths: by query id, 0 to 1, or None where it is not known.
    """

    name: str
    length: int
    doc_ids: tuple[str, ...]
    texts: tuple[str, ...]
    query_ids: tuple[str, ...]
    queries: tuple[str, ...]
    qrels: Mapping[str, Mapping[str, int]]
    depths: Mapping[str, float | None]

    @property
    def key(self) -> str:
        """Its name in files: equal for equal texts, queries and judgements."""
        content = [self.doc_ids, self.texts, self.query_ids, self.queries, dict(self.qrels)]
        digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
        return f"{self.name}@{self.length} {digest[:16]}"
