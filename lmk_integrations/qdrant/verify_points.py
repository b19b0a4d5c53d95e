"""What is wrong with one stored point, as far as it tells by itself. No store, no model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

from lmk_integrations.ingest.ids import metadata_hash
from lmk_integrations.ingest.records import Facts
from lmk_integrations.qdrant.bm25 import Bm25Encoder
from lmk_integrations.qdrant.move_points import same_payload
from lmk_integrations.qdrant.own_points import version_of
from lmk_integrations.qdrant.points import (
    facts_of,
    given_metadata,
    head_payload,
    section_payload,
)
from lmk_integrations.qdrant.schema import (
    BM25,
    DOCUMENT,
    LANDMARKS,
    LMK,
    RECORD,
    CollectionIdentity,
)

# Landmarks are stored in float16 or turbo8, and the share of each is rounded.
_CLOSE = 0.999
_UNIT = 1e-2
_TERM = 1e-3
# Poolings whose vector is the weighted mean of the landmarks: others have a state of its own.
_MEANS = {"lmk", "mean"}
_SHOWN = 3  # keys of a payload that a message names


class PointCheck:
    """Checks points against what a collection says of itself."""

    def __init__(self, identity: CollectionIdentity) -> None:
        self._dim = int(identity.space["dim"])
        self._landmarks = identity.landmarks
        self._is_mean = identity.landmarks and identity.space.get("pooling", "lmk") in _MEANS
        self._bm25 = Bm25Encoder.from_dict(dict(identity.bm25))

    def section(self, record: models.Record, facts: Facts | None) -> Iterator[str]:
        """Complaints about a section. facts: of its document; None: as the section tells them."""
        payload = dict(record.payload or {})
        try:
            known = _own_facts(payload) if facts is None else facts
            yield from self._section_payload(str(record.id), payload, known)
            yield from self._section_vectors(record.vector, payload)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            yield f"its record cannot be read ({type(error).__name__}: {error})"

    def head(self, record: models.Record, pooled: NDArray[np.float64] | None) -> Iterator[str]:
        """Complaints about a head. pooled: the sum of its document's sections, where whole."""
        payload = dict(record.payload or {})
        try:
            facts, version = facts_of(payload), version_of(payload[RECORD])
            if not are_as_stored(facts):
                yield "its metadata is not what was stored"
            yield from _differing(head_payload(version, facts, payload[RECORD]), payload)
            vector = np.asarray(_vectors(record.vector)[DOCUMENT], np.float64)
            yield from self._vector("document", vector)
            if pooled is not None and _cosine(vector, pooled) < _CLOSE:
                yield "its vector is not the sum of its sections'"
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            yield f"its record cannot be read ({type(error).__name__}: {error})"

    def item(self, record: models.Record) -> Iterator[str]:
        """Complaints about an item."""
        payload = dict(record.payload or {})
        try:
            yield from self._section_vectors(record.vector, payload, of_item=True)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            yield f"its record cannot be read ({type(error).__name__}: {error})"

    def _section_payload(
        self, point_id: str, payload: dict[str, Any], facts: Facts
    ) -> Iterator[str]:
        own, text = payload[RECORD], payload["page_content"]
        if own["metadata_hash"] != facts.metadata_hash:
            yield "it shows other metadata than its document has"
            return
        start, ends = own["start"], own["ends"]
        if [start, *ends] != sorted({start, *ends}) or ends[-1] - start != len(text):
            yield "its text is not as long as it was"
        expected = section_payload(point_id, version_of(own), facts, own, text)
        yield from _differing(expected, payload)

    def _section_vectors(
        self, found: Any, payload: dict[str, Any], *, of_item: bool = False
    ) -> Iterator[str]:
        own, vectors = payload[RECORD], _vectors(found)
        vector = np.asarray(vectors[LMK], np.float64)
        yield from self._vector(LMK, vector)
        sparse = self._bm25.encode_document(payload["page_content"])
        if not _same_terms(sparse, vectors.get(BM25)):
            yield "its BM25 terms are not those of its text"
        if not self._landmarks or (of_item and "shares" not in own):
            return
        rows = np.asarray(vectors[LANDMARKS], np.float64)
        counts = {len(own[key]) for key in ("ends", "tokens", "shares")}
        if counts != {len(rows)} or rows.shape[1:] != (self._dim,):
            yield f"it has {len(rows)} landmarks, and its record tells of {len(own['ends'])}"
        elif not np.isfinite(rows).all() or abs(np.linalg.norm(rows, axis=1) - 1).max() > _UNIT:
            yield "a landmark is no unit vector"
        elif (
            self._is_mean
            and not of_item
            and _cosine(np.asarray(own["shares"], np.float64) @ rows, vector) < _CLOSE
        ):
            yield "its vector is not the mean of its landmarks"

    def _vector(self, name: str, vector: NDArray[np.float64]) -> Iterator[str]:
        if vector.shape != (self._dim,) or not np.isfinite(vector).all():
            yield f"its vector {name!r} is not {self._dim} finite numbers"
        elif abs(np.linalg.norm(vector) - 1) > _UNIT and vector.any():
            yield f"its vector {name!r} is no unit vector"


