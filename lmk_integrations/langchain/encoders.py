"""LangChain's embeddings as the encoders that an index takes."""

from __future__ import annotations

from langchain_core.embeddings import Embeddings

from lmk_integrations.encoder import DocumentEncoder
from lmk_integrations.encoder.plain import PlainEncoder
from lmk_integrations.errors import ConfigError
from lmk_integrations.langchain.embeddings import LMKEmbeddings

# Where the integrations of LangChain keep their model's name. Nothing else is read from them.
_NAMES = ("model_name", "model", "model_id", "deployment")


def encoder_of(embedding: Embeddings) -> DocumentEncoder:
    """The landmark encoder of `LMKEmbeddings`; any other embeddings as one vector per text.

    The space of the latter is told by class and model name: that is all LangChain knows of it.
    """
    if isinstance(embedding, LMKEmbeddings):
        return embedding.encoder
    if not isinstance(embedding, Embeddings):
        raise ConfigError(
            f"embedding={embedding!r} must be LangChain Embeddings, for example LMKEmbeddings()"
        )
    kind = type(embedding).__name__
    names = (getattr(embedding, name, None) for name in _NAMES)
    model = next((name for name in names if isinstance(name, str) and name), None)
    return PlainEncoder(
        embedding.embed_documents,
        embedding.embed_query,
        name=kind if model is None else f"{kind}({model})",
    )
