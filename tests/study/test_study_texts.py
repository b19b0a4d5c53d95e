"""What the study reads: pairs of sentence and passage, planted facts, documents cut to a length."""

import zlib

import pytest

from lmk_integrations.errors import DocumentError
from lmk_integrations.study.cuts import CuttableSet
from lmk_integrations.study.pairs import sentence_pairs
from lmk_integrations.study.planted import needles, passkeys
from lmk_integrations.study.scores import make_tasks
from lmk_integrations.study.settings import StudySettings

PROSE = " ".join(
    f"Sentence number {n} tells of the {n}th river and its harbour." for n in range(99)
)


def test_a_pair_is_a_sentence_and_whole_sentences_around_it():
    data = sentence_pairs([PROSE], 200, 0, text_tokens=120)
    kept = 0
    for example in data.examples:
        assert example.query in PROSE
        assert example.query.startswith("Sentence number")
        assert example.query.endswith("harbour.")
        assert example.positive.startswith("Sentence number")
        if example.query in example.positive:
            kept += 1
            assert example.positive in PROSE
        else:  # what is left stood on both sides of it, or on one
            before, _, after = PROSE.partition(example.query)
            sentences = example.positive.split(". ")
            assert sentences[0] in before or sentences[0] in after
        assert len(example.positive) <= 120 * 4.3
    assert 60 < kept < 140  # half, by chance


def test_queries_come_from_anywhere_in_their_passage():
    data = sentence_pairs([PROSE], 400, 0, text_tokens=120)
    found = [
        e.positive.index(e.query) / len(e.positive) for e in data.examples if e.query in e.positive
    ]
    assert 0.3 < sum(found) / len(found) < 0.6
    assert min(found) < 0.1
    assert max(found) > 0.7


def test_pairs_depend_on_texts_and_seed_alone():
    one = sentence_pairs([PROSE], 20, 3, text_tokens=120)
    assert one.digest == sentence_pairs([PROSE], 20, 3, text_tokens=120).digest
    assert one.digest != sentence_pairs([PROSE], 20, 4, text_tokens=120).digest


def test_text_without_sentences_is_refused():
    with pytest.raises(DocumentError, match="hardly any passage"):
        sentence_pairs(["0123456789" * 1000], 5, 0, text_tokens=120)


@pytest.mark.parametrize("kind", ["passkey", "needle"])
@pytest.mark.parametrize("length", [100, 700])
def test_planted_documents_have_their_length_and_their_fact_at_its_depth(kind, length, teacher):
    tokenizer = teacher.tokenizer
    if kind == "passkey":
        planted = passkeys(tokenizer, length, 11, seed=0)
    else:
        planted = needles(tokenizer, PROSE, length, 11, seed=0)
    assert len(set(planted.queries)) == 11
    for number, (text, query, depth) in enumerate(
        zip(planted.texts, planted.queries, planted.depths, strict=True)
    ):
        assert length - 25 < len(tokenizer.encode(text).ids) <= length + 2
        if kind == "passkey":
            person = query.removeprefix("What is the pass key for ").rstrip("?")
            first, last = f"The pass key for {person} is", "is the pass key. "
        else:
            person = " ".join(query.split()[2:4])
            first, last = f"{person} keeps the", ". "
        assert text.count(person) == 1
        before, _, rest = text.partition(first)
        n_before, n_behind = (
            len(tokenizer.encode(part).ids) for part in (before, rest.partition(last)[2])
        )
        assert n_before / (n_before + n_behind) == pytest.approx(depth, abs=0.03)
        assert depth == pytest.approx(number / 10, abs=45 / length)  # it begins with a sentence
    assert planted.depths[0] == 0


def test_planted_documents_are_different_and_repeatable(teacher):
    first = needles(teacher.tokenizer, PROSE, 200, 8, seed=0)
    assert first == needles(teacher.tokenizer, PROSE, 200, 8, seed=0)
    assert len(set(first.texts)) == 8
    other = needles(teacher.tokenizer, PROSE, 200, 8, seed=1)
    assert other.queries != first.queries


def test_a_query_counts_while_its_evidence_is_inside(retrieval_set, teacher):
    cuttable = CuttableSet(retrieval_set, teacher.tokenizer, documents=16)
    odd = [n for n in range(16) if zlib.crc32(f"early-{n}".encode()) % 2]
    odd_late = [n for n in range(16) if zlib.crc32(f"late-{n}".encode()) % 2]
    assert odd
    assert odd_late
    short = cuttable.cut(100)
    assert set(short.query_ids) == {f"early-{n}" for n in odd}
    assert 100 < cuttable.longest < 100_000
    long = cuttable.cut(100_000)
    assert set(long.query_ids) == {f"early-{n}" for n in odd} | {f"late-{n}" for n in odd_late}
    for text in short.texts:
        assert len(teacher.tokenizer.encode(text).ids) == 100
    assert all(a.startswith(b) for a, b in zip(long.texts, short.texts, strict=True))
    late = next(query_id for query_id in long.query_ids if query_id.startswith("late"))
    assert 0.4 < long.depths[late] < 0.6


def test_fewer_documents_take_their_queries_with_them(retrieval_set, teacher):
    cut = CuttableSet(retrieval_set, teacher.tokenizer, documents=4).cut(100_000)
    assert len(cut.doc_ids) == 4
    assert {doc_id for grades in cut.qrels.values() for doc_id in grades} <= set(cut.doc_ids)


def test_without_spans_every_query_counts(retrieval_set, teacher):
    (retrieval_set / "spans.jsonl").unlink()
    cut = CuttableSet(retrieval_set, teacher.tokenizer, documents=16).cut(100)
    assert any(query_id.startswith("late") for query_id in cut.query_ids)
    assert set(cut.depths.values()) == {None}


def test_a_cut_that_answers_hardly_a_query_is_no_task(retrieval_set, teacher):
    """And a set without any task is refused."""
    spans = retrieval_set / "spans.jsonl"
    rows = [line for line in spans.read_text().splitlines(True) if "late-" in line]
    spans.write_text("".join(rows))
    cuttable = CuttableSet(retrieval_set, teacher.tokenizer, documents=16)
    settings = StudySettings(lengths=(100, 100_000), documents=2)
    tasks = make_tasks([cuttable], teacher.tokenizer, settings)
    assert [task.length for task in tasks if task.name == "stories"] == [100_000]
    short = StudySettings(lengths=(100,), documents=2)
    with pytest.raises(DocumentError, match="pass longer lengths"):
        make_tasks([cuttable], teacher.tokenizer, short)


def test_a_line_that_is_no_evidence_is_named(retrieval_set, teacher):
    path = retrieval_set / "spans.jsonl"
    path.write_text(path.read_text() + '{"query_id": "x"}\n')
    with pytest.raises(DocumentError, match="line 33 is not evidence"):
        CuttableSet(retrieval_set, teacher.tokenizer, documents=16)
