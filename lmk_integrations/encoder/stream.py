"""A stream of texts -> a stream of encoded sections, in order, with bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.core.batching import token_budget_batches
from lmk_integrations.core.pooling import l2_normalize, weighted_sum
from lmk_integrations.encoder.ahead import begun, done, let_go
from lmk_integrations.encoder.backends.base import Backend
from lmk_integrations.encoder.plan import GroupPlan, Planner, SectionPlan
from lmk_integrations.encoder.records import (
    EncodingCancelled,
    SectionEncoding,
    TextDone,
    TextFailed,
)
from lmk_integrations.errors import DocumentError
from lmk_integrations.records import Mark, Markup, TextSource

Floats = NDArray[np.float32]
Event = SectionEncoding | TextDone | TextFailed

# How many batches' worth of windows are gathered before they are sorted by length and run: more
# means less padding, and later results.
_BATCHES_HELD = 8
# Fewer than a position takes in most texts, so that one lot's texts are rarely taken in two goes.
_CHARS_PER_POSITION = 4


@dataclass(frozen=True, slots=True)
class StreamItem:
    """One text of a stream.

    wanted: tells by ordinal whether a section must be encoded; None: all. A section that shares
        its windows with a wanted one is encoded too.
    """

    text: str | TextSource
    marks: Sequence[Mark] = ()
    markup: Markup = "plain"
    wanted: Callable[[int], bool] | None = None


_Entry = tuple[int, GroupPlan, bool] | TextDone | TextFailed


@dataclass(slots=True)
class _Held:
    """Events in order, groups among them still without rows."""

    entries: list[_Entry] = field(default_factory=list)
    positions: int = 0


class _Planning:
    """Texts taken from a stream, and the lots that are planned from them.

    Texts are taken where `take` is called; `lot` may run in another thread meanwhile, and reads
    only texts that were taken. lot_positions: how many padded positions make a lot.
    """

    def __init__(self, items: Iterable[StreamItem], planner: Planner, lot_positions: int) -> None:
        self._source = enumerate(items)
        self._planner = planner
        self._lot_positions = lot_positions
        self._taken: deque[tuple[int, StreamItem]] = deque()
        self._entries: Iterator[_Entry] | None = None  # of the text that is being planned
        self._error: Exception | None = None
        self._ended = False

    @property
    def goes_on(self) -> bool:
        """Whether there is something to plan without taking more."""
        return self._entries is not None or bool(self._taken)

    def take(self) -> None:
        """Take texts for about a lot, if they are not there yet.

        An error of the stream is kept until what came before it is planned.
        """
        wanted = self._lot_positions * _CHARS_PER_POSITION
        wanted -= sum(self._chars(item) for _, item in self._taken)
        while wanted > 0 and not self._ended:
            try:
                taken = next(self._source, None)
            except Exception as error:
                taken, self._error = None, error
            if taken is None:
                self._ended = True
            else:
                self._taken.append(taken)
                wanted -= self._chars(taken[1])

    def _chars(self, item: StreamItem) -> int:
        """A text of unknown length counts as long, an empty one as more than nothing."""
        if isinstance(item.text, str):
            return len(item.text) + _CHARS_PER_POSITION
        return self._lot_positions * _CHARS_PER_POSITION

    def lot(self) -> _Held:
        """Plan texts that were taken until a lot is full; an empty one is the stream's end."""
        held = _Held()
        while self.goes_on:
            if self._entries is None:
                self._entries = self._plan(*self._taken.popleft())
            for entry in self._entries:
                held.entries.append(entry)
                held.positions += _size(entry)
                if held.positions >= self._lot_positions:
                    return held
            self._entries = None
        if self._error is not None and not held.entries:
            raise self._error
        return held

    def _plan(self, index: int, item: StreamItem) -> Iterator[_Entry]:
        sections = tokens = unknown = 0
        try:
            for group in self._planner.plan(item.text, item.marks, item.markup):
                sections += len(group.sections)
                tokens += sum(section.n_tokens for section in group.sections)
                unknown += sum(section.n_unk for section in group.sections)
                wanted = item.wanted is None or any(item.wanted(s.ordinal) for s in group.sections)
                yield index, group, wanted
        except DocumentError as error:
            yield TextFailed(index, error)
        else:
            yield TextDone(index, sections, tokens, unknown)


