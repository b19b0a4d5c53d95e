"""Filters as plain mappings: what they match, alike on every store, and what they refuse."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from qdrant_client import models
from store_backends import BACKENDS, open_backend

from lmk_integrations import ConfigError, Document, LandmarkIndex, LMKEncoder, Mark
from lmk_integrations.qdrant.filters import as_filter

pytestmark = pytest.mark.usefixtures("one_thread")

METADATA: dict[str, dict[str, Any]] = {
    "a": {"lang": "en", "year": 1990, "rate": 0.5, "free": True, "tags": ["x", "y"]},
    "b": {"lang": "de", "year": 2000.0, "rate": 3, "free": False, "tags": ["y"], "big": 1 << 60},
    "c": {"lang": "fr", "date": "2024-05-01", "deep": {"a": 1, "list": [{"n": 1}, {"n": 2}]}},
    "d": {"my key": "v", "sch\u00f6n/er [x]": "w", "dotted.key": "u", "mixed": [1, "one", 1.5]},
    "e": {"lang": 'it\'s "quoted"', "date": datetime.date(2025, 1, 1), "year": -5, "none": None},
    # Names that sections show facts of their own under.
    "f": {"lang": "xy", "start": 99, "end": "late", "section": "Intro", "doc_id": "parent"},
}
ALL = set(METADATA)

MATCHING: dict[str, tuple[dict[str, Any], set[str]]] = {
    "nothing asked": ({}, ALL),
    "text": ({"lang": "en"}, {"a"}),
    "quoted text": ({"lang": 'it\'s "quoted"'}, {"e"}),
    "no such text": ({"lang": "xx"}, set()),
    "one of": ({"lang": ["en", "fr", "xx"]}, {"a", "c"}),
    "one of a set": ({"lang": {"en"}}, {"a"}),
    "one of none": ({"lang": []}, set()),
    "one of mixed kinds": ({"year": [1990, 2000, "x", None]}, {"a", "b", "c", "d", "f"}),
    "one of numbers": ({"rate": (0.5, 7)}, {"a"}),
    "an element": ({"tags": "y"}, {"a", "b"}),
    "whole number": ({"year": 1990}, {"a"}),
    "whole number, stored as a float": ({"year": 2000}, {"b"}),
    "float, stored whole": ({"rate": 3.0}, {"b"}),
    "float": ({"rate": 0.5}, {"a"}),
    "negative": ({"year": -5}, {"e"}),
    "beyond floats": ({"big": 1 << 60}, {"b"}),
    "true": ({"free": True}, {"a"}),
    "false": ({"free": False}, {"b"}),
    "from": ({"year": {"gte": 1990}}, {"a", "b"}),
    "between": ({"year": {"gt": 1990, "lt": 2000.5}}, {"b"}),
    "from a date": ({"date": {"gte": "2024-06-01"}}, {"e"}),
    "before a date": ({"date": {"lt": datetime.date(2024, 6, 1)}}, {"c"}),
    "several": ({"free": True, "tags": "y"}, {"a"}),
    "absent": ({"lang": None}, {"d"}),
    "absent or None": ({"none": None}, ALL),
    "nested": ({"deep.a": 1}, {"c"}),
    "nested in a list": ({"deep.list[].n": 2}, {"c"}),
    "key with a space": ({"my key": "v"}, {"d"}),
    "odd key": ({"sch\u00f6n/er [x]": "w"}, {"d"}),
    "key with a dot, quoted": ({'"dotted.key"': "u"}, {"d"}),
    "mixed list": ({"mixed": "one"}, {"d"}),
    "page": ({"page": {"gte": 3}}, {"c", "d", "e", "f"}),
    "page, exact": ({"page": 2}, {"b"}),
    "document": ({"doc_id": "c"}, {"c"}),
    "source": ({"source": "c.txt"}, {"c"}),
    "title": ({"title": "Title of c"}, {"c"}),
    "a date": ({"date": datetime.date(2025, 1, 1)}, {"e"}),
    "a number of NumPy's": ({"year": np.int64(1990), "rate": np.float32(0.5)}, {"a"}),
    "from a number of NumPy's": ({"year": {"gte": np.int64(1999)}}, {"b"}),
    "beyond integers": ({"big": 1 << 70}, set()),
    "their start": ({"start": 99}, {"f"}),
    "our start": ({"start": 0}, ALL - {"f"}),
    "their start, bounds": ({"start": {"gte": 1}}, {"f"}),
    "their end": ({"end": "late"}, {"f"}),
    "their section": ({"section": ["Intro", "Outro"]}, {"f"}),
    "our section": ({"section": 0}, ALL - {"f"}),
    "their doc_id": ({"doc_id": "parent"}, {"f"}),
    "our doc_id": ({"doc_id": ["f", "a"]}, {"a", "f"}),
}


@pytest.fixture(scope="module")
def indexes(
    encoder: LMKEncoder, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, LandmarkIndex]]:
    with ExitStack() as stack:
        opened = {}
        for kind in BACKENDS:
            client = stack.enter_context(open_backend(kind, tmp_path_factory.mktemp(kind)))
            opened[kind] = LandmarkIndex(client, "filtered", encoder)
            opened[kind].ingest(
                Document(
                    f"The text of document {name}.",
                    id=name,
                    metadata=metadata,
                    source=f"{name}.txt",
                    title=f"Title of {name}",
                    marks=(Mark(0, "page", str(number)),),
                )
                for number, (name, metadata) in enumerate(METADATA.items(), 1)
            )
        yield opened


@pytest.mark.parametrize("name", MATCHING)
@pytest.mark.parametrize("kind", BACKENDS)
def test_a_mapping_matches(indexes: dict[str, LandmarkIndex], kind: str, name: str) -> None:
    """The same documents on every store, and as a filter of Qdrant's own models."""
    wanted, expected = MATCHING[name]
    for mode, given in (("hybrid", wanted), ("dense", as_filter(wanted))):
        hits = indexes[kind].search("text", 20, mode=mode, filter=given)
        assert {hit.doc_id for hit in hits} == expected
        assert len(hits) == len(expected)


