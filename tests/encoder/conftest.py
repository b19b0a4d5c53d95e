"""Tiny models, built once per session."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tiny_models import build_tiny


class TinyModels:
    """Directories of tiny models by family; one of them bakes padding and truncation in."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._built: dict[str, Path] = {}

    def __call__(self, kind: str) -> Path:
        if kind not in self._built:
            self._built[kind] = build_tiny(kind, self._root / kind, baked=kind == "bert")
        return self._built[kind]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> TinyModels:
    """The directory of a family's tiny model: ``tiny("bert")``. Copy it before changing it."""
    return TinyModels(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(autouse=True, scope="module")
def one_torch_thread() -> Iterator[None]:
    """Tiny matrices take longer to share out among threads than to multiply."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
