"""LlamaIndex: embeddings, a vector store, a retriever and a node parser with landmarks.

Needs the extra ``llama-index``.
"""

from lmk_integrations._extras import require

require("llama_index.core", extra="llama-index")

from lmk_integrations.llama_index.embedding import LMKEmbedding  # noqa: E402
from lmk_integrations.llama_index.node_parser import LandmarkNodeParser  # noqa: E402
from lmk_integrations.llama_index.retriever import LMKRetriever  # noqa: E402
from lmk_integrations.llama_index.vectorstore import LMKVectorStore  # noqa: E402

__all__ = ["LMKEmbedding", "LMKRetriever", "LMKVectorStore", "LandmarkNodeParser"]
