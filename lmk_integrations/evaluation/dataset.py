"""Retrieval sets in the layout of BEIR: a corpus, queries, and which documents answer which."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from lmk_integrations.errors import ConfigError, DocumentError
from lmk_integrations.text.repair import repair

logger = logging.getLogger(__name__)

Half = Literal["all", "even", "odd"]
HALVES: tuple[str, ...] = get_args(Half)

_QRELS = ("qrels.tsv", "qrels/test.tsv")
_HIGHEST_GRADE = 1000  # gains are summed in floating point, and no scale of judgements is longer
_LAYOUT = (
    "a retrieval set is a folder with corpus.jsonl (_id, title, text), queries.jsonl (_id, text) "
    "and qrels.tsv or qrels/test.tsv (query-id, corpus-id, score, separated by tabs)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalSet:
    """A corpus, the queries that have a judgement, and the judgements.

    doc_ids, titles, texts: of the documents, in the order of the file; a title may be empty.
    query_ids, queries: of the queries that at least one document of the corpus answers.
    qrels: by query id, the grade (at least 1) of each document that answers it.
    unjudged: queries left out, as no document of the corpus answers them.
    unknown_documents, unknown_queries: judgements left out, as the corpus lacks the document or
        the queries lack the query.
    """

    name: str
    doc_ids: tuple[str, ...]
    titles: tuple[str, ...]
    texts: tuple[str, ...]
    query_ids: tuple[str, ...]
    queries: tuple[str, ...]
    qrels: Mapping[str, Mapping[str, int]]
    unjudged: int = 0
    unknown_documents: int = 0
    unknown_queries: int = 0

    def select(self, half: Half = "all", queries: int | None = None) -> RetrievalSet:
        """The same corpus with some of the queries.

        half: "even" or "odd" keeps the queries whose id has such a crc32, so that settings can be
            chosen on one half and reported on the other.
        queries: the most that are kept, those with the lowest crc32: the same ones at every call,
            from all over the file, and 100 of them are among any 200.
        Raises ConfigError for an impossible choice, or where no query is left.
        """
        if half not in HALVES:
            raise ConfigError(f"half={half!r} is not one of {', '.join(map(repr, HALVES))}")
        if queries is not None and queries < 1:
            raise ConfigError(f"queries={queries} must be at least 1")
        hashes = [zlib.crc32(query_id.encode()) for query_id in self.query_ids]
        chosen = [
            at
            for at, value in enumerate(hashes)
            if half == "all" or value % 2 == (0 if half == "even" else 1)
        ]
        if queries is not None:
            chosen = sorted(sorted(chosen, key=lambda at: hashes[at])[:queries])
        if not chosen:
            raise ConfigError(f"no query of {self.name!r} is in the half {half!r}; use half='all'")
        return replace(
            self,
            query_ids=tuple(self.query_ids[at] for at in chosen),
            queries=tuple(self.queries[at] for at in chosen),
            qrels={self.query_ids[at]: self.qrels[self.query_ids[at]] for at in chosen},
        )

    def documents(self, *, titles: bool = False) -> list[str]:
        """What is embedded of each document: its text; with ``titles``, title + " " + text.

        BEIR's own evaluation puts the title first. Here it is left out unless asked for: where
        queries were made from documents, a title often is half of the answer.
        """
        if not titles:
            return list(self.texts)
        pairs = zip(self.titles, self.texts, strict=True)
        return [f"{title} {text}".strip() for title, text in pairs]


def load_beir(folder: str | Path, judgements: Path | None = None) -> RetrievalSet:
    """Read a retrieval set from a folder. judgements: another file than the folder's usual one.

    The files may be UTF-8 with or without a byte order mark; lone surrogates and NUL are dropped
    from texts, as at an ingest. Raises ConfigError where the folder or a file is missing, and
    DocumentError, naming file and line, where a line cannot be used.
    """
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder: {_LAYOUT}")
    if judgements is None:
        judgements = next((folder / name for name in _QRELS if (folder / name).is_file()), None)
    for path in (folder / "corpus.jsonl", folder / "queries.jsonl", judgements):
        if path is None or not path.is_file():
            raise ConfigError(f"{folder} lacks {path.name if path else _QRELS[0]}: {_LAYOUT}")
    assert judgements is not None
    corpus = _read_records(folder / "corpus.jsonl")
    queries = _read_records(folder / "queries.jsonl")
    qrels: dict[str, dict[str, int]] = {}
    unknown_documents = unknown_queries = 0
    for query_id, doc_id, grade in _read_judgements(judgements):
        if doc_id not in corpus:
            unknown_documents += 1
        elif query_id not in queries:
            unknown_queries += 1
        elif grade > 0:
            qrels.setdefault(query_id, {})[doc_id] = grade
    if not qrels:
        raise DocumentError(
            f"{judgements}: no line joins a query of queries.jsonl to a document of corpus.jsonl; "
            "check that its columns are query-id, corpus-id, score and that the ids are the same",
            "retrieval_set",
        )
    judged = [query_id for query_id in queries if query_id in qrels]
    loaded = RetrievalSet(
        name=folder.resolve().name,
        doc_ids=tuple(corpus),
        titles=tuple(title for title, _ in corpus.values()),
        texts=tuple(text for _, text in corpus.values()),
        query_ids=tuple(judged),
        queries=tuple(queries[query_id][1] for query_id in judged),
        qrels=qrels,
        unjudged=len(queries) - len(judged),
        unknown_documents=unknown_documents,
        unknown_queries=unknown_queries,
    )
    for count, what in (
        (loaded.unjudged, "queries have no judgement"),
        (unknown_documents, "judgements name a document that the corpus lacks"),
        (unknown_queries, "judgements name a query that queries.jsonl lacks"),
    ):
        if count:
            logger.info("%s: %d %s and are left out", loaded.name, count, what)
    return loaded


def _read_records(path: Path) -> dict[str, tuple[str, str]]:
    """Title and text by id, in the order of the file."""
    records: dict[str, tuple[str, str]] = {}
    for number, line in lines_of(path):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _bad_line(path, number, f"is not JSON ({error})", "one object a line") from error
        if not isinstance(record, dict):
            raise _bad_line(path, number, "is not a JSON object", "write _id and text")
        key, title, text = (record.get(name) for name in ("_id", "title", "text"))
        if isinstance(key, int) and not isinstance(key, bool):
            key = str(key)
        if not isinstance(key, str) or not key:
            raise _bad_line(path, number, f"has the _id {key!r}", "give it a text that is unique")
        if not isinstance(text, str):
            raise _bad_line(path, number, f"has the text {_kind(text)}", "write a string")
        if not isinstance(title, str | None):
            raise _bad_line(path, number, f"has the title {_kind(title)}", "write a string")
        if key in records:
            raise _bad_line(path, number, f"repeats the _id {key!r}", "keep one of them")
        records[key] = (repair(title or "").text, repair(text).text)
    if not records:
        raise DocumentError(f"{path} is empty: {_LAYOUT}", "retrieval_set")
    return records


def _read_judgements(path: Path) -> Iterator[tuple[str, str, int]]:
    """(query id, document id, grade) of each line; a first line without a number is the header."""
    is_first = True
    for number, line in lines_of(path):
        fields = line.rstrip("\r\n").split("\t")
        if len(fields) != 3:
            raise _bad_line(
                path,
                number,
                f"has {len(fields)} columns separated by tabs",
                "write three: query-id, corpus-id, score",
            )
        try:
            grade = float(fields[2])
        except ValueError:
            grade = None
        if grade is not None and grade.is_integer() and abs(grade) <= _HIGHEST_GRADE:
            yield fields[0], fields[1], int(grade)
        elif grade is not None or not is_first:
            raise _bad_line(
                path,
                number,
                f"has the score {fields[2]!r}",
                f"write a whole number, 0 for none and {_HIGHEST_GRADE} at most",
            )
        is_first = False


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise _bad_line(path, number, "is not UTF-8", "convert the file") from error
            if text.strip():
                yield number, text


def _kind(value: Any) -> str:
    return "missing" if value is None else f"of type {type(value).__name__}"


def _bad_line(path: Path, number: int, what: str, remedy: str) -> DocumentError:
    return DocumentError(f"{path}, line {number} {what}; {remedy}", "retrieval_set")
