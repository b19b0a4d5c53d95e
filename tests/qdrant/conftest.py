from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from store_backends import BACKENDS, open_backend


@pytest.fixture(params=BACKENDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A client of each kind in turn."""
    with open_backend(request.param, tmp_path) as client:
        yield client


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Single queries are no faster with more threads, and far slower on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
