"""Run by the tests in a process of its own: ingests very much, prints what it took as JSON.

Arguments: what ("text": a file of so many bytes, "files": so many tiny files), how much, a folder
to work in, and the encoder ("stand-in" or "real").
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from ingest_data import story
from stand_in import stand_in

from lmk_integrations import LandmarkIndex, LMKEncoder

MB = 1 << 20


class Memory(threading.Thread):
    """Looks at this process's memory every 20 ms: all of it, and what is not pages of files."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = self.peak_own = 0
        self.base, self.base_own = self._now()
        self.start()

    @staticmethod
    def _now() -> tuple[int, int]:
        lines = Path("/proc/self/status").read_text().splitlines()
        values = {
            line.split(":")[0]: line.split()[1]
            for line in lines
            if line.startswith(("VmRSS", "RssAnon"))
        }
        return int(values["VmRSS"]) << 10, int(values["RssAnon"]) << 10

    def run(self) -> None:
        while True:
            now, own = self._now()
            self.peak, self.peak_own = max(self.peak, now), max(self.peak_own, own)
            time.sleep(0.02)

    def to_dict(self) -> dict[str, int]:
        """In MB; "over": above what the process took before."""
        return {
            "base_mb": self.base // MB,
            "over_mb": (self.peak - self.base) // MB,
            "own_over_mb": (self.peak_own - self.base_own) // MB,
        }


def write_text(path: Path, size: int) -> None:
    """English-looking text of so many bytes, no two megabytes of it the same."""
    block = story(0, 15_000)
    with path.open("w", encoding="utf-8") as file:
        for number in itertools.count():
            file.write(f"Part {number} of this text begins here.\n\n{block}\n\n")
            if file.tell() >= size:
                return


def write_files(folder: Path, count: int) -> None:
    """So many files of a few words, a thousand to a folder."""
    for number in range(count):
        inner = folder / f"{number // 1000:04d}"
        inner.mkdir(parents=True, exist_ok=True)
        (inner / f"{number}.txt").write_text(f"Note {number}: the mill stood by the river.")


def main() -> None:
    what, amount, place = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    docs = place / "docs"
    docs.mkdir()
    if what == "text":
        write_text(docs / "long.txt", amount)
    else:
        write_files(docs, amount)
    # Landmarks of few dimensions: all else is as large as with the real ones.
    real = sys.argv[4] == "real"
    encoder = LMKEncoder().load() if real else stand_in(truncate_dim=32)
    (place / "warm.txt").write_text(story(1, 500))
    with LandmarkIndex(place / "warm", "c", encoder) as index:
        index.ingest(place / "warm.txt")
    memory = Memory()
    begun = time.monotonic()
    with LandmarkIndex(place / "store", "c", encoder) as index:
        report = index.ingest(docs)
        seconds = time.monotonic() - begun
        used = memory.to_dict()
        rows = sections = 0
        for record in index.scan(keys=["lmk"]):
            sections += 1
            rows = max(rows, len(record.payload["lmk"]["ends"]))
        counted = index.count()
    print(
        json.dumps(
            {
                **used,
                "seconds": round(seconds, 1),
                "documents": counted,
                "sections": sections,
                "most_landmarks": rows,
                "dim": encoder.dim,
                "report": report.to_dict(),
            }
        )
    )


if __name__ == "__main__":
    main()
