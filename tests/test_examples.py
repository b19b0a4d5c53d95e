"""The numbered scripts run as they are."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))


def test_there_is_one_for_each_use():
    """Encoder, LangChain, LlamaIndex, Qdrant."""
    assert len(SCRIPTS) >= 4


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.name)
def test_example(script, tmp_path):
    """Exits 0, prints something, and fits on a screen."""
    command = [sys.executable, str(script), str(tmp_path / "store")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "Traceback" not in done.stderr
    assert len(script.read_text(encoding="utf-8").splitlines()) < 60


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
