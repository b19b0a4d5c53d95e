"""Vector stores of others, filled with given texts and vectors. Served by serve.py in any
environment that has what a store needs; imports nothing of this package."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from typing import Any

_COLLECTION = "bench"
_BATCH = 256


def open_worker(name: str) -> Any:
    """The store of a name."""
    return {"langchain": LangChainLocal}[name]()


class LangChainLocal:
    """langchain_qdrant.QdrantVectorStore on QdrantClient(path=...): its in-process way to keep
    data."""

    def load(self, folder: str, sections: str, vectors: str) -> dict[str, Any]:
        """Fill a store in a new folder. sections: JSON lines with text and metadata; vectors: a
        .npy of as many rows."""
        import warnings

        import numpy as np
        from langchain_core.embeddings import Embeddings
        from langchain_qdrant import QdrantVectorStore
        from qdrant_client import QdrantClient, models

        rows = np.load(vectors)
        given: dict[str, list[float]] = {}

        class Given(Embeddings):
            """The vectors that were made before. The store also probes with texts of its own."""

            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return [given.get(text, rows[0].tolist()) for text in texts]

            def embed_query(self, text: str) -> list[float]:
                raise LookupError("only given vectors are searched by")

        warnings.filterwarnings("ignore", message=".*[Ll]ocal mode is not recommended.*")
        started = time.perf_counter()
        client = QdrantClient(path=folder)
        client.create_collection(
            _COLLECTION,
            vectors_config=models.VectorParams(size=rows.shape[1], distance=models.Distance.COSINE),
        )
        self._store = QdrantVectorStore(client, _COLLECTION, embedding=Given())
        stored = 0
        with Path(sections).open(encoding="utf-8") as file:
            while lines := list(itertools.islice(file, _BATCH)):
                batch = [json.loads(line) for line in lines]
                texts = [one["text"] for one in batch]
                given.clear()
                given.update(zip(texts, rows[stored : stored + len(batch)].tolist(), strict=True))
                self._store.add_texts(texts, [one["metadata"] for one in batch])
                stored += len(batch)
        return {"seconds": time.perf_counter() - started, "points": len(rows)}

    def search(self, vector: list[float], limit: int) -> dict[str, Any]:
        """The nearest sections, and how long that took."""
        started = time.perf_counter()
        found = self._store.similarity_search_with_score_by_vector(vector, k=limit)
        seconds = time.perf_counter() - started
        hits = [[one.metadata["doc_id"], one.metadata["section"]] for one, _ in found]
        return {"seconds": seconds, "hits": hits}
