"""Encoders of others, each used as its documentation says. Served by serve.py in any environment
that has what an encoder needs; imports nothing of this package."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_ONNX_FILE = "onnx/model.onnx"


def open_worker(name: str) -> Any:
    """The encoder of a name."""
    kind, _, variant = name.partition(":")
    if kind == "sentence-transformers":
        return SentenceTransformers(variant)
    others: dict[str, Any] = {
        "langchain": LangChain,
        "llama-index": LlamaIndex,
        "fastembed": FastEmbed,
    }
    return others[kind]()


class TimedEncoder(ABC):
    """Encodes the texts it was given, as often as it is asked to, and says how long it took."""

    _texts: list[str]
    _vectors: Sequence[Sequence[float]]

    @abstractmethod
    def encode(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """Vectors of texts, one each."""

    def give(self, texts: list[str]) -> None:
        """What to encode from now on."""
        self._texts = texts

    def run(self) -> float:
        """Encode them all once. Returns the seconds."""
        started = time.perf_counter()
        self._vectors = self.encode(self._texts)
        return time.perf_counter() - started

    def vectors(self, count: int) -> list[list[float]]:
        """The first vectors of the last run."""
        return [[float(value) for value in row] for row in self._vectors[:count]]


class LangChain(TimedEncoder):
    """langchain_huggingface.HuggingFaceEmbeddings."""

    def load(self, model: str, max_tokens: int, device: str | None) -> None:
        """Open the model. max_tokens: it shall read, special tokens included."""
        from langchain_huggingface import HuggingFaceEmbeddings

        options = {} if device is None else {"device": device}
        self._embeddings = HuggingFaceEmbeddings(model_name=model, model_kwargs=options)
        self._embeddings._client.max_seq_length = max_tokens

    def encode(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """As a vector store does."""
        found: list[list[float]] = self._embeddings.embed_documents(texts)
        return found


class LlamaIndex(TimedEncoder):
    """llama_index.embeddings.huggingface.HuggingFaceEmbedding."""

    def load(self, model: str, max_tokens: int, device: str | None) -> None:
        """Open the model. max_tokens: it shall read, special tokens included."""
        from llama_index.embeddings.huggingface import HuggingFaceEmbedding

        self._embedding = HuggingFaceEmbedding(
            model_name=model, max_length=max_tokens, device=device
        )

    def encode(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """As an index does."""
        found: list[list[float]] = self._embedding.get_text_embedding_batch(texts)
        return found


class SentenceTransformers(TimedEncoder):
    """sentence_transformers.SentenceTransformer in float32, bfloat16, or on another backend."""

    def __init__(self, variant: str) -> None:
        self._variant = variant

    def load(self, model: str, max_tokens: int, device: str | None) -> None:
        """Open the model. max_tokens: it shall read, special tokens included."""
        from sentence_transformers import SentenceTransformer

        options: dict[str, Any] = {"device": device}
        if self._variant == "bfloat16":
            import torch

            options["model_kwargs"] = {"dtype": torch.bfloat16}
        elif self._variant in ("onnx", "openvino"):
            options |= {"backend": self._variant, "model_kwargs": {"export": True}}
        self._model = SentenceTransformer(model, **options)
        self._model.max_seq_length = max_tokens
        self._max_tokens = max_tokens

    def encode(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """Its one method."""
        found: list[list[float]] = self._model.encode(texts, show_progress_bar=False).tolist()
        return found

    def export(self, folder: str) -> None:
        """Write the model with its ONNX graph, as FastEmbed reads it."""
        self._model.save_pretrained(folder)
        settings = Path(folder) / "tokenizer_config.json"
        known = json.loads(settings.read_text(encoding="utf-8"))
        known.pop("max_length", None)
        known["model_max_length"] = self._max_tokens
        settings.write_text(json.dumps(known), encoding="utf-8")


class FastEmbed(TimedEncoder):
    """fastembed.TextEmbedding on an exported ONNX graph of the same model."""

    def load(self, model: str, max_tokens: int, device: str | None) -> None:
        """Open the model. model: a folder that `SentenceTransformers.export` wrote."""
        from fastembed import TextEmbedding
        from fastembed.common.model_description import ModelSource, PoolingType

        config = json.loads((Path(model) / "config.json").read_text(encoding="utf-8"))
        TextEmbedding.add_custom_model(
            model="bench/base",
            pooling=PoolingType.MEAN,
            normalization=True,
            sources=ModelSource(hf="bench/base"),
            dim=config["hidden_size"],
            model_file=_ONNX_FILE,
        )
        self._model = TextEmbedding("bench/base", specific_model_path=model)

    def encode(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """Its one method."""
        return [vector.tolist() for vector in self._model.embed(texts)]
