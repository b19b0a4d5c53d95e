"""The store of a dry run into a collection that does not exist yet: it holds nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lmk_integrations.errors import StoreError
from lmk_integrations.ingest.records import (
    Facts,
    HeadRecord,
    SectionRecord,
    StoredHead,
    StoredSections,
    Version,
)


class EmptySink:
    """A `Sink` to look things up in; writing to it is an error."""

    def heads(self, doc_ids: Sequence[str]) -> dict[str, StoredHead]:
        """None."""
        return {}

    def versions(self, doc_ids: Sequence[str]) -> dict[str, dict[Version, int]]:
        """None."""
        return {}

    def sections(self, version: Version, generation: int | None = None) -> StoredSections:
        """None."""
        return StoredSections()

    def count_sections(self, doc_ids: Sequence[str]) -> int:
        """None."""
        return 0

    def doc_ids(self, prefix: str = "", root: str | None = None) -> Iterator[str]:
        """None."""
        return iter(())

    def delete(self, doc_ids: Sequence[str]) -> int:
        """Nothing to delete."""
        return 0

    def write_sections(self, records: Sequence[SectionRecord]) -> None:
        """Refused: a dry run writes nothing."""
        raise StoreError("a dry run does not write")

    def write_heads(self, records: Sequence[HeadRecord]) -> list[HeadRecord]:
        """Refused: a dry run writes nothing."""
        raise StoreError("a dry run does not write")

    def update_facts(self, version: Version, facts: Facts, ordinals: Iterable[int]) -> None:
        """Refused: a dry run writes nothing."""
        raise StoreError("a dry run does not write")
