"""While the backend runs one lot of a stream, the next one is read and tokenised."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lmk_integrations.encoder import LMKEncoder, StreamItem, TextDone, stream
from lmk_integrations.encoder.tokens import Tokenizer
from lmk_integrations.errors import DocumentError

pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained for landmarks")

TEXT = "the quick brown fox jumps over the lazy dog by the river " * 8
LOT = 8 * 128  # positions; a text of these takes over 100
WAIT_S = 30


@pytest.fixture
def bert(tiny: Any) -> LMKEncoder:
    return LMKEncoder(
        tiny("bert"), pooling="mean", granularity=8, dtype="float32", token_budget=128
    )


@pytest.fixture
def planners(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads in which texts were tokenised, in order."""
    threads: list[threading.Thread] = []
    encode = Tokenizer.encode

    def watched(self: Tokenizer, text: str) -> Any:
        threads.append(threading.current_thread())
        return encode(self, text)

    monkeypatch.setattr(Tokenizer, "encode", watched)
    return threads


def done(encoder: LMKEncoder, items: Any) -> Iterator[int]:
    return (e.index for e in encoder.iter_sections(items, 64) if isinstance(e, TextDone))


def test_the_next_lot_is_planned_while_the_backend_runs(
    bert: LMKEncoder, planners: list[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backend that waits for tokens of texts behind its own lot does get them."""
    backend = bert.model.load()
    rows = backend.rows
    seen: list[bool] = []

    def waiting(windows: Any) -> Any:
        if not seen:
            before = len(planners)
            ahead = threading.Event()
            waited = itertools.count()
            while len(planners) == before and next(waited) < WAIT_S * 100:
                ahead.wait(0.01)
            seen.append(len(planners) > before)
        return rows(windows)

    monkeypatch.setattr(backend, "rows", waiting)
    assert list(done(bert, (StreamItem(TEXT) for _ in range(40)))) == list(range(40))
    assert seen == [True]


def test_texts_are_taken_in_the_callers_thread(
    bert: LMKEncoder, planners: list[threading.Thread]
) -> None:
    """A cursor of a database, say, may be read by the thread that opened it only."""
    taken = []

    def items() -> Iterator[StreamItem]:
        for _ in range(40):
            taken.append(threading.current_thread())
            yield StreamItem(TEXT)

    assert list(done(bert, items())) == list(range(40))
    assert set(taken) == {threading.current_thread()}
    assert {thread.name for thread in planners} == {"MainThread", "lmk-planner"}


def test_one_lot_takes_no_thread(bert: LMKEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query waits for no thread to start."""
    threads: list[Any] = []
    monkeypatch.setattr(stream, "begun", threads.append)
    bert.encode_queries(["what the fox did"])
    list(bert.iter_sections([StreamItem(TEXT)], 64))
    assert threads == []


def test_who_reads_no_further_leaves_nothing_running(bert: LMKEncoder) -> None:
    """Closing the stream waits for the planning that went ahead."""
    read = []

    class Slow:
        def pieces(self) -> Iterator[str]:
            time.sleep(0.5)
            read.append(True)
            yield TEXT

    items = [*(StreamItem(TEXT) for _ in range(12)), StreamItem(Slow())]
    events = bert.iter_sections(items, 64)
    next(events)
    events.close()
    assert read == [True]
    assert "lmk-planner" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("count", [0, 1, 20, 41])
def test_what_came_before_an_error_of_the_stream_is_given(bert: LMKEncoder, count: int) -> None:
    """Texts read before the stream itself fails are encoded, then its error is raised."""

    def items() -> Iterator[StreamItem]:
        for _ in range(count):
            yield StreamItem(TEXT)
        raise OSError("the source is gone")

    found: list[int] = []
    with pytest.raises(OSError, match="the source is gone"):
        found.extend(done(bert, items()))
    assert found == list(range(count))


def test_a_bug_in_a_text_is_raised_where_it_is_read(bert: LMKEncoder) -> None:
    """An error of the planning thread reaches the caller, behind the lots before it."""

    class Broken:
        def pieces(self) -> Iterator[str]:
            yield TEXT
            raise RuntimeError("a bug")

    items = [*(StreamItem(TEXT) for _ in range(30)), StreamItem(Broken()), StreamItem(TEXT)]
    found: list[int] = []
    with pytest.raises(RuntimeError, match="a bug"):
        found.extend(done(bert, items))
    assert found == list(range(len(found)))
    assert 0 < len(found) <= 30


def test_lots_change_no_vector(tiny: Any, bert: LMKEncoder) -> None:
    """Texts of all lengths, over many lots and over one, one that fails among them."""
    texts = [TEXT[: 7 * i] for i in range(80)] + [TEXT * 20, "", "end"]
    one_lot = LMKEncoder(
        tiny("bert"), pooling="mean", granularity=8, dtype="float32", token_budget=1 << 16
    )
    np.testing.assert_allclose(
        bert.encode_documents(texts), one_lot.encode_documents(texts), atol=1e-5
    )
    with pytest.raises(DocumentError, match=r"text 83: .*surrogate"):
        bert.encode_documents([*texts, "\ud800"])
