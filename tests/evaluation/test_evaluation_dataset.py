"""Folders in BEIR's layout -> RetrievalSet: what is read, what is left out, what is refused."""

import dataclasses
import zlib

import pytest

from lmk_integrations.errors import ConfigError, DocumentError
from lmk_integrations.evaluation import RetrievalSet, load_beir

TEXTS = ["first text", "second text", "third text"]
QUERIES = {"q1": "one?", "q2": "two?", "q3": "three?"}
QRELS = [("q1", "d0", 1), ("q1", "d2", 2), ("q2", "d1", 1), ("q3", "d0", 0)]


def many(n: int) -> RetrievalSet:
    ids = tuple(f"query-{number}" for number in range(n))
    return RetrievalSet(
        name="many",
        doc_ids=("d",),
        titles=("",),
        texts=("text",),
        query_ids=ids,
        queries=ids,
        qrels={query_id: {"d": 1} for query_id in ids},
    )


def test_a_set_is_read_whole(folder):
    """Ids, titles, texts, grades in the order of the files; a query graded 0 only is left out."""
    found = load_beir(folder(TEXTS, QUERIES, QRELS))
    assert found.name == "toy"
    assert found.doc_ids == ("d0", "d1", "d2")
    assert found.titles == ("T0", "T1", "T2")
    assert found.texts == tuple(TEXTS)
    assert (found.query_ids, found.queries) == (("q1", "q2"), ("one?", "two?"))
    assert found.qrels == {"q1": {"d0": 1, "d2": 2}, "q2": {"d1": 1}}
    assert (found.unjudged, found.unknown_documents, found.unknown_queries) == (1, 0, 0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.name = "other"  # type: ignore[misc]


def test_what_does_not_join_is_counted(folder):
    """Judgements of unknown documents and queries leave no trace but their number."""
    qrels = [*QRELS, ("q3", "gone", 1), ("q9", "d0", 1), ("q2", "gone", 1)]
    found = load_beir(folder(TEXTS, QUERIES, qrels))
    assert found.qrels == {"q1": {"d0": 1, "d2": 2}, "q2": {"d1": 1}}
    assert (found.unjudged, found.unknown_documents, found.unknown_queries) == (1, 2, 1)


def test_the_original_layout(folder):
    """BEIR's own downloads keep the judgements in qrels/test.tsv."""
    place = folder(TEXTS, QUERIES, QRELS)
    (place / "qrels").mkdir()
    (place / "qrels.tsv").rename(place / "qrels" / "test.tsv")
    assert load_beir(place).query_ids == ("q1", "q2")


def test_files_of_other_tools(folder):
    """A byte order mark, CRLF, blank lines, no header, whole ids and a missing title do no harm."""
    place = folder(TEXTS, QUERIES, [])
    (place / "corpus.jsonl").write_bytes(
        b'\xef\xbb\xbf{"_id": 7, "text": "seven\\u0000 \\ud800"}\r\n\r\n'
    )
    (place / "qrels.tsv").write_bytes(b"q1\t7\t1.0\r\n\r\nq2\t7\t1\r\n")
    found = load_beir(place)
    assert (found.doc_ids, found.titles, found.texts) == (("7",), ("",), ("seven ",))
    assert found.qrels == {"q1": {"7": 1}, "q2": {"7": 1}}


def test_titles_are_put_first_only_when_asked(folder):
    """The default embeds texts alone; with titles, as BEIR does: title, a space, text."""
    found = load_beir(folder(TEXTS, QUERIES, QRELS))
    assert found.documents() == TEXTS
    assert found.documents(titles=True)[0] == "T0 first text"
    untitled = dataclasses.replace(found, titles=("", "", ""))
    assert untitled.documents(titles=True) == TEXTS


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
def test_a_missing_file_is_named(folder, name):
    """A folder without one of the files is a wrong folder."""
    place = folder(TEXTS, QUERIES, QRELS)
    (place / name).unlink()
    with pytest.raises(ConfigError, match=rf"toy lacks {name}: a retrieval set is a folder with"):
        load_beir(place)


def test_a_missing_folder_is_named(tmp_path):
    """A path that is no folder."""
    with pytest.raises(ConfigError, match="nowhere is no folder"):
        load_beir(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("corpus.jsonl", "{", r"is not JSON .*; one object a line"),
        ("corpus.jsonl", "[1]", "is not a JSON object"),
        ("corpus.jsonl", '{"text": "a"}', "has the _id None"),
        ("corpus.jsonl", '{"_id": "x"}', "has the text missing; write a string"),
        ("corpus.jsonl", '{"_id": "x", "text": 5}', "has the text of type int"),
        ("corpus.jsonl", '{"_id": "x", "text": "", "title": []}', "has the title of type list"),
        ("corpus.jsonl", '{"_id": "d0", "text": "again"}', "repeats the _id 'd0'"),
        ("queries.jsonl", '{"_id": "q1", "text": "again"}', "repeats the _id 'q1'"),
        ("qrels.tsv", "q1 d0 1", "has 1 columns separated by tabs; write three"),
        ("qrels.tsv", "q1\t0\td0\t1", "has 4 columns"),
        ("qrels.tsv", "q1\td0\tyes", "has the score 'yes'; write a whole number"),
        ("qrels.tsv", "q1\td0\t0.5", r"has the score '0\.5'"),
        ("qrels.tsv", "q1\td0\t1e300", r"has the score '1e300'; .* 1000 at most"),
    ],
)
def test_a_bad_line_is_named(folder, file, line, message):
    """Errors name the file, the line, what is wrong and what to do."""
    place = folder(TEXTS, QUERIES, QRELS)
    path = place / file
    number = len(path.read_text().splitlines()) + 1
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(DocumentError, match=rf"{file}, line {number} {message}"):
        load_beir(place)


