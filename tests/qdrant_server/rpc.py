"""The same over gRPC, with the servicers and the conversions that qdrant-client ships."""

# ruff: noqa: N802 - methods are called as the service's definition calls them

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc
from qdrant_client import grpc as q
from qdrant_client import models as m
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc
from qdrant_client.grpc import collections_service_pb2_grpc as collections_rpc
from qdrant_client.grpc import points_service_pb2_grpc as points_rpc

from .behind import Behind, RefusedError
from .faults import Fault, Faults

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.ALREADY_EXISTS,
    413: grpc.StatusCode.OUT_OF_RANGE,  # what the server's library says of a long message
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}


def _optional(message: Any, name: str, convert: Callable[[Any], Any], default: Any = None) -> Any:
    return convert(getattr(message, name)) if message.HasField(name) else default


def _filter(message: Any, name: str = "filter") -> Any:
    return _optional(message, name, GrpcToRest.convert_filter)


def _where(selector: Any) -> Any:
    found = GrpcToRest.convert_points_selector(selector)
    return found.points if isinstance(found, m.PointIdsList) else found


def _payload_wanted(message: Any, default: Any) -> Any:
    read = GrpcToRest.convert_with_payload_selector
    return _optional(message, "with_payload", read, default)


def _vectors_wanted(message: Any) -> Any:
    return _optional(message, "with_vectors", GrpcToRest.convert_with_vectors_selector, False)


class _Base:
    """Every method: read the request, perform the operation with its fault, build the answer."""

    def __init__(self, behind: Behind, faults: Faults) -> None:
        self._behind = behind
        self._faults = faults

    def _do(self, context: Any, request: Any, op: str, arguments: Callable[[], tuple]) -> Any:
        """The operation's result, and whether to answer "wait_timeout"."""
        fault = self._faults.take(op, request.ByteSize())
        kind = fault.kind if fault is not None else None
        if fault is not None and kind == "answer":
            self._refuse(context, fault)
        if fault is not None and kind == "stall":
            time.sleep(fault.seconds)
        if kind == "drop":
            context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        result: Any = m.UpdateResult(status=m.UpdateStatus.COMPLETED, operation_id=0)
        if kind != "lose":
            try:
                result = self._behind.do(op, *arguments())
            except RefusedError as error:
                context.abort(_CODES[error.status], str(error))
        if self._faults.on_request is not None:
            self._faults.on_request(op)
        if kind == "cut":
            context.abort(grpc.StatusCode.UNAVAILABLE, "Connection reset by peer")
        if kind == "wait_timeout":
            return m.UpdateResult(status=m.UpdateStatus.WAIT_TIMEOUT, operation_id=0)
        return result

    def _refuse(self, context: Any, fault: Fault) -> None:
        if fault.retry_after is not None:
            context.set_trailing_metadata((("retry-after", fault.retry_after),))
        message = fault.message
        code = _CODES.get(fault.status, grpc.StatusCode.UNKNOWN)
        if "is larger than allowed" in message:
            code = grpc.StatusCode.OUT_OF_RANGE
            message = "Error, decoded message length too large: found more bytes than the limit"
        context.abort(code, message)


