"""BM25 over sections against Qdrant itself."""

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from lmk_integrations.encoder import LMKEncoder
from lmk_integrations.evaluation.bm25 import bm25_scores
from lmk_integrations.qdrant.bm25 import Bm25Encoder


@pytest.fixture(scope="module")
def encoder(bert) -> LMKEncoder:
    return LMKEncoder(bert, pooling="mean")


def test_scores_are_those_of_qdrant(encoder):
    """One section a document: sparse vectors and the IDF modifier of a store give the same."""
    texts = [
        "The river ends where the sea begins. The river is wide.",
        "Foxes jump over dogs",
        "",
        "A dog sleeps by the river",
        "the of and",
        "Sea and sky",
    ]
    queries = ["where does the river end?", "dogs and foxes", "nothing of this", "the"]
    mean = float(np.mean([len(text.split()) for text in texts]))
    bm25 = Bm25Encoder(avg_len=mean)
    client = QdrantClient(":memory:")
    client.create_collection(
        "c",
        vectors_config={},
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    points = [
        models.PointStruct(id=number, vector={"bm25": vector})
        for number, vector in enumerate(map(bm25.encode_document, texts))
        if vector.indices
    ]
    client.upsert("c", points)
    expected = np.zeros((len(queries), len(texts)))
    for row, query in zip(expected, queries, strict=True):
        found = client.query_points("c", query=bm25.encode_query(query), using="bm25", limit=10)
        for point in found.points:
            row[point.id] = point.score
    assert np.count_nonzero(expected) == 4
    np.testing.assert_allclose(bm25_scores(encoder, queries, texts), expected, rtol=1e-5)


def test_the_best_section_counts(encoder):
    """A document of several sections scores as its best one would alone, whatever its length."""
    passage = "Lighthouse keepers climb stairs. "
    filler = "Bread needs water and flour every day. " * 30
    done: list[int] = []
    scores = bm25_scores(
        encoder, ["lighthouse stairs"], [filler + passage + filler, filler, passage], done.append
    )[0]
    assert 0 == scores[1] < scores[0] < scores[2]
    assert done == [1, 2, 3]
    alone = bm25_scores(encoder, ["lighthouse stairs"], [filler, filler + passage, passage])[0]
    assert scores[0] > 0.3 * alone[2]
