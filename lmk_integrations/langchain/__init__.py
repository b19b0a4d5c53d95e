"""LangChain: the landmark encoder as LangChain objects. Needs the extra ``langchain``."""

from lmk_integrations._extras import require

require("langchain_core", extra="langchain")

from lmk_integrations.langchain.embeddings import LMKEmbeddings  # noqa: E402

__all__ = ["LMKEmbeddings"]
