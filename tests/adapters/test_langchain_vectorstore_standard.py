"""LangChain's own conformance suite for vector stores: every test, on both local stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests

from lmk_integrations.langchain import LMKEmbeddings, LMKVectorStore


class TestPlainEmbeddings(VectorStoreIntegrationTests):
    @pytest.fixture(params=["memory", "edge"])
    def vectorstore(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorStore]:
        place = ":memory:" if request.param == "memory" else tmp_path / "store"
        with LMKVectorStore(place, "standard", self.get_embeddings()) as store:
            yield store


class TestLandmarkEmbeddings(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, encoder, tmp_path: Path) -> Iterator[VectorStore]:
        with LMKVectorStore(
            tmp_path / "store", "standard", LMKEmbeddings(encoder=encoder)
        ) as store:
            yield store
