"""The identities on which resuming, skipping and replacing rest."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmk_integrations.ingest.ids import (
    content_hash,
    head_id,
    metadata_hash,
    recipe_id,
    section_id,
)

AWKWARD = [
    "a",
    "a/b",
    "a:b",
    'a"b',
    "a'b",
    "a\\b",
    "\u00e9",
    "e\u0301",
    "\u65e5\u672c",
    "head",
    "\0",
]


def test_ids_are_fixed_for_ever() -> None:
    """A change here would make every stored document new: these values never change."""
    assert head_id("docs/a.md") == "f5a8af9d-2495-594c-801c-3944fef885bf"
    assert section_id("docs/a.md", "h", "r", 0) == "8b46505a-af66-588e-9695-6a3e5b0e4787"
    assert content_hash(["text"]) == "982d9e3eb996f559e633f4d194def376"
    assert recipe_id("f", 960, "1", {"language": "english"}) == "0950cfc6acca7329db1650e8c329b4be"


def test_ids_do_not_depend_on_the_process() -> None:
    """Another process, with another hash seed, finds the same points."""
    code = (
        "from lmk_integrations.ingest.ids import *;"
        "print(head_id('ä'), section_id('ä', 'h', 'r', 3), content_hash(['x'], [['b', 1]]),"
        "metadata_hash({'b': 1, 'a': [2]}, 't', None))"
    )
    here = " ".join(
        [
            head_id("ä"),
            section_id("ä", "h", "r", 3),
            content_hash(["x"], [["b", 1]]),
            metadata_hash({"a": [2], "b": 1}, "t", None),
        ]
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    there = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert there.stdout.split() == here.split()


def test_every_id_is_a_uuid_and_no_two_meet() -> None:
    """Ids of heads and sections never collide, whatever the document is called."""
    ids = [head_id(name) for name in AWKWARD]
    ids += [section_id(n, h, r, o) for n in AWKWARD for h in "hx" for r in "rx" for o in range(3)]
    assert len(set(ids)) == len(ids)
    assert all(str(uuid.UUID(point_id)) == point_id for point_id in ids)


def test_parts_cannot_run_into_each_other() -> None:
    """("ab", "c") and ("a", "bc") are different sections."""
    assert section_id("ab", "c", "r", 0) != section_id("a", "bc", "r", 0)
    assert section_id("a", "b", "1", 0) != section_id("a", "b", "", 10)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.lists(st.integers(0, 200)))
def test_a_hash_does_not_depend_on_the_pieces(text: str, cuts: list[int]) -> None:
    """A text has one hash, however a reader hands it over."""
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in itertools.pairwise(places)]
    assert content_hash(pieces) == content_hash([text])


def test_a_hash_sees_structure() -> None:
    """Headings and pages decide how a text is cut, so they belong to its content."""
    plain = content_hash(["text"])
    marked = content_hash(["text"], ["plain", [[0, "heading", "A"]]])
    assert len({plain, marked, content_hash(["text"], ["markdown", []])}) == 3
    assert content_hash(["text"], None) == plain


@pytest.mark.parametrize(
    "change", [({"a": 2}, "t", "s"), ({"a": 1}, "u", "s"), ({"a": 1}, "t", None), ({}, "t", "s")]
)
def test_a_metadata_hash_sees_all_that_is_shown(change: tuple[dict, str, str | None]) -> None:
    """Metadata, title and source each make a difference; the order of keys does not."""
    assert metadata_hash(*change) != metadata_hash({"a": 1}, "t", "s")
    assert metadata_hash({"a": 1, "b": 2}, None, None) == metadata_hash(
        {"b": 2, "a": 1}, None, None
    )


@pytest.mark.parametrize(
    "change",
    [
        ("g", 960, "1", {"language": "english"}),
        ("f", 480, "1", {"language": "english"}),
        ("f", 960, "2", {"language": "english"}),
        ("f", 960, "1", {"language": "german"}),
    ],
)
def test_a_recipe_sees_each_of_its_parts(change: tuple[str, int, str, dict]) -> None:
    """Encoder, section size, reader and BM25 settings each make another recipe."""
    assert recipe_id(*change) != recipe_id("f", 960, "1", {"language": "english"})
