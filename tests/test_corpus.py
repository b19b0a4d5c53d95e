"""The example documents: described, small enough to clone, long enough to show something."""

import json
import re
from pathlib import Path

import pypdf

EXAMPLES = Path(__file__).parent.parent / "examples"
FILES = sorted((EXAMPLES / "corpus").iterdir())


def words_of(path: Path) -> int:
    """Words of the shortest document in a file, counted without this package's readers."""
    if path.suffix == ".pdf":
        return sum(len(page.extract_text().split()) for page in pypdf.PdfReader(path).pages)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return min(len(json.loads(line)["text"].split()) for line in text.splitlines())
    return len(re.sub(r"<[^>]*>", " ", text).split())


def test_every_document_has_its_origin_and_licence():
    """CORPUS.md names each file, and no other."""
    rows = (EXAMPLES / "CORPUS.md").read_text(encoding="utf-8").splitlines()
    firsts = [row.split("|")[1] for row in rows if row.startswith("| ") and "." in row]
    named = {name.strip() for first in firsts for name in first.split(",")} - {"file"}
    assert named == {path.name for path in FILES}


def test_corpus_is_small_and_varied():
    """At most 2 MB in a clone, in six formats."""
    assert sum(path.stat().st_size for path in FILES) <= 2_000_000
    assert {p.suffix for p in FILES} == {".txt", ".md", ".rst", ".html", ".pdf", ".jsonl"}


def test_documents_are_long():
    """Each is more than any one window of the default model holds, most are many times that."""
    words = {path.name: words_of(path) for path in FILES}
    assert min(words.values()) > 1_000, words
    assert sorted(words.values())[len(words) // 2] > 4_000, words
