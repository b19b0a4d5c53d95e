"""From a text to what the encoder will read: sections, and windows over them.

Works on a stream: a text is read piece by piece, a section leaves as soon as it is closed, so
memory stays bounded however long the text is.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.core.landmarks import (
    MAX_CUT_TOKENS,
    chunk_bounds,
    chunk_bounds_at,
    insert_landmarks,
    landmark_spans,
    token_boundaries,
)
from lmk_integrations.core.pooling import Pooling, RowPlan, plan_rows
from lmk_integrations.core.sections import section_end
from lmk_integrations.core.windows import Window, plan_windows
from lmk_integrations.encoder.backends.base import WindowInput
from lmk_integrations.encoder.tokens import Tokenizer, iter_pieces, placed, stripped
from lmk_integrations.records import Mark, Markup, TextSource
from lmk_integrations.text.structure import find_structure

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How texts are laid out for one encoder.

    capacity: positions a window has, special tokens and landmarks included.
    section_tokens: None keeps each text whole.
    suffix: special tokens behind the last chunk of a window, and behind its landmark.
    framed: as `LandmarkStyle` says: no white space around a text is read, and a prompt's tokens
        count in the first chunk.
    """

    pooling: Pooling
    granularity: int | str
    capacity: int
    overlap_tokens: int
    section_tokens: int | None
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    landmark_id: int | None
    fallback_id: int
    unk_id: int | None
    pool_prompt: bool
    prompt: str
    framed: bool = False

    @property
    def n_closing(self) -> int:
        """How many special tokens right behind a window's last landmark are landmarks, too."""
        if self.pooling != "lmk":
            return 0
        others = [place for place, id_ in enumerate(self.suffix) if id_ != self.landmark_id]
        return others[0] if others else len(self.suffix)

    @property
    def joins_sections(self) -> bool:
        """Whether one window may take several sections: not where its text vector is one state."""
        return self.pooling in ("lmk", "mean")


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionPlan:
    """A closed section.

    start, end: its characters in the text; spans: (n_landmarks, 2) characters in the text;
    chunk_tokens: (n_landmarks,) tokens of each chunk; heading, page: those in force at its start;
    marks: those that begin inside it.
    """

    ordinal: int
    start: int
    end: int
    text: str
    spans: Ints
    chunk_tokens: Ints
    n_tokens: int
    n_unk: int
    heading: str | None
    page: str | None
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """A window's input and what its rows mean."""

    input: WindowInput
    rows: RowPlan


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Whole sections that are encoded together, and the windows that cover them in order."""

    sections: tuple[SectionPlan, ...]
    windows: tuple[WindowPlan, ...]


@dataclass(slots=True)
class _Open:
    """A section waiting for its group: its plan, token ids and chunk bounds."""

    plan: SectionPlan
    ids: Ints
    bounds: Ints


@dataclass(slots=True)
class _Buffer:
    """Tokens read but not yet cut into sections. Positions are characters of the whole text."""

    ids: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    boundaries: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    levels: list[Ints] = field(default_factory=lambda: [np.empty(0, np.int64)] * 4)
    text: str = ""
    text_start: int = 0

    def add(self, ids: Ints, boundaries: Ints, levels: Sequence[Ints], text: str) -> None:
        self.ids = np.concatenate([self.ids, ids])
        self.boundaries = np.concatenate([self.boundaries[:-1], boundaries])
        self.levels = [np.concatenate(pair) for pair in zip(self.levels, levels, strict=True)]
        self.text += text

    def token_levels(self) -> list[Ints]:
        """The levels as token indices of this buffer."""
        return [np.searchsorted(self.boundaries[:-1], level, side="left") for level in self.levels]

    def drop(self, n_tokens: int) -> None:
        """Forget the first tokens and the text before the others."""
        self.ids = self.ids[n_tokens:]
        self.boundaries = self.boundaries[n_tokens:]
        begin = int(self.boundaries[0])
        self.levels = [level[np.searchsorted(level, begin) :] for level in self.levels]
        self.text = self.text[begin - self.text_start :]
        self.text_start = begin


class Planner:
    """Plans texts for one layout. Holds no state between texts."""

    def __init__(self, tokenizer: Tokenizer, layout: Layout) -> None:
        self._tokenizer = tokenizer
        self._layout = layout

    def plan(
        self, text: str | TextSource, marks: Sequence[Mark] = (), markup: Markup = "plain"
    ) -> Iterator[GroupPlan]:
        """The groups of one text, in order; at least one, for an empty text has a landmark too."""
        return _TextPlan(self._tokenizer, self._layout, marks, markup).groups(text)


class _TextPlan:
    """The planning of one text."""

    def __init__(
        self, tokenizer: Tokenizer, layout: Layout, marks: Sequence[Mark], markup: Markup
    ) -> None:
        self._tokenizer = tokenizer
        self._layout = layout
        self._markup = markup
        self._marks = sorted(marks, key=lambda mark: mark.start)
        self._headings: list[tuple[int, str]] = []
        self._pages: list[tuple[int, str]] = []
        self._prompt_ids: Ints = np.empty(0, np.int64)
        self._buffer = _Buffer()
        self._ordinal = 0
        self._pending: list[_Open] = []
        self._tail: list[Ints] = []  # chunks before the pending group, for overlap

    def groups(self, text: str | TextSource) -> Iterator[GroupPlan]:
        pieces = placed(iter_pieces(text))
        if self._layout.framed:
            pieces = stripped(pieces, start=not self._layout.prompt.strip())
        for number, (position, piece) in enumerate(pieces):
            if number == 0:
                self._buffer.text_start = position
            self._read(piece, position, is_first=number == 0)
            if self._layout.section_tokens is not None:
                for section in self._closed(self._layout.section_tokens):
                    yield from self._join(section)
        budget = self._layout.section_tokens or max(1, len(self._buffer.ids))
        for section in self._closed(budget):
            yield from self._join(section)
        yield from self._join(self._section(0, len(self._buffer.ids)))
        yield from self._flush()

    def _read(self, piece: str, position: int, *, is_first: bool) -> None:
        """Tokenise a piece and find its structure."""
        prompt = self._layout.prompt if is_first else ""
        if self._layout.framed:
            prompt = prompt.lstrip() if piece else prompt.strip()
        tokens = self._tokenizer.encode(prompt + piece)
        ids, offsets = tokens.ids, tokens.offsets
        if prompt:
            # Together with the text, as at training; a token across the border is the text's.
            ends = np.maximum.accumulate(offsets[:, 1])
            of_prompt = int(np.searchsorted(ends, len(prompt), side="right"))
            self._prompt_ids = ids[:of_prompt]
            ids, offsets = ids[of_prompt:], np.maximum(offsets[of_prompt:] - len(prompt), 0)
        floor = int(self._buffer.boundaries[-1])
        shifted = offsets + position
        boundaries = token_boundaries(shifted, floor)
        words = boundaries[:-1][shifted[:, 0] > np.append(floor, shifted[:-1, 1])[: len(ids)]]
        self._buffer.add(ids, boundaries, self._levels(piece, position, words), piece)

    def _levels(self, piece: str, position: int, words: Ints) -> list[Ints]:
        if self._layout.section_tokens is None and self._layout.granularity != "sentence":
            return [np.empty(0, np.int64)] * 4
        found = find_structure(piece, self._markup)
        end = position + len(piece)
        marked = [m for m in self._marks if position <= m.start < end]
        headings = {
            (int(at) + position, label)
            for at, label in zip(found.headings, found.labels, strict=True)
        } | {(m.start, m.label) for m in marked if m.kind == "heading"}
        pages = [(m.start, m.label) for m in marked if m.kind == "page"]
        # Those before the buffer matter no more, but for the one still in force.
        begin = self._buffer.text_start
        self._headings = [*_since(self._headings, begin), *sorted(headings)]
        self._pages = [*_since(self._pages, begin), *pages]
        breaks = {*(found.paragraphs + position).tolist(), *(at for at, _ in pages)}
        return [
            np.array(sorted({at for at, _ in headings}), np.int64),
            np.array(sorted(breaks), np.int64),
            found.sentences + position,
            words,
        ]

    def _closed(self, budget: int) -> Iterator[_Open]:
        """Cut off the sections that end before the last token read."""
        levels = self._buffer.token_levels()
        start = 0
        while len(self._buffer.ids) - start > budget:
            end = section_end(start, len(self._buffer.ids), budget, levels)
            yield self._section(start, end)
            start = end
        self._buffer.drop(start)

    def _section(self, first: int, stop: int) -> _Open:
        buffer, layout = self._buffer, self._layout
        ids = buffer.ids[first:stop]
        if layout.granularity == "sentence":
            own = buffer.boundaries[first : stop + 1]
            near = np.searchsorted(buffer.levels[2], own[[0, -1]])
            starts = np.searchsorted(own[:-1], buffer.levels[2][slice(*near)], side="left")
            most = min(MAX_CUT_TOKENS, max(1, self._chunk_capacity() - 1))
            bounds = chunk_bounds_at(len(ids), starts, most)
        else:
            per_chunk = int(layout.granularity)
            of_prompt = len(self._prompt_ids) % per_chunk
            before = of_prompt if layout.framed and self._ordinal == 0 else 0
            bounds = np.maximum(chunk_bounds(before + len(ids), per_chunk) - before, 0)
        spans = landmark_spans(buffer.boundaries[first : stop + 1], bounds)
        start, end = int(spans[0, 0]), int(spans[-1, 1])
        plan = SectionPlan(
            ordinal=self._ordinal,
            start=start,
            end=end,
            text=buffer.text[start - buffer.text_start : end - buffer.text_start],
            spans=spans,
            chunk_tokens=np.diff(bounds),
            n_tokens=len(ids),
            n_unk=0 if layout.unk_id is None else int(np.count_nonzero(ids == layout.unk_id)),
            heading=_in_force(self._headings, start),
            page=_in_force(self._pages, start),
            marks=self._inside(start, end),
        )
        self._ordinal += 1
        return _Open(plan, ids, bounds)

    def _inside(self, start: int, end: int) -> tuple[Mark, ...]:
        """The headings and pages that begin after the section's start and before its end."""
        headings = [Mark(at, "heading", text) for at, text in _between(self._headings, start, end)]
        pages = [Mark(at, "page", label) for at, label in _between(self._pages, start, end)]
        return tuple(sorted(headings + pages, key=lambda mark: mark.start))

    def _join(self, section: _Open) -> Iterator[GroupPlan]:
        """Add a section to the group, closing the group first if they do not fit one window."""
        cost = self._cost(section) + sum(self._cost(other) for other in self._pending)
        if self._pending and (not self._layout.joins_sections or cost > self._chunk_capacity()):
            yield from self._flush()
        self._pending.append(section)

    def _cost(self, section: _Open) -> int:
        landmarks = len(section.bounds) - 1 if self._layout.pooling == "lmk" else 0
        return len(section.ids) + landmarks

    def _chunk_capacity(self) -> int:
        layout = self._layout
        around = len(layout.prefix) + len(self._prompt_ids) + len(layout.suffix)
        return max(1, layout.capacity - around)

    def _flush(self) -> Iterator[GroupPlan]:
        if not self._pending:
            return
        chunks = [
            part
            for section in self._pending
            for part in np.split(section.ids, section.bounds[1:-1])
        ]
        held = self._tail + chunks
        per_landmark = 1 if self._layout.pooling == "lmk" else 0
        costs = np.array([len(chunk) + per_landmark for chunk in held], np.int64)
        windows = plan_windows(
            costs,
            self._chunk_capacity(),
            overlap=self._layout.overlap_tokens,
            first_owned=len(self._tail),
        )
        sections = tuple(section.plan for section in self._pending)
        yield GroupPlan(sections, tuple(self._window(held, window) for window in windows))
        self._pending = []
        if self._layout.overlap_tokens:
            behind = np.cumsum([len(chunk) for chunk in reversed(held)])
            wanted = int(np.searchsorted(behind, self._layout.overlap_tokens)) + 1
            self._tail = held[-wanted:]

    def _window(self, chunks: list[Ints], window: Window) -> WindowPlan:
        layout = self._layout
        parts = chunks[window.context : window.stop]
        bounds = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        prefix = (*layout.prefix, *self._prompt_ids.tolist())
        tokens = np.concatenate(parts)
        if layout.pooling == "lmk":
            assert layout.landmark_id is not None
            ids, positions = insert_landmarks(tokens, bounds, layout.landmark_id, prefix)
            ids = np.concatenate([ids, np.asarray(layout.suffix, np.int64)])
        else:
            ids = np.concatenate([prefix, tokens, layout.suffix]).astype(np.int64)
            if len(ids) == 0:  # an empty text in a model without special tokens
                ids = np.array([layout.fallback_id], np.int64)
            positions = bounds + len(prefix)
        skipped = len(prefix) if len(self._prompt_ids) else 0
        rows = plan_rows(
            layout.pooling,
            positions,
            window.first - window.context,
            len(prefix),
            len(ids),
            pooled_prefix_start=0 if layout.pool_prompt else skipped,
            n_closing=layout.n_closing,
        )
        return WindowPlan(WindowInput(ids, rows.starts, rows.stops), rows)


def _since(marks: list[tuple[int, str]], position: int) -> list[tuple[int, str]]:
    """The marks from the one in force at a position on."""
    return marks[max(0, bisect.bisect_right(marks, position, key=lambda mark: mark[0]) - 1) :]


def _between(marks: list[tuple[int, str]], start: int, end: int) -> list[tuple[int, str]]:
    """The marks after a position and before another."""
    first = bisect.bisect_right(marks, start, key=lambda mark: mark[0])
    return marks[first : bisect.bisect_left(marks, end, first, key=lambda mark: mark[0])]


def _in_force(marks: list[tuple[int, str]], position: int) -> str | None:
    """The label of the last mark at or before a position."""
    at = bisect.bisect_right(marks, position, key=lambda mark: mark[0])
    return marks[at - 1][1] if at else None
