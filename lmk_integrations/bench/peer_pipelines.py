"""Ingest as the frameworks' documentation shows it. Served by serve.py in any environment that
has what a pipeline needs; imports nothing of this package."""

from __future__ import annotations

import time
import warnings
from typing import Any

_COLLECTION = "bench"

warnings.filterwarnings("ignore", message=".*[Ll]ocal mode is not recommended.*")


def open_worker(name: str) -> Any:
    """The pipeline of a name."""
    kind, _, variant = name.partition(":")
    return LangChain() if kind == "langchain" else LlamaIndex(whole=variant == "whole")


class LangChain:
    """TextLoader, RecursiveCharacterTextSplitter 1000/200, HuggingFaceEmbeddings, and
    QdrantVectorStore on a path."""

    def load(self, model: str, device: str | None) -> None:
        """Open the model."""
        from langchain_huggingface import HuggingFaceEmbeddings

        options = {} if device is None else {"device": device}
        self._embeddings = HuggingFaceEmbeddings(model_name=model, model_kwargs=options)

    def run(self, paths: list[str], folder: str) -> dict[str, Any]:
        """Store the files in a new folder."""
        from langchain_community.document_loaders import TextLoader
        from langchain_qdrant import QdrantVectorStore
        from langchain_text_splitters import RecursiveCharacterTextSplitter

        started = time.perf_counter()
        splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200)
        documents = [
            document for path in paths for document in TextLoader(path, encoding="utf-8").load()
        ]
        chunks = splitter.split_documents(documents)
        store = QdrantVectorStore.from_documents(
            chunks, self._embeddings, path=folder, collection_name=_COLLECTION
        )
        points = store.client.count(_COLLECTION).count
        store.client.close()
        seconds = time.perf_counter() - started
        model = self._embeddings._client
        return {
            "seconds": seconds,
            "points": points,
            "cut": cut_tokens(model, [chunk.page_content for chunk in chunks]),
        }


class LlamaIndex:
    """SimpleDirectoryReader, and an IngestionPipeline of SentenceSplitter, HuggingFaceEmbedding
    and QdrantVectorStore on a path, all with their defaults but the splitter's tokenizer.

    whole: chunks are of as many tokens as the model reads, instead of 1,024, and overlap by the
        same share.
    """

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole

    def load(self, model: str, device: str | None) -> None:
        """Open the model."""
        from llama_index.embeddings.huggingface import HuggingFaceEmbedding

        self._embedding = HuggingFaceEmbedding(model_name=model, device=device)
        self._tokenizer = self._embedding._model.tokenizer

    def run(self, paths: list[str], folder: str) -> dict[str, Any]:
        """Store the files in a new folder."""
        from llama_index.core import SimpleDirectoryReader
        from llama_index.core.ingestion import IngestionPipeline
        from llama_index.core.node_parser import SentenceSplitter
        from llama_index.core.schema import MetadataMode
        from llama_index.vector_stores.qdrant import QdrantVectorStore
        from qdrant_client import QdrantClient

        started = time.perf_counter()
        client = QdrantClient(path=folder)
        # The model's own: the default one counts by OpenAI's tokens, and may ask the network.
        splitter = SentenceSplitter(tokenizer=self._tokens, **self._sizes())
        pipeline = IngestionPipeline(
            transformations=[splitter, self._embedding],
            vector_store=QdrantVectorStore(client=client, collection_name=_COLLECTION),
        )
        documents = SimpleDirectoryReader(input_files=paths).load_data()
        nodes = pipeline.run(documents=documents)
        points = client.count(_COLLECTION).count
        client.close()
        seconds = time.perf_counter() - started
        shown = [node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes]
        cut = cut_tokens(self._embedding._model, shown)
        return {"seconds": seconds, "points": points, "cut": cut}

    def _sizes(self) -> dict[str, Any]:
        if not self._whole:
            return {}
        special = self._tokenizer.num_special_tokens_to_add()
        size = int(self._embedding.max_length) - int(special)
        return {"chunk_size": size, "chunk_overlap": size * 200 // 1024}

    def _tokens(self, text: str) -> list[int]:
        found: list[int] = self._tokenizer.encode(
            text, add_special_tokens=False, truncation=False, verbose=False
        )
        return found


def cut_tokens(model: Any, texts: list[str]) -> float:
    """The share of texts' tokens behind what a SentenceTransformer reads of each."""
    lengths = [
        len(ids)
        for ids in model.tokenizer(texts, add_special_tokens=True, truncation=False, verbose=False)[
            "input_ids"
        ]
    ]
    limit = int(model.max_seq_length)
    return sum(max(0, length - limit) for length in lengths) / max(1, sum(lengths))
