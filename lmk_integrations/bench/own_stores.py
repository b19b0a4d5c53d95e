"""This package's index over a made-up corpus, and its encoder for queries. Served by serve.py."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from lmk_integrations.bench.disk import bytes_on_disk
from lmk_integrations.bench.synthetic import CorpusSpec, SyntheticCorpus, SyntheticEncoder
from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.qdrant import LandmarkIndex
from lmk_integrations.qdrant.edge import EdgeClient


def open_worker(name: str) -> Any:
    """The worker of a name."""
    return {"edge": OwnIndex, "query-encoder": QueryEncoder}[name]()


class OwnIndex:
    """LandmarkIndex on the embedded engine, filled by its own ingest."""

    def load(self, folder: str, spec: dict[str, int], optimize: bool) -> dict[str, Any]:
        """Fill an index in a new folder."""
        corpus = SyntheticCorpus(CorpusSpec(**spec))
        client = EdgeClient(folder)
        self._index = LandmarkIndex(client, "bench", SyntheticEncoder(corpus.spec))
        started = time.perf_counter()
        report = self._index.ingest(corpus.documents())
        if optimize:
            client.optimize("bench")
        seconds = time.perf_counter() - started
        if report.failed or report.sections != corpus.spec.sections:
            raise RuntimeError(f"{report.sections} of {corpus.spec.sections} sections were stored")
        info = self._index.info()
        return {
            "seconds": seconds,
            "points": info["points"],
            "documents": info["documents"],
            "bytes": bytes_on_disk(Path(folder)).to_dict(),
        }

    def search(self, mode: Any, query: str, vector: list[float], limit: int) -> dict[str, Any]:
        """The best sections, and how long that took beyond the query's encoding."""
        started = time.perf_counter()
        found = self._index.search(query, limit, vector=vector, mode=mode)
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "hits": [[hit.doc_id, hit.section] for hit in found]}


class QueryEncoder:
    """LMKEncoder on one query at a time."""

    def load(self, model: str | None, device: str) -> dict[str, Any]:
        """Open the model."""
        self._encoder = LMKEncoder(model, device=device).load()
        return {"model": self._encoder.model_name, "dtype": self._encoder.dtype}

    def encode(self, query: str) -> float:
        """How long one query takes."""
        started = time.perf_counter()
        self._encoder.encode_queries([query])
        return time.perf_counter() - started
