"""Landmark models in sentence-transformers: its trainer, losses, evaluators. Extra ``train``.

The modules are built in code, so nothing asks for ``trust_remote_code``.
"""

from lmk_integrations._extras import require

require("sentence_transformers", extra="train")

from lmk_integrations.sentence_transformers.build import (  # noqa: E402
    LandmarkSentenceTransformer,
    to_sentence_transformer,
)
from lmk_integrations.sentence_transformers.module import LandmarkTransformer  # noqa: E402

__all__ = ["LandmarkSentenceTransformer", "LandmarkTransformer", "to_sentence_transformer"]
