from __future__ import annotations

from typing import Any

import pytest

from lmk_integrations.qdrant import retry


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses a fiftieth as long as they are."""
    for function in (retry.call_with_retry, retry.Retries.__init__):
        defaults: Any = function.__kwdefaults__
        monkeypatch.setitem(defaults, "base_s", 0.01)
