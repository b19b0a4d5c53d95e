"""Aliases: which collection a name stands for, and giving the name to another one."""

from __future__ import annotations

from typing import Any

from qdrant_client import models

from lmk_integrations.qdrant.client import StoreClient, call
from lmk_integrations.qdrant.edge import EdgeClient

REBUILD_KEY = "lmk_rebuild"
"""In a collection's metadata: which one it took the place of."""


def aliases(client: StoreClient) -> dict[str, str]:
    """All aliases, each with its collection."""
    found = call(client, client.get_aliases).aliases
    return {alias.alias_name: alias.collection_name for alias in found}


def collections(client: StoreClient) -> set[str]:
    """The names of all collections; those of aliases are not among them."""
    return {item.name for item in call(client, client.get_collections).collections}


def resolve(client: StoreClient, name: str) -> str | None:
    """The collection that a name stands for; None where there is none."""
    if name in collections(client):
        return name
    return aliases(client).get(name)


def aliases_of(client: StoreClient, name: str) -> list[str]:
    """The aliases of the collection that a name stands for, the name itself left out."""
    there = aliases(client)
    collection = there.get(name, name)
    return sorted(alias for alias, it in there.items() if it == collection and alias != name)


def point(client: StoreClient, alias: str, collection: str) -> None:
    """Let an alias stand for a collection, in one step, whatever it stood for before."""
    operations: list[Any] = _create(alias, collection)
    if alias in aliases(client):
        drop = models.DeleteAlias(alias_name=alias)
        operations = [models.DeleteAliasOperation(delete_alias=drop), *operations]
    call(client, lambda: client.update_collection_aliases(operations))


def take_name(client: EdgeClient, name: str, keep_as: str, collection: str) -> None:
    """Rename the collection `name` to `keep_as` and let `name` stand for another, in one step."""
    client.rename_collection(name, keep_as, _create(name, collection))


def _create(alias: str, collection: str) -> list[Any]:
    made = models.CreateAlias(alias_name=alias, collection_name=collection)
    return [models.CreateAliasOperation(create_alias=made)]


def replaced_by(client: StoreClient, collection: str) -> str | None:
    """The collection whose place this one took; None where that is not known."""
    metadata = call(client, lambda: client.get_collection(collection)).config.metadata or {}
    note = metadata.get(REBUILD_KEY)
    return str(note["replaces"]) if isinstance(note, dict) and note.get("replaces") else None


def note_replaced(client: StoreClient, collection: str, old: str) -> None:
    """Write down in a collection's metadata whose place it takes."""
    metadata = {REBUILD_KEY: {"replaces": old}}
    call(client, lambda: client.update_collection(collection_name=collection, metadata=metadata))
