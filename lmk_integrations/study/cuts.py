"""Documents of a retrieval set, cut to a length, and the queries that can still be answered."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path

from lmk_integrations.encoder.tokens import Tokenizer
from lmk_integrations.errors import DocumentError
from lmk_integrations.evaluation.dataset import RetrievalSet, lines_of, load_beir
from lmk_integrations.study.tasks import Task

Spans = Mapping[tuple[str, str], tuple[tuple[int, int], ...]]


class CuttableSet:
    """Some documents of a retrieval set with the queries of its odd half.

    The documents are those whose ids have the lowest crc32. Where the folder has spans.jsonl
    (query_id, corpus_id, spans in characters), a query counts only while all its evidence is
    inside the cut; else every query counts at every length.
    """

    def __init__(self, folder: Path, tokenizer: Tokenizer, documents: int) -> None:
        loaded = load_beir(folder).select("odd")
        self.name = loaded.name
        order = sorted(range(len(loaded.doc_ids)), key=lambda at: _crc(loaded.doc_ids[at]))
        chosen = sorted(order[:documents])
        self._doc_ids = tuple(loaded.doc_ids[at] for at in chosen)
        self._texts = tuple(loaded.texts[at] for at in chosen)
        self._offsets = tuple(tokenizer.encode(text).offsets for text in self._texts)
        self._set = loaded
        path = folder / "spans.jsonl"
        self._spans: Spans | None = read_spans(path) if path.is_file() else None

    @property
    def prose(self) -> str:
        """All its text, to hide needles in."""
        return "\n\n".join(self._texts)

    @property
    def longest(self) -> int:
        """Tokens of the longest document."""
        return max(map(len, self._offsets), default=0)

    def cut(self, n_tokens: int) -> Task:
        """Every document cut to its first tokens; there may be no query left."""
        ends = {
            doc_id: int(offsets[:n_tokens][-1][1]) if len(offsets) else 0
            for doc_id, offsets in zip(self._doc_ids, self._offsets, strict=True)
        }
        found = _Queries(self._set, self._spans, ends)
        texts = zip(self._doc_ids, self._texts, strict=True)
        return Task(
            name=self.name,
            length=n_tokens,
            doc_ids=self._doc_ids,
            texts=tuple(text[: ends[doc_id]] for doc_id, text in texts),
            query_ids=tuple(found.ids),
            queries=tuple(found.queries),
            qrels=found.qrels,
            depths=found.depths,
        )


class _Queries:
    """The queries that documents of these lengths in characters answer."""

    def __init__(self, loaded: RetrievalSet, spans: Spans | None, ends: Mapping[str, int]) -> None:
        self.ids: list[str] = []
        self.queries: list[str] = []
        self.qrels: dict[str, dict[str, int]] = {}
        self.depths: dict[str, float | None] = {}
        for query_id, query in zip(loaded.query_ids, loaded.queries, strict=True):
            depth: float | None = None
            grades = {}
            for doc_id, grade in loaded.qrels[query_id].items():
                if doc_id not in ends:
                    continue
                if spans is not None:
                    evidence = spans.get((query_id, doc_id), ())
                    if not evidence or max(stop for _, stop in evidence) > ends[doc_id]:
                        continue
                    depth = min(start for start, _ in evidence) / max(1, ends[doc_id])
                grades[doc_id] = grade
            if grades:
                self.ids.append(query_id)
                self.queries.append(query)
                self.qrels[query_id] = grades
                self.depths[query_id] = depth


def read_spans(path: Path) -> Spans:
    """Evidence by query and document. Raises DocumentError for a line that cannot be used."""
    found: dict[tuple[str, str], tuple[tuple[int, int], ...]] = {}
    for number, line in lines_of(path):
        try:
            row = json.loads(line)
            key = (str(row["query_id"]), str(row["corpus_id"]))
            found[key] = tuple((int(start), int(stop)) for start, stop in row["spans"])
        except (ValueError, KeyError, TypeError) as error:
            raise DocumentError(
                f"{path}, line {number} is not evidence ({error!r}); write "
                '{"query_id": "...", "corpus_id": "...", "spans": [[0, 120]]}',
                "retrieval_set",
            ) from error
    return found


def _crc(text: str) -> int:
    return zlib.crc32(text.encode())
