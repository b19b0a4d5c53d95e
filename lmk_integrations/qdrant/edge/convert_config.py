"""Collection settings: from create_collection to the engine, and back to CollectionInfo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import qdrant_edge as qe
from qdrant_client.http import models

from lmk_integrations.errors import StoreError
from lmk_integrations.qdrant.edge.validate import DENSE, MULTI, SPARSE, VectorField

# The engine's own defaults, which the partial settings of qdrant_client are laid over.
_HNSW_DEFAULTS = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000}
_OPTIMIZER_DEFAULTS = {
    "deleted_threshold": 0.2,
    "vacuum_min_vector_number": 1000,
    "default_segment_number": 0,
    "indexing_threshold": 20_000,
    "flush_interval_sec": 5,
}
_OPTIMIZER_SETTINGS = (
    "deleted_threshold",
    "vacuum_min_vector_number",
    "default_segment_number",
    "max_segment_size",
    "indexing_threshold",
    "prevent_unoptimized",
)


def vector_fields(params: models.CollectionParams) -> dict[str, VectorField]:
    """The vectors of a collection by name; the unnamed vector is ``""``."""
    fields = {}
    for name, dense in named_vectors(params.vectors).items():
        fields[name] = VectorField(
            name=name,
            kind=DENSE if dense.multivector_config is None else MULTI,
            size=dense.size,
            cosine=dense.distance == models.Distance.COSINE,
            datatype="float32" if dense.datatype is None else dense.datatype.value,
        )
    for name, sparse in (params.sparse_vectors or {}).items():
        fields[name] = VectorField(name=name, kind=SPARSE, idf=_is_idf(sparse))
    return fields


def named_vectors(vectors: Any) -> dict[str, models.VectorParams]:
    """Dense vector settings by name, from either form that qdrant_client takes."""
    if vectors is None:
        return {}
    if isinstance(vectors, models.VectorParams):
        return {"": vectors}
    if isinstance(vectors, Mapping):
        return dict(vectors)
    raise StoreError(
        f"vectors_config must be VectorParams or a mapping of them, got {type(vectors).__name__}."
    )


def to_edge_config(
    params: models.CollectionParams,
    hnsw: models.HnswConfigDiff | None,
    optimizers: models.OptimizersConfigDiff | None,
    quantization: Any,
) -> qe.EdgeConfig:
    """The engine's configuration of a new shard. Raises StoreError for what it cannot honour."""
    payload_memory = getattr(getattr(params, "payload", None), "memory", None)
    id_memory = getattr(getattr(params, "id_tracker", None), "memory", None)
    return qe.EdgeConfig(
        vectors={
            name: _dense(name, vector) for name, vector in named_vectors(params.vectors).items()
        },
        sparse_vectors={
            name: _sparse(name, vector) for name, vector in (params.sparse_vectors or {}).items()
        },
        on_disk_payload=params.on_disk_payload,
        hnsw_config=_hnsw(hnsw),
        quantization_config=_quantization(quantization),
        optimizers=_optimizers(optimizers),
        payload_memory=_member(qe.Memory, payload_memory, "payload memory"),
        id_tracker_memory=_member(qe.Memory, id_memory, "id tracker memory"),
        wal_enabled=True,
    )


def collection_config(
    params: models.CollectionParams, config: Mapping[str, Any], metadata: dict[str, Any] | None
) -> models.CollectionConfig:
    """The configuration as QdrantClient.get_collection reports it.

    config: the JSON kept in the manifest under hnsw, optimizers and quantization.
    """
    return models.CollectionConfig.model_validate(
        {
            "params": params,
            "hnsw_config": {**_HNSW_DEFAULTS, **(config.get("hnsw") or {})},
            "optimizer_config": {**_OPTIMIZER_DEFAULTS, **(config.get("optimizers") or {})},
            "wal_config": {"wal_capacity_mb": 32, "wal_segments_ahead": 0},
            "quantization_config": config.get("quantization"),
            "metadata": metadata,
        }
    )


def _is_idf(sparse: models.SparseVectorParams) -> bool:
    return sparse.modifier == models.Modifier.IDF


def _member(enum: Any, value: Any, what: str) -> Any:
    """The member of the engine's enum with the name of a qdrant_client enum's member."""
    if value is None:
        return None
    wanted = value.name.replace("_", "").lower()
    for name in dir(enum):
        if not name.startswith("_") and name.replace("_", "").lower() == wanted:
            return getattr(enum, name)
    raise StoreError(f"The embedded engine does not offer {what} {value.value!r}.")


