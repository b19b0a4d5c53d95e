"""`lmk train` and `lmk mine`: arguments, output, exit codes."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest
from toy_sets import toy_rows, write_jsonl

from lmk_integrations.cli import main
from lmk_integrations.cli.train_run import TrainBar
from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.training.progress import TrainProgress

pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained for landmarks")


def train_line(base, data, out, *more):
    line = ["train", "--base", base, "--data", data, "--out", out, "--steps", "4", "--batch", "6"]
    line += ["--max-tokens", "32", "--granularities", "8,16", *more]
    return [str(part) for part in line]


def test_train(calm, toy_file, tmp_path, capsys):
    """Trains, says so in one line on stdout, and nothing on a stderr that nobody watches."""
    base = calm("bert")
    capsys.readouterr()  # what making it said
    assert main(train_line(base, toy_file, tmp_path / "out")) == 0
    said = capsys.readouterr()
    assert "in 4 steps on 96 examples (0 hard negatives each): loss" in said.out
    assert said.err == ""
    assert LMKEncoder(tmp_path / "out").granularity == 8


def test_train_json_and_options(calm, toy_folder, tmp_path, capsys):
    """Every option arrives: the report of the training holds them."""
    more = ["--json", "--pooling", "mean", "--lr", "1e-3", "--temperature", "0.05", "--seed", "3"]
    more += ["--half", "even", "--titles", "--matryoshka", "16,8", "--accumulate", "2"]
    more += ["--mini-batch", "3", "--text-tokens", "20", "--hard-negatives", "0"]
    more += ["--save-every", "2", "--device", "cpu"]
    assert main(train_line(calm("bert"), toy_folder, tmp_path / "out", *more)) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["type"], result["command"], result["steps"]) == ("result", "train", 4)
    assert not result["stopped"]
    identity = json.loads((tmp_path / "out" / "training.json").read_text())["identity"]
    expected = {
        "pooling": "mean",
        "steps": 4,
        "batch": 6,
        "mini_batch": 3,
        "accumulate": 2,
        "lr": 1e-3,
        "temperature": 0.05,
        "max_tokens": 32,
        "text_tokens": 20,
        "granularities": [8, 16],
        "hard_negatives": 0,
        "matryoshka": [16, 8],
        "seed": 3,
    }
    assert {name: identity[name] for name in expected} == expected


def test_resume_of_a_finished_training(calm, toy_file, tmp_path, capsys):
    """Says again what it was; without --resume it is a usage error that names the way out."""
    line = train_line(calm("bert"), toy_file, tmp_path / "out")
    assert main(line) == 0
    first = capsys.readouterr().out
    assert main([*line, "--resume"]) == 0
    assert capsys.readouterr().out == first
    assert main(line) == 2
    assert "finished training" in capsys.readouterr().err


def test_mine_then_train_on_its_scores(calm, toy_file, tmp_path, capsys):
    """The two commands of the supervised recipe, one after the other."""
    mined = tmp_path / "mined.jsonl"
    line = ["mine", "--data", toy_file, "--model", calm("bert"), "--out", mined]
    line += ["--negatives", "2", "--margin", "0", "--depth", "96", "--json"]
    assert main([str(part) for part in line]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    result = json.loads(said.out)
    rows = [json.loads(text) for text in mined.read_text().splitlines()]
    assert result["examples"] == len(rows) == 96
    assert result["negatives"] == sum(len(row["negatives"]) for row in rows) > 16
    full = write_jsonl(tmp_path / "full.jsonl", [row for row in rows if len(row["negatives"]) == 2])
    more = ["--hard-negatives", "2", "--teacher-scores", "--teacher-temperature", "0.02", "--json"]
    assert main(train_line(calm("bert"), full, tmp_path / "out", *more)) == 0
    assert json.loads(capsys.readouterr().out)["negatives"] == 2
    identity = json.loads((tmp_path / "out" / "training.json").read_text())["identity"]
    assert identity["teacher_scores"] == "kl"


def test_a_bad_line_is_a_failure_that_names_it(calm, tmp_path, capsys):
    """File and line on stderr, exit code 1, nothing written."""
    data = write_jsonl(tmp_path / "d.jsonl", [*toy_rows(0), {"query": "q"}])
    assert main(train_line(calm("bert"), data, tmp_path / "out")) == 1
    assert "d.jsonl, line 13 lacks positive" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--batch", "1"], "batch=1"),
        (["--temperature", "0"], "temperature=0.0"),
        (["--data", "nowhere"], "nowhere: no such file"),
        (["--max-tokens", "4096"], "max_tokens=4096"),
    ],
)
def test_usage_errors(more, named, calm, toy_file, tmp_path, capsys):
    """Exit code 2 and one line."""
    assert main(train_line(calm("bert"), toy_file, tmp_path / "out", *more)) == 2
    said = capsys.readouterr().err
    assert named in said
    assert said.count("\n") == 1


def test_lists_of_numbers(capsys):
    """argparse says what a list looks like."""
    with pytest.raises(SystemExit):
        main(["train", "--base", "b", "--data", "d", "--out", "o", "--granularities", "8;16"])
    assert "is not a list such as 32,64,128" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["sentence_transformers", "accelerate", "datasets"])
def test_missing_extra_names_it(missing, tmp_path):
    """Before the data is read or anything heavy is loaded."""
    code = f"""
import sys
sys.modules[{missing!r}] = None
from lmk_integrations.cli import main
line = ["train", "--base", "b", "--data", "d", "--out", "o"]
raise SystemExit(main(line))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'lmk-integrations[train]'" in done.stderr
    assert "Traceback" not in done.stderr


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bar(monkeypatch):
    """On a terminal: steps, loss and the time left."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with TrainBar() as bar:
        bar.update(TrainProgress(5, 10, 1.25, 3725.4))
        bar.update(TrainProgress(10, 10, 0.5, 0.0))
    shown = screen.getvalue()
    assert "10/10 steps" in shown
    assert "loss 1.2500, 1:02:05 left" in shown
    assert "loss 0.5000, 0:00:00 left" in shown
