"""Landmarks in turbo8: the same answers, and every other part knows of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from index_data import LIBRARY, QUERIES
from qdrant_client import models
from store_backends import open_backend

from lmk_integrations import ConfigError, LandmarkIndex, LMKEncoder, StoreError, cli
from lmk_integrations.encoder import PlainEncoder
from lmk_integrations.langchain import LMKEmbeddings, LMKVectorStore
from lmk_integrations.llama_index import LMKEmbedding
from lmk_integrations.llama_index import LMKVectorStore as LlamaStore
from lmk_integrations.qdrant.items import Item
from lmk_integrations.qdrant.move import copy_collection
from lmk_integrations.qdrant.move_points import same_vectors
from lmk_integrations.qdrant.rebuild import rebuild
from lmk_integrations.qdrant.schema import LANDMARK_DATATYPES, CollectionIdentity, create_collection
from lmk_integrations.qdrant.verify import verify

pytestmark = pytest.mark.usefixtures("one_thread")

NAME = "library"
CHOSEN = [LIBRARY[name] for name in ("lighthouse/1", "bread/1", "chess/1", "volcano/1", "long")]


def filled(store: Any, encoder: LMKEncoder, datatype: Any, name: str = NAME) -> LandmarkIndex:
    index = LandmarkIndex(store, name, encoder, section_tokens=128, landmark_datatype=datatype)
    assert index.ingest(CHOSEN).new == len(CHOSEN)
    return index


def put_an_item(store: Any, encoder: LMKEncoder, datatype: Any) -> None:
    """A point of which only the vectors tell whether a copy is the same."""
    index = LandmarkIndex(store, NAME, encoder, landmark_datatype=datatype)
    text = str(LIBRARY["long"].text)
    [found] = encoder.encode_landmarks([text])
    index.put([Item(id="salt", text=text, vector=found.vector, landmarks=found)])


def stored_as(store: Any, name: str = NAME) -> Any:
    return store.get_collection(name).config.params.vectors["landmarks"].datatype


def landmarks(store: Any, name: str = NAME) -> dict[Any, Any]:
    records, _ = store.scroll(name, limit=1000, with_vectors=["landmarks"])
    return {
        record.id: np.asarray(record.vector["landmarks"])
        for record in records
        if "landmarks" in (record.vector or {})
    }


def test_the_same_answers(store: Any, encoder: LMKEncoder) -> None:
    """Searches rank and cut passages as with float16; verify finds nothing wrong."""
    halves = filled(store, encoder, None, "halves")
    eighths = filled(store, encoder, "turbo8")
    assert stored_as(store, "halves") == "float16"
    assert stored_as(store) == "turbo8"
    assert halves.info()["landmark_datatype"] == "float16"
    assert eighths.info()["landmark_datatype"] == "turbo8"
    for query in QUERIES:
        for mode in ("landmark", "hybrid"):
            one, other = (index.search(query, 3, mode=mode) for index in (halves, eighths))
            assert [hit.doc_id for hit in one] == [hit.doc_id for hit in other]
            assert [hit.score for hit in one] == pytest.approx(
                [hit.score for hit in other], abs=5e-3
            )
        best = one[0], other[0]
        assert best[0].passage.text == best[1].passage.text
    assert verify(eighths).ok


def test_the_engine_rounds(tmp_path: Path, encoder: LMKEncoder) -> None:
    """Not the same numbers, but within what a copy takes for the same."""
    with open_backend("edge", tmp_path) as store:
        filled(store, encoder, "float16", "halves")
        filled(store, encoder, "turbo8")
        one, other = landmarks(store, "halves"), landmarks(store)
        assert len(one) == len(other) > len(CHOSEN)
    rows, others = (np.concatenate(list(found.values())) for found in (one, other))
    assert rows.shape == others.shape
    away = np.linalg.norm(others[:, None] - rows, axis=-1).min(axis=1)
    assert away.max() < 0.015
    assert away.min() > 1e-3


def test_the_choice_is_kept(store: Any, encoder: LMKEncoder) -> None:
    """Opened without it: as it is. Opened with another: refused, with the ways out."""
    filled(store, encoder, "turbo8")
    assert LandmarkIndex(store, NAME, encoder).info()["landmark_datatype"] == "turbo8"
    with pytest.raises(ConfigError, match=r"as turbo8, which cannot change to float16; rebuild"):
        LandmarkIndex(store, NAME, encoder, landmark_datatype="float16")


def test_what_it_cannot_be(encoder: LMKEncoder) -> None:
    wrong: Any = "int4"
    with pytest.raises(ConfigError, match="landmark_datatype='int4' must be one of 'float16', "):
        LandmarkIndex(":memory:", NAME, encoder, landmark_datatype=wrong)
    toy = PlainEncoder(lambda texts: [[1.0] for _ in texts], lambda _: [1.0], name="toy", dim=1)
    with pytest.raises(ConfigError, match="'toy' gives no landmarks; leave it out"):
        LandmarkIndex(":memory:", NAME, toy, landmark_datatype="turbo8")


def test_a_client_that_does_not_know_it(tmp_path: Path) -> None:
    identity = CollectionIdentity(
        space={"dim": 4}, model="m", recipe={}, bm25={}, landmark_datatype="turbo1024"
    )
    with (
        open_backend("edge", tmp_path) as store,
        pytest.raises(ConfigError, match="qdrant-client knows no landmark_datatype='turbo1024'"),
    ):
        create_collection(store, NAME, identity)


def test_the_identity_of_a_collection_made_before(store: Any, encoder: LMKEncoder) -> None:
    """Collections of earlier versions say nothing of it: theirs is float16."""
    filled(store, encoder, None)
    metadata = store.get_collection(NAME).config.metadata["lmk_integrations"]
    metadata.pop("landmark_datatype")
    store.update_collection(collection_name=NAME, metadata={"lmk_integrations": metadata})
    index = LandmarkIndex(store, NAME, encoder)
    assert index.info()["landmark_datatype"] == "float16"
    assert index.ingest(CHOSEN).unchanged == len(CHOSEN)


@pytest.mark.parametrize("kind", ["memory", "rest"])
def test_a_copy_and_a_second_one(kind: str, tmp_path: Path, encoder: LMKEncoder) -> None:
    """To a place that keeps more of each number, and from there back: nothing drifts."""
    with (
        open_backend("edge", tmp_path / "a") as here,
        open_backend(kind, tmp_path / "b") as there,
        open_backend("edge", tmp_path / "c") as back,
    ):
        filled(here, encoder, "turbo8")
        assert copy_collection(here, there, NAME).verified
        assert copy_collection(here, there, NAME).copied == 0
        assert stored_as(there) == "turbo8"
        assert copy_collection(there, back, NAME).verified
        before, after = landmarks(here), landmarks(back)
        assert before.keys() == after.keys()
        for key, rows in before.items():
            np.testing.assert_allclose(after[key], rows, atol=1e-6)


@pytest.mark.parametrize(("here_as", "there_as"), [("float16", "turbo8"), ("turbo8", "float16")])
def test_a_copy_into_another_datatype(here_as: Any, there_as: Any, tmp_path: Path) -> None:
    """Once: what is rounded there is not sent again, though a point tells nothing but vectors."""
    encoder = LMKEncoder(truncate_dim=16)  # the fewer numbers, the more each is rounded
    with (
        open_backend("edge", tmp_path / "a") as here,
        open_backend("edge", tmp_path / "b") as there,
    ):
        put_an_item(here, encoder, here_as)
        LandmarkIndex(there, NAME, encoder, landmark_datatype=there_as).ingest([CHOSEN[0]])
        assert copy_collection(here, there, NAME).copied == 1
        assert copy_collection(here, there, NAME).copied == 0
        assert copy_collection(there, here, NAME).unchanged == 1
        assert stored_as(there) == there_as
        opened = LandmarkIndex(there, NAME, encoder, landmark_datatype=there_as)
        assert opened.info()["landmark_datatype"] == there_as


@pytest.mark.parametrize(
    ("away", "fine", "coarse"), [(1e-3, True, True), (1e-2, False, True), (5e-2, False, False)]
)
def test_what_counts_as_rounding(away: float, fine: bool, coarse: bool) -> None:
    one, other = (
        models.Record(id=1, payload={}, vector={"landmarks": [[1.0, 0.0], [0.0, y]]})
        for y in (1.0, 1.0 + away)
    )
    assert same_vectors(one, other) is fine
    assert same_vectors(one, other, {"landmarks"}) is coarse
    assert same_vectors(one, other, {"lmk"}) is fine


def test_a_copy_that_differs_is_mended(tmp_path: Path, encoder: LMKEncoder) -> None:
    """A tolerance for rounding takes no altered vector for the same."""
    with (
        open_backend("edge", tmp_path / "a") as here,
        open_backend("edge", tmp_path / "b") as there,
    ):
        put_an_item(here, encoder, "turbo8")
        copy_collection(here, there, NAME)
        [(point_id, rows)] = landmarks(there).items()
        altered = rows.copy()
        altered[0] = -altered[0]
        assert copy_collection(here, there, NAME).copied == 0
        there.update_vectors(
            NAME,
            [models.PointVectors(id=point_id, vector={"landmarks": altered.tolist()})],
            wait=True,
        )
        assert copy_collection(here, there, NAME).copied == 1
        np.testing.assert_allclose(landmarks(there)[point_id], rows, atol=1e-6)


def test_rebuild_to_a_recipe_that_a_kept_collection_has(tmp_path: Path) -> None:
    """A kept collection's name tells its datatype too, so that the other one's is free."""
    coarse, fine = LMKEncoder(granularity=64), LMKEncoder(granularity=32)
    with open_backend("edge", tmp_path) as store:
        LandmarkIndex(store, NAME, fine, landmark_datatype="turbo8").ingest(CHOSEN)
        first = rebuild(store, NAME, coarse, CHOSEN)
        assert first.swapped
        assert stored_as(store) == "turbo8"  # nobody asked for another
        assert str(first.old).endswith("-turbo8")
        back = rebuild(store, NAME, fine, CHOSEN, landmark_datatype="float16")
        assert (back.swapped, back.problems) == (True, [])
        assert stored_as(store) == "float16"


def test_an_identity_of_a_later_version(store: Any, encoder: LMKEncoder) -> None:
    """Which says what this version does not know: refused in words."""
    filled(store, encoder, None)
    metadata = store.get_collection(NAME).config.metadata["lmk_integrations"]
    later = {"lmk_integrations": {**metadata, "colour": "blue"}}
    store.update_collection(collection_name=NAME, metadata=later)
    with pytest.raises(StoreError, match="was written by another version of lmk-integrations"):
        LandmarkIndex(store, NAME, encoder)


def test_every_way_in(tmp_path: Path, encoder: LMKEncoder) -> None:
    """The command's choices are all there are; the frameworks' stores pass it on."""
    parser = cli._parser()
    for datatype in LANDMARK_DATATYPES:
        asked = parser.parse_args(["ingest", "x", "-c", "c", "--landmark-datatype", datatype])
        assert asked.landmark_datatype == datatype
    with open_backend("edge", tmp_path) as store:
        llama = LlamaStore(store, "li", LMKEmbedding(), landmark_datatype="turbo8")
        llama.index.ingest([CHOSEN[0]])
        chain = LMKVectorStore(store, "lc", LMKEmbeddings(), landmark_datatype="turbo8")
        chain.add_texts(["A text."])
        assert stored_as(store, "li") == stored_as(store, "lc") == "turbo8"


def test_rebuild(tmp_path: Path, encoder: LMKEncoder) -> None:
    """Into turbo8 and back; a rebuild that does not name it keeps it."""
    with open_backend("edge", tmp_path) as store:
        filled(store, encoder, None)
        report = rebuild(store, NAME, encoder, CHOSEN, landmark_datatype="turbo8")
        assert report.swapped
        assert report.collection.endswith("-turbo8")
        assert stored_as(store) == "turbo8"
        kept = rebuild(store, NAME, encoder, CHOSEN)
        assert (kept.collection, kept.ingest.unchanged) == (report.collection, len(CHOSEN))
        back = rebuild(store, NAME, encoder, CHOSEN, landmark_datatype="float16")
        assert back.swapped
        assert stored_as(store) == "float16"
        assert LandmarkIndex(store, NAME, encoder).count() == len(CHOSEN)