def _dense(name: str, vector: models.VectorParams) -> qe.EdgeVectorParams:
    multi = vector.multivector_config
    return qe.EdgeVectorParams(
        size=vector.size,
        distance=_DISTANCES[vector.distance.value],
        on_disk=vector.on_disk,
        multivector_config=None
        if multi is None
        else qe.MultiVectorConfig(
            _member(qe.MultiVectorComparator, multi.comparator, "comparator")
        ),
        datatype=_member(
            qe.VectorStorageDatatype, vector.datatype, f"for vector {name!r} datatype"
        ),
        quantization_config=_quantization(vector.quantization_config),
        hnsw_config=_hnsw(vector.hnsw_config),
        memory=_member(qe.Memory, getattr(vector, "memory", None), "vector memory"),
    )


_DISTANCES = {
    "Cosine": qe.Distance.Cosine,
    "Euclid": qe.Distance.Euclid,
    "Dot": qe.Distance.Dot,
    "Manhattan": qe.Distance.Manhattan,
}


def _sparse(name: str, vector: models.SparseVectorParams) -> qe.EdgeSparseVectorParams:
    index = vector.index
    return qe.EdgeSparseVectorParams(
        full_scan_threshold=getattr(index, "full_scan_threshold", None),
        on_disk=getattr(index, "on_disk", None),
        modifier=qe.Modifier.Idf if _is_idf(vector) else None,
        datatype=_member(
            qe.VectorStorageDatatype,
            getattr(index, "datatype", None),
            f"for vector {name!r} datatype",
        ),
        memory=_member(qe.Memory, getattr(index, "memory", None), "sparse index memory"),
    )


def _hnsw(value: models.HnswConfigDiff | None) -> qe.HnswIndexConfig | None:
    if value is None:
        return None
    given = value.model_dump(exclude_none=True)
    memory = _member(qe.Memory, getattr(value, "memory", None), "HNSW memory")
    return qe.HnswIndexConfig(**{**_HNSW_DEFAULTS, **given, "memory": memory})


def _optimizers(value: models.OptimizersConfigDiff | None) -> qe.EdgeOptimizersConfig | None:
    if value is None:
        return None
    given = value.model_dump(exclude_none=True)
    unknown = sorted(given.keys() - set(_OPTIMIZER_SETTINGS))
    if unknown:
        raise StoreError(
            f"The embedded engine does not offer the optimizer settings {unknown}. It optimizes "
            "only when EdgeClient.optimize is called."
        )
    return qe.EdgeOptimizersConfig(**given)


def _quantization(value: Any) -> Any:
    if value is None:
        return None
    for name, build in _QUANTIZATIONS.items():
        settings = getattr(value, name, None)
        if settings is not None:
            return build(settings)
    raise StoreError(f"The embedded engine does not offer the quantization {type(value).__name__}.")


def _placement(settings: Any) -> dict[str, Any]:
    memory = _member(qe.Memory, getattr(settings, "memory", None), "quantization memory")
    return {"always_ram": settings.always_ram, "memory": memory}


def _scalar(settings: Any) -> Any:
    return qe.ScalarQuantizationConfig(
        _member(qe.ScalarType, settings.type, "scalar type"),
        quantile=settings.quantile,
        **_placement(settings),
    )


def _product(settings: Any) -> Any:
    ratio = _member(qe.CompressionRatio, settings.compression, "compression")
    return qe.ProductQuantizationConfig(ratio, **_placement(settings))


def _binary(settings: Any) -> Any:
    return qe.BinaryQuantizationConfig(
        encoding=_member(qe.BinaryQuantizationEncoding, settings.encoding, "binary encoding"),
        query_encoding=_member(
            qe.BinaryQuantizationQueryEncoding, settings.query_encoding, "query encoding"
        ),
        **_placement(settings),
    )


def _turbo(settings: Any) -> Any:
    bits = _member(qe.TurboQuantBitSize, settings.bits, "TurboQuant bit size")
    return qe.TurboQuantQuantizationConfig(bits=bits, **_placement(settings))


_QUANTIZATIONS = {"scalar": _scalar, "product": _product, "binary": _binary, "turbo": _turbo}
