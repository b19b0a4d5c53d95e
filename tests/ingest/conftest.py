from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from lmk_integrations import LMKEncoder, connect


@pytest.fixture(scope="session")
def encoder() -> LMKEncoder:
    """Windows of 64 tokens and small batches: short texts show what long ones do."""
    return LMKEncoder(dtype="float32", max_tokens=66, token_budget=256).load()


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Batches this small are slower with more threads, and far slower on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=["memory", "edge"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A store of each kind in turn."""
    opened = connect(":memory:" if request.param == "memory" else tmp_path / "store")
    yield opened
    opened.close()


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[Any]:
    """The engine that a server runs, in process."""
    opened = connect(tmp_path / "store")
    yield opened
    opened.close()


@pytest.fixture
def encoded(encoder: LMKEncoder, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Windows that the model has read, one entry per batch."""
    backend = encoder.model.load()
    rows, seen = backend.rows, []

    def spy(windows: Any) -> Any:
        seen.append(len(windows))
        return rows(windows)

    monkeypatch.setattr(backend, "rows", spy)
    return seen
