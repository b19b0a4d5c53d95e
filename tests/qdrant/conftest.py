from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from store_backends import BACKENDS, open_backend


@pytest.fixture(params=BACKENDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A client of each kind in turn."""
    with open_backend(request.param, tmp_path) as client:
        yield client
