"""One encoder for all tests of the adapters: opening it costs more than most of them."""

from __future__ import annotations

import pytest

from lmk_integrations.encoder import LMKEncoder

# float32, so that a text's vector does not depend on what shares its batch.
OPTIONS = {"dtype": "float32", "query_prompt": "query: ", "document_prompt": "passage: "}


@pytest.fixture(scope="session")
def encoder() -> LMKEncoder:
    return LMKEncoder(**OPTIONS)


@pytest.fixture(scope="session")
def cls_encoder() -> LMKEncoder:
    """Another model for all that matters: its vectors differ."""
    return LMKEncoder(pooling="cls", **OPTIONS)


@pytest.fixture(scope="session")
def long_work() -> list[str]:
    """Texts that take this model minutes."""
    return [f"{number} " + "a long and winding road " * 100 for number in range(4000)]