def are_as_stored(facts: Facts) -> bool:
    """Whether what is shown with a document is what its digest says."""
    if _has_fractions(facts.metadata):  # engines may round those off
        return True
    digest = metadata_hash(facts.metadata, facts.title, facts.source, facts.root)
    return digest == facts.metadata_hash


def _own_facts(section: Mapping[str, Any]) -> Facts:
    shown = section["metadata"]
    digest = str(section[RECORD]["metadata_hash"])
    return Facts(shown.get("title"), shown.get("source"), given_metadata(section), digest)


def is_readable(own: Any) -> bool:
    """Whether a point's record tells what the point is."""
    try:
        if own["kind"] == "item":
            return isinstance(own["doc_id"], str)
        version_of(own)
        if own["kind"] == "head":
            int(own["sections"]), own["metadata_hash"], own["title"], own["source"]
            return True
        int(own["ordinal"]), int(own["start"]), int(own["ends"][-1]), float(own["pooled_norm"])
        return bool(own["kind"] == "section")
    except (KeyError, TypeError, ValueError, IndexError):
        return False


def part_of_sum(record: models.Record) -> NDArray[np.float64]:
    """What a section adds to its document's vector, (dim,)."""
    vector = np.asarray(_vectors(record.vector)[LMK], np.float64)
    return vector * float((record.payload or {})[RECORD]["pooled_norm"])


def _vectors(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def _differing(expected: Mapping[str, Any], payload: Mapping[str, Any]) -> Iterator[str]:
    differing = [
        key
        for key in sorted({*expected, *payload})
        if not same_payload(_readable(key, expected), _readable(key, payload))
    ]
    if differing:
        more = f" and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
        yield f"its payload was altered ({', '.join(map(repr, differing[:_SHOWN]))}{more})"


def _readable(key: str, payload: Mapping[str, Any]) -> Any:
    value = payload.get(key)
    return json.loads(value) if key == "_node_content" and isinstance(value, str) else value


def _same_terms(expected: models.SparseVector, found: Any) -> bool:
    if found is None:
        return not expected.indices
    want = dict(zip(expected.indices, expected.values, strict=True))
    have = dict(zip(found.indices, found.values, strict=True))
    return want.keys() == have.keys() and all(abs(want[k] - have[k]) < _TERM for k in want)


def _cosine(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """1 for two zero vectors too."""
    norms = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / norms if norms else float(not one.any() and not other.any())


def _has_fractions(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_fractions, value.values()))
    if isinstance(value, list):
        return any(map(_has_fractions, value))
    return isinstance(value, float)
