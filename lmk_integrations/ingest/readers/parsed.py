"""What a format's reader found in a file, before it is a Document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lmk_integrations.records import Mark, Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """One file's text and structure. problems: parts of the file that could not be read."""

    text: str
    title: str | None = None
    marks: tuple[Mark, ...] = ()
    markup: Markup = "plain"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON values, to travel between processes."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Parsed:
        """The inverse of `to_json`."""
        marks = tuple(Mark(**mark) for mark in values.pop("marks"))
        problems = tuple((where, what) for where, what in values.pop("problems"))
        return cls(**values, marks=marks, problems=problems)
