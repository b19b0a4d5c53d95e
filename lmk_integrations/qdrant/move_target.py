"""Where a collection is copied to: made like the source, or found to fit it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from qdrant_client import models

from lmk_integrations.errors import StoreError
from lmk_integrations.qdrant.aliases import REBUILD_KEY
from lmk_integrations.qdrant.client import StoreClient, call
from lmk_integrations.qdrant.schema import (
    CollectionIdentity,
    check_space,
    complete_indexes,
    read_identity,
)

# Settings of the vectors' graph; how many segments, shards and replicas there are, and when they
# are optimised, is up to the place where a collection lies.
_GRAPH = ("m", "ef_construct", "full_scan_threshold", "payload_m")
_GRAPH_DEFAULTS = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000}


def source_identity(client: StoreClient, name: str) -> CollectionIdentity:
    """The identity of the collection to be copied. Raises StoreError where there is none."""
    if not call(client, lambda: client.collection_exists(name)):
        raise StoreError(f"there is no collection {name!r} to copy")
    identity = read_identity(client, name)
    if identity is None:
        raise StoreError(f"collection {name!r} was not made by lmk-integrations: not copied")
    return identity


def prepare_target(
    source: StoreClient, name: str, target: StoreClient, target_name: str
) -> CollectionIdentity:
    """Make the target collection with its payload indexes, or complete what was begun.

    Returns the identity it carries. Raises SpaceMismatchError, StoreError for one that exists and
    does not fit.
    """
    identity = source_identity(source, name)
    info = call(source, lambda: source.get_collection(name))
    if call(target, lambda: target.collection_exists(target_name)):
        found = _check_fits(target, target_name, identity, info)
    else:
        _create(target, target_name, info)
        found = identity
    complete_indexes(target, target_name)
    _copy_indexes(target, target_name, info.payload_schema or {})
    return found


def _check_fits(
    target: StoreClient, name: str, identity: CollectionIdentity, source: models.CollectionInfo
) -> CollectionIdentity:
    found = read_identity(target, name)
    if found is None:
        raise StoreError(
            f"the target has a collection {name!r} that was not made by lmk-integrations. Copy "
            "to another name"
        )
    check_space(name, found, identity.space, identity.model)
    if dict(found.bm25) != dict(identity.bm25):
        raise StoreError(
            f"collection {name!r} of the target weighs words otherwise ({dict(found.bm25)}) than "
            f"the source ({dict(identity.bm25)}). Copy to another name"
        )
    there = call(target, lambda: target.get_collection(name)).config.params
    if _layout(there) != _layout(source.config.params):
        raise StoreError(
            f"collection {name!r} of the target has other vectors ({_layout(there)}) than the "
            f"source ({_layout(source.config.params)}). Copy to another name"
        )
    return found


def _layout(params: models.CollectionParams) -> dict[str, Any]:
    """What decides whether a point fits: names, sizes, distances, kinds."""
    dense = params.vectors if isinstance(params.vectors, Mapping) else {"": params.vectors}
    found: dict[str, Any] = {
        name: (vector.size, vector.distance.value, vector.multivector_config is not None)
        for name, vector in dense.items()
        if vector is not None
    }
    for name, sparse in (params.sparse_vectors or {}).items():
        found[name] = "sparse" if sparse.modifier is None else f"sparse {sparse.modifier.value}"
    return found


def _create(target: StoreClient, name: str, source: models.CollectionInfo) -> None:
    config = source.config
    given = config.hnsw_config.model_dump(exclude_none=True) if config.hnsw_config else {}
    graph = {key: given[key] for key in _GRAPH if given.get(key) != _GRAPH_DEFAULTS.get(key)}
    # What is not set is not named: each place has its own defaults.
    options: dict[str, Any] = {
        "hnsw_config": models.HnswConfigDiff(**graph) if graph else None,
        "quantization_config": config.quantization_config,
        "on_disk_payload": config.params.on_disk_payload,
    }
    metadata = {key: value for key, value in (config.metadata or {}).items() if key != REBUILD_KEY}
    call(
        target,
        lambda: target.create_collection(
            name,
            vectors_config=config.params.vectors,
            sparse_vectors_config=config.params.sparse_vectors,
            metadata=metadata,
            **{key: value for key, value in options.items() if value is not None},
        ),
    )


def _copy_indexes(
    target: StoreClient, name: str, wanted: Mapping[str, models.PayloadIndexInfo]
) -> None:
    """Further indexes that someone gave the source; before the points, as a server wants it."""
    there = call(target, lambda: target.get_collection(name)).payload_schema or {}
    with warnings.catch_warnings():
        # qdrant-client's local mode warns that it keeps no indexes; it needs none.
        warnings.filterwarnings("ignore", message=".*[Pp]ayload index.*")
        for field, index in wanted.items():
            if field in there:
                continue
            schema: Any = index.params or index.data_type
            call(
                target,
                lambda field=field, schema=schema: target.create_payload_index(  # type: ignore[misc]
                    name, field_name=field, field_schema=schema, wait=True
                ),
            )
