"""The numbered scripts run as they are."""

import subprocess
import sys
from pathlib import Path

import pytest

from lmk_integrations import LandmarkIndex

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
# What examples/quickstart.sh asks: where the answer is, and words of the passage that gives it.
ANSWERS = {
    "How can Python tell apart the two times that a clock shows the same hour in autumn?": (
        "pep-0495.rst",
        "local clocks show the same time twice in the same day",
    ),
    "How do I bring the database back to how it was yesterday before a table was dropped?": (
        "postgresql-continuous-archiving.html",
        "restore to the point-in-time 5:14PM Tuesday evening",
    ),
    "Who did the governess see standing on top of the tower?": (
        "the-turn-of-the-screw.pdf",
        "at the very top of the tower",
    ),
}


def test_there_is_one_for_each_use():
    """Encoder, LangChain, LlamaIndex, Qdrant."""
    assert len(SCRIPTS) >= 4


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One store for all, so that the corpus is encoded once."""
    return tmp_path_factory.mktemp("examples") / "store"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.name)
def test_example(script, store, tmp_path):
    """Exits 0, prints something, and fits on a screen."""
    command = [sys.executable, str(script), str(store)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "Traceback" not in done.stderr
    assert len(script.read_text(encoding="utf-8").splitlines()) < 60


def test_quickstart_questions_are_answered(store, encoder):
    """Each question of quickstart.sh finds the passage that answers it, in a format of its own."""
    quickstart = (ROOT / "examples" / "quickstart.sh").read_text(encoding="utf-8")
    with LandmarkIndex(store, "examples", encoder) as index:
        index.ingest(ROOT / "examples" / "corpus")  # there already, if 04_qdrant.py ran
        for question, (source, phrase) in ANSWERS.items():
            assert question in quickstart
            [hit] = index.search(question, 1)
            assert hit.source == source
            assert phrase in " ".join(hit.passage.text.split())


def test_score_beir_on_a_small_set(tmp_path):
    """The scoring script finds what is there to find, and encodes nothing the second time."""
    (tmp_path / "corpus.jsonl").write_text(
        '{"_id": "a", "title": "", "text": "The lighthouse keeper fed his cats at dawn."}\n'
        '{"_id": "b", "title": "", "text": "Compound interest grows a small deposit slowly."}\n'
    )
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "who fed the cats?"}\n')
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\n")
    command = [sys.executable, str(ROOT / "examples" / "score_beir.py"), str(tmp_path)]
    command += ["--to", str(tmp_path / "store")]
    first = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "2 new, 0 unchanged" in first
    assert first.count("100.0") == 5
    again = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "0 new, 2 unchanged, 0 tokens encoded" in again