class _Points(_Base, points_rpc.PointsServicer):
    def _written(
        self, context: Any, request: Any, op: str, arguments: Callable[[], tuple]
    ) -> q.PointsOperationResponse:
        result = self._do(context, request, op, arguments)
        # The client's own conversion does not know this status.
        answer = q.UpdateResult(operation_id=0, status=q.UpdateStatus.Completed)
        if result.status == m.UpdateStatus.WAIT_TIMEOUT:
            answer.status = q.UpdateStatus.WaitTimeout
        return q.PointsOperationResponse(result=answer, time=0.0)

    def Upsert(self, request: Any, context: Any) -> Any:
        def arguments() -> tuple[Any, ...]:
            mode = _optional(request, "update_mode", GrpcToRest.convert_update_mode)
            points = [GrpcToRest.convert_point_struct(point) for point in request.points]
            return request.collection_name, points, _filter(request, "update_filter"), mode

        return self._written(context, request, "upsert", arguments)

    def Delete(self, request: Any, context: Any) -> Any:
        return self._written(
            context, request, "delete", lambda: (request.collection_name, _where(request.points))
        )

    def SetPayload(self, request: Any, context: Any) -> Any:
        def arguments() -> tuple[Any, ...]:
            key = request.key if request.HasField("key") else None
            payload = GrpcToRest.convert_payload(request.payload)
            return request.collection_name, payload, _where(request.points_selector), key

        return self._written(context, request, "set_payload", arguments)

    def OverwritePayload(self, request: Any, context: Any) -> Any:
        def arguments() -> tuple[Any, ...]:
            payload = GrpcToRest.convert_payload(request.payload)
            return request.collection_name, payload, _where(request.points_selector)

        return self._written(context, request, "overwrite_payload", arguments)

    def DeletePayload(self, request: Any, context: Any) -> Any:
        return self._written(
            context,
            request,
            "delete_payload",
            lambda: (request.collection_name, list(request.keys), _where(request.points_selector)),
        )

    def ClearPayload(self, request: Any, context: Any) -> Any:
        return self._written(
            context,
            request,
            "clear_payload",
            lambda: (request.collection_name, _where(request.points)),
        )

    def UpdateVectors(self, request: Any, context: Any) -> Any:
        def arguments() -> tuple[Any, ...]:
            points = [GrpcToRest.convert_point_vectors(point) for point in request.points]
            return request.collection_name, points, _filter(request, "update_filter")

        return self._written(context, request, "update_vectors", arguments)

    def DeleteVectors(self, request: Any, context: Any) -> Any:
        return self._written(
            context,
            request,
            "delete_vectors",
            lambda: (
                request.collection_name,
                list(request.vectors.names),
                _where(request.points_selector),
            ),
        )

    def CreateFieldIndex(self, request: Any, context: Any) -> Any:
        def arguments() -> tuple[Any, ...]:
            name = q.FieldType.Name(request.field_type).removeprefix("FieldType").lower()
            return request.collection_name, request.field_name, m.PayloadSchemaType(name)

        return self._written(context, request, "create_index", arguments)

    def DeleteFieldIndex(self, request: Any, context: Any) -> Any:
        return self._written(
            context,
            request,
            "delete_index",
            lambda: (request.collection_name, request.field_name),
        )

    # -- reading

    def Get(self, request: Any, context: Any) -> Any:
        def arguments() -> tuple[Any, ...]:
            ids = [GrpcToRest.convert_point_id(one) for one in request.ids]
            payload, vectors = _payload_wanted(request, True), _vectors_wanted(request)
            return request.collection_name, ids, payload, vectors

        records = self._do(context, request, "retrieve", arguments)
        return q.GetResponse(result=[_record(one) for one in records])

    def Scroll(self, request: Any, context: Any) -> Any:
        def arguments() -> tuple[Any, ...]:
            given = m.ScrollRequest(
                filter=_filter(request),
                limit=request.limit or 10,
                offset=_optional(request, "offset", GrpcToRest.convert_point_id),
                with_payload=_payload_wanted(request, True),
                with_vector=_vectors_wanted(request),
                order_by=_optional(request, "order_by", GrpcToRest.convert_order_by),
            )
            return request.collection_name, given

        records, following = self._do(context, request, "scroll", arguments)
        offset = None if following is None else RestToGrpc.convert_extended_point_id(following)
        found = [_record(one) for one in records]
        return q.ScrollResponse(result=found, next_page_offset=offset)

    def Count(self, request: Any, context: Any) -> Any:
        result = self._do(
            context,
            request,
            "count",
            lambda: (request.collection_name, _filter(request), request.exact),
        )
        return q.CountResponse(result=q.CountResult(count=result.count))

    def Query(self, request: Any, context: Any) -> Any:
        def arguments() -> tuple[Any, ...]:
            return request.collection_name, GrpcToRest.convert_query_points(request)

        found = self._do(context, request, "query", arguments)
        return q.QueryResponse(result=_scored(found))

    def QueryBatch(self, request: Any, context: Any) -> Any:
        def arguments() -> tuple[Any, ...]:
            searches = [GrpcToRest.convert_query_points(one) for one in request.query_points]
            return request.collection_name, searches

        found = self._do(context, request, "query_batch", arguments)
        return q.QueryBatchResponse(result=[q.BatchResult(result=_scored(one)) for one in found])

    def QueryGroups(self, request: Any, context: Any) -> Any:
        def arguments() -> tuple[Any, ...]:
            given = m.QueryGroupsRequest(
                group_by=request.group_by,
                query=_optional(request, "query", GrpcToRest.convert_query),
                using=request.using or None,
                prefetch=[GrpcToRest.convert_prefetch_query(p) for p in request.prefetch] or None,
                filter=_filter(request),
                limit=request.limit or None,
                group_size=request.group_size or None,
                with_payload=_payload_wanted(request, False),
                with_vector=_vectors_wanted(request),
                with_lookup=_optional(request, "with_lookup", GrpcToRest.convert_with_lookup),
            )
            return request.collection_name, given

        found = self._do(context, request, "query_groups", arguments)
        for group in found.groups:
            group.hits = [_with_payload(hit) for hit in group.hits]
        return q.QueryGroupsResponse(result=RestToGrpc.convert_groups_result(found))

    def Facet(self, request: Any, context: Any) -> Any:
        def arguments() -> tuple[Any, ...]:
            given = m.FacetRequest(
                key=request.key,
                filter=_filter(request),
                limit=request.limit or None,
                exact=request.exact,
            )
            return request.collection_name, given

        found = self._do(context, request, "facet", arguments)
        return q.FacetResponse(hits=[RestToGrpc.convert_facet_value_hit(h) for h in found.hits])


