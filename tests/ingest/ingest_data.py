"""Texts to ingest, and what a store holds afterwards."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from stored_points import dump

_WORDS = [
    "amber",
    "river",
    "keeper",
    "stone",
    "winter",
    "garden",
    "letter",
    "harbour",
    "candle",
    "mirror",
    "forest",
    "engine",
    "silver",
    "window",
    "teacher",
    "market",
    "island",
    "bridge",
    "summer",
    "painter",
    "captain",
    "orchard",
    "thunder",
    "library",
]


def story(seed: int, sentences: int) -> str:
    """English-looking sentences, about 10 tokens each; a paragraph every five."""
    rng = random.Random(seed)
    made = []
    for number in range(sentences):
        words = [rng.choice(_WORDS) for _ in range(8)]
        made.append(f"The {' '.join(words)}." + ("\n\n" if number % 5 == 4 else " "))
    return "".join(made)


def points_of(client: Any, doc_id: str, kind: str) -> list[dict[str, Any]]:
    """The payloads of a document's points of one kind, in order."""
    payloads = [payload for payload, _ in dump(client).values()]
    own = [p for p in payloads if p["lmk"]["doc_id"] == doc_id and p["lmk"]["kind"] == kind]
    return sorted(own, key=lambda payload: payload["lmk"].get("ordinal", 0))


def assert_same_points(got: dict[str, Any], expected: dict[str, Any]) -> None:
    """The same ids, payloads and vectors, but for the last digits of floats.

    Which texts share a batch decides the order in which the model adds numbers up.
    """
    assert got.keys() == expected.keys()
    for point_id, (payload, vectors) in expected.items():
        assert got[point_id][0].keys() == payload.keys()
        for key, value in payload.items():
            if key == "lmk":
                assert_close(got[point_id][0][key], value)
            else:
                assert got[point_id][0][key] == value, key
        assert got[point_id][1].keys() == vectors.keys()
        for name, vector in vectors.items():
            if name == "bm25":
                assert got[point_id][1][name] == vector
            else:
                # Landmarks are stored in float16.
                close = 1e-3 if name == "landmarks" else 1e-4
                np.testing.assert_allclose(got[point_id][1][name], vector, atol=close)


def assert_close(got: dict[str, Any], expected: dict[str, Any]) -> None:
    assert got.keys() == expected.keys()
    for key, value in expected.items():
        if key in ("shares", "pooled_norm"):
            assert got[key] == pytest.approx(value, rel=1e-4), key
        else:
            assert got[key] == value, key
