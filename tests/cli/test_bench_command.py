"""`lmk bench` through a shell: what it prints has a row for each contender. Speeds are not judged:
a test's machine is busy."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "encoder"))

from lmk_commands import lmk, result
from tiny_models import CORPUS, build_tiny

from lmk_integrations.cli import main


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that was trained for landmarks, as far as it says."""
    directory = build_tiny("bert", tmp_path_factory.mktemp("models") / "lmk")
    (directory / "lmk_config.json").write_text('{"version": 1, "pooling": "lmk"}')
    return directory


def rows_of(table: str) -> list[list[str]]:
    """The cells of a Markdown table, its rule left out."""
    lines = table.split("\n\n")[0].split("\n")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [rows[0], *rows[2:]]


def test_search(model, tmp_path):
    """Every mode, LangChain's store and the encoding; what is searched for is found by all."""
    options = ["--sections", "200", "--queries", "5", "--json", "--model", model]
    done = lmk("bench", "search", *options, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    found = result(done)
    assert found["notes"] == []
    times = {time["name"]: time for time in found["times"]}
    langchain = "langchain_qdrant, QdrantClient(path=...)"
    modes = ["hybrid", "dense", "landmark", "bm25", "document"]
    assert list(times) == [*modes, langchain, "encoding the query"]
    for time in times.values():
        assert 0 < time["p50_ms"] <= time["p95_ms"]
        assert (time["sections"], time["queries"]) == (200, 5)
    assert times["dense"]["found"] == times[langchain]["found"] >= 0.8
    assert times["hybrid"]["found"] == times["bm25"]["found"] == 1.0
    assert times["encoding the query"]["found"] is None
    own, peer = found["stores"]
    assert (own["documents"], own["points"], peer["points"]) == (50, 250, 200)
    assert own["bytes"]["landmarks"] > 200 * 8 * 384 * 2
    assert {"qdrant-edge-py", "langchain-qdrant", "torch"} <= set(found["versions"])
    assert found["machine"]["cores"] >= 1


def test_encode(model, tmp_path, capfd):
    """A row for each length and encoder, with the speed against the first and the cosine."""
    (tmp_path / "text.txt").write_text("\n\n".join(CORPUS), encoding="utf-8")
    words = [
        "bench",
        "encode",
        str(tmp_path / "text.txt"),
        "--lengths",
        "16,200",
        "--tokens",
        "200",
    ]
    words += ["--own", "torch:float32,torch:bfloat16", "--peers", "none", "--rounds", "2"]
    words += ["--model", str(model), "--base", str(model), "--plot", str(tmp_path / "plot.svg")]
    assert main(words) == 0
    out = capfd.readouterr().out
    head, *rows = rows_of(out)
    assert head[:5] == ["encoder", "text tokens", "tokens/s", "x lmk torch:float32", "cosine"]
    names = ["lmk torch:float32", "lmk torch:bfloat16", "limit: matrix products alone"]
    assert [row[:2] for row in rows] == [[name, n] for n in ("16", "200") for name in names]
    assert rows[0][3] == "1.00 (1.00 to 1.00)"
    assert rows[0][4] == "1.00000"
    assert 0.99 < float(rows[1][4]) <= 1
    assert all(float(row[2].replace(",", "")) > 0 for row in rows)
    assert rows[2][3:6] == ["", "", ""]
    assert "Machine: " in out
    assert "lmk torch:bfloat16: bfloat16, " in out
    assert "Note: the limit is that of bfloat16 matrix products." in out
    assert "torch:bfloat16" in (tmp_path / "plot.svg").read_text()


def test_ingest(model, tmp_path, capfd):
    """Files in, points and bytes out, for each granularity and datatype; other formats are left out
    aloud."""
    folder = tmp_path / "files"
    folder.mkdir()
    for number, text in enumerate(CORPUS):
        (folder / f"{number}.txt").write_text(text * 4, encoding="utf-8")
    (folder / "page.html").write_text("<p>left out</p>")
    words = ["bench", "ingest", str(folder), "--peers", "none", "--granularities", "own,8"]
    words += ["--landmark-datatypes", "float16,turbo8"]
    assert main([*words, "--rounds", "1", "--model", str(model), "--base", str(model)]) == 0
    out = capfd.readouterr().out
    head, *rows = rows_of(out)
    own, packed, *_ = rows
    assert head[:5] == ["pipeline", "documents/s", "tokens/s", "times as long as lmk", "points"]
    names = ["lmk", "lmk, turbo8", "lmk, granularity 8", "lmk, granularity 8, turbo8"]
    assert [row[0] for row in rows] == names
    assert packed[4] == own[4]
    assert own[3] == "1.00 (1.00 to 1.00)"
    assert int(own[4]) >= 2 * len(CORPUS)
    assert all(float(row[column]) > 0 for row in rows for column in (1, 5, 9))
    assert f"{len(CORPUS)} files of " in out
    assert "Note: 1 files are left out: none of .txt, .md, .rst." in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["search", "--sections", "0"], "sections=0 must be a whole number"),
        (["search", "--queries", "0"], "queries=0 must be"),
        (["encode", "--lengths", "2"], "length=2 must be"),
        (["encode", "--own", "torch:float8"], "own encoder 'torch:float8' is not BACKEND:DTYPE"),
        (["encode", "--peers", "langchain,owl"], "unknown peer 'owl'; known are langchain, "),
        (["encode", "--own", "none", "--peers", "none"], "nothing to measure"),
        (["encode", "--peers", "none", "--against", "langchain"], "against='langchain' is not"),
        (["ingest", ".", "--landmark-datatypes", "int4"], "unknown datatype 'int4' of landmarks"),
        (["ingest", ".", "--landmark-datatypes", "none"], "datatypes must name at least one"),
        (["ingest", "nowhere"], "nowhere: no such file or folder"),
        (["ingest", ".", "--peers", "none"], "there is no .txt, .md, .rst file in ."),
        (["ingest", ".", "--granularities", "0"], "granularity '0' must be a number"),
    ],
)
def test_usage_errors(words, message, tmp_path, monkeypatch, capsys):
    """Exit code 2, what is wrong on stderr, nothing on stdout, before any worker is started."""
    monkeypatch.chdir(tmp_path)
    assert main(["bench", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"lmk: {message}")


def test_options_have_their_whole_names(capsys):
    """A search has no --peers, and it is not taken for --peers-home."""
    with pytest.raises(SystemExit):
        main(["bench", "search", "--peers", "none"])
    assert "unrecognized arguments: --peers none" in capsys.readouterr().err


def test_a_size_that_is_none(capsys):
    """Is named by the parser."""
    with pytest.raises(SystemExit):
        main(["bench", "search", "--sections", "many"])
    assert "'many' is not a number" in capsys.readouterr().err


def test_a_worker_that_cannot_open_is_a_failure(tmp_path, capsys):
    """Exit code 1 and the reason, when it is this package's own."""
    place = tmp_path / "a.txt"
    place.write_text("a text")
    assert main(["bench", "ingest", str(place), "--peers", "none", "--model", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert err.startswith("lmk: lmk: ModelError: ")
    assert json.dumps(err).count("\\n") == 1