class _Collections(_Base, collections_rpc.CollectionsServicer):
    def Get(self, request: Any, context: Any) -> Any:
        name = request.collection_name
        info = self._do(context, request, "get_collection", lambda: (name,))
        return q.GetCollectionInfoResponse(result=RestToGrpc.convert_collection_info(info))

    def List(self, request: Any, context: Any) -> Any:
        found = self._do(context, request, "list_collections", tuple)
        names = [q.CollectionDescription(name=item.name) for item in found.collections]
        return q.ListCollectionsResponse(collections=names)

    def Create(self, request: Any, context: Any) -> Any:
        def arguments() -> tuple[Any, ...]:
            vectors, sparse = GrpcToRest.convert_vectors_config, "sparse_vectors_config"
            given = m.CreateCollection(
                vectors=_optional(request, "vectors_config", vectors),
                sparse_vectors=_optional(request, sparse, GrpcToRest.convert_sparse_vector_config),
                metadata=GrpcToRest.convert_payload(request.metadata) or None,
            )
            return request.collection_name, given

        return self._changed(context, request, "create_collection", arguments)

    def Update(self, request: Any, context: Any) -> Any:
        def arguments() -> tuple[Any, ...]:
            metadata = GrpcToRest.convert_payload(request.metadata)
            return request.collection_name, m.UpdateCollection(metadata=metadata)

        return self._changed(context, request, "update_collection", arguments)

    def Delete(self, request: Any, context: Any) -> Any:
        name = request.collection_name
        return self._changed(context, request, "delete_collection", lambda: (name,))

    def UpdateAliases(self, request: Any, context: Any) -> Any:
        return self._changed(
            context,
            request,
            "change_aliases",
            lambda: ([GrpcToRest.convert_alias_operations(a) for a in request.actions],),
        )

    def ListAliases(self, request: Any, context: Any) -> Any:
        return _aliases(self._do(context, request, "get_aliases", tuple))

    def ListCollectionAliases(self, request: Any, context: Any) -> Any:
        name = request.collection_name
        return _aliases(self._do(context, request, "collection_aliases", lambda: (name,)))

    def CollectionExists(self, request: Any, context: Any) -> Any:
        name = request.collection_name
        exists = self._do(context, request, "collection_exists", lambda: (name,))
        return q.CollectionExistsResponse(result=q.CollectionExists(exists=exists))

    def _changed(
        self, context: Any, request: Any, op: str, arguments: Callable[[], tuple]
    ) -> q.CollectionOperationResponse:
        done = self._do(context, request, op, arguments)
        return q.CollectionOperationResponse(result=bool(done), time=0.0)


def _scored(found: m.QueryResponse) -> list[Any]:
    return [RestToGrpc.convert_scored_point(_with_payload(point)) for point in found.points]


def _record(record: m.Record) -> Any:
    return RestToGrpc.convert_record(_with_payload(record))


def _with_payload(point: Any) -> Any:
    """gRPC knows no difference between none and an empty one."""
    return point if point.payload is not None else point.model_copy(update={"payload": {}})


def _aliases(found: m.CollectionsAliasesResponse) -> Any:
    described = [RestToGrpc.convert_alias_description(alias) for alias in found.aliases]
    return q.ListAliasesResponse(aliases=described)


class _Qdrant(q.QdrantServicer):
    def HealthCheck(self, request: Any, context: Any) -> Any:
        return q.HealthCheckReply(title="qdrant - vector search engine", version="1.19.0")


class RpcServer:
    """Serves a `Behind` with faults."""

    def __init__(self, behind: Behind, faults: Faults, port: int = 0) -> None:
        options = [("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)]
        self._server = grpc.server(futures.ThreadPoolExecutor(8), options=options)
        points_rpc.add_PointsServicer_to_server(_Points(behind, faults), self._server)
        collections_rpc.add_CollectionsServicer_to_server(
            _Collections(behind, faults), self._server
        )
        q.qdrant_pb2_grpc.add_QdrantServicer_to_server(_Qdrant(), self._server)
        self.server_port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self._server.start()

    def stop(self) -> None:
        """Close the port and every connection."""
        self._server.stop(None).wait()
