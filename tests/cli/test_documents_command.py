"""Ids at the command line: shown by search and info, taken by delete, guessed when mistyped."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from lmk_commands import lmk, result

from lmk_integrations.cli.documents import did_you_mean


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two folders, in which one name stands twice."""
    here = tmp_path_factory.mktemp("place")
    for name, text in {
        "mine/bees.txt": "The bees came back to the hive.",
        "mine/notes/rye.txt": "Rye bread needs a sourdough, and time.",
        "yours/bees.txt": "Other bees came to other hives.",
    }.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text, encoding="utf-8")
    done = lmk("ingest", "mine", "yours", "-c", "c", cwd=here)
    assert done.returncode == 0, done.stderr
    return here


def test_what_search_shows_is_what_delete_takes(place: Path) -> None:
    """The id in brackets, copied, names the document."""
    lmk("ingest", "mine", "-c", "copied", cwd=place)
    shown = lmk("search", "sourdough", "-c", "copied", "--mode", "bm25", cwd=place)
    found = re.search(r"\[(.+)\]$", shown.stdout.splitlines()[0])
    assert found is not None
    done = lmk("delete", found[1], "-c", "copied", cwd=place)
    assert (done.returncode, done.stdout) == (0, "deleted 1 of 1 documents\n")


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("rye.txt", "'c'; did you mean 'mine/notes/rye.txt'?"),
        ("notes/rye.txt", "'c'; did you mean 'mine/notes/rye.txt'?"),
        ("bees.txt", "'c'; did you mean 'mine/bees.txt' or 'yours/bees.txt'?"),
        ("ees.txt", "'c'"),
    ],
)
def test_half_a_name_is_completed(place: Path, name: str, end: str) -> None:
    """Nothing is deleted by a guess; the ids it may have meant are named."""
    done = lmk("delete", name, "-c", "c", cwd=place)
    assert (done.returncode, done.stdout) == (3, "deleted 0 of 1 documents\n")
    assert done.stderr == f"lmk: {name}: no such document in {end}\n"


def test_of_many_none_is_proposed() -> None:
    """A list of ids would hide that the name says too little."""
    assert did_you_mean([f"{n}/a.txt" for n in range(4)]) == ""


def test_info_lists_documents(place: Path) -> None:
    """One line a document: its id, sections and tokens; of one collection."""
    shown = lmk("info", "-c", "c", "--documents", cwd=place)
    assert shown.returncode == 0
    head, *lines = shown.stdout.splitlines()
    assert head.split() == ["sections", "tokens", "document"]
    assert sorted(line.split() for line in lines) == [
        ["1", "11", "mine/notes/rye.txt"],
        ["1", "8", "mine/bees.txt"],
        ["1", "8", "yours/bees.txt"],
    ]
    done = lmk("info", "-c", "c", "--documents", "--json", cwd=place)
    *rows, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert last == {"type": "result", "command": "info", "documents": 3}
    assert {
        "type": "document",
        "doc_id": "mine/notes/rye.txt",
        "title": "rye",
        "source": "notes/rye.txt",
        "sections": 1,
        "tokens": 11,
    } in rows
    assert len(rows) == 3
    unnamed = lmk("info", "--documents", cwd=place)
    assert (unnamed.returncode, unnamed.stdout) == (2, "")
    assert "name it with -c" in unnamed.stderr
    absent = lmk("info", "-c", "absent", "--documents", cwd=place)
    assert (absent.returncode, absent.stdout) == (1, "")
    assert "no collection 'absent'" in absent.stderr


def test_a_folder_from_inside_has_the_same_ids(place: Path) -> None:
    """`lmk ingest .` in a folder, its path, and a file from inside name the same documents."""
    store = place / ".lmk"
    for paths, unchanged in ((["."], 2), (["../mine"], 2), (["bees.txt"], 1)):
        done = lmk("ingest", *paths, "-c", "c", "--to", store, "--json", cwd=place / "mine")
        report = result(done)
        assert (report["new"], report["updated"], report["unchanged"]) == (0, 0, unchanged)


def test_a_dry_run_says_what_would_be_pruned(place: Path, tmp_path: Path) -> None:
    """As many as the real run deletes, by name; and nothing is deleted."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.txt").write_text(f"Text of {name}.", encoding="utf-8")
    command = ("ingest", "mine", "-c", "c", "--prune")
    lmk(*command, cwd=tmp_path)
    (folder / "a.txt").unlink()
    tried = lmk(*command, "--dry-run", cwd=tmp_path)
    assert ["pruned", "1"] in [line.split() for line in tried.stdout.splitlines()]
    assert "  would prune: mine/a.txt\n" in tried.stdout
    report = result(lmk(*command, "--dry-run", "--json", cwd=tmp_path))
    assert (report["pruned"], report["pruned_ids"]) == (1, ["mine/a.txt"])
    done = lmk(*command, cwd=tmp_path)
    assert "  pruned: mine/a.txt\n" in done.stdout
    again = result(lmk(*command, "--dry-run", "--json", cwd=tmp_path))
    assert (again["pruned"], again["pruned_ids"]) == (0, [])


def test_words_alone_give_no_passage_score(place: Path) -> None:
    """No landmark was compared: null, for 0.0 would say that nothing matches."""
    done = lmk("search", "sourdough", "-c", "c", "--mode", "bm25", "--json", cwd=place)
    assert [hit["passage"]["score"] for hit in result(done)["hits"]] == [None]
    done = lmk("search", "sourdough", "-c", "c", "--limit", 1, "--json", cwd=place)
    assert result(done)["hits"][0]["passage"]["score"] > 0.3
