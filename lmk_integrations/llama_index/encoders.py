"""LlamaIndex's embedding models as the encoders that an index takes."""

from __future__ import annotations

from llama_index.core.base.embeddings.base import BaseEmbedding

from lmk_integrations.encoder import DocumentEncoder, PlainEncoder
from lmk_integrations.errors import ConfigError
from lmk_integrations.llama_index.embedding import LMKEmbedding


def encoder_of(embed_model: BaseEmbedding | None) -> DocumentEncoder | None:
    """The landmark encoder of `LMKEmbedding`; any other model as one vector per text.

    The space of the latter is told by class and model name: that is all LlamaIndex knows of it.
    """
    if embed_model is None:
        return None
    if isinstance(embed_model, LMKEmbedding):
        return embed_model.encoder
    if not isinstance(embed_model, BaseEmbedding):
        raise ConfigError(
            f"embed_model={embed_model!r} must be a LlamaIndex embedding model, for example "
            "LMKEmbedding()"
        )
    return PlainEncoder(
        embed_model.get_text_embedding_batch,
        embed_model.get_query_embedding,
        name=f"{embed_model.class_name()}({embed_model.model_name})",
    )


def given_vectors(dim: int) -> PlainEncoder:
    """An encoder for nodes that bring vectors of a model which the store was not told of."""

    def unknown(_: object) -> list[list[float]]:
        raise ConfigError("this store embeds nothing: give it embed_model=")

    return PlainEncoder(unknown, unknown, name="unknown", dim=dim)  # type: ignore[arg-type]
