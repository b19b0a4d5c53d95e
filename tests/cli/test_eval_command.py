"""`lmk eval` through `main`: a table or JSON on stdout, errors of one line, exit codes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "encoder"))

from tiny_models import CORPUS, build_tiny

from lmk_integrations.cli import main
from lmk_integrations.cli.eval_run import EvalProgress


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that was trained for landmarks, as far as it says."""
    directory = build_tiny("bert", tmp_path_factory.mktemp("models") / "lmk")
    (directory / "lmk_config.json").write_text('{"version": 1, "pooling": "lmk"}')
    return directory


def write_set(folder: Path, *, score: str = "1") -> Path:
    """Ten documents, each asked for by its first five words; one more query has no judgement."""
    folder.mkdir()
    numbered = list(enumerate(CORPUS))
    corpus = [json.dumps({"_id": f"d{n}", "title": "", "text": text}) for n, text in numbered]
    queries = [
        json.dumps({"_id": f"q{n}", "text": " ".join(text.split()[:5])}) for n, text in numbered
    ]
    queries.append(json.dumps({"_id": "unjudged", "text": "what?"}))
    qrels = ["query-id\tcorpus-id\tscore", *(f"q{n}\td{n}\t{score}" for n, _ in numbered)]
    for name, lines in (
        ("corpus.jsonl", corpus),
        ("queries.jsonl", queries),
        ("qrels.tsv", qrels),
    ):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_a_table_of_methods_and_sets(model, tmp_path, capsys):
    """Markdown: a row a method, four columns a set, also for two sets of one name."""
    first = write_set(tmp_path / "a")
    (tmp_path / "deep").mkdir()
    second = write_set(tmp_path / "deep" / "a")
    words = ["eval", str(first), str(second), "--methods", "bm25, lmk-text", "--queries", "4"]
    assert main([*words, "--model", str(model), "--base", str(model)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    table, _, below = out.partition("\n\n")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n")]
    figures = ["a nDCG@10", "a R@10", "a R@100", "a MRR@10"]
    assert rows[0] == ["method", *figures, *figures]
    assert set("".join(rows[1])) == {"-", ":"}
    assert [row[0] for row in rows[2:]] == ["bm25", "lmk-text"]
    assert rows[2][1:5] == rows[2][5:] == ["100.0 ± 0.0", "100.0", "100.0", "100.0"]
    assert len({len(line) for line in table.split("\n")}) == 1
    assert below.count("a: 4 queries, 10 documents; left out: 1 queries without a judgement") == 2


def test_json_is_one_line(model, tmp_path, capsys):
    """With the seed, the set's counts, and the lead of each method over another."""
    place = write_set(tmp_path / "toy")
    words = ["eval", str(place), "--methods", "lmk-best@16,own", "--against", "own", "--json"]
    assert main([*words, "--model", str(model), "--base", str(model), "--half", "odd"]) == 0
    out, err = capsys.readouterr()
    assert (out.count("\n"), err) == (1, "")
    found = json.loads(out)
    assert (found["type"], found["command"]) == ("result", "eval")
    (facts,) = found["datasets"]
    assert (facts["dataset"], facts["n_documents"], facts["unjudged_queries"]) == ("toy", 10, 1)
    best, own = found["results"]
    assert (best["method"], own["method"]) == ("lmk-best@16", "own")
    assert best["n_queries"] == facts["n_queries"] < 10
    assert own["lead"] == {"mean": 0, "low": 0, "high": 0}
    mean = best["metrics"]["ndcg@10"]["mean"] - own["metrics"]["ndcg@10"]["mean"]
    assert best["lead"]["mean"] == pytest.approx(mean)


def test_the_lead_is_a_column(model, tmp_path, capsys):
    """--against adds it to the table."""
    place = write_set(tmp_path / "toy")
    words = ["eval", str(place), "--methods", "own,bm25", "--against", "own"]
    assert main([*words, "--base", str(model)]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[0].split("|")[-2].strip() == "toy lead"
    assert lines[2].split("|")[-2].strip() == "+0.0 ± 0.0"
    assert lines[3].split("|")[-2].strip()[0] in "+-"


def test_granularity_for_all(model, tmp_path, capsys):
    """--granularity is what @G would say."""
    place = write_set(tmp_path / "toy")
    words = ["eval", str(place), "--model", str(model), "--json"]
    figures = []
    for more in (
        ["--methods", "lmk-best", "--granularity", "4"],
        ["--methods", "lmk-best@4"],
        ["--methods", "lmk-best"],
        ["--methods", "lmk-best", "--granularity", "sentence"],
    ):
        assert main([*words, *more]) == 0
        (result,) = json.loads(capsys.readouterr().out)["results"]
        figures.append(result["metrics"])
    assert figures[0] == figures[1] != figures[2]
    assert figures[3] != figures[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name at least one DATASET"),
        (["nowhere"], "nowhere is no folder: a retrieval set is a folder with corpus.jsonl"),
        (["toy", "--methods", "own,owl"], "unknown method 'owl'"),
        (["toy", "--methods", " , "], "--methods names none"),
        (["toy", "--methods", "own", "--against", "bm25"], "--against bm25 is not among"),
        (["toy", "--queries", "0"], "queries=0 must be at least 1"),
        (["toy", "--methods", "lmk-text", "--granularity", "x"], "granularity='x' must be"),
    ],
)
def test_usage_errors(words, message, tmp_path, monkeypatch, capsys):
    """Exit code 2, what is wrong on stderr, nothing on stdout."""
    write_set(tmp_path / "toy")
    monkeypatch.chdir(tmp_path)
    assert main(["eval", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"lmk: {message}")


def test_a_bad_file_is_a_failure(tmp_path, capsys):
    """Exit code 1, and the line at fault."""
    place = write_set(tmp_path / "toy", score="often")
    assert main(["eval", str(place), "--methods", "own"]) == 1
    assert "qrels.tsv, line 2 has the score 'often'" in capsys.readouterr().err


def test_methods_help(capsys):
    """The names are explained without a set."""
    assert main(["eval", "--methods", "help"]) == 0
    out = capsys.readouterr().out
    assert "lmk-topK" in out
    assert "chunks-N-best" in out


class Terminal(io.StringIO):
    """What a person looks at."""

    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal(monkeypatch):
    """The set, the step, rate and time left; a new line for a new step."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with EvalProgress("toy") as progress:
        for step in ("1/2 own", "2/2 bm25"):
            for done in range(3):
                progress.update(step, done, 2)
    shown = screen.getvalue()
    assert "toy 1/2 own:" in shown
    assert "toy 2/2 bm25:" in shown
    assert " documents/s" in shown


def test_no_progress_elsewhere(monkeypatch):
    """A log file gets nothing."""
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    with EvalProgress("toy") as progress:
        progress.update("1/1 own", 1, 2)
    assert log.getvalue() == ""
