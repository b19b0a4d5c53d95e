"""What an ingest did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lmk_integrations.records import Failure
from lmk_integrations.text.unbroken import NOTE, WARNING_CHARS

UNK_WARNING_SHARE = 0.2


@dataclass(slots=True)
class IngestReport:
    """Counts of one ingest run.

    new, updated, unchanged: documents. relabelled: of the updated, those whose metadata alone
    changed (nothing was encoded). pruned_ids: documents deleted because their file is gone; of a
    dry run: those that would be.
    skipped, failed: the items that were not stored, with a reason each.
    sections: section points written. tokens_seen = tokens_embedded + tokens_dropped, over new and
    updated documents; tokens_encoded is the part embedded in this run, not found from an
    interrupted one. unknown_tokens: those the tokenizer has no entry for.
    notes: what reading did to the texts, by name, over all documents that were read.
    warnings: of documents that are stored, but whose vectors may say little.
    """

    new: int = 0
    updated: int = 0
    unchanged: int = 0
    relabelled: int = 0
    sections: int = 0
    tokens_seen: int = 0
    tokens_embedded: int = 0
    tokens_dropped: int = 0
    tokens_encoded: int = 0
    unknown_tokens: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    dry_run: bool = False
    skipped: list[Failure] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    pruned_ids: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)

    @property
    def documents(self) -> int:
        """Items looked at."""
        stored = self.new + self.updated + self.unchanged
        return stored + len(self.skipped) + len(self.failed)

    @property
    def pruned(self) -> int:
        """How many documents were deleted because their file is gone; see `pruned_ids`."""
        return len(self.pruned_ids)

    @property
    def tokens_per_s(self) -> float:
        """Tokens encoded in this run per second of the whole run."""
        return self.tokens_encoded / self.seconds if self.seconds > 0 else 0.0

    @property
    def unk_share(self) -> float:
        """The share of tokens seen that the model does not know."""
        return self.unknown_tokens / self.tokens_seen if self.tokens_seen else 0.0

    def add_failure(self, failure: Failure) -> None:
        """Note an item that was not stored."""
        (self.skipped if failure.skipped else self.failed).append(failure)

    def add_notes(self, name: str, notes: Mapping[str, int]) -> None:
        """Note what reading a document did to it."""
        self.notes.update(notes)
        if (unbroken := notes.get(NOTE, 0)) > WARNING_CHARS:
            self.warnings.append(
                f"{name}: {unbroken:,} of its characters are in runs of over 1,000 without a "
                "space, as in base64 or minified code; landmarks over them say little. Exclude it "
                "if nobody will ask for it"
            )

    def add_document(self, name: str, *, is_new: bool, n_tokens: int, n_unk: int) -> None:
        """Note a document whose tokens were all embedded."""
        if is_new:
            self.new += 1
        else:
            self.updated += 1
        self.tokens_seen += n_tokens
        self.tokens_embedded += n_tokens
        self.unknown_tokens += n_unk
        if n_tokens and n_unk / n_tokens > UNK_WARNING_SHARE:
            self.warnings.append(
                f"{name}: {n_unk / n_tokens:.0%} of its tokens are unknown to the model; its "
                "vectors say little. Use a model made for its language"
            )

    def take_back(self, failure: Failure, *, is_new: bool, n_tokens: int, n_unk: int) -> None:
        """Note that a document which was added is not stored after all."""
        if is_new:
            self.new -= 1
        else:
            self.updated -= 1
        self.tokens_seen -= n_tokens
        self.tokens_embedded -= n_tokens
        self.unknown_tokens -= n_unk
        self.add_failure(failure)

    def to_dict(self) -> dict[str, Any]:
        """All counts as JSON values."""
        return {
            "documents": self.documents,
            "new": self.new,
            "updated": self.updated,
            "unchanged": self.unchanged,
            "relabelled": self.relabelled,
            "pruned": self.pruned,
            "pruned_ids": list(self.pruned_ids),
            "skipped": [_failure(item) for item in self.skipped],
            "failed": [_failure(item) for item in self.failed],
            "sections": self.sections,
            "tokens_seen": self.tokens_seen,
            "tokens_embedded": self.tokens_embedded,
            "tokens_dropped": self.tokens_dropped,
            "tokens_encoded": self.tokens_encoded,
            "unk_share": round(self.unk_share, 4),
            "seconds": round(self.seconds, 3),
            "tokens_per_s": round(self.tokens_per_s, 1),
            "interrupted": self.interrupted,
            "dry_run": self.dry_run,
            "warnings": list(self.warnings),
            "notes": dict(self.notes),
        }


def _failure(item: Failure) -> dict[str, str]:
    return {"name": item.name, "reason": item.reason, "message": item.message}
