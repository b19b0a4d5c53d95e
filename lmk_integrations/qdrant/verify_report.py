"""What a verification found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from qdrant_client import models

from lmk_integrations.records import Failure

Kind = Literal["missing", "stale", "altered", "duplicated", "foreign"]
KINDS: tuple[Kind, ...] = ("missing", "stale", "altered", "duplicated", "foreign")

PointId = models.ExtendedPointId


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it should be.

    kind: "missing" what should be there; "stale" what is out of date; "altered" what is not as it
        was written; "duplicated" a second copy; "foreign" what no document of the source accounts
        for. doc_id: None where it is no document's.
    points: to be deleted in a repair. needs_source: they come back from the source only, so they
        are deleted when it is at hand.
    """

    kind: Kind
    doc_id: str | None
    message: str
    points: tuple[PointId, ...] = ()
    needs_source: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"kind": self.kind, "document": self.doc_id, "message": self.message}


@dataclass(slots=True)
class VerifyReport:
    """Counts of one verification.

    documents, sections, items: looked at in the store. compared: documents of the source that
    were compared with it. unread: items of the source that could not be read, so not compared.
    problems: all that was found; where a repair was asked for, `repaired` of them are mended and
    `left` are what a second look still found.
    """

    collection: str
    documents: int = 0
    sections: int = 0
    items: int = 0
    compared: int = 0
    problems: list[Problem] = field(default_factory=list)
    unread: list[Failure] = field(default_factory=list)
    left: list[Problem] | None = None
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def remaining(self) -> list[Problem]:
        """The problems that there still are."""
        return self.problems if self.left is None else self.left

    @property
    def repaired(self) -> int:
        """How many problems are mended."""
        return max(0, len(self.problems) - len(self.remaining))

    @property
    def ok(self) -> bool:
        """Whether the store is as it should be, now."""
        return not self.remaining and not self.interrupted

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON values."""
        counts = Counter(problem.kind for problem in self.problems)
        return {
            "collection": self.collection,
            "ok": self.ok,
            "documents": self.documents,
            "sections": self.sections,
            "items": self.items,
            "compared": self.compared,
            "counts": {kind: counts[kind] for kind in KINDS},
            "problems": [problem.to_dict() for problem in self.problems],
            "repaired": self.repaired,
            "remaining": [problem.to_dict() for problem in self.remaining],
            "unread": [
                {"name": item.name, "reason": item.reason, "message": item.message}
                for item in self.unread
            ],
            "seconds": round(self.seconds, 3),
            "interrupted": self.interrupted,
        }