class SectionStream:
    """Runs planned windows through a backend in length-sorted batches."""

    def __init__(
        self,
        planner: Planner,
        backend: Callable[[], Backend],
        project: Callable[[Floats], Floats],
        *,
        token_budget: int,
        normalize: bool,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        self._planner = planner
        self._backend = backend
        self._project = project
        self._token_budget = token_budget
        self._normalize = normalize
        self._cancelled = cancelled

    def run(self, items: Iterable[StreamItem]) -> Iterator[Event]:
        """The sections of each text as they close, then its TextDone or TextFailed.

        The next lot is read and tokenised in a thread while the backend runs this one; texts are
        taken from ``items`` in the caller's own.
        """
        planning = _Planning(items, self._planner, self._token_budget * _BATCHES_HELD)
        planning.take()
        held = planning.lot()
        while held.entries:
            planning.take()
            following = (begun if planning.goes_on else done)(planning.lot)
            try:
                yield from self._release(held)
                held = following.result()
            finally:
                let_go(following)

    def _release(self, held: _Held) -> Iterator[Event]:
        windows = [
            window
            for entry in held.entries
            if isinstance(entry, tuple) and entry[2]
            for window in entry[1].windows
        ]
        rows: list[Floats | None] = [None] * len(windows)
        lengths = [len(window.input.ids) for window in windows]
        for batch in token_budget_batches(lengths, self._token_budget):
            if self._cancelled is not None and self._cancelled():
                raise EncodingCancelled("cancelled by the caller between two batches")
            results = self._backend().rows([windows[i].input for i in batch])
            for i, result in zip(batch, results, strict=True):
                rows[i] = result
        ready = iter(rows)
        for entry in held.entries:
            if not isinstance(entry, tuple):
                yield entry
                continue
            index, group, wanted = entry
            if wanted:
                own = [next(ready) for _ in group.windows]
                yield from self._sections(index, group, [r for r in own if r is not None])
            else:
                yield from (_unencoded(index, section) for section in group.sections)

    def _sections(
        self, index: int, group: GroupPlan, rows: list[Floats]
    ) -> Iterator[SectionEncoding]:
        """Stitch the windows' rows together again and deal them out to the sections."""
        owned = np.concatenate(
            [r[: len(w.rows.weights)] for r, w in zip(rows, group.windows, strict=True)]
        )
        weights = np.concatenate([window.rows.weights for window in group.windows])
        first = 0
        for section in group.sections:
            stop = first + len(section.chunk_tokens)
            text_rows, text_weights = owned[first:stop], weights[first:stop]
            if group.windows[0].rows.text_row is not None:  # then the group is this section
                text_rows, text_weights = _text_states(group, rows)
            total = max(float(text_weights.sum()), 1e-12)
            mean = (weighted_sum(text_rows, text_weights) / total).astype(np.float32)
            vector = self._project(mean[None])[0]
            yield replace(
                _unencoded(index, section),
                n_windows=len(group.windows),
                vector=l2_normalize(vector) if self._normalize else vector,
                landmarks=self._project(owned[first:stop]),
                weights=weights[first:stop],
                pooled=vector.astype(np.float64) * total,
            )
            first = stop


def _size(entry: _Entry) -> int:
    """What holding an entry costs; one that is not to be encoded takes memory all the same."""
    if not isinstance(entry, tuple):
        return 1
    return sum(len(window.input.ids) for window in entry[1].windows)


def _text_states(group: GroupPlan, rows: list[Floats]) -> tuple[Floats, Floats]:
    """The state that stands for each window's text (cls, last), weighted by the window's tokens."""
    states = [r[w.rows.text_row] for r, w in zip(rows, group.windows, strict=True)]
    weights = [float(window.rows.weights.sum()) for window in group.windows]
    return np.stack(states), np.array(weights, np.float32)


def _unencoded(index: int, section: SectionPlan) -> SectionEncoding:
    return SectionEncoding(
        index=index,
        ordinal=section.ordinal,
        start=section.start,
        end=section.end,
        text=section.text,
        heading=section.heading,
        page=section.page,
        marks=section.marks,
        spans=section.spans,
        chunk_tokens=section.chunk_tokens,
        n_tokens=section.n_tokens,
        n_unk=section.n_unk,
    )