def test_bytes_that_are_no_text_are_named(folder):
    """Latin-1 in a JSONL file."""
    place = folder(TEXTS, QUERIES, QRELS)
    (place / "queries.jsonl").write_bytes(b'{"_id": "q1", "text": "caf\xe9"}\n')
    with pytest.raises(DocumentError, match=r"queries\.jsonl, line 1 is not UTF-8; convert"):
        load_beir(place)


def test_a_set_without_an_answer_is_refused(folder):
    """Ids of two versions of a set: every figure would be 0."""
    with pytest.raises(DocumentError, match="no line joins a query"):
        load_beir(folder(TEXTS, QUERIES, [("q1", "D0", 1)]))


def test_halves_part_the_queries_by_crc32():
    """Even and odd are disjoint, together everything, and follow zlib.crc32 of the id."""
    whole = many(40)
    even, odd = whole.select("even").query_ids, whole.select("odd").query_ids
    assert set(even) | set(odd) == set(whole.query_ids)
    assert even == tuple(q for q in whole.query_ids if zlib.crc32(q.encode()) % 2 == 0)
    assert set(whole.select("even").qrels) == set(even)
    assert len(even) + len(odd) == 40
    assert min(len(even), len(odd)) > 5


def test_a_cap_keeps_the_same_queries():
    """A smaller cap chooses among what a larger one chose; the order of the file stays."""
    whole = many(40)
    small, large = (set(whole.select("odd", n).query_ids) for n in (5, 10))
    assert len(small) == 5
    assert small < large < set(whole.select("odd").query_ids)
    kept = whole.select(queries=9).query_ids
    assert kept == tuple(q for q in whole.query_ids if q in set(kept))
    assert whole.select(queries=400).query_ids == whole.query_ids


def test_impossible_choices_are_refused():
    """An unknown half, no queries, and a half that is empty."""
    one = many(1)
    empty = "odd" if zlib.crc32(b"query-0") % 2 == 0 else "even"
    with pytest.raises(ConfigError, match="half='first' is not one of 'all', 'even', 'odd'"):
        one.select("first")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="queries=0 must be at least 1"):
        one.select(queries=0)
    with pytest.raises(ConfigError, match=f"no query of 'many' is in the half '{empty}'"):
        one.select(empty)
