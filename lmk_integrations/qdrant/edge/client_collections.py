"""Collections, aliases and payload indexes of an EdgeClient."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import qdrant_edge as qe
from qdrant_client.http import models

from lmk_integrations.errors import StoreError
from lmk_integrations.qdrant.edge.arguments import check_options
from lmk_integrations.qdrant.edge.client_base import COMPLETED, ClientBase
from lmk_integrations.qdrant.edge.convert_config import (
    collection_config,
    named_vectors,
    to_edge_config,
)
from lmk_integrations.qdrant.edge.convert_index import from_edge_schema, to_edge_schema
from lmk_integrations.qdrant.edge.engine import engine_call
from lmk_integrations.qdrant.edge.manifest import CREATING, READY, CollectionEntry, Manifest
from lmk_integrations.qdrant.edge.payload import prepare_payload

# What the server forbids too, so that a store can move to one.
_FORBIDDEN_CHARACTERS = '<>:"/\\|?*\0\x1f'
_MAX_NAME_LENGTH = 255
_MAX_VECTOR_SIZE = 65536


class CollectionMethods(ClientBase):
    """Creating, describing, naming and removing collections."""

    def get_collections(self, **options: Any) -> models.CollectionsResponse:
        """All collections."""
        check_options("get_collections", options)
        entries = self._store.manifest.collections.items()
        return models.CollectionsResponse(
            collections=[
                models.CollectionDescription(name=name)
                for name, entry in sorted(entries)
                if entry.state == READY
            ]
        )

    def collection_exists(self, collection_name: str, **options: Any) -> bool:
        """Whether there is a collection, or an alias, of this name."""
        check_options("collection_exists", options)
        return self._store.resolve(collection_name) in self._store.manifest.collections

    def get_collection(self, collection_name: str, **options: Any) -> models.CollectionInfo:
        """Configuration, metadata, counts and payload indexes of a collection."""
        check_options("get_collection", options)
        collection = self._collection(collection_name)
        entry = self._store.manifest.collections[collection.name]
        info = collection.info()
        return models.CollectionInfo(
            status=models.CollectionStatus.GREEN,
            optimizer_status=models.OptimizersStatusOneOf.OK,
            indexed_vectors_count=info.indexed_vectors_count,
            points_count=collection.count(None, exact=True),
            segments_count=info.segments_count,
            payload_schema={
                field: from_edge_schema(index) for field, index in info.payload_schema.items()
            },
            config=collection_config(collection.params, entry.config, entry.metadata),
        )

    def create_collection(
        self,
        collection_name: str,
        vectors_config: models.VectorParams | Mapping[str, models.VectorParams] | None = None,
        sparse_vectors_config: Mapping[str, models.SparseVectorParams] | None = None,
        *,
        on_disk_payload: bool | None = None,
        hnsw_config: models.HnswConfigDiff | None = None,
        optimizers_config: models.OptimizersConfigDiff | None = None,
        quantization_config: Any = None,
        metadata: Mapping[str, Any] | None = None,
        payload: Any = None,
        id_tracker: Any = None,
        **options: Any,
    ) -> bool:
        """Create a collection; see QdrantClient.create_collection.

        Settings of a cluster may be None or 1; anything that an embedded store cannot honour
        raises StoreError, as does a name that is taken.
        """
        check_options("create_collection", options)
        _check_name(collection_name, "collection")
        for name, vector in named_vectors(vectors_config).items():
            _check_vector(name, vector)
        for name in sparse_vectors_config or {}:
            _check_name(name, "sparse vector")
        data = {
            "vectors": dict(vectors_config)
            if isinstance(vectors_config, Mapping)
            else vectors_config or {},
            "sparse_vectors": dict(sparse_vectors_config) if sparse_vectors_config else None,
            "on_disk_payload": on_disk_payload,
            # Fields newer than the oldest qdrant_client we work with: only named when given.
            **({} if payload is None else {"payload": payload}),
            **({} if id_tracker is None else {"id_tracker": id_tracker}),
        }
        params = models.CollectionParams.model_validate(data)
        with engine_call(f"Configuring collection {collection_name!r}"):
            config = to_edge_config(params, hnsw_config, optimizers_config, quantization_config)
        settings = {
            "hnsw": hnsw_config,
            "optimizers": optimizers_config,
            "quantization": quantization_config,
        }
        entry = CollectionEntry(
            directory="",
            state=CREATING,
            params=_as_json(params),
            config={key: _as_json(value) for key, value in settings.items() if value is not None},
            metadata=None if metadata is None else prepare_payload(metadata, "metadata"),
        )
        self._store.create(collection_name, entry, config)
        return True

    def recreate_collection(self, collection_name: str, *args: Any, **options: Any) -> bool:
        """Delete the collection if it exists, then create it."""
        self.delete_collection(collection_name)
        return self.create_collection(collection_name, *args, **options)

    def update_collection(
        self, collection_name: str, *, metadata: Mapping[str, Any] | None = None, **options: Any
    ) -> bool:
        """Merge `metadata` into that of the collection. Nothing else can be changed later."""
        check_options("update_collection", options)
        name = self._collection(collection_name).name
        if metadata is not None:
            given = prepare_payload(metadata, "metadata")
            self._store.change_metadata(name, given)
        return True

    def delete_collection(self, collection_name: str, **options: Any) -> bool:
        """Remove a collection, its data and its aliases. False when there is none."""
        check_options("delete_collection", options)
        return self._store.delete(collection_name)

    def rename_collection(
        self, collection_name: str, new_name: str, change_aliases_operations: Sequence[Any] = ()
    ) -> bool:
        """Give a collection another name, which a server cannot. Its aliases follow it.

        change_aliases_operations: see `update_collection_aliases`; done with the renaming in one
            step, so that an alias can take the old name without a moment in between.

        Raises StoreError, changing nothing, where the name is taken or an operation fails.
        """
        _check_name(new_name, "collection")
        self._store.rename(
            collection_name,
            new_name,
            lambda manifest: _with_aliases(manifest, change_aliases_operations),
        )
        return True

    # -- aliases

    def update_collection_aliases(
        self, change_aliases_operations: Sequence[Any], **options: Any
    ) -> bool:
        """Create, delete and rename aliases: all of the operations, or none when one fails."""
        check_options("update_collection_aliases", options)
        self._store.change(lambda manifest: _with_aliases(manifest, change_aliases_operations))
        return True

    def get_aliases(self, **options: Any) -> models.CollectionsAliasesResponse:
        """All aliases."""
        check_options("get_aliases", options)
        return _aliases(self._store.manifest.aliases)

    def get_collection_aliases(
        self, collection_name: str, **options: Any
    ) -> models.CollectionsAliasesResponse:
        """The aliases of one collection."""
        check_options("get_collection_aliases", options)
        aliases = self._store.manifest.aliases
        return _aliases({alias: to for alias, to in aliases.items() if to == collection_name})

    # -- payload indexes

    def create_payload_index(
        self,
        collection_name: str,
        field_name: str,
        field_schema: Any = None,
        field_type: Any = None,
        **options: Any,
    ) -> models.UpdateResult:
        """Index a payload field; `field_schema` is a type or its parameters."""
        check_options("create_payload_index", options)
        schema = field_schema if field_schema is not None else field_type
        with engine_call(f"Indexing field {field_name!r}"):
            operation = qe.UpdateOperation.create_field_index(field_name, to_edge_schema(schema))
        self._collection(collection_name).update(
            operation, f"Indexing field {field_name!r} of", removes_vectors=False
        )
        return COMPLETED

    def delete_payload_index(
        self, collection_name: str, field_name: str, **options: Any
    ) -> models.UpdateResult:
        """Remove the index of a payload field. The payload stays."""
        check_options("delete_payload_index", options)
        with engine_call(f"Removing the index of field {field_name!r}"):
            operation = qe.UpdateOperation.delete_field_index(field_name)
        self._collection(collection_name).update(
            operation, f"Removing the index of field {field_name!r} of", removes_vectors=False
        )
        return COMPLETED

    # -- upkeep

    def optimize(self, collection_name: str) -> bool:
        """Merge segments and build indexes. Blocks, holding Python's global lock; the engine never
        does it by itself. True when anything was done.
        """
        return self._collection(collection_name).optimize()

    def optimize_apart(self, collection_name: str, *, only_if_worth_it: bool = False) -> bool:
        """As `optimize`, but this process goes on: the collection is closed, optimized by a child
        process, and opened again. Calls that need the collection wait, and say so in the log.

        only_if_worth_it: do nothing if little was written since it was opened or optimized.
        True when the child did its work.
        """
        return self._store.optimize_apart(collection_name, only_if_worth_it=only_if_worth_it)

    def backup(self, target: str | os.PathLike[str]) -> None:
        """Copy the store to a new directory, whole and consistent; writing waits meanwhile.

        The copy is a store itself: open it, or put it in the place of the other one to restore.
        Raises StoreError where the target exists or cannot be written.
        """
        self._store.backup(Path(target).expanduser().absolute())

    def flush(self, collection_name: str) -> None:
        """Put everything written so far into the segments on disk."""
        self._collection(collection_name).flush()

    def info(self) -> models.VersionInfo:
        """Name and version of the engine."""
        from importlib.metadata import version

        return models.VersionInfo(title="qdrant-edge", version=version("qdrant-edge-py"))


def _as_json(value: Any) -> dict[str, Any]:
    data: dict[str, Any] = value.model_dump(mode="json", exclude_none=True)
    return data


def _check_name(name: Any, kind: str) -> None:
    if not isinstance(name, str) or name in ("", ".", "..") or len(name) > _MAX_NAME_LENGTH:
        raise StoreError(
            f"{name!r} cannot be the name of a {kind}: it must be text of 1 to "
            f"{_MAX_NAME_LENGTH} characters, not '.' or '..'."
        )
    for character in _FORBIDDEN_CHARACTERS:
        if character in name:
            raise StoreError(f"The {kind} name {name!r} holds the forbidden {character!r}.")


def _check_vector(name: str, vector: Any) -> None:
    if not isinstance(vector, models.VectorParams):
        raise StoreError(f"Vector {name!r} needs VectorParams, got {type(vector).__name__}.")
    if name:
        _check_name(name, "vector")
    if not 1 <= vector.size <= _MAX_VECTOR_SIZE:
        raise StoreError(
            f"Vector {name!r} has size {vector.size}; it must lie between 1 and {_MAX_VECTOR_SIZE}."
        )


def _with_aliases(manifest: Manifest, operations: Sequence[Any]) -> Manifest:
    aliases = dict(manifest.aliases)
    for operation in operations:
        _change_alias(aliases, operation, manifest.collections)
    return Manifest(collections=manifest.collections, aliases=aliases)


def _change_alias(aliases: dict[str, str], operation: Any, collections: Mapping[str, Any]) -> None:
    if isinstance(operation, models.CreateAliasOperation):
        alias, target = operation.create_alias.alias_name, operation.create_alias.collection_name
        _check_name(alias, "alias")
        if target not in collections:
            raise StoreError(f"Alias {alias!r} cannot point to {target!r}: no such collection.")
        if alias in collections:
            raise StoreError(f"Alias {alias!r} already exists, as a collection.")
        aliases[alias] = target
    elif isinstance(operation, models.DeleteAliasOperation):
        aliases.pop(operation.delete_alias.alias_name, None)
    elif isinstance(operation, models.RenameAliasOperation):
        old, new = operation.rename_alias.old_alias_name, operation.rename_alias.new_alias_name
        _check_name(new, "alias")
        if old not in aliases:
            raise StoreError(f"Alias {old!r} does not exist.")
        if new in collections:
            raise StoreError(f"Alias {new!r} already exists, as a collection.")
        aliases[new] = aliases.pop(old)
    else:
        raise StoreError(f"{type(operation).__name__} is no operation on aliases.")


def _aliases(aliases: Mapping[str, str]) -> models.CollectionsAliasesResponse:
    return models.CollectionsAliasesResponse(
        aliases=[
            models.AliasDescription(alias_name=alias, collection_name=name)
            for alias, name in sorted(aliases.items())
        ]
    )
