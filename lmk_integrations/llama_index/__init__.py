"""LlamaIndex: the landmark encoder as LlamaIndex objects. Needs the extra ``llama-index``."""

from lmk_integrations._extras import require

require("llama_index.core", extra="llama-index")

from lmk_integrations.llama_index.embedding import LMKEmbedding  # noqa: E402

__all__ = ["LMKEmbedding"]