@pytest.mark.parametrize("kind", BACKENDS)
def test_documents_are_chosen_by_what_they_are_as_a_whole(
    indexes: dict[str, LandmarkIndex], kind: str
) -> None:
    """Mode "document" filters by the document's metadata, title, source and id; a page is none."""
    index = indexes[kind]
    for name in ("text", "between", "absent", "document", "source", "title", "nested"):
        wanted, expected = MATCHING[name]
        hits = index.search("text", 20, mode="document", filter=wanted)
        assert {hit.doc_id for hit in hits} == expected, name
    assert index.search("text", 20, mode="document", filter={"page": 2}) == []


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("lang == 'en'", "neither a models.Filter nor a mapping"),
        ([("lang", "en")], "neither a models.Filter nor a mapping"),
        ({"lang": object()}, "filter on 'lang': .* must be a string, number"),
        ({"lang": b"en"}, "filter on 'lang': b'en' must be"),
        ({"lang": [object()]}, "filter on 'lang': .* must be"),
        ({"year": {}}, "filter on 'year': {} must hold bounds named gt"),
        ({"year": {"from": 3}}, "'from': 3} must hold bounds named gt"),
        ({"year": {"gte": True}}, "must hold numbers, or dates"),
        ({"year": {"gte": 1, "lt": "2024-01-01"}}, "must hold numbers, or dates"),
        ({"date": {"gte": "yesterday"}}, "must hold dates in ISO 8601"),
        ({"": 1}, "filter key '' must be the name"),
        ({3: 1}, "filter key 3 must be the name"),
        ({'a"b': 1}, "no key with a double quote"),
        ({'"a.b': 1}, "no key with a double quote"),
    ],
)
def test_what_cannot_be_meant_is_refused(wanted: Any, message: str) -> None:
    """A ConfigError names the key and the value; nothing is silently left out."""
    with pytest.raises(ConfigError, match=message):
        as_filter(wanted)


def test_a_filter_of_qdrant_is_passed_on() -> None:
    """Whatever Qdrant can express can be asked; None asks for nothing."""
    given = models.Filter(must=[models.HasIdCondition(has_id=[1])])
    assert as_filter(given) is given
    assert as_filter(None) is None
    assert as_filter({}) is None
