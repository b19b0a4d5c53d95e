"""Documents in: reading, skipping what is unchanged, encoding, handing over to a store."""

from lmk_integrations.ingest.readers.options import ReadOptions
from lmk_integrations.ingest.report import IngestReport

__all__ = ["IngestReport", "ReadOptions"]
