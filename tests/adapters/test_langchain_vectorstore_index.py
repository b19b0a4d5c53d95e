"""LangChain's `index()` on LMKVectorStore, in every cleanup mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, aindex, index

from lmk_integrations.langchain import LMKVectorStore

CLEANUPS = [None, "incremental", "full", "scoped_full"]
NOTHING = {"num_added": 0, "num_updated": 0, "num_deleted": 0}


@pytest.fixture(params=["memory", "edge"])
def store(request: pytest.FixtureRequest, tmp_path: Path):
    place = ":memory:" if request.param == "memory" else tmp_path / "store"
    with LMKVectorStore(place, "indexed", DeterministicFakeEmbedding(size=6)) as opened:
        yield opened


@pytest.fixture
def records():
    manager = InMemoryRecordManager("test")
    manager.create_schema()
    return manager


def documents(version: str = "one") -> list[Document]:
    """Two files of three chunks; of another version the second file's chunks differ."""
    return [
        Document(page_content=f"{name} {part} {version if name == 'b' else ''}", metadata=facts)
        for name in ("a", "b")
        for part in range(3)
        for facts in [{"source": f"{name}.txt", "part": part}]
    ]


def contents(store: LMKVectorStore) -> set[str]:
    return {one.page_content for one in store.similarity_search("a", k=100)}


@pytest.mark.parametrize("key_encoder", ["sha256", "blake2b"])
@pytest.mark.parametrize("cleanup", CLEANUPS)
def test_index(store, records, cleanup: Any, key_encoder: Any):
    """A second identical run adds, updates and deletes nothing; a changed file is replaced."""
    options: Any = {
        "cleanup": cleanup,
        "source_id_key": "source",
        "key_encoder": key_encoder,
    }
    first = index(documents(), records, store, **options)
    assert (first["num_added"], store.index.count()) == (6, 6)
    assert index(documents(), records, store, **options) == {**NOTHING, "num_skipped": 6}

    changed = index(documents("two"), records, store, **options)
    stale = 0 if cleanup is None else 3
    assert changed == {"num_added": 3, "num_updated": 0, "num_skipped": 3, "num_deleted": stale}
    kept = {one.page_content for one in documents("two")}
    if cleanup is None:
        kept |= {one.page_content for one in documents()}
    assert contents(store) == kept


def test_full_cleanup_empties(store, records):
    """Nothing given in full mode: nothing is left."""
    options: Any = {"cleanup": "full", "source_id_key": "source", "key_encoder": "sha256"}
    index(documents(), records, store, **options)
    assert index([], records, store, **options)["num_deleted"] == 6
    assert contents(store) == set()


def test_force_update_stores_again(store, records):
    """force_update writes what the record manager knows already, under the same ids."""
    options: Any = {"cleanup": None, "key_encoder": "sha256"}
    index(documents(), records, store, **options)
    again = index(documents(), records, store, force_update=True, **options)
    assert (again["num_updated"], store.index.count()) == (6, 6)


@pytest.mark.parametrize("cleanup", CLEANUPS)
async def test_aindex(store, records, cleanup: Any):
    """The async form, in small batches of one source each."""
    options: Any = {
        "cleanup": cleanup,
        "source_id_key": "source",
        "key_encoder": "sha256",
        "batch_size": 3,
    }
    assert (await aindex(documents(), records, store, **options))["num_added"] == 6
    assert await aindex(documents(), records, store, **options) == {**NOTHING, "num_skipped": 6}
    assert store.index.count() == 6
