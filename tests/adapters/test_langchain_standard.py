"""LangChain's own conformance suites for embeddings."""

from __future__ import annotations

from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

from lmk_integrations.langchain import LMKEmbeddings


class TestUnit(EmbeddingsUnitTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return LMKEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"granularity": 16}


class TestIntegration(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return LMKEmbeddings
