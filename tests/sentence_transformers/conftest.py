"""Tiny models, built once per session, on one thread: they are too small to share out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "encoder"))

from tiny_models import build_tiny


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The directory of a family's tiny model: ``tiny("bert")``."""
    root = tmp_path_factory.mktemp("tiny_for_modules")
    built: dict[str, Path] = {}

    def directory(kind: str) -> Path:
        if kind not in built:
            built[kind] = build_tiny(kind, root / kind, baked=kind == "bert")
        return built[kind]

    return directory


@pytest.fixture(autouse=True, scope="module")
def one_torch_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
