"""The collection: its vectors, its payload indexes, and the identity kept in its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from qdrant_client import models

from lmk_integrations.errors import ConfigError, SpaceMismatchError, StoreError
from lmk_integrations.qdrant.client import StoreClient, call, is_local, is_remote

LMK = "lmk"
LANDMARKS = "landmarks"
BM25 = "bm25"
DOCUMENT = "document"

LandmarkDatatype = Literal["float16", "turbo8"]
LANDMARK_DATATYPES: tuple[LandmarkDatatype, ...] = get_args(LandmarkDatatype)
"""What landmarks may be stored as; the first is the default."""

RECORD = "lmk"
"""The payload key under which this package keeps its own facts of a point."""

_METADATA_KEY = "lmk_integrations"
_SCHEMA_VERSION = 1
_KEYWORD, _INTEGER = models.PayloadSchemaType.KEYWORD, models.PayloadSchemaType.INTEGER
_INDEXED = {
    f"{RECORD}.doc_id": _KEYWORD,
    f"{RECORD}.kind": _KEYWORD,
    "metadata.source": _KEYWORD,
    "doc_id": _KEYWORD,
}
# Servers in strict mode, as Qdrant's own cloud runs them, refuse filters by any other key.
_INDEXED_ON_SERVERS = {
    f"{RECORD}.hash": _KEYWORD,
    f"{RECORD}.recipe": _KEYWORD,
    f"{RECORD}.generation": _INTEGER,
    f"{RECORD}.given.doc_id": _KEYWORD,
    "metadata.doc_id": _KEYWORD,
    # What this package shows of a document; LlamaIndex filters ask for the bare key, too.
    "metadata.title": _KEYWORD,
    "metadata.heading": _KEYWORD,
    "metadata.page": _INTEGER,
    "source": _KEYWORD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionIdentity:
    """What a collection says of the vectors in it.

    space: the encoder's space by parts; model: its name, for messages only.
    recipe: the parts of the recipe that new documents are stored under.
    bm25: settings of the sparse encoder, fixed when the collection is made.
    landmarks: whether sections have landmark vectors beside their own. landmark_datatype: what
    these are stored as, one of `LANDMARK_DATATYPES`.
    """

    space: Mapping[str, Any]
    model: str
    recipe: Mapping[str, Any]
    bm25: Mapping[str, Any]
    landmarks: bool = True
    landmark_datatype: str = "float16"
    version: int = _SCHEMA_VERSION

    def to_metadata(self) -> dict[str, Any]:
        """As kept in the collection's metadata."""
        return {_METADATA_KEY: {**asdict(self)}}


def create_collection(client: StoreClient, name: str, identity: CollectionIdentity) -> None:
    """Create the collection and its payload indexes, unless one just like it is there.

    Raises StoreError, and ConfigError for a datatype that the installed qdrant-client lacks.
    """
    dim = int(identity.space["dim"])
    landmarks = models.VectorParams(
        size=dim,
        distance=models.Distance.COSINE,
        multivector_config=models.MultiVectorConfig(
            comparator=models.MultiVectorComparator.MAX_SIM
        ),
        hnsw_config=models.HnswConfigDiff(m=0),  # only ever used to rescore: no graph
        datatype=_datatype(identity.landmark_datatype),
    )
    plain = models.VectorParams(size=dim, distance=models.Distance.COSINE)
    vectors = {LMK: plain, DOCUMENT: plain}
    if identity.landmarks:
        vectors[LANDMARKS] = landmarks
    try:
        call(
            client,
            lambda: client.create_collection(
                name,
                vectors_config=vectors,
                sparse_vectors_config={
                    BM25: models.SparseVectorParams(modifier=models.Modifier.IDF)
                },
                metadata=identity.to_metadata(),
            ),
        )
    except StoreError:
        # Another process made it meanwhile, or the first attempt of ours whose answer was lost.
        there = call(client, lambda: client.collection_exists(name))
        if not there or read_identity(client, name) != identity:
            raise
    complete_indexes(client, name)


def _datatype(name: str) -> models.Datatype:
    try:
        return models.Datatype(name)
    except ValueError:
        raise ConfigError(
            f"the installed qdrant-client knows no landmark_datatype={name!r}; upgrade it, or take "
            '"float16"'
        ) from None


def complete_indexes(client: StoreClient, name: str) -> None:
    """Create the payload indexes that a collection lacks: its making may have been cut short."""
    schemas = _indexed(client)
    for path in missing_indexes(client, name):
        call(
            client,
            lambda path=path: client.create_payload_index(  # type: ignore[misc]
                name, field_name=path, field_schema=schemas[path], wait=True
            ),
        )


def missing_indexes(client: StoreClient, name: str) -> list[str]:
    """Paths of the payload indexes that a collection should have and has not."""
    if is_local(client):
        return []
    there = call(client, lambda: client.get_collection(name)).payload_schema or {}
    return [path for path in _indexed(client) if path not in there]


def _indexed(client: StoreClient) -> dict[str, models.PayloadSchemaType]:
    """Payload keys that filters of this package ask for, with what they hold."""
    return _INDEXED | _INDEXED_ON_SERVERS if is_remote(client) else _INDEXED


def collection_names(client: StoreClient) -> list[str]:
    """The collections of a store that were made by this package, by name."""
    found = call(client, client.get_collections).collections
    names = sorted(collection.name for collection in found)
    return [name for name in names if _own_metadata(client, name) is not None]


def read_identity(client: StoreClient, name: str) -> CollectionIdentity | None:
    """The identity a collection carries; None where it was made by something else."""
    found = _own_metadata(client, name)
    if found is None:
        return None
    known = {field.name for field in fields(CollectionIdentity)}
    if found.get("version") != _SCHEMA_VERSION or not found.keys() <= known:
        raise StoreError(
            f"collection {name!r} was written by another version of lmk-integrations (layout "
            f"{found.get('version')!r}, this one writes {_SCHEMA_VERSION}); ingest into a new one"
        )
    return CollectionIdentity(**found)


def _own_metadata(client: StoreClient, name: str) -> dict[str, Any] | None:
    metadata = call(client, lambda: client.get_collection(name)).config.metadata or {}
    found: dict[str, Any] | None = metadata.get(_METADATA_KEY)
    return found


def write_identity(client: StoreClient, name: str, identity: CollectionIdentity) -> None:
    """Replace the identity that a collection carries."""
    call(
        client,
        lambda: client.update_collection(collection_name=name, metadata=identity.to_metadata()),
    )


def check_space(
    name: str, stored: CollectionIdentity, space: Mapping[str, Any], model: str
) -> None:
    """Raise SpaceMismatchError, saying what differs, unless the spaces are the same."""
    differing = sorted(
        key for key in {*stored.space, *space} if stored.space.get(key) != space.get(key)
    )
    if not differing:
        return
    details = "; ".join(
        f"{key}: {stored.space.get(key)!r} stored, {space.get(key)!r} given" for key in differing
    )
    raise SpaceMismatchError(
        f"collection {name!r} holds vectors of model {stored.model!r}, not comparable with those "
        f"of {model!r} ({details}). Open it with the model it was filled with, or ingest into "
        "another collection"
    )
