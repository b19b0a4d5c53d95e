"""LangChain: encoder, vector store and retriever as LangChain objects. Needs the extra
``langchain``."""

from lmk_integrations._extras import require

require("langchain_core", extra="langchain")

from lmk_integrations.langchain.embeddings import LMKEmbeddings  # noqa: E402
from lmk_integrations.langchain.retriever import LMKRetriever  # noqa: E402
from lmk_integrations.langchain.vectorstore import LMKVectorStore  # noqa: E402

__all__ = ["LMKEmbeddings", "LMKRetriever", "LMKVectorStore"]
