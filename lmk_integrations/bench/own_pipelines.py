"""This package's ingest. Served by serve.py."""

from __future__ import annotations

import time
from typing import Any

from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.qdrant import LandmarkIndex


def open_worker(name: str) -> Any:
    """An ingest with a granularity and a datatype of landmarks: "32 turbo8", "own float16"."""
    granularity, datatype = name.split()
    return OwnPipeline(None if granularity == "own" else granularity, datatype)


class OwnPipeline:
    """LandmarkIndex.ingest into a folder."""

    def __init__(self, granularity: str | None, datatype: Any) -> None:
        self._datatype = datatype
        is_number = granularity is not None and granularity.isdecimal()
        self._granularity = int(granularity) if granularity and is_number else granularity

    def load(self, model: str | None, device: str) -> dict[str, Any]:
        """Open the model."""
        self._encoder = LMKEncoder(model, device=device, granularity=self._granularity).load()
        return {"dtype": self._encoder.dtype, "granularity": self._encoder.granularity}

    def run(self, paths: list[str], folder: str) -> dict[str, Any]:
        """Store the files in a new folder."""
        started = time.perf_counter()
        datatype = self._datatype
        with LandmarkIndex(folder, "bench", self._encoder, landmark_datatype=datatype) as index:
            report = index.ingest(paths)
            points = index.info()["points"]
        seconds = time.perf_counter() - started
        if report.failed or report.new != len(paths):
            raise RuntimeError(f"{report.new} of {len(paths)} files were stored: {report.failed}")
        return {"seconds": seconds, "points": points, "cut": 0.0}
