"""Run by the tests in a process of its own: ingests the bad files, prints the reports as JSON.

Arguments: the folder that holds them, the folder of the endless one, the store.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from stand_in import stand_in

from lmk_integrations import LandmarkIndex
from lmk_integrations.ingest.sources import ReadOptions

LIMITED = ReadOptions(memory_limit_mb=256, pdf_timeout_s=3000)
HURRIED = ReadOptions(pdf_timeout_s=1.0)
FOLLOWING = ReadOptions(include=("escape*", "loop", "nowhere*"), follow_symlinks=True)
ticks = itertools.count(1)


def meddle(event: str, arguments: tuple[object, ...]) -> None:
    """Write to one file whenever it is opened, and delete another."""
    if event != "open" or not isinstance(arguments[0], str | os.PathLike):
        return
    path = os.fspath(arguments[0])
    if path.endswith("/changing.txt"):
        os.utime(path, ns=(0, next(ticks) * 10**9))
    elif path.endswith("/vanishing.txt"):
        os.unlink(path)


def main() -> None:
    docs, endless, store = map(Path, sys.argv[1:])
    with LandmarkIndex(store, "c", stand_in()) as index:
        sys.addaudithook(meddle)
        runs = {
            "first": index.ingest(docs, options=LIMITED),
            "again": index.ingest(docs, options=LIMITED),
            "endless": index.ingest(endless, options=HURRIED),
            "followed": index.ingest(docs, options=FOLLOWING),
        }
    print(json.dumps({name: report.to_dict() for name, report in runs.items()}))


if __name__ == "__main__":
    main()
